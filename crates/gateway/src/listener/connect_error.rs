//! Why a program does not get what it asked for, in the words of each protocol: reply codes of
//! SOCKS5 (RFC 1928 section 6), statuses of HTTP and error types of Proxy-Status (RFC 9209).

use std::io;
use tabane_wire::Unreachable;
use thiserror::Error;

/// Why a request of a program fails.
#[derive(Error, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ConnectError {
    /// The destination answered with a reset.
    #[error("the destination refused the connection")]
    Refused,
    /// No such host, or it does not answer at its network.
    #[error("the destination host is unreachable")]
    HostUnreachable,
    /// No route.
    #[error("the destination network is unreachable")]
    NetUnreachable,
    /// The access list.
    #[error("the server does not allow this destination")]
    NotAllowed,
    /// No answer at all.
    #[error("the destination did not answer in time")]
    TimedOut,
    /// The name does not exist, or has no addresses.
    #[error("the name of the destination has no address")]
    NameNotFound,
    /// The name could not be asked for.
    #[error("the name of the destination could not be resolved")]
    NameFailed,
    /// No path to the server works.
    #[error("no path to the server works at the moment")]
    NoPath,
    /// A limit of connections is reached.
    #[error("too many connections")]
    Busy,
    /// Anything else.
    #[error("the connection failed")]
    General,
}

impl ConnectError {
    /// Every one.
    #[cfg(any(test, feature = "internals"))]
    pub(crate) const ALL: [Self; 10] = [
        Self::Refused,
        Self::HostUnreachable,
        Self::NetUnreachable,
        Self::NotAllowed,
        Self::TimedOut,
        Self::NameNotFound,
        Self::NameFailed,
        Self::NoPath,
        Self::Busy,
        Self::General,
    ];

    /// What an ordinary socket's error means.
    #[must_use]
    pub(crate) fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => Self::Refused,
            io::ErrorKind::HostUnreachable => Self::HostUnreachable,
            io::ErrorKind::NetworkUnreachable | io::ErrorKind::NetworkDown => Self::NetUnreachable,
            io::ErrorKind::TimedOut => Self::TimedOut,
            io::ErrorKind::PermissionDenied => Self::NotAllowed,
            io::ErrorKind::AddrNotAvailable => Self::NetUnreachable,
            _ => match error.raw_os_error() {
                Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => Self::Busy,
                _ => Self::General,
            },
        }
    }

    /// As a router or the destination itself says it by ICMP; `None`: by a reset.
    #[must_use]
    pub(crate) fn unreachable(self) -> Option<Unreachable> {
        match self {
            Self::HostUnreachable | Self::TimedOut => Some(Unreachable::Host),
            Self::NetUnreachable | Self::NoPath => Some(Unreachable::Network),
            Self::NotAllowed => Some(Unreachable::Prohibited),
            _ => None,
        }
    }

    /// Reply code of SOCKS5. There is none for time-outs: they count as an unreachable host, as
    /// they do elsewhere.
    #[must_use]
    pub(crate) fn socks5(self) -> u8 {
        match self {
            Self::Busy | Self::NameFailed | Self::General => 1,
            Self::NotAllowed => 2,
            Self::NetUnreachable | Self::NoPath => 3,
            Self::HostUnreachable | Self::NameNotFound | Self::TimedOut => 4,
            Self::Refused => 5,
        }
    }

    /// Status of HTTP.
    #[must_use]
    pub(crate) fn http(self) -> u16 {
        match self {
            Self::NotAllowed => 403,
            Self::NoPath | Self::Busy => 503,
            Self::TimedOut => 504,
            _ => 502,
        }
    }

    /// Error type of the Proxy-Status field (RFC 9209 section 2.3).
    #[must_use]
    pub(crate) fn proxy_status(self) -> &'static str {
        match self {
            Self::Refused => "connection_refused",
            Self::HostUnreachable | Self::NetUnreachable => "destination_ip_unroutable",
            Self::NotAllowed => "destination_ip_prohibited",
            Self::TimedOut => "connection_timeout",
            Self::NameNotFound | Self::NameFailed => "dns_error",
            Self::NoPath => "destination_unavailable",
            Self::Busy => "connection_limit_reached",
            Self::General => "proxy_internal_error",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_reply() {
        let table: Vec<String> = ConnectError::ALL
            .iter()
            .map(|why| format!("{why:?} {} {} {}", why.socks5(), why.http(), why.proxy_status()))
            .collect();
        assert_eq!(
            table,
            [
                "Refused 5 502 connection_refused",
                "HostUnreachable 4 502 destination_ip_unroutable",
                "NetUnreachable 3 502 destination_ip_unroutable",
                "NotAllowed 2 403 destination_ip_prohibited",
                "TimedOut 4 504 connection_timeout",
                "NameNotFound 4 502 dns_error",
                "NameFailed 1 502 dns_error",
                "NoPath 3 503 destination_unavailable",
                "Busy 1 503 connection_limit_reached",
                "General 1 502 proxy_internal_error",
            ]
        );
    }

    #[test]
    fn errors_of_sockets_mean_what_they_say() {
        for (errno, why) in [
            (libc::ECONNREFUSED, ConnectError::Refused),
            (libc::EHOSTUNREACH, ConnectError::HostUnreachable),
            (libc::ENETUNREACH, ConnectError::NetUnreachable),
            (libc::ETIMEDOUT, ConnectError::TimedOut),
            (libc::EACCES, ConnectError::NotAllowed),
            (libc::EMFILE, ConnectError::Busy),
            (libc::EINVAL, ConnectError::General),
        ] {
            assert_eq!(ConnectError::of(&io::Error::from_raw_os_error(errno)), why);
        }
    }
}
