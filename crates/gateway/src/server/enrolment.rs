//! The server's end of enrolment ([`crate::enrol`]): invitations that become clients, clients that
//! change their keys, clients whose clock is behind.
//!
//! All changes are made in one thread, written before they count, and answered after that. So of
//! two who use an invitation at once one is first, and the other is refused.

use super::Core;
use super::client_sessions::ClientSessions;
use crate::address::ClientNumber;
use crate::config::{ClientEntry, InvitationEntry, ServerConfig};
use crate::enrol::store::{Former, Record};
use crate::enrol::{Ask, Credentials, KEEP_MAX_S, PORT, Reply};
use crate::index::{ClientIndex, PathIndex};
use crate::keys::{self, Key};
use crate::model::EventKind;
use crate::udp_packet;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use tabane_engine::{Duration, Instant};
use tabane_net::wireguard::{PeerId, UdpPort};
use tabane_wire::segment::Trust;
use tabane_wire::udp::Datagram;

/// The peers that are no paths: who they are.
#[derive(Default)]
pub(super) struct Askers {
    all: BTreeMap<PeerId, Asker>,
    /// When the next keys end, seconds since 1970.
    due: Option<u64>,
    /// When each client was last told off, or has changed something.
    last_reported: BTreeMap<(ClientNumber, Kind), Instant>,
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker {
    number: ClientNumber,
    by: By,
    /// When its session was last used.
    heard: Option<Instant>,
}

/// By which key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    Invitation,
    Control,
    /// The control key before.
    Former,
}

/// What a client does not do too often.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Refused,
    Rotated,
    Shortened,
    Resumed,
}

/// How long whoever has an invitation that can no longer be used is told so; then it gets no
/// answer at all, as every stranger.
const TELL_S: u64 = 7 * 86_400;
/// A session of an asker that says nothing is forgotten, and with it the time of its handshake.
const IDLE: Duration = Duration::from_secs(30);
/// Between two changes of a client's keys: each is a file that is written.
const ROTATE_EVERY: Duration = Duration::from_secs(10);
/// Between two times that a client's sessions begin anew at its wish, and between two events about
/// what it was refused.
const RESUME_EVERY: Duration = Duration::from_secs(5);

/// A peer as it should be.
type Wanted = ([u8; 32], Option<[u8; 32]>);

impl Askers {
    /// Who a peer is, if it is one.
    pub(super) fn get(&self, peer: PeerId) -> Option<&Asker> {
        self.all.get(&peer)
    }

    pub(super) fn heard(&mut self, now: Instant, peer: PeerId) {
        if let Some(asker) = self.all.get_mut(&peer) {
            asker.heard = Some(now);
        }
    }

    /// Those whose sessions have done their work.
    fn take_idle(&mut self, now: Instant) -> Vec<PeerId> {
        let idle = |asker: &Asker| asker.heard.is_some_and(|at| at + IDLE <= now);
        let idle = self.all.iter_mut().filter(|(_, asker)| idle(asker));
        let forget = |(peer, asker): (&PeerId, &mut Asker)| {
            asker.heard = None;
            *peer
        };
        idle.map(forget).collect()
    }

    /// Whether enough time has passed since the last time; if so, it counts from now.
    fn may(&mut self, now: Instant, of: (ClientNumber, Kind), every: Duration) -> bool {
        let may = self.last_reported.get(&of).is_none_or(|last| *last + every <= now);
        if may {
            self.last_reported.insert(of, now);
        }
        may
    }
}

