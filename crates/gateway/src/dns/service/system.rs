//! What the system says: `getaddrinfo`, the first name server of `/etc/resolv.conf`, and whether
//! there is a route to an address. All of it blocks.

use dns_lookup::{AddrInfoHints, LookupErrorKind, SockType};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;
use thiserror::Error;

/// Why a name has no answer.
#[derive(Error, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LookupError {
    /// There is no such name.
    #[error("there is no such name")]
    NoName,
    /// The resolver could not find out.
    #[error("the system's resolver failed")]
    Failed,
}

/// Until a query is repeated, and given up: together no longer than somebody waits.
const ANSWER_TIME: Duration = Duration::from_secs(1);
const TRIES: usize = 2;
/// The longest datagram taken from the name server; what is longer has the "truncated" bit.
const ANSWER_MAX: usize = 4096;
/// Missing from the system's headers where they are strict; the same everywhere on Linux.
const EAI_NODATA: libc::c_int = -5;

/// The addresses of a name that the server has a route to, in the system's order.
pub(super) fn lookup(name: &str) -> Result<Vec<IpAddr>, LookupError> {
    // The dot keeps the system from trying its search domains.
    let absolute = if name.contains('.') { format!("{name}.") } else { name.to_owned() };
    let mut addresses = getaddrinfo(&absolute)?;
    addresses.retain(|address| has_route(*address));
    Ok(addresses)
}

fn getaddrinfo(name: &str) -> Result<Vec<IpAddr>, LookupError> {
    // One entry an address, not one a type of socket.
    let hints = AddrInfoHints { socktype: SockType::Stream.into(), ..AddrInfoHints::default() };
    let entries = match dns_lookup::getaddrinfo(Some(name), None, Some(hints)) {
        Ok(entries) => entries,
        Err(error) if error.error_num() == EAI_NODATA => return Ok(Vec::new()),
        Err(error) if matches!(error.kind(), LookupErrorKind::NoName) => {
            return Err(LookupError::NoName);
        }
        // A name with a zero in it, too.
        Err(_) => return Err(LookupError::Failed),
    };
    let mut addresses: Vec<IpAddr> =
        entries.filter_map(Result::ok).map(|entry| entry.sockaddr.ip()).collect();
    addresses.dedup();
    Ok(addresses)
}

/// Connecting a datagram socket sends nothing, and fails where there is no route.
fn has_route(address: IpAddr) -> bool {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    UdpSocket::bind((any, 0))
        .and_then(|socket| socket.connect((address, super::super::PORT)))
        .is_ok()
}

/// The first name server of the system.
pub(super) fn name_server() -> Option<SocketAddr> {
    first_server(&crate::tun::host::read_resolvers(Path::new("/etc/resolv.conf")).ok()?)
}

fn first_server(config: &str) -> Option<SocketAddr> {
    config.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let address = (words.next() == Some("nameserver")).then(|| words.next())??;
        Some(SocketAddr::new(address.parse().ok()?, super::super::PORT))
    })
}

/// Asks the name server; the answer has another id than the query. A socket of its own, with a
/// port that the system draws, for every query, which takes datagrams from that server only.
pub(super) fn forward(server: SocketAddr, query: &[u8]) -> Option<Vec<u8>> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let mut id = [0; 2];
    getrandom::fill(&mut id).ok()?;
    let query = [&id[..], query.get(2..)?].concat();
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(server).ok()?;
    socket.set_read_timeout(Some(ANSWER_TIME)).ok()?;
    let mut buffer = vec![0; ANSWER_MAX];
    for _ in 0..TRIES {
        socket.send(&query).ok()?;
        // What does not fit the query is not waited for again: that server is broken.
        if let Ok(length) = socket.recv(&mut buffer)
            && answers(&buffer[..length], &query)
        {
            buffer.truncate(length);
            return Some(buffer);
        }
    }
    None
}

/// Whether it is an answer to the query: id, bit, and the same question.
fn answers(answer: &[u8], query: &[u8]) -> bool {
    let same_id = answer.len() >= 12 && answer[..2] == query[..2] && answer[2] & 0x80 != 0;
    let question = |bytes: &[u8]| -> Option<Vec<u8>> {
        let end = 12 + bytes.get(12..)?.iter().position(|byte| *byte == 0)? + 5;
        Some(bytes.get(12..end)?.to_ascii_lowercase())
    };
    same_id && question(answer).is_none_or(|asked| Some(asked) == question(query))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_knows_localhost() {
        let addresses = lookup("localhost").unwrap();
        assert!(addresses.contains(&Ipv4Addr::LOCALHOST.into()), "{addresses:?}");
        // RFC 6761 section 6.4; a machine without any resolver says "failed".
        assert!(getaddrinfo("does-not-exist.invalid.").is_err());
        assert!(lookup("a\0b").is_err());
    }

    #[test]
    fn the_first_server_is_found() {
        let config = "# nameserver 1.1.1.1\nsearch x\nnameserver\nnameserver fe80::1%eth0\n\
                      nameserver 192.0.2.53 # here\nnameserver 192.0.2.54\n";
        assert_eq!(first_server(config), Some("192.0.2.53:53".parse().unwrap()));
        assert_eq!(first_server("options edns0"), None);
    }

    #[test]
    fn answers_belong_to_their_query() {
        let query = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x10\0\x01";
        let mut answer = query.to_vec();
        assert!(!answers(&answer, query), "a query is none");
        answer[2] |= 0x80;
        assert!(answers(&answer, query));
        answer[13] = b'A';
        assert!(answers(&answer, query), "letters of either case");
        answer[13] = b'b';
        assert!(!answers(&answer, query));
        assert!(answers(&answer[..12], query), "an error without its question");
        answer[0] = 0;
        assert!(!answers(&answer, query));
    }
}
