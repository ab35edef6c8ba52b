//! TUN mode in the agent: the device beside the paths, and the host's programs beside those at the
//! front ends.

use super::lan::LanSide;
use super::{ClientError, Core};
use crate::config::TunConfig;
use crate::inner::quoting_unreachable;
use crate::listener::ConnectError;
use crate::model::{EventKind, TunStatus};
use crate::reactor::EventSource;
use crate::tun::{
    Device, DeviceConfig, Frame, Host, HostConfig, Inbound, LocalConfig, LocalStack, Outgoing,
    Packets, PacketsConfig, Reconciled, host,
};
use mio::unix::SourceFd;
use mio::{Interest, Registry};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use tabane_engine::{Duration, Event, Instant};
use tabane_wire::{Datagram, Ecn, Unreachable};

/// The host's side of a client in TUN mode.
pub(super) struct HostSide {
    config: TunConfig,
    wanted: DeviceConfig,
    /// `None` while it is lost.
    device: Option<Device>,
    /// Why it is lost, or why the host is not as it should be; for people.
    trouble: Option<String>,
    packets: Packets,
    /// Hosts behind this one.
    pub(super) lan: Option<LanSide>,
    pub(super) stack: LocalStack,
    /// What is changed of the host.
    changes: Host,
    /// What was wanted last, once it was made: when the server's addresses were known.
    made: Option<HostConfig>,
    /// When the host is looked at again.
    next_look: Instant,
    /// When it was told last that the list of resolvers had been written by another program: two
    /// that keep at it would fill the log.
    names_told: Option<Instant>,
    /// Programs' datagrams of late: source and destination, and when the last one was.
    flows: BTreeMap<(SocketAddr, SocketAddr), Instant>,
    registry: Registry,
    /// The device may have more to read.
    unread: bool,
}

/// Largest packet that the host makes for the device, segmentation offload apart.
pub(super) const DEVICE_MTU: u16 = 1500;
/// Packets of the host before others have their turn.
const BATCH: usize = 128;
/// Between looks at the host: what somebody took away of the rules is missing for no longer, and a
/// device that is lost is made again as often.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Between two events about the list of resolvers.
const NAMES_AGAIN: Duration = Duration::from_secs(60);
/// Flows of datagrams remembered; at the end their programs are told.
const FLOWS_MAX: usize = 512;
/// And for how long.
const FLOW_AGE: Duration = Duration::from_secs(60);

impl HostSide {
    /// Takes over what an earlier client has left of the host, and opens the device. Nothing else
    /// is changed yet.
    ///
    /// # Errors
    /// No permission, another client, and the like; what stood of the host stands.
    pub(super) fn open(
        (config, client): (&TunConfig, &str),
        own: [IpAddr; 2],
        lan: Option<LanSide>,
        registry: &Registry,
    ) -> Result<Self, ClientError> {
        let failed = |error: host::HostError| ClientError::Host(error.to_string());
        let changes = Host::open(&host::state_file(client)).map_err(failed)?;
        let name = config.name.clone().unwrap_or_else(|| HostConfig::default().device);
        let wanted = DeviceConfig { name, addresses: own.to_vec(), mtu: DEVICE_MTU };
        let stack = LocalConfig { own: lan.is_some().then_some(own), ..LocalConfig::default() };
        let mut side = Self {
            config: config.clone(),
            wanted,
            device: None,
            trouble: None,
            packets: Packets::new(PacketsConfig { dns: Vec::new(), mtu: DEVICE_MTU }),
            stack: LocalStack::new(stack, crate::seed()?)?,
            lan,
            changes,
            made: None,
            next_look: Instant::ZERO,
            names_told: None,
            flows: BTreeMap::new(),
            registry: registry.try_clone()?,
            unread: true,
        };
        side.open_device()?;
        Ok(side)
    }

    fn open_device(&mut self) -> Result<(), ClientError> {
        let device = Device::open(&self.wanted)?;
        let fd = device.as_fd().as_raw_fd();
        let token = EventSource::Tun.token();
        self.registry.register(&mut SourceFd(&fd), token, Interest::READABLE)?;
        (self.device, self.unread) = (Some(device), true);
        Ok(())
    }