impl ClientSessions {
    /// Makes peers of all who may ask something, and of nobody else.
    pub(super) fn set_askers(&mut self, config: &ServerConfig, unix_s: u64) {
        let mut wanted: BTreeMap<[u8; 32], (Asker, Option<[u8; 32]>)> = BTreeMap::new();
        let mut due = None::<u64>;
        for client in config.client.iter().filter(|client| !client.disabled) {
            let Some(invitation) = &client.invitation else { continue };
            let number = ClientNumber(client.number);
            let mut add = |key: &str, preshared: &str, by| {
                if let (Ok(key), Ok(preshared)) = (keys::public(key), preshared.parse::<Key>()) {
                    let asker = Asker { number, by, heard: None };
                    wanted.insert(*key.as_bytes(), (asker, Some(*preshared.bytes())));
                }
            };
            let told_until = invitation.expires.saturating_add(TELL_S);
            if unix_s < told_until {
                add(&invitation.key, &invitation.preshared_key, By::Invitation);
                due = Some(due.map_or(told_until, |due| due.min(told_until)));
            }
            let Some(record) = &client.enrolled else { continue };
            let current = &record.current;
            if let Some(former) = record.former.as_ref().filter(|f| unix_s < f.until) {
                let before = &former.credentials;
                add(&before.control, &before.preshared_key, By::Former);
                due = Some(due.map_or(former.until, |due| due.min(former.until)));
            }
            add(&current.control, &current.preshared_key, By::Control);
        }
        let Self { askers, peers, .. } = self;
        askers.due = due;
        askers.all.retain(|peer, asker| {
            let key = peers.key(*peer).map(|key| *key.as_bytes());
            let stays = key.and_then(|key| wanted.remove(&key));
            match &stays {
                Some((wanted, _)) => (asker.number, asker.by) = (wanted.number, wanted.by),
                None => {
                    peers.remove(*peer);
                }
            }
            stays.is_some()
        });
        for (key, (asker, preshared)) in wanted {
            // A key that somebody else has cannot have been taken in; a full table is one.
            if let Ok(peer) = peers.add(key.into(), preshared) {
                askers.all.insert(peer, asker);
            }
        }
    }

    /// Gives a member's paths the peers of its keys and, while they are valid, of those before.
    /// Sessions of keys that stay stay.
    pub(super) fn set_generations(&mut self, at: ClientIndex, client: &ClientEntry, unix_s: u64) {
        let mut wanted: BTreeMap<Wanted, PathIndex> = BTreeMap::new();
        let former = client.enrolled.as_ref().and_then(|record| record.former.as_ref());
        let former = former.filter(|former| unix_s < former.until).map(|f| &f.credentials);
        let current = client.enrolled.as_ref().map(|record| &record.current);
        for credentials in former.into_iter().chain(current) {
            let preshared = credentials.preshared_key.parse::<Key>().ok();
            for (path, key) in PathIndex::enumerate(&credentials.keys) {
                if let Ok(key) = keys::public(key) {
                    wanted.insert((*key.as_bytes(), preshared.as_ref().map(|k| *k.bytes())), path);
                }
            }
        }
        let Self { all, owners, peers, .. } = self;
        let Some(Some(session)) = all.get_mut(at.get()) else { return };
        let mut gone = Vec::new();
        for (peer, _) in owners.of_client(at) {
            let is = |key: &[u8; 32]| peers.key(peer).is_some_and(|own| own.as_bytes() == key);
            match wanted.keys().find(|(key, _)| is(key)).copied() {
                Some(stays) => {
                    wanted.remove(&stays);
                }
                None => gone.push(peer),
            }
        }
        for ((key, preshared), path) in wanted {
            if let Ok(peer) = peers.add(key.into(), preshared) {
                owners.insert(peer, (at, path));
                // Until the new ones are heard of, what is sent goes by those before.
                if session.peers[path].is_none_or(|before| gone.contains(&before)) {
                    session.peers[path] = Some(peer);
                }
            }
        }
        for peer in gone {
            peers.remove(peer);
            if let Some((_, path)) = owners.remove(peer)
                && session.peers[path] == Some(peer)
            {
                let mut others = owners.of_client(at).filter(|(_, other)| *other == path);
                session.peers[path] = others.next().map(|(peer, _)| peer);
            }
        }
    }

    /// Whether somebody has one of these keys, other than a client itself.
    fn has_other(&self, number: ClientNumber, credentials: &Credentials) -> bool {
        credentials.all().filter_map(|key| keys::public(key).ok()).any(|key| {
            let Some(peer) = self.peers.find(&key) else { return false };
            let path = self.owners.get(peer).and_then(|(at, _)| self.all[at].as_ref());
            let asker = self.askers.get(peer).map(|asker| asker.number);
            path.map(|session| session.number).or(asker) != Some(number)
        })
    }

    /// Forgets the sessions of a member's paths that do not work.
    fn forget_sessions(&mut self, number: ClientNumber) {
        let Some(at) = self.find(number) else { return };
        let Self { all, owners, peers, .. } = self;
        let Some(Some(session)) = all.get(at.get()) else { return };
        for (peer, path) in owners.of_client(at) {
            if !session.works(path) {
                peers.forget_session(peer);
            }
        }
    }

