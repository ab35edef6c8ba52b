//! Queries and answers of DNS (RFC 1035) as values of what the client and the service need; the
//! parser is the crate `simple-dns`'s. No DNSSEC: the tunnel authenticates the server.

use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE};
use simple_dns::{OPCODE, ResourceRecord};
use std::net::IpAddr;

/// A family of addresses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Family {
    V4,
    V6,
}

/// What came back for a question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Reply {
    pub id: u16,
    pub name: String,
    pub family: Family,
    pub outcome: Outcome,
}

/// The answer to a question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// Perhaps none; for that many seconds.
    Addresses(Vec<IpAddr>, u32),
    /// There is no such name.
    NoName,
    /// The server could not say.
    Failed,
}

/// A query as the service sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Query {
    /// For addresses of a host.
    Addresses(String, Family),
    /// For something else, or of a name that no host has.
    Other,
    /// Answered with an error at once.
    Bad(RCODE),
}

/// Longest answer without EDNS (RFC 1035 section 2.3.4).
pub(super) const ANSWER_MAX: usize = 512;
/// Length of the header.
const HEADER_LEN: usize = 12;

/// A query for the addresses of `name`, which is a valid one.
pub(super) fn query(id: u16, name: &str, family: Family) -> Option<Vec<u8>> {
    let mut packet = Packet::new_query(id);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    packet.questions.push(question(name, family)?);
    packet.build_bytes_vec().ok()
}

fn question(name: &str, family: Family) -> Option<Question<'_>> {
    let kind = match family {
        Family::V4 => TYPE::A,
        Family::V6 => TYPE::AAAA,
    };
    Some(Question::new(Name::new(name).ok()?, QTYPE::TYPE(kind), QCLASS::CLASS(CLASS::IN), false))
}

/// Parses an answer; `None` if it is none.
pub(super) fn parse_reply(bytes: &[u8]) -> Option<Reply> {
    let packet = parse(bytes)?;
    let [question] = &packet.questions[..] else { return None };
    if !packet.has_flags(PacketFlag::RESPONSE) || question.qclass != QCLASS::CLASS(CLASS::IN) {
        return None;
    }
    let family = family_of(question.qtype)?;
    let name = text(&question.qname);
    let outcome = match packet.rcode() {
        RCODE::NoError => addresses(&packet, &name, family),
        RCODE::NameError => Outcome::NoName,
        _ => Outcome::Failed,
    };
    let truncated = packet.has_flags(PacketFlag::TRUNCATION);
    let empty = matches!(&outcome, Outcome::Addresses(found, _) if found.is_empty());
    let outcome = if truncated && empty { Outcome::Failed } else { outcome };
    Some(Reply { id: packet.id(), name, family, outcome })
}

/// The records of the name and of the names that it stands for, in the order of the answer.
fn addresses(packet: &Packet<'_>, name: &str, family: Family) -> Outcome {
    let mut names = vec![name.to_owned()];
    let (mut found, mut ttl) = (Vec::new(), u32::MAX);
    for record in &packet.answers {
        if record.class != CLASS::IN || !names.contains(&text(&record.name)) {
            continue;
        }
        match (&record.rdata, family) {
            (RData::CNAME(target), _) => names.push(text(&target.0)),
            (RData::A(a), Family::V4) => found.push(IpAddr::V4(a.address.into())),
            (RData::AAAA(aaaa), Family::V6) => found.push(IpAddr::V6(aaaa.address.into())),
            _ => continue,
        }
        ttl = ttl.min(record.ttl);
    }
    Outcome::Addresses(found, if ttl == u32::MAX { 0 } else { ttl })
}

/// Looks at a query; `None` if it is none, and gets no answer.
pub(super) fn parse_query(bytes: &[u8]) -> Option<Query> {
    if bytes.len() < HEADER_LEN || bytes[2] & 0x80 != 0 {
        return None;
    }
    let Some(packet) = parse(bytes) else { return Some(Query::Bad(RCODE::FormatError)) };
    if packet.opcode() != OPCODE::StandardQuery {
        return Some(Query::Bad(RCODE::NotImplemented));
    }
    let [question] = &packet.questions[..] else { return Some(Query::Bad(RCODE::FormatError)) };
    if question.qclass != QCLASS::CLASS(CLASS::IN) {
        return Some(Query::Bad(RCODE::Refused));
    }
    Some(match (family_of(question.qtype), host(&question.qname)) {
        (Some(family), Some(name)) => Query::Addresses(name, family),
        _ => Query::Other,
    })
}