    /// What is to be shown of it.
    pub(super) fn status(&self, now: Instant) -> TunStatus {
        let made = self.made.as_ref();
        let text = |prefixes: &[crate::access::Prefix]| {
            prefixes.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let known = made.is_some_and(|made| !made.servers.is_empty());
        let state = match (&self.device, &self.trouble, known) {
            (None, ..) => "lost",
            (Some(_), Some(_), _) => "faulty",
            (Some(_), None, false) => "waiting",
            (Some(_), None, true) => "up",
        };
        let waits = match self.config.kill_switch {
            true => "nothing leaves before the server's address is known",
            false => "nothing is routed before the server's address is known",
        };
        TunStatus {
            device: self.wanted.name.clone(),
            state: state.into(),
            reason: match &self.trouble {
                Some(why) => why.clone(),
                None if !known => waits.into(),
                None => "routed".into(),
            },
            kill_switch: self.config.kill_switch,
            routes: made.map(|made| text(&made.routes)).unwrap_or_default(),
            local_networks: made
                .filter(|made| made.kill_switch)
                .map(|made| text(&made.local))
                .unwrap_or_default(),
            table: self.config.table.unwrap_or(host::TABLE_AND_MARK),
            lan: self
                .lan
                .as_ref()
                .map(|lan| lan.status(now, self.packets.counts(), self.stack.refused())),
        }
    }

    /// Where a server's name led when it was last asked for.
    pub(super) fn remembered(&self, name: &str) -> Vec<SocketAddr> {
        self.changes.remembered(name).to_vec()
    }

    /// Notes where a server's name leads; why it could not be.
    pub(super) fn remember(&mut self, name: &str, found: &[SocketAddr]) -> Result<(), String> {
        self.changes.remember(name, found).map_err(|error| error.to_string())
    }

    /// The resolvers that the host has of its own.
    pub(super) fn resolvers(&self) -> Vec<IpAddr> {
        self.changes.resolvers_before(&HostConfig::default().resolv_conf)
    }

    /// Programs that have sent datagrams of late learn by ICMP that it is over: sockets with one
    /// far end report it.
    fn end_flows(&mut self, now: Instant) {
        for ((from, to), last) in std::mem::take(&mut self.flows) {
            if now.saturating_since(last) <= FLOW_AGE
                && let Some(packet) = quoting_unreachable(from, to, Unreachable::Prohibited)
            {
                self.give(&packet);
            }
        }
    }

    fn note_flow(&mut self, now: Instant, flow: (SocketAddr, SocketAddr)) {
        if self.flows.len() >= FLOWS_MAX && !self.flows.contains_key(&flow) {
            self.flows.retain(|_, last| now.saturating_since(*last) <= FLOW_AGE);
            if self.flows.len() >= FLOWS_MAX {
                self.flows.pop_first();
            }
        }
        self.flows.insert(flow, now);
    }

    /// The device is there no longer, or not usable: what leads to it leads nowhere from now on,
    /// with the kill switch.
    fn lose_device(&mut self, now: Instant) {
        if let Some(device) = self.device.take() {
            // Closing takes it out of the poll too.
            let _ = self.registry.deregister(&mut SourceFd(&device.as_fd().as_raw_fd()));
        }
        self.next_look = now;
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
        self.unread
    }

    /// Gives the host a whole packet, perhaps with the next flush.
    pub(super) fn give(&mut self, packet: &[u8]) {
        // A device that is gone is noticed when it is read.
        let _ = self.device.as_mut().map(|device| device.send_datagram(packet));
    }

    /// Gives what came through the tunnel to whom it is for: the host, or one behind it.
    pub(super) fn give_back(&mut self, packet: &[u8]) {
        let Self { lan, device, .. } = self;
        let Some(device) = device else { return };
        match lan {
            Some(lan) => lan.back(packet, &mut |packet| {
                let _ = device.send_datagram(packet);
            }),
            None => {
                let _ = device.send_datagram(packet);
            }
        }
    }

    fn flush(&mut self, now: Instant) {
        // What is made while there is no device is lost, and sent again later.
        while let Some(outgoing) = self.stack.poll_packet(now) {
            let _ = self.device.as_mut().map(|device| device.send(outgoing));
        }
        let _ = self.device.as_mut().map(Device::flush);
    }

    fn answer(&mut self, packet: bytes::Bytes) {
        let _ = self.device.as_mut().map(|device| device.send(Outgoing::Packet(packet)));
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
            let Some(device) = &mut host.device else { break };
            match device.recv() {
                Ok(Some(frame)) => self.take_frame(now, frame),
                Ok(None) => host.unread = false,
                Err(error) => self.device_lost(now, &error.to_string()),
            }
        }
        if let Some(host) = &mut self.host
            && host.stack.poll_timeout().is_some_and(|due| due <= now)
        {
            host.stack.handle_timeout(now);
        }
        if let Some(lan) = self.host.as_mut().and_then(|host| host.lan.as_mut()) {
            lan.handle_timeout(now);
        }
        self.host_events(now);
        self.open_requested(now);
        self.flush_host(now);
    }

