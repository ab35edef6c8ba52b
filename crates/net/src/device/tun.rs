//! A path behind a TUN device: the host's kernel is the first router of the path.
//!
//! The engine's address must not be an address of the host, or the kernel would keep the packets
//! to it; so each device has two addresses of one subnet, the host's and the engine's. Attaches
//! to the device if it is there, else makes it (it then goes with the process). Works in the
//! network namespace of the process. Routes and rules are not touched.

use super::PathDevice;
use crate::netlink::Netlink;
use ipnet::IpNet;
use rustix::io::Errno;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};
use std::str::FromStr;
use thiserror::Error;
use tun_rs::{DeviceBuilder, SyncDevice};

/// An open TUN device.
pub struct TunDevice {
    device: SyncDevice,
    addresses: Vec<IpAddr>,
    mtu: u16,
}

/// What device to open, and how: `NAME[=ADDR/LEN][,ADDR/LEN][,host=ADDR][,mtu=N][,backup]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TunConfig {
    /// Name of the interface, at most 15 bytes.
    pub name: String,
    /// Addresses of the engine and the length of their subnets. None: a neighbour of each
    /// address that the host has on the device.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Addresses of the host on the device, given to it if it has none in that subnet. Default:
    /// a neighbour of the engine's; none for a subnet of one address.
    pub host: Vec<IpAddr>,
    /// Set on the device; else the device's is taken.
    pub mtu: Option<u16>,
    /// Subflows on it ask for low priority.
    pub backup: bool,
}

/// Why a device could not be had.
#[derive(Error, Debug)]
pub enum TunError {
    /// Not of the form of [`TunConfig`].
    #[error("'{text}': {why}; expected NAME[=ADDR/LEN][,host=ADDR][,mtu=N][,backup]")]
    Syntax {
        /// What was given.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// Neither root nor CAP_NET_ADMIN, and the device is not made over to this user.
    #[error(
        "no permission to use the TUN device '{name}' ({source}).\n\
         Without any permission:  tabane demo\n\
         As root:                 sudo tabane ...\n\
         For this binary:         sudo setcap cap_net_admin+ep $(command -v tabane)\n\
         For this device:         sudo ip tuntap add dev {name} mode tun user $USER"
    )]
    Permission {
        /// The device.
        name: String,
        /// The system's word.
        source: io::Error,
    },
    /// This system has no TUN devices.
    #[error(
        "/dev/net/tun is missing: no TUN in this kernel or container (docker: \
         --cap-add NET_ADMIN --device /dev/net/tun).\nWithout TUN: tabane demo"
    )]
    Missing,
    /// Somebody else has it.
    #[error("the TUN device '{0}' is in use by another process")]
    Busy(String),
    /// It is open, but its addresses or state may not be changed by us.
    #[error(
        "cannot {what} ({source}). Do it once as root:\n\
         sudo ip address add ADDR/LEN dev {name}; sudo ip link set {name} up"
    )]
    Configure {
        /// The device.
        name: String,
        /// What failed.
        what: String,
        /// The system's word.
        source: io::Error,
    },
    /// Nothing says which address the engine shall have.
    #[error("'{name}' has no address: say which the engine shall have, --tun {name}=10.99.1.2/24")]
    NoAddress {
        /// The device.
        name: String,
    },
    /// Any other failure to open it.
    #[error("cannot open the TUN device '{name}': {source}")]
    Open {
        /// The device.
        name: String,
        /// The system's word.
        source: io::Error,
    },
}

impl TunDevice {
    /// Opens or attaches to the device and configures what is missing.
    ///
    /// # Errors
    /// [`TunError`], which says what the user can do.
    pub fn open(config: &TunConfig) -> Result<Self, TunError> {
        let name = &config.name;
        let device = DeviceBuilder::new()
            .name(name)
            .inherit_enable_state()
            .build_sync()
            .map_err(|e| TunError::of_opening(name, e))?;
        let failed = |what: String| {
            let name = name.clone();
            move |source| TunError::Configure { name, what, source }
        };
        device.set_nonblocking(true).map_err(failed("make it non-blocking".into()))?;
        let present = host_addresses(name);
        let addresses = match config.addresses.as_slice() {
            [] => present.iter().filter_map(|&(a, len)| Some((neighbour(a, len)?, len))).collect(),
            given => given.to_vec(),
        };
        if addresses.is_empty() {
            return Err(TunError::NoAddress { name: name.clone() });
        }
        for (host, len) in missing_host_addresses(config, &present) {
            let done = Netlink::open()
                .and_then(|mut netlink| netlink.add_address(device.if_index()?, host, len));
            done.map_err(failed(format!("give {name} the address {host}/{len}")))?;
        }
        let mut mtu = device.mtu().map_err(failed(format!("ask {name} for its MTU")))?;
        if let Some(wanted) = config.mtu.filter(|&wanted| wanted != mtu) {
            device.set_mtu(wanted).map_err(failed(format!("set the MTU of {name} to {wanted}")))?;
            mtu = wanted;
        }
        if !device.is_running().unwrap_or(false) {
            device.enabled(true).map_err(failed(format!("bring {name} up")))?;
        }
        Ok(Self { device, addresses: addresses.into_iter().map(|(a, _)| a).collect(), mtu })
    }