/// An answer to a query of ours or a client's: as many addresses as fit, or an error.
pub(super) fn answer(query: &[u8], addresses: &[IpAddr], ttl: u32, code: RCODE) -> Option<Vec<u8>> {
    let asked = parse(query);
    let Some(asked) = asked else { return bare_error(query, code) };
    let family = asked.questions.first().and_then(|question| family_of(question.qtype));
    let mut packet = Packet::new_reply(asked.id());
    *packet.opcode_mut() = asked.opcode();
    *packet.rcode_mut() = code;
    packet.set_flags(PacketFlag::RECURSION_AVAILABLE);
    if asked.has_flags(PacketFlag::RECURSION_DESIRED) {
        packet.set_flags(PacketFlag::RECURSION_DESIRED);
    }
    // RFC 6891 section 6.1.1: asked with EDNS, answered with EDNS.
    if asked.opt().is_some() {
        *packet.opt_mut() = Some(simple_dns::rdata::OPT {
            opt_codes: Vec::new(),
            udp_packet_size: 1232,
            version: 0,
        });
    }
    packet.questions.extend(asked.questions.first().cloned());
    if let Some(name) = asked.questions.first().map(|question| question.qname.clone()) {
        let wanted = addresses.iter().filter(|address| match family {
            Some(Family::V4) => address.is_ipv4(),
            Some(Family::V6) => address.is_ipv6(),
            None => false,
        });
        for address in wanted {
            let data = match address {
                IpAddr::V4(v4) => RData::A((*v4).into()),
                IpAddr::V6(v6) => RData::AAAA((*v6).into()),
            };
            packet.answers.push(ResourceRecord::new(name.clone(), CLASS::IN, ttl, data));
        }
    }
    loop {
        let bytes = packet.build_bytes_vec_compressed().ok()?;
        if bytes.len() <= ANSWER_MAX || packet.answers.pop().is_none() {
            return Some(bytes);
        }
    }
}

/// For a query that cannot be parsed: its header, turned round.
fn bare_error(query: &[u8], code: RCODE) -> Option<Vec<u8>> {
    let header = query.get(..4)?;
    let mut bytes = vec![0; HEADER_LEN];
    bytes[..4].copy_from_slice(header);
    bytes[2] = (header[2] & 0x79) | 0x80;
    bytes[3] = 0x80 | (code as u8 & 0xf);
    Some(bytes)
}

/// Parses a message whose counts its length can hold: the parser reserves memory by them.
fn parse(bytes: &[u8]) -> Option<Packet<'_>> {
    let count = |at: usize| -> Option<usize> {
        Some(usize::from(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?])))
    };
    // A question has at least 5 bytes, a record 11.
    let least = count(4)? * 5 + (count(6)? + count(8)? + count(10)?) * 11;
    if HEADER_LEN + least > bytes.len() {
        return None;
    }
    Packet::parse(bytes).ok()
}

fn family_of(kind: QTYPE) -> Option<Family> {
    match kind {
        QTYPE::TYPE(TYPE::A) => Some(Family::V4),
        QTYPE::TYPE(TYPE::AAAA) => Some(Family::V6),
        _ => None,
    }
}

/// A name that can be handed to the system's resolver.
fn host(name: &Name<'_>) -> Option<String> {
    match crate::listener::Target::new(text(name).as_bytes(), 1) {
        Ok(crate::listener::Target::Name(name, _)) => Some(name),
        _ => None,
    }
}