    /// Hands out the events of the host's connections.
    fn host_events(&mut self, now: Instant) {
        while let Some((id, event)) = self.host.as_mut().and_then(|host| host.stack.poll_event()) {
            self.on_host_program(now, id, event);
        }
    }

    /// Sends what is due for the host.
    pub(super) fn flush_host(&mut self, now: Instant) {
        if let Some(host) = &mut self.host {
            host.flush(now);
        }
    }

    fn take_frame(&mut self, now: Instant, frame: Frame) {
        let Some(host) = &mut self.host else { return };
        if let Some(lan) = &mut host.lan
            && let Some(inner) = crate::inner::peek(&frame.packet)
        {
            lan.hear(now, inner.src);
        }
        match host.packets.classify(now, frame) {
            Inbound::Tcp(segment) => host.stack.handle_segment(now, segment),
            Inbound::Udp(datagrams) | Inbound::Dns(datagrams) => {
                host.note_flow(now, (datagrams.src, datagrams.dst));
                let mut packet = std::mem::take(&mut self.scratch);
                for datagram in datagrams {
                    let datagram = Datagram { ecn: Ecn::NotEct, ..datagram };
                    // What the host could send has room.
                    let Ok(len) = datagram.emit(&mut packet) else { continue };
                    self.send_from_host(now, datagram.dst, &mut packet[..len]);
                }
                self.scratch = packet;
            }
            Inbound::Echo(packet) => {
                let mut packet = packet.to_vec();
                if let Some(to) = crate::inner::peek(&packet).map(|peek| peek.dst) {
                    self.send_from_host(now, SocketAddr::new(to, 0), &mut packet);
                }
            }
            Inbound::Answer(packet) => host.answer(packet),
            Inbound::Nothing => {}
        }
    }

    /// What is wanted of the host by now; `None` before the server's addresses are known.
    fn wanted_host(&self) -> Option<Result<HostConfig, String>> {
        let host = self.host.as_ref()?;
        let servers: Vec<SocketAddr> = self.tunnels.remotes().collect();
        let lan = host.lan.as_ref().map(|lan| lan.wanted(&self.config.path));
        // With the kill switch nothing leaves from the start: what asks for the server carries the
        // mark. Hosts behind this one are led to the device at once, too: nothing of theirs needs
        // the server's address. What an earlier client has left stands until that is known.
        let early = servers.is_empty();
        let closed = host.config.kill_switch;
        let stands = host.made.is_some() || host.changes.is_changed();
        if early && !closed && (lan.is_none() || stands) {
            return None;
        }
        let resolvers = self.network.service();
        let wanted = HostConfig::new(&host.config, &self.config.name, &resolvers, &servers);
        Some(wanted.map_err(|error| error.to_string()).map(|mut wanted| {
            if host.config.dns {
                wanted.routes.extend(resolvers.map(crate::access::Prefix::host));
            }
            if early && !closed {
                (wanted.routes, wanted.resolvers) = (Vec::new(), Vec::new());
            }
            HostConfig { lan, ..wanted }
        }))
    }

    /// Leads the host's traffic to the device, once it is known what must not be led there; makes
    /// the device again if it is lost, and puts back what somebody has taken away.
    pub(super) fn look_at_host(&mut self, now: Instant) {
        let Some(host) = self.host.as_mut().filter(|host| now >= host.next_look) else { return };
        host.next_look = now + LOOK_AGAIN;
        if host.device.as_ref().is_some_and(|device| !device.is_up()) {
            return self.device_lost(now, "it is switched off");
        }
        if host.device.is_none()
            && let Err(error) = host.open_device()
        {
            let text = format!("{} cannot be made again: {error}", host.wanted.name);
            return self.host_trouble(now, EventKind::TunGone, text);
        }
        self.look_at_lan(now);
        let Some(wanted) = self.wanted_host() else { return };
        let Some(host) = &mut self.host else { return };
        let fresh = host.made.is_none();
        let done = wanted.and_then(|wanted| {
            let done = host.changes.reconcile(&wanted).map_err(|error| error.to_string());
            done.map(|done| (done, wanted))
        });
        match done {
            Ok((done, wanted)) => self.host_made(now, done, wanted),
            Err(error) if fresh => {
                let text = format!("the host's routes are not changed: {error}");
                self.event_log.add(now, EventKind::TunFailed, (None, None), text);
                self.failed = Some(error);
                self.stopped = true;
            }
            Err(error) => {
                let text = format!("the host's routes are not as they should be: {error}");
                self.host_trouble(now, EventKind::TunFailed, text);
            }
        }
    }