    /// Answers an asker.
    fn answer(&mut self, peer: PeerId, packet: &[u8], ports: &mut [UdpPort]) {
        super::client_sessions::seal(&mut self.peers, peer, packet, ports);
    }
}

impl Core {
    fn unix_s(&self) -> u64 {
        self.clock.unix(self.clock.now()).as_secs()
    }

    /// Makes peers of the keys that are valid now, as configuration and records say.
    pub(super) fn set_generations(&mut self) {
        let unix_s = self.unix_s();
        for client in self.config.client.iter().filter(|client| client.enrolled.is_some()) {
            if let Some(at) = self.client_sessions.find(ClientNumber(client.number)) {
                self.client_sessions.set_generations(at, client, unix_s);
            }
        }
        self.client_sessions.set_askers(&self.config, unix_s);
    }

    /// The first time.
    pub(super) fn start_enrolment(&mut self) {
        self.set_generations();
        self.forget_gone(self.clock.now());
    }

    /// Clients that are no longer in the configuration are forgotten, once and for all.
    pub(super) fn forget_gone(&mut self, now: Instant) {
        if let Err(error) = self.store.prune(&self.config, self.unix_s()) {
            self.event_log.add(now, EventKind::StateNotSaved, (None, None), error.to_string());
        }
    }

    /// A packet of somebody who asks.
    pub(super) fn take_asker(&mut self, now: Instant, peer: PeerId, packet: &[u8]) {
        let Some(asker) = self.client_sessions.askers.get(peer).copied() else { return };
        let Ok(datagram) = Datagram::parse_slice(packet, Trust::Verify) else { return };
        let (from, to) = (datagram.src, datagram.dst);
        let own = self.network.client_of(from.ip()) == Some(asker.number);
        if !own || to.port() != PORT || !self.network.service().contains(&to.ip()) {
            return;
        }
        let outside = self.client_sessions.four_tuple_of(peer).map(|at| at.remote);
        let done = match serde_json::from_slice(&datagram.payload) {
            Ok(ask) => self.decide(now, asker, ask, outside),
            Err(_) => Err("the server does not understand this: is it of another version?".into()),
        };
        let unix_ms = || self.clock.unix(now).as_millis() as u64;
        let reply = done.map_or_else(Reply::Refused, |()| Reply::Done { unix_ms: unix_ms() });
        let Ok(text) = serde_json::to_vec(&reply) else { return };
        let packet = udp_packet(to, from, Bytes::from(text));
        self.client_sessions.answer(peer, &packet, &mut self.ports);
    }

    fn decide(
        &mut self,
        now: Instant,
        asker: Asker,
        ask: Ask,
        from: Option<SocketAddr>,
    ) -> Result<(), String> {
        let number = asker.number;
        let entry = self.config.client.iter().find(|client| client.number == number.0);
        let entry = entry.ok_or("this client is not known any more")?.clone();
        let invitation = entry.invitation.clone().ok_or("this client was not invited")?;
        let done = match (ask, asker.by) {
            (Ask::Join(new), By::Invitation) => self.join(now, &entry, &invitation, new),
            (Ask::Rotate { new, keep_s }, By::Control | By::Former) => {
                self.rotate(now, (&entry, asker.by), &invitation, (new, keep_s))
            }
            (Ask::Resume, By::Control) => self.resume(now, number),
            _ => Err("this is not asked with this key".into()),
        };
        if let Err(why) = &done
            && self.client_sessions.askers.may(now, (number, Kind::Refused), RESUME_EVERY)
        {
            let from = from.map_or_else(|| "somebody".into(), |from| from.to_string());
            let text = format!("{}: refused {from}: {why}", entry.name);
            self.event_log.add(now, EventKind::EnrolmentRefused, (Some(&entry.name), None), text);
        }
        done
    }

    fn join(
        &mut self,
        now: Instant,
        entry: &ClientEntry,
        invitation: &InvitationEntry,
        new: Credentials,
    ) -> Result<(), String> {
        let unix_s = self.unix_s();
        if let Some(record) = &entry.enrolled {
            // Whoever did not hear the answer asks again.
            return if record.current == new {
                Ok(())
            } else {
                Err("this invitation has been used; if it was not by you, somebody else has it: \
                     `tabane server invite NAME --replace` at the server ends that"
                    .into())
            };
        }
        if unix_s >= invitation.expires {
            return Err("this invitation has expired: ask for another one".into());
        }
        self.check_new(entry, &new)?;
        let record = Record { current: new, since: unix_s, former: None };
        self.remember(now, invitation, record)?;
        let text = format!("{} has joined", entry.name);
        self.event_log.add(now, EventKind::Joined, (Some(&entry.name), None), text);
        Ok(())
    }

