//! TUN mode in the agent: the device beside the paths, and the host's programs beside those at the
//! front ends.

use super::{ClientError, Core};
use crate::config::TunConfig;
use crate::reactor::{Kind, token};
use crate::sessions::{Picture, Sessions, Wish};
use crate::tun::{
    Device, DeviceConfig, Frame, Host, HostConfig, HostError, Inbound, LocalConfig, LocalStack,
    Outgoing, Packets, PacketsConfig, ProgramId, host,
};
use crate::udp_packet;
use mio::unix::SourceFd;
use mio::{Interest, Registry};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use tabane_engine::{ConnId, Event, Instant};

/// The host's side of a client in TUN mode.
pub(super) struct HostSide {
    config: TunConfig,
    device: Device,
    packets: Packets,
    pub(super) stack: LocalStack,
    pub(super) sessions: Sessions<ProgramId>,
    /// What was changed of the host; made when the server's addresses are known.
    changes: Option<Host>,
    /// The device may have more to read.
    unread: bool,
}

/// Largest packet that the host makes for the device, segmentation offload apart.
const DEVICE_MTU: u16 = 1500;
/// Packets of the host before others have their turn.
const BATCH: usize = 128;

impl HostSide {
    /// Opens the device; nothing of the host is changed yet but that it is there.
    ///
    /// # Errors
    /// No permission, and the like.
    pub(super) fn open(
        config: &TunConfig,
        own: [IpAddr; 2],
        registry: &Registry,
    ) -> Result<Self, ClientError> {
        let name = config.name.clone().unwrap_or_else(|| HostConfig::default().device);
        let device = DeviceConfig { name, addresses: own.to_vec(), mtu: DEVICE_MTU };
        let device = Device::open(&device)?;
        let fd = device.as_fd().as_raw_fd();
        registry.register(&mut SourceFd(&fd), token(Kind::Tun, 0), Interest::READABLE)?;
        Ok(Self {
            config: config.clone(),
            device,
            packets: Packets::new(PacketsConfig { dns: Vec::new(), mtu: DEVICE_MTU }),
            stack: LocalStack::new(LocalConfig::default(), crate::seed()?)?,
            sessions: Sessions::default(),
            changes: None,
            unread: true,
        })
    }

    /// Mark of what leaves beside the tunnel.
    pub(super) fn mark(config: &TunConfig) -> u32 {
        config.mark.unwrap_or(host::TABLE_AND_MARK)
    }

    /// The device can be read.
    pub(super) fn ready(&mut self) {
        self.unread = true;
    }

    /// Whether there may be more to do at once.
    pub(super) fn is_busy(&self) -> bool {
        self.unread || self.sessions.has_again()
    }

    /// Gives the host a whole packet.
    pub(super) fn give(&mut self, packet: &[u8]) {
        // A device that is gone is noticed when it is read.
        let _ = self.device.send_packet(packet);
    }

    /// Programs with a connection.
    pub(super) fn connected(&self) -> impl Iterator<Item = Picture<ProgramId>> {
        self.sessions.connected()
    }

    fn flush(&mut self, now: Instant) {
        while let Some(outgoing) = self.stack.poll_packet(now) {
            let _ = self.device.send(outgoing);
        }
        let _ = self.device.flush();
    }

    fn answer(&mut self, packet: bytes::Bytes) {
        let _ = self.device.send(Outgoing::Packet(packet));
    }
}

impl Core {
    /// One round of the host's side.
    pub(super) fn host_round(&mut self, now: Instant) {
        if self.host.is_none() {
            return;
        }
        for _ in 0..BATCH {
            let Some(host) = self.host.as_mut().filter(|host| host.unread) else { break };
            match host.device.recv() {
                Ok(Some(frame)) => self.take_frame(now, frame),
                Ok(None) => host.unread = false,
                Err(error) => {
                    let text = format!("the TUN device is gone: {error}");
                    self.happenings.add(now, "tun-gone", (None, None), text);
                    self.host = None;
                }
            }
        }
        let Some(host) = &mut self.host else { return };
        let endpoint = &mut self.bundle.endpoint;
        let HostSide { stack, sessions, .. } = host;
        if stack.poll_timeout().is_some_and(|due| due <= now) {
            stack.handle_timeout(now);
        }
        while let Some((id, event)) = stack.poll_event() {
            sessions.on_program(now, (&mut *stack, &mut *endpoint), id, event);
        }
        sessions.step_again(now, (stack, endpoint));
        self.host_wishes(now);
    }

