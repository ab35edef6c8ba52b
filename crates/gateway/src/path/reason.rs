//! Why a path is in its state, in words for people (`tabane status`, events, the web page).

use std::fmt;
use tabane_engine::{Duration, Instant};

/// What there is below the tunnel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum LinkState {
    /// Nothing can be sent.
    Absent(Absence),
    /// There is a socket, and packets leave by it.
    Ready {
        /// Largest inner packet that the interface could carry (see [`inner_limit`]).
        limit: u16,
    },
}

/// Why nothing can be sent. The names are those of interfaces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Absence {
    /// No such interface.
    NoInterface(String),
    /// It is switched off.
    Disabled(String),
    /// No cable, not associated, no registration.
    NoCarrier(String),
    /// It has no address that the server can be reached from.
    NoAddress(String),
    /// It has none of the family that the server is reached by, IPv6 if true, but of the other.
    NoFamily(String, bool),
    /// The source address that the path is bound to is not there.
    NoSource(std::net::IpAddr),
    /// Anything else, as it is to be shown.
    Other(String),
}

/// Why a path is in its state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Reason {
    Absent(Absence),
    /// Since then a handshake has been wanted.
    Handshake(Instant),
    /// There is a session, and no answer inside it yet.
    NoAnswerYet(Instant),
    Works,
    /// Nothing has been heard since.
    Silent(Instant),
    /// The far end is heard, but has answered nothing since.
    OneWay(Instant),
    /// It answers again after so many failures, and is used from then on.
    Trial {
        failures: u32,
        until: Instant,
    },
}

/// Bytes that a tunnel adds to a packet: WireGuard's header and tag, UDP, IP.
const OVERHEAD_V4: u16 = 32 + 8 + 20;
const OVERHEAD_V6: u16 = 32 + 8 + 40;

/// The largest inner packet over an interface with `mtu`, to a server at that kind of address.
#[must_use]
pub(crate) fn inner_limit(mtu: u32, server_is_v6: bool) -> u16 {
    let overhead = if server_is_v6 { OVERHEAD_V6 } else { OVERHEAD_V4 };
    u16::try_from(mtu).unwrap_or(u16::MAX).saturating_sub(overhead)
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoInterface(name) => write!(f, "interface {name} is not there"),
            Self::Disabled(name) => write!(f, "interface {name} is switched off"),
            Self::NoCarrier(name) => write!(f, "interface {name} has no connection"),
            Self::NoAddress(name) => write!(f, "interface {name} has no address"),
            Self::NoFamily(name, ipv6) => {
                let (none, other) = if *ipv6 { ("IPv6", "IPv4") } else { ("IPv4", "IPv6") };
                write!(f, "interface {name} has no {none} address, and the server no {other} one")
            }
            Self::NoSource(address) => write!(f, "no interface has the address {address}"),
            Self::Other(why) => f.write_str(why),
        }
    }
}

impl Reason {
    pub(super) fn words(&self, now: Instant) -> String {
        match self {
            Self::Absent(absence) => absence.to_string(),
            Self::Handshake(since) if now - *since < Duration::from_secs(1) => {
                "setting up the tunnel".into()
            }
            Self::Handshake(since) => {
                format!("tunnel handshake not answered for {}", ago(now, *since))
            }
            Self::NoAnswerYet(since) if now - *since < Duration::from_secs(1) => {
                "the tunnel is set up, first probe under way".into()
            }
            Self::NoAnswerYet(since) => format!(
                "the tunnel is set up, but probes are not answered for {}",
                ago(now, *since)
            ),
            Self::Works => "works".into(),
            Self::Silent(since) => format!("no answer for {}", ago(now, *since)),
            Self::OneWay(since) => format!(
                "the server is heard, but has not answered for {}: it does not hear us",
                ago(now, *since)
            ),
            Self::Trial { failures, until } => format!(
                "answers again, but failed {failures} times in two minutes: \
                 on trial for {}",
                ago(*until, now)
            ),
        }
    }
}

/// A span as people say it.
pub(super) fn ago(now: Instant, since: Instant) -> String {
    span(now - since)
}

/// A span as people say it.
pub(super) fn span(span: Duration) -> String {
    let tenths = (span.as_millis() + 50) / 100;
    match tenths {
        0..100 => format!("{}.{} s", tenths / 10, tenths % 10),
        100..1_200 => format!("{} s", tenths / 10),
        1_200..72_000 => format!("{} min", tenths / 600),
        _ => format!("{} h", tenths / 36_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_people() {
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        assert_eq!(Reason::Silent(at(100)).words(at(980)), "no answer for 0.9 s");
        assert_eq!(Reason::Silent(at(0)).words(at(12_300)), "no answer for 12 s");
        assert_eq!(Reason::Silent(at(0)).words(at(125_000)), "no answer for 2 min");
        assert_eq!(Reason::Handshake(at(0)).words(at(10)), "setting up the tunnel");
        let absent = Reason::Absent(Absence::NoInterface("wlan0".into()));
        assert_eq!(absent.words(at(0)), "interface wlan0 is not there");
        let trial = Reason::Trial { failures: 4, until: at(5_000) };
        assert!(trial.words(at(2_000)).ends_with("on trial for 3.0 s"));
        assert_eq!(span(Duration::from_secs(8_000)), "2 h");
    }

    #[test]
    fn ethernet_carries_1440_or_1420() {
        assert_eq!(inner_limit(1500, false), 1440);
        assert_eq!(inner_limit(1500, true), 1420);
        assert_eq!(inner_limit(65_536, false), 65_475);
        assert_eq!(inner_limit(0, false), 0);
    }
}
