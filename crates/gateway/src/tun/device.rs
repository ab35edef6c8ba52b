//! The TUN device of TUN mode: packets cross it as the kernel likes them best, up to 64 KB at
//! once in either direction, with checksums left out where nothing leaves memory (`IFF_VNET_HDR`,
//! TSO, USO).
//!
//! The device goes with the process. Its addresses are hosts of their own (/32, /128); what is
//! routed into it is [`super::host`]'s business.

use super::gso::{PARTS_MAX, Train};
use super::local::Outgoing;
use super::uso::DatagramTrain;
use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use tabane_net::device::TunError;
use tabane_net::device::virtio::{Frame, VirtioHeader};
use tabane_net::netlink::Netlink;
use tabane_wire::Segment;
use tun_rs::{DeviceBuilder, SyncDevice};

/// An open device.
pub(crate) struct Device {
    device: SyncDevice,
    /// Read into; given away with a large packet.
    buffer: Vec<u8>,
    train: Train,
    datagrams: DatagramTrain,
    counters: DeviceCounters,
}

/// What device to make.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DeviceConfig {
    /// Its name, at most 15 bytes.
    pub name: String,
    /// The host's addresses on it.
    pub addresses: Vec<IpAddr>,
    /// Largest packet that the host may make for it (segmentation offload apart), bytes; at least
    /// 1280 if there is an IPv6 address.
    pub mtu: u16,
}

/// What has crossed a device.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct DeviceCounters {
    /// Packets from the host; one that stands for many is one.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Packets to the host; one that stands for many is one.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Segments that those were made from.
    pub tx_segments: u64,
    /// Packets that the host did not take.
    pub tx_dropped: u64,
}

/// The largest packet with its header, and a byte to see that it was the largest.
const BUFFER: usize = VirtioHeader::LEN + 65_536;
/// A packet of at least this size keeps the buffer that it was read into; a smaller one is copied
/// out of it, so that what is held is never more than four times what was read.
const KEEP: usize = BUFFER / 4;
/// Packets of the host that may wait: ten milliseconds of 200 000 datagrams a second, which the
/// agent may be without a turn. Of TCP the kernel lets only a few wait in any case.
const QUEUE: u32 = 2000;
/// IPv6 and TCP with all options.
const HEADERS_MAX: usize = 40 + 60;

impl Device {
    /// Makes or attaches to the device, gives it its addresses, and brings it up. Works in the
    /// network namespace of the calling thread.
    ///
    /// # Errors
    /// [`TunError`], which says what the user can do.
    pub(crate) fn open(config: &DeviceConfig) -> Result<Self, TunError> {
        let name = &config.name;
        let device = DeviceBuilder::new()
            .name(name)
            .inherit_enable_state()
            .offload(true)
            .build_sync()
            .map_err(|source| TunError::of_opening(name, source))?;
        let failed = |what: String| {
            let name = name.clone();
            move |source| TunError::Configure { name, what, source }
        };
        device.set_nonblocking(true).map_err(failed("make it non-blocking".into()))?;
        let mtu = config.mtu;
        device.set_mtu(mtu).map_err(failed(format!("set the MTU of {name} to {mtu}")))?;
        // Best effort: a shorter queue drops more of what programs send without asking.
        let _ = device.set_tx_queue_len(QUEUE);
        for &address in &config.addresses {
            let len = if address.is_ipv4() { 32 } else { 128 };
            let done = Netlink::open()
                .and_then(|mut netlink| netlink.add_address(device.if_index()?, address, len));
            match done {
                Err(e) if !may_lack(address, &e) => {
                    return Err(failed(format!("give {name} the address {address}"))(e));
                }
                _ => {}
            }
        }
        device.enabled(true).map_err(failed(format!("bring {name} up")))?;
        let buffer = Vec::with_capacity(BUFFER);
        let (train, datagrams) = (Train::default(), DatagramTrain::default());
        Ok(Self { device, buffer, train, datagrams, counters: DeviceCounters::default() })
    }

    /// The next packet of the host; `None` when there is none now.
    ///
    /// # Errors
    /// The device is gone.
    pub(crate) fn recv(&mut self) -> io::Result<Option<Frame>> {
        loop {
            self.buffer.clear();
            let len = match rustix::io::read(&self.device, spare_capacity(&mut self.buffer)) {
                Ok(len) => len,
                Err(error) if is_passing(error) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let Some(header) = self.buffer.first_chunk().map(VirtioHeader::decode) else {
                continue;
            };
            self.counters.rx_packets += 1;
            self.counters.rx_bytes += (len - VirtioHeader::LEN) as u64;
            let packet = if len >= KEEP {
                let full = std::mem::replace(&mut self.buffer, Vec::with_capacity(BUFFER));
                Bytes::from(full).slice(VirtioHeader::LEN..)
            } else {
                Bytes::copy_from_slice(&self.buffer[VirtioHeader::LEN..])
            };
            if let Some(frame) = header.frame(packet) {
                return Ok(Some(frame));
            }
        }
    }

    /// Sends a packet; a segment perhaps later, with those that continue it. `flush` after the
    /// last.
    ///
    /// # Errors
    /// The device is gone. What it cannot take is dropped and counted.
    pub(crate) fn send(&mut self, outgoing: Outgoing) -> io::Result<()> {
        match outgoing {
            Outgoing::Segment(segment) => self.send_segment(segment),
            Outgoing::Packet(packet) => self.send_packet(&packet),
        }
    }

    /// See [`Device::send`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn send_segment(&mut self, segment: Segment) -> io::Result<()> {
        let Err(next) = self.train.push(segment) else { return Ok(()) };
        self.flush()?;
        // An empty train takes any segment.
        let _ = self.train.push(next);
        Ok(())
    }