    /// The engine's addresses on it.
    #[must_use]
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// Largest packet, bytes.
    #[must_use]
    pub fn mtu(&self) -> u16 {
        self.mtu
    }
}

impl PathDevice for TunDevice {
    fn recv(&mut self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        match self.device.recv(buf) {
            Ok(len) => Ok(Some(len)),
            Err(e) if is_passing(&e) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn send(&mut self, packet: &[u8]) -> io::Result<bool> {
        match self.device.send(packet) {
            Ok(_) => Ok(true),
            Err(e) if is_passing(&e) => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

impl FromStr for TunConfig {
    type Err = TunError;

    fn from_str(text: &str) -> Result<Self, TunError> {
        let wrong = |why: String| TunError::Syntax { text: text.to_owned(), why };
        let (name, rest) = match text.split_once(['=', ',']) {
            Some((name, _)) => (name, &text[name.len() + 1..]),
            None => (text, ""),
        };
        if name.is_empty() || name.len() > 15 || name.contains(['/', ' ']) {
            return Err(wrong(format!("'{name}' cannot be the name of a device")));
        }
        let mut config = Self {
            name: name.to_owned(),
            addresses: Vec::new(),
            host: Vec::new(),
            mtu: None,
            backup: false,
        };
        for part in rest.split(',').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some(("host", address)) => config
                    .host
                    .push(address.parse().map_err(|_| wrong(format!("no address: {address}")))?),
                Some(("mtu", mtu)) => config.mtu = Some(parse_mtu(mtu).map_err(wrong)?),
                None if part == "backup" => config.backup = true,
                None => config.addresses.push(parse_subnet(part).map_err(wrong)?),
                Some((key, _)) => return Err(wrong(format!("unknown key '{key}'"))),
            }
        }
        Ok(config)
    }
}

impl TunError {
    /// What the system's word means when a device is opened.
    #[must_use]
    pub fn of_opening(name: &str, source: io::Error) -> Self {
        let name = name.to_owned();
        match Errno::from_io_error(&source) {
            Some(Errno::PERM | Errno::ACCESS) => Self::Permission { name, source },
            Some(Errno::NOENT | Errno::NODEV | Errno::NXIO) => Self::Missing,
            Some(Errno::BUSY) => Self::Busy(name),
            _ => Self::Open { name, source },
        }
    }
}

fn parse_mtu(text: &str) -> Result<u16, String> {
    // RFC 791 has every host take 576 bytes.
    text.parse().ok().filter(|mtu| *mtu >= 576).ok_or(format!("mtu {text} is not 576 to 65535"))
}

fn parse_subnet(text: &str) -> Result<(IpAddr, u8), String> {
    let no_subnet = || format!("'{text}' is not an address with a prefix length, as 10.99.1.2/24");
    let (address, len) = text.split_once('/').ok_or_else(no_subnet)?;
    let address: IpAddr = address.parse().map_err(|_| no_subnet())?;
    let len: u8 = len.parse().map_err(|_| no_subnet())?;
    if len == 0 || u32::from(len) > width(address) {
        return Err(no_subnet());
    }
    Ok((address, len))
}

/// Down, full, or a packet the kernel does not like: troubles of a packet, not of the device.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
        || matches!(
            Errno::from_io_error(error),
            Some(Errno::NOBUFS | Errno::NOMEM | Errno::IO | Errno::INVAL | Errno::MSGSIZE)
        )
}

/// Addresses of the host on the device with their prefix lengths, without link-local ones.
fn host_addresses(name: &str) -> Vec<(IpAddr, u8)> {
    let Ok(interfaces) = getifaddrs::getifaddrs() else { return Vec::new() };
    interfaces
        .filter(|interface| interface.name == name)
        .filter_map(|interface| {
            let address = interface.address.ip_addr()?;
            Some((address, ipnet::ip_mask_to_prefix(interface.address.netmask()?).ok()?))
        })
        .filter(|(address, _)| !is_link_local(*address))
        .collect()
}

/// What the host lacks: an address in the subnet of each address of the engine.
fn missing_host_addresses(config: &TunConfig, present: &[(IpAddr, u8)]) -> Vec<(IpAddr, u8)> {
    let missing = |(address, len): &(IpAddr, u8)| {
        let here = |host: &IpAddr| same_subnet(*address, *host, *len);
        if present.iter().any(|(host, _)| here(host)) {
            return None;
        }
        let chosen = config.host.iter().copied().find(here);
        chosen.or_else(|| neighbour(*address, *len)).map(|host| (host, *len))
    };
    config.addresses.iter().filter_map(missing).collect()
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn same_subnet(a: IpAddr, b: IpAddr, len: u8) -> bool {
    IpNet::new(a, len).is_ok_and(|subnet| subnet.contains(&b))
}

/// The other end of the subnet: its first address, or the second if `address` is the first.
/// `None` in a subnet of one address.
fn neighbour(address: IpAddr, len: u8) -> Option<IpAddr> {
    let host_bits = width(address) - u32::from(len);
    let own = bits(address);
    let other = match host_bits {
        0 => return None,
        1 => own ^ 1,
        _ => {
            let network = own >> host_bits << host_bits;
            if own == network + 1 { network + 2 } else { network + 1 }
        }
    };
    Some(match address {
        IpAddr::V4(_) => Ipv4Addr::from_bits(other as u32).into(),
        IpAddr::V6(_) => Ipv6Addr::from_bits(other).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_specification_says_what_the_command_line_can() {
        let config: TunConfig =
            "tab0=10.99.1.2/24,fd99::2/64,host=10.99.1.9,mtu=1400,backup".parse().unwrap();
        assert_eq!(config.name, "tab0");
        assert_eq!(config.addresses, [(ip("10.99.1.2"), 24), (ip("fd99::2"), 64)]);
        assert_eq!(config.host, [ip("10.99.1.9")]);
        assert_eq!((config.mtu, config.backup), (Some(1400), true));
        let bare: TunConfig = "tab0".parse().unwrap();
        assert!(bare.addresses.is_empty() && !bare.backup);
        let marked: TunConfig = "tab0,backup".parse().unwrap();
        assert!(marked.addresses.is_empty() && marked.backup);
    }

    #[test]
    fn nonsense_is_refused_and_named() {
        for (text, named) in [
            ("", "name"),
            ("averyveryverylongname", "name"),
            ("t=10.0.0.1", "prefix length"),
            ("t=10.0.0.1/33", "prefix length"),
            ("t=10.0.0.1/0", "prefix length"),
            ("t=10.0.0.1/24,mtu=100", "mtu"),
            ("t=10.0.0.1/24,mut=1400", "unknown key 'mut'"),
            ("t=10.0.0.1/24,host=x", "no address"),
        ] {
            let error = text.parse::<TunConfig>().unwrap_err().to_string();
            assert!(error.contains(named), "{text}: {error}");
        }
    }

    #[test]
    fn the_host_gets_the_other_address() {
        for (own, len, other) in [
            ("10.99.1.2", 24, Some("10.99.1.1")),
            ("10.99.1.1", 24, Some("10.99.1.2")),
            ("10.99.1.77", 30, Some("10.99.1.78")),
            ("10.99.1.7", 31, Some("10.99.1.6")),
            ("10.99.1.7", 32, None),
            ("fd99::1", 64, Some("fd99::2")),
            ("fd99::5", 64, Some("fd99::1")),
        ] {
            assert_eq!(neighbour(ip(own), len), other.map(ip), "{own}/{len}");
        }
    }

    #[test]
    fn what_the_host_has_is_left_alone() {
        let config: TunConfig = "t=10.0.0.2/24,10.0.1.2/24,host=10.0.1.77".parse().unwrap();
        let missing = |present: &[_]| missing_host_addresses(&config, present);
        assert_eq!(missing(&[(ip("10.0.0.5"), 24)]), [(ip("10.0.1.77"), 24)]);
        assert_eq!(missing(&[]), [(ip("10.0.0.1"), 24), (ip("10.0.1.77"), 24)]);
        assert!(same_subnet(ip("10.0.0.1"), ip("10.0.0.200"), 24));
        assert!(!same_subnet(ip("10.0.0.1"), ip("10.0.1.1"), 24));
        assert!(!same_subnet(ip("10.0.0.1"), ip("fd00::1"), 24));
    }
}