    fn rotate(
        &mut self,
        now: Instant,
        (entry, by): (&ClientEntry, By),
        invitation: &InvitationEntry,
        (new, keep_s): (Credentials, u64),
    ) -> Result<(), String> {
        let record = entry.enrolled.as_ref().ok_or("this client has not joined")?;
        if record.current == new {
            return match by {
                By::Control => self.end_former(now, (entry, invitation), record.clone(), keep_s),
                _ => Ok(()),
            };
        }
        // What a client has replaced because somebody else may have it must not replace the rest.
        if by == By::Former {
            return Err("this key has been replaced: it cannot change keys any more".into());
        }
        if record.former.as_ref().is_some_and(|former| former.credentials == new) {
            return Err("these keys have been replaced: make others".into());
        }
        self.check_new(entry, &new)?;
        self.may_change(now, entry, Kind::Rotated)?;
        let since = self.unix_s();
        let until = since.saturating_add(keep_s.min(KEEP_MAX_S));
        let former = Some(Former { credentials: record.current.clone(), until });
        let former = former.filter(|former| former.until > since);
        self.remember(now, invitation, Record { current: new, since, former })?;
        let text = format!("{} has changed its keys", entry.name);
        self.event_log.add(now, EventKind::KeysChanged, (Some(&entry.name), None), text);
        Ok(())
    }

    /// Asked again by the new keys: those before end by then, and never later than was said first.
    fn end_former(
        &mut self,
        now: Instant,
        (entry, invitation): (&ClientEntry, &InvitationEntry),
        mut record: Record,
        keep_s: u64,
    ) -> Result<(), String> {
        let until = self.unix_s().saturating_add(keep_s);
        let Some(former) = record.former.as_mut().filter(|former| until < former.until) else {
            return Ok(());
        };
        self.may_change(now, entry, Kind::Shortened)?;
        former.until = until;
        record.former = record.former.filter(|_| keep_s > 0);
        self.remember(now, invitation, record)
    }

    fn may_change(&mut self, now: Instant, entry: &ClientEntry, kind: Kind) -> Result<(), String> {
        let of = (ClientNumber(entry.number), kind);
        if self.client_sessions.askers.may(now, of, ROTATE_EVERY) {
            return Ok(());
        }
        Err(format!("keys were changed less than {} s ago", ROTATE_EVERY.as_secs_f64()))
    }

    fn resume(&mut self, now: Instant, number: ClientNumber) -> Result<(), String> {
        if self.client_sessions.askers.may(now, (number, Kind::Resumed), RESUME_EVERY) {
            self.client_sessions.forget_sessions(number);
        }
        Ok(())
    }

    fn check_new(&self, entry: &ClientEntry, new: &Credentials) -> Result<(), String> {
        use crate::config::Configuration;
        let server = self.config.key().map_err(|error| error.to_string())?;
        new.check(&server)?;
        if self.client_sessions.has_other(ClientNumber(entry.number), new) {
            return Err("these keys are not free: make others".into());
        }
        Ok(())
    }

    /// A record counts when it is written.
    fn remember(
        &mut self,
        now: Instant,
        invitation: &InvitationEntry,
        record: Record,
    ) -> Result<(), String> {
        let put = self.store.put(&invitation.key, record);
        put.map_err(|error| format!("the server cannot remember it: {error}"))?;
        self.adopt_records(now)
    }

    /// Keys whose time is over end; sessions of askers that have done their work.
    pub(super) fn tick_enrolment(&mut self, now: Instant) {
        for peer in self.client_sessions.askers.take_idle(now) {
            self.client_sessions.forget_session(peer);
        }
        let unix_s = self.unix_s();
        if self.client_sessions.askers.due.is_none_or(|due| unix_s < due) {
            return;
        }
        self.forget_gone(now);
        if let Err(error) = self.adopt_records(now) {
            self.event_log.add(now, EventKind::ClientNotAdded, (None, None), error);
        }
    }
}