    /// Sends a whole IP packet with its checksums, after what was sent before it.
    ///
    /// # Errors
    /// As [`Device::send`].
    pub(crate) fn send_packet(&mut self, packet: &[u8]) -> io::Result<()> {
        self.flush()?;
        let header = VirtioHeader::default().encode();
        self.write(&[IoSlice::new(&header), IoSlice::new(packet)], 1)
    }

    /// Sends a whole IP packet with its checksums; a datagram perhaps later, with those that
    /// continue it. `flush` after the last.
    ///
    /// # Errors
    /// As [`Device::send`].
    pub(crate) fn send_datagram(&mut self, packet: &[u8]) -> io::Result<()> {
        if self.datagrams.push(packet) {
            return Ok(());
        }
        self.flush_datagrams()?;
        if self.datagrams.push(packet) { Ok(()) } else { self.send_packet(packet) }
    }

    fn flush_datagrams(&mut self) -> io::Result<()> {
        let mut datagrams = std::mem::take(&mut self.datagrams);
        let done = datagrams.take().map_or(Ok(()), |(header, packet, count)| {
            self.write(&[IoSlice::new(&header.encode()), IoSlice::new(packet)], count)
        });
        self.datagrams = datagrams;
        done
    }

    /// Sends what `send` and `send_datagram` have kept.
    ///
    /// # Errors
    /// As [`Device::send`].
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.flush_datagrams()?;
        let train = std::mem::take(&mut self.train);
        let done = train.head().map_or(Ok(()), |head| self.write_train(head, &train));
        self.train = train;
        self.train.clear();
        done
    }

    /// Whether it is there and switched on.
    #[must_use]
    pub(crate) fn is_up(&self) -> bool {
        self.device.is_running().unwrap_or(false)
    }

    /// What has crossed it.
    #[cfg(test)]
    pub(crate) fn counters(&self) -> &DeviceCounters {
        &self.counters
    }

    fn write_train(&mut self, head: &Segment, train: &Train) -> io::Result<()> {
        let mut bytes = [0; VirtioHeader::LEN + HEADERS_MAX];
        let (front, headers) = bytes.split_at_mut(VirtioHeader::LEN);
        let Ok((ip, tcp)) = head.emit_headers(headers, train.payload_len()) else {
            self.counters.tx_dropped += 1;
            return Ok(());
        };
        let v4 = head.src.is_ipv4();
        let header = VirtioHeader::for_tcp(ip, tcp, train.segment_size(), v4);
        front.copy_from_slice(&header.encode());
        let mut slices = [IoSlice::new(&[]); 1 + PARTS_MAX];
        slices[0] = IoSlice::new(&bytes[..VirtioHeader::LEN + ip + tcp]);
        for (slice, part) in slices[1..].iter_mut().zip(train.parts()) {
            *slice = IoSlice::new(part);
        }
        let segments = train.parts().len();
        self.write(&slices[..=segments], segments)
    }

    fn write(&mut self, slices: &[IoSlice<'_>], segments: usize) -> io::Result<()> {
        match rustix::io::writev(&self.device, slices) {
            Ok(len) => {
                self.counters.tx_packets += 1;
                self.counters.tx_bytes += (len - VirtioHeader::LEN) as u64;
                self.counters.tx_segments += segments as u64;
                Ok(())
            }
            Err(error) if is_passing(error) => {
                self.counters.tx_dropped += 1;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

/// Whether it does not matter that it has not been given an address: it has it already, or IPv6 is
/// switched off (of the kernel, or by `net.ipv6.conf.default.disable_ipv6`).
fn may_lack(address: IpAddr, error: &io::Error) -> bool {
    use Errno as E;
    match Errno::from_io_error(error) {
        Some(E::EXIST) => true,
        Some(E::ACCESS | E::AFNOSUPPORT | E::ADDRNOTAVAIL | E::OPNOTSUPP) => address.is_ipv6(),
        _ => false,
    }
}

/// Down, full, or a packet the kernel does not like: troubles of a packet, not of the device.
fn is_passing(error: Errno) -> bool {
    matches!(
        error,
        Errno::AGAIN
            | Errno::INTR
            | Errno::NOBUFS
            | Errno::NOMEM
            | Errno::IO
            | Errno::INVAL
            | Errno::MSGSIZE
    )
}
