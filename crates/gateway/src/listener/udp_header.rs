//! The header of datagrams between a program and a SOCKS5 association (RFC 1928 section 7).
//! Fragments are refused, as the RFC allows: no program in use sends them.

use super::socks5::{Host, NAME, V4, V6, destination, put_address};
use super::{Target, TargetError};
use bytes::BufMut;
use std::net::SocketAddr;
use thiserror::Error;

/// Longest header that [`emit`] writes, bytes.
#[cfg(test)]
pub(crate) const HEADER_MAX: usize = 22;

/// Why a datagram is dropped.
#[derive(Error, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HeaderError {
    /// It ends inside its header.
    #[error("truncated")]
    Truncated,
    /// A fragment.
    #[error("a fragment")]
    Fragment,
    /// Neither IPv4 nor IPv6 nor a name.
    #[error("unknown type of address")]
    AddressType,
    /// No place to send it to.
    #[error(transparent)]
    Target(#[from] TargetError),
}

/// Where a datagram of a program goes, and its payload.
///
/// # Errors
/// [`HeaderError`].
pub(crate) fn parse(datagram: &[u8]) -> Result<(Target, &[u8]), HeaderError> {
    let [_, _, fragment, kind, ..] = *datagram else { return Err(HeaderError::Truncated) };
    if fragment != 0 {
        return Err(HeaderError::Fragment);
    }
    if ![V4, V6, NAME].contains(&kind) {
        return Err(HeaderError::AddressType);
    }
    let (host, port, end) = destination(&datagram[3..]).ok_or(HeaderError::Truncated)?;
    let target = match host {
        Host::Address(_) if port == 0 => return Err(TargetError::Port.into()),
        Host::Address(address) => Target::Address(SocketAddr::new(address, port)),
        Host::Name(name) => Target::new(&name, port)?,
    };
    Ok((target, &datagram[3 + end..]))
}

/// Writes the header of a datagram that came from `source`; the payload follows.
pub(crate) fn emit(out: &mut impl BufMut, source: SocketAddr) {
    out.put_slice(&[0; 3]);
    put_address(out, source);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parse_undoes_emit(v4: bool, octets: [u8; 16], port in 1u16.., payload: Vec<u8>) {
            let source: SocketAddr = match v4 {
                true => ([octets[0], octets[1], octets[2], octets[3]], port).into(),
                false => (octets, port).into(),
            };
            let mut datagram = Vec::new();
            emit(&mut datagram, source);
            prop_assert!(datagram.len() <= HEADER_MAX);
            datagram.extend_from_slice(&payload);
            prop_assert_eq!(parse(&datagram), Ok((Target::Address(source), &payload[..])));
            for cut in 0..datagram.len() - payload.len() {
                prop_assert_eq!(parse(&datagram[..cut]), Err(HeaderError::Truncated));
            }
            datagram[2] = 1;
            prop_assert_eq!(parse(&datagram), Err(HeaderError::Fragment));
        }

        #[test]
        fn any_bytes_are_taken(bytes: Vec<u8>, kind in 0..6u8) {
            let _ = parse(&bytes);
            let headed = [&[0, 0, 0, kind], &bytes[..]].concat();
            if let Ok((_, payload)) = parse(&headed) {
                prop_assert!(headed.ends_with(payload));
            }
        }
    }

    #[test]
    fn names_are_taken_and_checked() {
        let named = |name: &str| {
            let mut datagram = vec![0, 0, 0, 3, name.len() as u8];
            datagram.extend_from_slice(name.as_bytes());
            datagram.extend_from_slice(&[0, 53, b'x']);
            parse(&datagram).map(|(target, payload)| (target.to_string(), payload.to_vec()))
        };
        assert_eq!(named("Example.org"), Ok(("example.org:53".into(), b"x".to_vec())));
        assert_eq!(named("192.0.2.1"), Ok(("192.0.2.1:53".into(), b"x".to_vec())));
        assert_eq!(named("no name"), Err(HeaderError::Target(TargetError::Host)));
        assert_eq!(parse(&[0, 0, 0, 9, 0, 0, 0, 0]), Err(HeaderError::AddressType));
        assert_eq!(parse(&[0, 0, 0, 1, 1, 2, 3, 4, 0, 0]), Err(TargetError::Port.into()));
    }
}
