//! The host's interfaces, followed through netlink (rtnetlink(7)): which are there, switched on
//! and connected, and their addresses. A thread of its own reads the socket and puts the newest
//! table into a slot for the agent; what the agent does not take in time is replaced, not queued.
//!
//! It reads only; routes are the kernel's business, and their absence shows when packets are sent.

mod table;

use super::reason::Absence;
use rtnetlink::packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use rtnetlink::packet_route::address::AddressMessage;
use rtnetlink::packet_route::link::LinkMessage;
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tabane_net::netlink::NLM_F_DUMP_INTR;
pub(crate) use table::Found;
use table::Table;
use thiserror::Error;

/// The interfaces of the network namespace in which this was started.
#[derive(Debug)]
pub(crate) struct Links {
    table: Table,
    slot: Arc<Mutex<Option<Table>>>,
    /// Its end tells the thread to stop.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

/// What a path is bound to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Binding<'a> {
    /// An interface.
    pub interface: Option<&'a str>,
    /// A source address.
    pub source: Option<IpAddr>,
    /// The server is reached by IPv6.
    pub ipv6: bool,
}

/// Interfaces cannot be followed.
#[derive(Error, Debug)]
pub(crate) enum LinksError {
    /// No netlink here (a sandbox, another system).
    #[error("cannot follow the host's interfaces through netlink: {0}")]
    Netlink(#[from] io::Error),
    /// The kernel did not list them.
    #[error("the kernel did not list the host's interfaces within {} s", PATIENCE.as_secs())]
    Silent,
}

/// RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR.
const GROUPS: [u32; 3] = [1, 5, 9];
/// Changes kept while something is listed; after more, it is listed anew.
const CHANGES_MAX: usize = 65_536;
/// How long a listing may take, and how long it is before another socket is tried.
const PATIENCE: Duration = Duration::from_secs(2);

impl Links {
    /// Lists the interfaces, then follows them; `wake` is called, on another thread, whenever
    /// [`Links::poll`] has something.
    ///
    /// # Errors
    /// [`LinksError`]; an agent can go on without, and finds out by trying.
    pub(crate) fn start(wake: impl Fn() + Send + 'static) -> Result<Self, LinksError> {
        let (socket, port) = listening()?;
        let slot = Arc::new(Mutex::new(None));
        let (stop, stopped) = UnixStream::pair()?;
        let (ready, listed) = channel();
        let follower = Follower {
            socket,
            stopped,
            table: Table::default(),
            listing: Listing::Links,
            outdated: false,
            drops: false,
            port,
            question: 0,
            changes: Vec::new(),
            slot: slot.clone(),
            ready: Some(ready),
        };
        let thread = thread::Builder::new()
            .name("tabane-links".into())
            .spawn(move || follower.run(&wake))?;
        let mut links =
            Self { table: Table::default(), slot, stop: Some(stop), thread: Some(thread) };
        wait(&listed)?;
        links.poll();
        Ok(links)
    }

    /// Takes in what has changed; whether anything did.
    pub(crate) fn poll(&mut self) -> bool {
        let newest = self.slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        let changed = newest.is_some();
        if let Some(table) = newest {
            self.table = table;
        }
        changed
    }

    /// What there is for a path bound so; `None` if it is bound to nothing. A path whose answer
    /// differs from the last has to open its socket anew.
    ///
    /// # Errors
    /// Why nothing can be sent by it.
    pub(crate) fn find(&self, binding: &Binding<'_>) -> Result<Option<Found>, Absence> {
        // All of 127/8 can be sent from, but only one of it is listed.
        if binding.source.is_some_and(|source| source.is_loopback()) {
            return Ok(None);
        }
        self.table.find(binding)
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It ends at once; a panic of it was reported when it happened.
            let _ = thread.join();
        }
    }
}

/// A socket that is told of changes, and its address.
fn listening() -> io::Result<(Socket, u32)> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    let port = socket.bind_auto()?.port_number();
    for group in GROUPS {
        socket.add_membership(group)?;
    }
    Ok((socket, port))
}

fn wait(listed: &Receiver<io::Result<()>>) -> Result<(), LinksError> {
    match listed.recv_timeout(PATIENCE) {
        Ok(result) => Ok(result?),
        Err(_) => Err(LinksError::Silent),
    }
}

/// The thread.
struct Follower {
    socket: Socket,
    stopped: UnixStream,
    table: Table,
    listing: Listing,
    /// What is being listed is outdated: all anew when it is over. A socket lists one thing at a
    /// time, and refuses a second question with EBUSY.
    outdated: bool,
    /// The kernel has said that it lost something. It says so once, and then drops in silence until
    /// the socket has been read empty, which while it lists is never.
    drops: bool,
    /// Whom answers are for, and the number of the question. What is told unasked has the address
    /// and the number of whoever made the change.
    port: u32,
    question: u32,
    /// Told while something is listed: they come after the listing, since an address may be taken
    /// away, and that be told, after the kernel has read it for the list and before it sends that.
    changes: Vec<RouteNetlinkMessage>,
    slot: Arc<Mutex<Option<Table>>>,
    /// Until the first listing is complete.
    ready: Option<Sender<io::Result<()>>>,
}

/// What the kernel is listing. Each family by itself: of a list of all families the kernel does not
/// say that the first has changed meanwhile (`rtnl_dump_all` forgets it when it begins the next),
/// and what moved to the place of an address that was removed is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Listing {
    Links,
    Ipv4,
    Ipv6,
    Done,
}

