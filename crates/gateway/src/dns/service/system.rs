//! What the system says: `getaddrinfo`, the first name server of `/etc/resolv.conf`, and whether
//! there is a route to an address. All of it blocks.

use std::ffi::CString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;
use std::{mem, ptr};
use thiserror::Error;

/// Why a name has no answer.
#[derive(Error, Clone, Copy, PartialEq, Eq, Debug)]
pub enum LookupError {
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
    let name = CString::new(name).map_err(|_| LookupError::NoName)?;
    // SAFETY: all zeros is a valid addrinfo: no flags, any family, null pointers.
    let mut hints: libc::addrinfo = unsafe { mem::zeroed() };
    // One entry an address, not one a type of socket.
    hints.ai_socktype = libc::SOCK_STREAM;
    let mut list = ptr::null_mut();
    // SAFETY: the name ends with a zero, hints and list are valid for the call.
    let code =
        unsafe { libc::getaddrinfo(name.as_ptr(), ptr::null(), &raw const hints, &raw mut list) };
    match code {
        0 => {}
        EAI_NODATA => return Ok(Vec::new()),
        libc::EAI_NONAME => return Err(LookupError::NoName),
        _ => return Err(LookupError::Failed),
    }
    let (mut addresses, mut entry) = (Vec::new(), list);
    while !entry.is_null() {
        // SAFETY: getaddrinfo made the list, which is freed only below.
        let info = unsafe { &*entry };
        // SAFETY: as above; each address has the size of its family.
        addresses.extend(unsafe { address(info) });
        entry = info.ai_next;
    }
    // SAFETY: it is the list that getaddrinfo made, and nothing refers to it any more.
    unsafe { libc::freeaddrinfo(list) };
    addresses.dedup();
    Ok(addresses)
}

/// The address of an entry.
///
/// # Safety
/// `ai_addr` is null or points to an address of the family `ai_family`.
unsafe fn address(info: &libc::addrinfo) -> Option<IpAddr> {
    if info.ai_addr.is_null() {
        return None;
    }
    match info.ai_family {
        libc::AF_INET => {
            // SAFETY: by this function's contract; it may be unaligned.
            let v4 = unsafe { info.ai_addr.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes()).into())
        }
        libc::AF_INET6 => {
            // SAFETY: by this function's contract; it may be unaligned.
            let v6 = unsafe { info.ai_addr.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
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