fn text(name: &Name<'_>) -> String {
    name.to_string().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOTH: [Family; 2] = [Family::V4, Family::V6];

    #[test]
    fn a_query_and_its_answer() {
        let addresses: Vec<IpAddr> =
            ["192.0.2.1", "2001:db8::1", "192.0.2.2"].map(|text| text.parse().unwrap()).into();
        for family in BOTH {
            let asked = query(0xabcd, "www.example.org", family).unwrap();
            let expected = Query::Addresses("www.example.org".into(), family);
            assert_eq!(parse_query(&asked), Some(expected));
            let answered = answer(&asked, &addresses, 60, RCODE::NoError).unwrap();
            let reply = parse_reply(&answered).unwrap();
            let wanted = |ip: &&IpAddr| ip.is_ipv4() == (family == Family::V4);
            let wanted: Vec<IpAddr> = addresses.iter().filter(wanted).copied().collect();
            assert_eq!((reply.id, &reply.name[..]), (0xabcd, "www.example.org"));
            assert_eq!((reply.family, reply.outcome), (family, Outcome::Addresses(wanted, 60)));
            for (code, outcome) in [
                (RCODE::NameError, Outcome::NoName),
                (RCODE::ServerFailure, Outcome::Failed),
                (RCODE::NoError, Outcome::Addresses(vec![], 0)),
            ] {
                let error = answer(&asked, &[], 0, code).unwrap();
                assert_eq!(parse_reply(&error).unwrap().outcome, outcome);
            }
            assert_eq!(parse_reply(&asked), None, "a query is no answer");
            assert_eq!(parse_query(&answered), None, "an answer is no query");
        }
    }

    #[test]
    fn answers_fit_without_edns() {
        let many: Vec<IpAddr> = (0..100u128).map(|i| IpAddr::V6(i.into())).collect();
        let name = format!("{}.org", ["a"; 60].concat());
        let asked = query(1, &name, Family::V6).unwrap();
        let bytes = answer(&asked, &many, 60, RCODE::NoError).unwrap();
        assert!(bytes.len() <= ANSWER_MAX);
        let outcome = parse_reply(&bytes).unwrap().outcome;
        assert!(matches!(outcome, Outcome::Addresses(found, 60) if found.len() > 10));
    }

    #[test]
    fn names_that_stand_for_others_are_followed() {
        let name = |text| Name::new(text).unwrap();
        let mut packet = Packet::new_reply(7);
        packet.questions.push(question("a.example", Family::V4).unwrap());
        let cname = |from, to| {
            let target = RData::CNAME(simple_dns::rdata::CNAME(name(to)));
            ResourceRecord::new(name(from), CLASS::IN, 30, target)
        };
        let a = |from, octet| {
            let address = RData::A(std::net::Ipv4Addr::new(192, 0, 2, octet).into());
            ResourceRecord::new(name(from), CLASS::IN, 40, address)
        };
        packet.answers = vec![
            cname("A.example", "b.example"),
            cname("b.example", "c.example"),
            a("C.Example", 1),
            a("other.example", 66),
        ];
        let reply = parse_reply(&packet.build_bytes_vec().unwrap()).unwrap();
        assert_eq!(reply.outcome, Outcome::Addresses(vec!["192.0.2.1".parse().unwrap()], 30));
        // Truncated to nothing is no answer.
        packet.answers.clear();
        packet.set_flags(PacketFlag::TRUNCATION);
        let reply = parse_reply(&packet.build_bytes_vec().unwrap()).unwrap();
        assert_eq!(reply.outcome, Outcome::Failed);
    }

    #[test]
    fn odd_queries_get_their_error() {
        let asked = query(1, "example.org", Family::V4).unwrap();
        let changed = |at: usize, byte: u8| {
            let mut bytes = asked.clone();
            bytes[at] = byte;
            parse_query(&bytes)
        };
        assert_eq!(changed(2, 0x10), Some(Query::Bad(RCODE::NotImplemented)));
        let last = asked.len() - 1;
        assert_eq!(changed(last, 3), Some(Query::Bad(RCODE::Refused)));
        assert_eq!(changed(last - 2, 16), Some(Query::Other), "TXT");
        assert_eq!(changed(5, 0), Some(Query::Bad(RCODE::FormatError)));
        assert_eq!(changed(10, 0xff), Some(Query::Bad(RCODE::FormatError)));
        assert_eq!(parse_query(&asked[..11]), None);
        assert_eq!(parse_query(&asked[..20]), Some(Query::Bad(RCODE::FormatError)));
        let error = answer(&asked[..20], &[], 0, RCODE::FormatError).unwrap();
        assert_eq!(error, [0, 1, 0x81, 0x81, 0, 0, 0, 0, 0, 0, 0, 0]);
        // What the resolver of the system would take for an address.
        let numeric = query(1, "127.1", Family::V4).unwrap();
        assert_eq!(parse_query(&numeric), Some(Query::Other));
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(
            bytes: Vec<u8>,
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            family in prop::sample::select(&BOTH[..]),
        ) {
            let asked = query(3, "www.example.org", family).unwrap();
            let mut answered =
                answer(&asked, &["192.0.2.1".parse().unwrap()], 9, RCODE::NoError).unwrap();
            for (at, byte) in flips {
                let at = at.index(answered.len());
                answered[at] ^= byte;
            }
            for bytes in [&bytes[..], &answered[..]] {
                let _ = parse_reply(bytes);
                if parse_query(bytes).is_some() {
                    let error = answer(bytes, &[], 0, RCODE::ServerFailure).unwrap();
                    prop_assert_eq!(&error[..2], &bytes[..2]);
                }
            }
        }
    }
}