impl Follower {
    fn run(mut self, wake: &dyn Fn()) {
        while let Err(error) = self.list().and_then(|()| self.follow(wake)) {
            if let Some(ready) = self.ready.take() {
                // Whoever waited has given up if this fails.
                let _ = ready.send(Err(error));
                return;
            }
            // Paths go on by what was known until another socket tells anew.
            loop {
                if self.is_stopped(PATIENCE) {
                    return;
                }
                if let Ok(anew) = listening() {
                    (self.socket, self.port) = anew;
                    break;
                }
            }
        }
    }

    /// Asks for everything, links first: addresses belong to them.
    fn list(&mut self) -> io::Result<()> {
        self.table.begin();
        self.changes.clear();
        self.drops &= !self.is_empty()?;
        self.outdated = self.drops;
        self.listing = Listing::Links;
        self.ask(RouteNetlinkMessage::GetLink(LinkMessage::default()))
    }

    /// Whether all that the kernel has told has been read.
    fn is_empty(&self) -> io::Result<bool> {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        Ok(poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&now))? == 0)
    }

    fn list_addresses(&mut self, listing: Listing, family: AddressFamily) -> io::Result<()> {
        self.listing = listing;
        let mut message = AddressMessage::default();
        message.header.family = family;
        self.ask(RouteNetlinkMessage::GetAddress(message))
    }

    fn ask(&mut self, question: RouteNetlinkMessage) -> io::Result<()> {
        self.question = self.question.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        header.sequence_number = self.question;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(question));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send_to(&bytes, &SocketAddr::new(0, 0), 0).map(|_| ())
    }

    fn follow(&mut self, wake: &dyn Fn()) -> io::Result<()> {
        while self.wait()? {
            match self.socket.recv_from_full() {
                Ok((bytes, from)) if from.port_number() == 0 => self.take(&bytes)?,
                // Only the kernel is believed.
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    // Something was lost: all anew.
                    self.drops = true;
                    match self.listing {
                        Listing::Done => self.list()?,
                        _ => self.outdated = true,
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if self.listing == Listing::Done && self.table.take_changed() {
                let newest = Some(self.table.clone());
                *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = newest;
                match self.ready.take() {
                    // Whoever waited has given up if this fails.
                    Some(ready) => drop(ready.send(Ok(()))),
                    None => wake(),
                }
            }
        }
        Ok(())
    }

    /// Until there is a message (true), or the agent has ended. If nothing comes of a listing, it
    /// is asked for again.
    fn wait(&mut self) -> io::Result<bool> {
        let patience = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
        loop {
            let limit = (self.listing != Listing::Done).then_some(&patience);
            let mut fds = [
                PollFd::new(&self.socket, PollFlags::IN),
                PollFd::new(&self.stopped, PollFlags::IN),
            ];
            match poll(&mut fds, limit) {
                Ok(_) if !fds[1].revents().is_empty() => return Ok(false),
                Ok(0) => self.list()?,
                Ok(_) => return Ok(true),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether the agent ends within that time.
    fn is_stopped(&self, within: Duration) -> bool {
        let limit = Timespec { tv_sec: within.as_secs() as i64, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.stopped, PollFlags::IN)], Some(&limit)) != Ok(0)
    }

    fn take(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while bytes.len() >= 16 {
            let length = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
            let Some(message) = bytes.get(..length).filter(|_| length >= 16) else { break };
            // A message of a kind that is not known is none of ours.
            if let Ok(message) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(message) {
                let header = &message.header;
                let answers =
                    (header.port_number, header.sequence_number) == (self.port, self.question);
                // Something changed while it was listed, and some of it may have been left out.
                self.outdated |= answers && header.flags & NLM_F_DUMP_INTR != 0;
                self.handle(message.payload, answers)?;
            }
            bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        }
        Ok(())
    }

    fn handle(
        &mut self,
        payload: NetlinkPayload<RouteNetlinkMessage>,
        answers: bool,
    ) -> io::Result<()> {
        match payload {
            NetlinkPayload::InnerMessage(change) if !answers && self.listing != Listing::Done => {
                self.changes.push(change);
                if self.changes.len() > CHANGES_MAX {
                    self.changes.clear();
                    self.outdated = true;
                }
            }
            NetlinkPayload::InnerMessage(message) => self.table.apply(&message),
            NetlinkPayload::Done(_) if !answers || self.listing == Listing::Done => {}
            NetlinkPayload::Done(_) if self.outdated => self.list()?,
            NetlinkPayload::Done(_) => self.go_on()?,
            // It lists what was asked for when there is room, or first what was asked for before.
            NetlinkPayload::Error(error)
                if [libc::ENOBUFS, libc::EBUSY].map(|code| -code).contains(&error.raw_code()) =>
            {
                self.outdated = true;
            }
            NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
            _ => {}
        }
        Ok(())
    }

    /// A part of the listing is complete.
    fn go_on(&mut self) -> io::Result<()> {
        match self.listing {
            Listing::Links => self.list_addresses(Listing::Ipv4, AddressFamily::Inet),
            Listing::Ipv4 => self.list_addresses(Listing::Ipv6, AddressFamily::Inet6),
            Listing::Ipv6 | Listing::Done => {
                self.listing = Listing::Done;
                self.table.end();
                for change in std::mem::take(&mut self.changes) {
                    self.table.apply(&change);
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;