    /// Connects whoever wants to; what is due for the host is sent.
    pub(super) fn host_wishes(&mut self, now: Instant) {
        while let Some(wish) = self.host.as_mut().and_then(|host| host.sessions.poll_wish()) {
            self.grant_host(now, wish);
        }
        if let Some(host) = &mut self.host {
            host.flush(now);
        }
    }

    fn grant_host(&mut self, now: Instant, wish: Wish<ProgramId>) {
        let opened = self.open(now, wish.destination, None);
        let Some(host) = &mut self.host else { return };
        match opened {
            Ok(Some((conn, path))) => host.sessions.opening(wish.id, conn, path),
            // `retry` wishes again.
            Ok(None) => {}
            Err(why) => host.sessions.fail(now, &mut host.stack, wish.id, why),
        }
    }

    fn take_frame(&mut self, now: Instant, frame: Frame) {
        let Some(host) = &mut self.host else { return };
        match host.packets.classify(frame) {
            Inbound::Tcp(segment) => host.stack.handle_segment(now, segment),
            Inbound::Udp(datagrams) | Inbound::Dns(datagrams) => {
                for datagram in datagrams {
                    let mut packet = udp_packet(datagram.src, datagram.dst, datagram.payload);
                    self.send_datagram(now, datagram.dst, &mut packet);
                }
            }
            Inbound::Echo(packet) => {
                let mut packet = packet.to_vec();
                if let Some(to) = crate::inner::peek(&packet).map(|peek| peek.dst) {
                    self.send_datagram(now, SocketAddr::new(to, 0), &mut packet);
                }
            }
            Inbound::Answer(packet) => host.answer(packet),
            Inbound::Nothing => {}
        }
    }

    /// An event of a connection of a program of the host; whether it was one.
    pub(super) fn on_host_event(&mut self, now: Instant, conn: ConnId, event: Event) -> bool {
        let Some(host) = &mut self.host else { return false };
        let ends = (&mut host.stack, &mut self.bundle.endpoint);
        host.sessions.on_event(now, ends, conn, event)
    }

    /// Leads the host's traffic to the device, once it is known what must not be led there.
    pub(super) fn change_host(&mut self, now: Instant) {
        let servers: Vec<IpAddr> = self.tunnels.remotes().map(|remote| remote.ip()).collect();
        let Some(host) = self.host.as_mut().filter(|host| host.changes.is_none()) else { return };
        if servers.is_empty() {
            return;
        }
        let resolvers = self.network.service();
        let wanted = HostConfig::new(&host.config, &self.config.name, &resolvers, &servers);
        let applied = wanted.map_err(|error| error.to_string()).and_then(|mut wanted| {
            if host.config.dns {
                wanted.routes.extend(resolvers.map(crate::access::Prefix::host));
            }
            Host::apply(&wanted).map_err(|error: HostError| error.to_string())
        });
        match applied {
            Ok(changes) => host.changes = Some(changes),
            Err(error) => {
                let text = format!("the host's routes are not changed: {error}");
                self.happenings.add(now, "tun-failed", (None, None), text);
                self.failed = Some(error);
                self.stopped = true;
            }
        }
    }

    /// The server in use is another one: what leads to it must not be led into the device.
    pub(super) fn rechange_host(&mut self, now: Instant) {
        if let Some(changes) = self.host.as_mut().and_then(|host| host.changes.take())
            && let Err(error) = changes.restore()
        {
            let text = format!("the host's routes could not be restored: {error}");
            self.happenings.add(now, "tun-failed", (None, None), text);
        }
        self.change_host(now);
    }
}
