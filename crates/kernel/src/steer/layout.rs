//! The values of the maps that the classifiers share with user space, byte for byte as in
//! `bpf/steer.h` and `bpf/hayack.bpf.c`: words in the machine's order, addresses in the network's.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tabane_net::prefix::Prefix;

/// Slots for interfaces.
pub(super) const IFACES: usize = 8;
/// Destinations of each family.
pub(super) const PREFIXES: usize = 64;

pub(super) const ONLY_ACKS: u32 = 1;
pub(super) const ONLY_MPTCP: u32 = 2;
pub(super) const ONLY_TO: u32 = 4;
pub(super) const PURE: u32 = 8;

/// `struct config`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Config {
    pub(super) only: u32,
    pub(super) every: u32,
    /// 1 + slot; 0: the fastest.
    pub(super) target: u32,
}

/// `struct iface`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Iface {
    pub(super) index: u32,
    /// The qdisc was made for it.
    pub(super) clsact: bool,
    pub(super) gateway4: Option<Ipv4Addr>,
    pub(super) gateway6: Option<Ipv6Addr>,
}

/// `struct counters`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Counters {
    pub(super) meant: u64,
    pub(super) sent: u64,
    pub(super) failed: u64,
    pub(super) own: u64,
}

/// `struct state`, as far as it is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct State {
    second: u64,
    current: u32,
    before: u32,
    /// 1 + slot; 0: none chosen yet, so its own.
    pub(super) way: u32,
}

const SECOND_NS: u64 = 1_000_000_000;

impl Config {
    pub(super) fn bytes(self) -> Vec<u8> {
        words(&[self.only, self.every, self.target])
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self { only: word(bytes, 0)?, every: word(bytes, 4)?, target: word(bytes, 8)? })
    }
}

impl Iface {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = words(&[self.index, self.clsact.into()]);
        bytes.extend(self.gateway4.unwrap_or(Ipv4Addr::UNSPECIFIED).octets());
        bytes.extend(self.gateway6.unwrap_or(Ipv6Addr::UNSPECIFIED).octets());
        bytes
    }

    /// `None` for a free slot.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let index = word(bytes, 0).filter(|index| *index != 0)?;
        let gateway4: [u8; 4] = bytes.get(8..12)?.try_into().ok()?;
        let gateway6: [u8; 16] = bytes.get(12..28)?.try_into().ok()?;
        Some(Self {
            index,
            clsact: word(bytes, 4)? != 0,
            gateway4: Some(gateway4.into()).filter(|g: &Ipv4Addr| !g.is_unspecified()),
            gateway6: Some(gateway6.into()).filter(|g: &Ipv6Addr| !g.is_unspecified()),
        })
    }
}

impl Counters {
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let at = |n: usize| double(bytes, 8 * n);
        Some(Self { meant: at(0)?, sent: at(1)?, failed: at(2)?, own: at(3)? })
    }
}

impl State {
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            second: double(bytes, 0)?,
            current: word(bytes, 24)?,
            before: word(bytes, 28)?,
            way: word(bytes, 32)?,
        })
    }

    /// Microseconds, at `now` of the monotonic clock; `None` if unknown. As `rtt()` there.
    pub(super) fn rtt_us(&self, now_ns: u64) -> Option<u32> {
        let second = now_ns / SECOND_NS;
        let least = match second.checked_sub(self.second) {
            Some(0) if self.before == 0 => self.current,
            Some(0) if self.current == 0 => self.before,
            Some(0) => self.current.min(self.before),
            Some(1) => self.current,
            _ => 0,
        };
        Some(least).filter(|us| *us != 0)
    }
}

/// The key of a prefix in a trie.
pub(super) fn key(prefix: &Prefix) -> Vec<u8> {
    let mut bytes = words(&[prefix.len().into()]);
    match prefix.address() {
        IpAddr::V4(address) => bytes.extend(address.octets()),
        IpAddr::V6(address) => bytes.extend(address.octets()),
    }
    bytes
}

/// The prefix of a key.
pub(super) fn prefix(key: &[u8]) -> Option<Prefix> {
    let len = u8::try_from(word(key, 0)?).ok()?;
    let rest = key.get(4..)?;
    let address = match rest.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(rest).ok()?),
        _ => IpAddr::from(<[u8; 16]>::try_from(rest).ok()?),
    };
    Prefix::new(address, len).ok()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn double(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_sizes_of_the_structures() {
        let config = Config { only: ONLY_ACKS | ONLY_TO, every: 8, target: 2 };
        assert_eq!(config.bytes().len(), 12);
        assert_eq!(Config::read(&config.bytes()), Some(config));
        let iface = Iface {
            index: 3,
            clsact: true,
            gateway4: Some(Ipv4Addr::new(10, 0, 0, 1)),
            gateway6: None,
        };
        assert_eq!(iface.bytes().len(), 28);
        assert_eq!(Iface::read(&iface.bytes()), Some(iface));
        assert_eq!(Iface::read(&[0; 28]), None, "a free slot");
        for text in ["10.1.0.0/16", "2001:db8::/32", "::1"] {
            let one: Prefix = text.parse().unwrap();
            assert_eq!(prefix(&key(&one)), Some(one));
        }
    }

    #[test]
    fn rtt_is_of_two_seconds() {
        let state = |current, before| State { second: 7, current, before, way: 0 };
        let at = |state: State, second| state.rtt_us(second * SECOND_NS + 5);
        assert_eq!(at(state(30, 20), 7), Some(20));
        assert_eq!(at(state(30, 0), 7), Some(30));
        assert_eq!(at(state(0, 20), 7), Some(20));
        assert_eq!(at(state(30, 20), 8), Some(30));
        assert_eq!(at(state(30, 20), 9), None);
        assert_eq!(at(state(0, 0), 7), None);
    }
}