    fn host_made(&mut self, now: Instant, done: Reconciled, wanted: HostConfig) {
        let Some(host) = &mut self.host else { return };
        let first = host.made.replace(wanted).is_none();
        let name = host.wanted.name.clone();
        if done.names_restored && host.names_told.is_none_or(|last| now > last + NAMES_AGAIN) {
            host.names_told = Some(now);
            let list = HostConfig::default().resolv_conf;
            let text = format!(
                "{} had been written by another program: it names the resolver behind the tunnel \
                 again",
                list.display()
            );
            self.event_log.add(now, EventKind::TunRestored, (None, None), text);
        }
        for note in done.notes {
            self.event_log.add(now, EventKind::TunNote, (None, None), note);
        }
        if let Some(why) = done.names_lost {
            let text = format!("names are not asked for through the tunnel: {why}");
            return self.host_trouble(now, EventKind::TunFailed, text);
        }
        let better = host.trouble.take().is_some();
        if first || better {
            let text = format!("{name} is there, and the configured routes lead to it");
            self.event_log.add(now, EventKind::TunUp, (None, None), text);
        } else if done.restored > 0 {
            let text = format!(
                "{} of the client's rules and routes had been taken away by another program: put \
                 back",
                done.restored
            );
            self.event_log.add(now, EventKind::TunRestored, (None, None), text);
        }
    }

    /// The host is looked at with the next round.
    pub(super) fn look_at_host_soon(&mut self) {
        if let Some(host) = &mut self.host {
            host.next_look = Instant::ZERO;
        }
    }

    fn device_lost(&mut self, now: Instant, why: &str) {
        let Some(host) = &mut self.host else { return };
        let name = &host.wanted.name;
        let text = if host.config.kill_switch {
            format!("{name} is gone ({why}): nothing leaves until it is made again")
        } else {
            format!(
                "{name} is gone ({why}): programs use the host's own links until it is made \
                     again"
            )
        };
        host.lose_device(now);
        self.host_trouble(now, EventKind::TunGone, text);
    }

    /// Something is wrong with the host; said once.
    fn host_trouble(&mut self, now: Instant, kind: EventKind, text: String) {
        let Some(host) = &mut self.host else { return };
        if host.trouble.as_ref() != Some(&text) {
            host.trouble = Some(text.clone());
            self.event_log.add(now, kind, (None, None), text);
        }
    }

    /// The agent ends. In order (not because it failed, nor for another that takes over) the host
    /// is as before afterwards.
    pub(super) fn leave_host(&mut self, now: Instant) {
        self.flush_host(now);
        let Some(mut host) = self.host.take() else { return };
        let closed = host.config.kill_switch || host.lan.as_ref().is_some_and(LanSide::blocks);
        let held = self.failed.is_some() || (self.restarts && closed);
        host.end_flows(now);
        if held {
            return;
        }
        let HostSide { changes, mut device, mut packets, mut stack, .. } = host;
        if let Err(error) = changes.restore() {
            let text = format!("the host's routes could not be restored: {error}");
            self.event_log.add(now, EventKind::TunFailed, (None, None), text.clone());
            self.failed = Some(text);
        }
        // Programs that have tried again meanwhile: without an answer they would go on trying from
        // an address that is about to go.
        while let Some(Ok(Some(frame))) = device.as_mut().map(Device::recv) {
            if let Inbound::Tcp(segment) = packets.classify(now, frame) {
                stack.handle_segment(now, segment);
            }
        }
        while let Some((id, event)) = stack.poll_event() {
            if let Event::Incoming { .. } = event {
                stack.refuse(now, id, ConnectError::NoPath);
            }
        }
        while let Some(outgoing) = stack.poll_packet(now) {
            let _ = device.as_mut().map(|device| device.send(outgoing));
        }
        let _ = device.as_mut().map(Device::flush);
    }
}
