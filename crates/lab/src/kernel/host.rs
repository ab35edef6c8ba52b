//! The programs of a host whose stack is the kernel: one thread that waits for its sockets, and
//! the applications of the flows that begin or end here.

use super::info::Snapshots;
use super::socket::{KernelSocket, listen};
use crate::LabError;
use crate::flows::{Action, Agenda, Flow};
use crate::notification::{Notification, Notifier};
use crate::translate::KernelSettings;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::Socket;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use tabane_engine::mptcp::Info;
use tabane_engine::view::PathId;
use tabane_engine::{ConnId, Event};
use tabane_net::Clock;
use tabane_net::clock::sharpen_timers;
use tabane_sim::Plan;
use tabane_sim::app::{Role, Transport};
use tabane_sim::scenario::Change;
use tabane_sim::topology::Topology;
use tabane_trace::observe::HostIdx;

pub(crate) struct KernelHost {
    host: usize,
    plan: Plan,
    flows: Arc<Vec<Flow>>,
    settings: KernelSettings,
    agenda: Agenda,
    listeners: Vec<(usize, Socket)>,
    ends: BTreeMap<usize, End>,
    notifier: Notifier,
    /// Changes that are for `ip` to make; run by who may wait for it.
    command: Command,
}

/// Runs a line of `ip` at this host.
pub(crate) type Command = Box<dyn Fn(&str) -> Result<(), LabError> + Send>;

/// One end of a flow.
struct End {
    socket: KernelSocket,
    connecting: bool,
    reported_finished: bool,
    snapshots: Snapshots,
}

/// What is waited for.
#[derive(Clone, Copy)]
enum Waiting {
    Listener(usize),
    End(usize),
}

impl KernelHost {
    /// A host that listens already. To be called in its namespace.
    ///
    /// # Errors
    /// A socket that cannot be had.
    pub(crate) fn new(
        host: usize,
        plan: Plan,
        flows: Arc<Vec<Flow>>,
        agenda: Agenda,
        notifier: Notifier,
        command: Command,
    ) -> io::Result<Self> {
        let settings = KernelSettings::of(&plan, host);
        let mut listeners = Vec::new();
        for (n, flow) in flows.iter().enumerate().filter(|(_, flow)| flow.server == host) {
            let local = SocketAddr::new(plan.topology.shared_address(host), flow.port);
            listeners.push((n, listen(&settings, local)?));
        }
        let ends = BTreeMap::new();
        Ok(Self { host, plan, flows, settings, agenda, listeners, ends, notifier, command })
    }

    /// Runs the programs until `stop` can be read. To be called in the namespace.
    ///
    /// # Errors
    /// It cannot wait.
    pub(crate) fn run(mut self, clock: Clock, stop: &OwnedFd) -> io::Result<()> {
        sharpen_timers();
        loop {
            let scenario = self.plan.scenario.clone();
            while let Some(action) = self.agenda.due(clock.now(), &scenario) {
                self.act(clock, action);
            }
            let (over, ready) = self.wait(clock, stop)?;
            if over {
                break;
            }
            for (waiting, flags) in ready {
                match waiting {
                    Waiting::Listener(at) => self.accept(clock, at),
                    Waiting::End(n) => self.serve(clock, n, flags),
                }
            }
        }
        self.sample(clock, true);
        Ok(())
    }

    /// Sleeps until something is due or ready: whether to end, and what is ready.
    fn wait(&self, clock: Clock, stop: &OwnedFd) -> io::Result<(bool, Vec<(Waiting, PollFlags)>)> {
        let mut fds = vec![PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN)];
        let mut of = Vec::new();
        for (at, (_, listener)) in self.listeners.iter().enumerate() {
            fds.push(PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN));
            of.push(Waiting::Listener(at));
        }
        for (n, end) in &self.ends {
            let (write, read) = end.socket.waits();
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::OUT, write || end.connecting);
            flags.set(PollFlags::IN, read && !end.connecting);
            if !flags.is_empty() {
                fds.push(PollFd::from_borrowed_fd(end.socket.fd(), flags));
                of.push(Waiting::End(*n));
            }
        }
        let timeout = self.agenda.next().map(|due| {
            let wait = due.saturating_since(clock.now()).0;
            Timespec {
                tv_sec: (wait / 1_000_000_000) as i64,
                tv_nsec: (wait % 1_000_000_000) as i64,
            }
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok((false, Vec::new())),
            Err(error) => return Err(error.into()),
        }
        let ready = of.into_iter().zip(fds[1..].iter().map(PollFd::revents));
        let ready = ready.filter(|(_, flags)| !flags.is_empty()).collect();
        Ok((!fds[0].revents().is_empty(), ready))
    }

    fn act(&mut self, clock: Clock, action: Action) {
        match action {
            // The emulator sets it, and the kernel sees it.
            Action::Carrier(_) => {}
            Action::Start(n) => self.start(clock, n),
            Action::Stop(n) => self.tick(clock, n, true),
            Action::Tick(n) => self.tick(clock, n, false),
            Action::Change(n) => self.change(clock, n),
            Action::Sample => self.sample(clock, false),
        }
    }

    fn start(&mut self, clock: Clock, n: usize) {
        let flow = &self.flows[n];
        let path = self.plan.topology.first_path(self.host, flow.server).unwrap_or(0);
        let local = self.plan.topology.address(self.host, path);
        let remote = SocketAddr::new(self.plan.topology.shared_address(flow.server), flow.port);
        let now = clock.now();
        match KernelSocket::connect(&self.settings, local, remote) {
            Ok(socket) => self.open(now, n, socket, true),
            Err(error) => flow.fail(&self.notifier, format!("cannot connect: {error}")),
        }
    }

    fn open(&mut self, now: tabane_engine::Instant, n: usize, socket: KernelSocket, begun: bool) {
        let (flow, host) = (self.flows[n].idx, HostIdx(self.host as u32));
        self.notifier.send(Notification::Opened(now, flow, host, ConnId(n as u64)));
        let snapshots = Snapshots::default();
        let end = End { socket, connecting: begun, reported_finished: false, snapshots };
        self.ends.insert(n, end);
    }

    fn accept(&mut self, clock: Clock, at: usize) {
        let (n, listener) = &self.listeners[at];
        let n = *n;
        let accepted = match listener.accept() {
            Ok((socket, _)) => KernelSocket::accepted(socket, &self.settings),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) => Err(error),
        };
        match accepted {
            Ok(socket) if !self.ends.contains_key(&n) => {
                self.open(clock.now(), n, socket, false);
                if let Some((local, remote)) = self.ends.get(&n).and_then(|e| e.socket.ends()) {
                    self.happens(clock, n, &Event::Accepted { local, remote });
                }
            }
            // A second connection of a flow: nobody of ours made it.
            Ok(_) => {}
            Err(error) => {
                self.flows[n].fail(&self.notifier, format!("cannot be accepted: {error}"));
            }
        }
    }

    /// A socket is ready.
    fn serve(&mut self, clock: Clock, n: usize, flags: PollFlags) {
        let Some(end) = self.ends.get_mut(&n) else { return };
        if end.connecting {
            end.connecting = false;
            if let Err(error) = end.socket.connected() {
                return self.fail(n, &error);
            }
            self.happens(clock, n, &Event::Connected);
            return;
        }
        if flags.intersects(PollFlags::OUT) {
            self.happens(clock, n, &Event::Writable);
        }
        if flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            self.happens(clock, n, &Event::Readable);
        }
        let Some(end) = self.ends.get_mut(&n) else { return };
        if end.socket.is_finished() && !std::mem::replace(&mut end.reported_finished, true) {
            self.happens(clock, n, &Event::PeerFinished);
        }
    }

    /// Tells the application.
    fn happens(&mut self, clock: Clock, n: usize, event: &Event) {
        let now = clock.now();
        self.with(n, |app, role, socket| app.on_event(now, role, event, socket));
    }

    fn tick(&mut self, clock: Clock, n: usize, stop: bool) {
        if stop {
            self.flows[n].app().stop();
        }
        let now = clock.now();
        self.with(n, |app, role, socket| app.tick(now, role, socket));
    }

    /// Lets the application of a flow do something, and sees what came of it.
    fn with(
        &mut self,
        n: usize,
        work: impl FnOnce(
            &mut tabane_sim::app::App,
            Role,
            &mut KernelSocket,
        ) -> Option<tabane_engine::Instant>,
    ) {
        let Some(end) = self.ends.get_mut(&n) else { return };
        let flow = &self.flows[n];
        let mut app = flow.app();
        let again = work(&mut app, flow.role(self.host), &mut end.socket);
        self.agenda.plan(again, Action::Tick(n));
        let End { socket, snapshots, .. } = end;
        let topology = &self.plan.topology;
        flow.notify_if_complete(&self.notifier, &app, || {
            snapshot(snapshots, socket, topology, self.host)
        });
        drop(app);
        if let Some(error) = end.socket.error() {
            self.fail(n, &error);
        }
    }

    fn fail(&mut self, n: usize, error: &io::Error) {
        let role = self.flows[n].role(self.host);
        let why = format!("{error} at the {role:?}").to_lowercase();
        self.flows[n].fail(&self.notifier, why);
        self.ends.remove(&n);
    }

    fn change(&mut self, clock: Clock, n: usize) {
        let change = self.plan.scenario.at[n].clone();
        let mut words = change.words();
        if let Err(refused) = self.change_host(&change) {
            words = format!("{words} (refused: {refused})");
        }
        self.notifier.try_send(Notification::Changed(clock.now(), words));
    }

    fn change_host(&mut self, change: &Change) -> Result<(), String> {
        if let Some(choice) = &change.congestion {
            for end in self.ends.values() {
                end.socket.set_congestion(&choice.0.name).map_err(|e| e.to_string())?;
            }
        }
        if let (Some(path), Some(backup)) = (&change.path, change.backup) {
            let paths = &self.plan.topology.hosts[self.host].paths;
            let path = paths.iter().position(|p| p.name == *path).unwrap_or(0);
            let own = self.plan.topology.address(self.host, path);
            let flag = if backup { "backup" } else { "nobackup" };
            (self.command)(&format!("mptcp endpoint change {own} {flag}"))
                .map_err(|e| e.to_string())?;
        }
        if change.abort {
            let flows: Vec<usize> = self.ends.keys().copied().collect();
            for n in flows {
                if let Some(end) = self.ends.get_mut(&n) {
                    end.socket.abort();
                }
                self.fail(n, &io::Error::from(io::ErrorKind::ConnectionAborted));
            }
        }
        Ok(())
    }

    fn sample(&mut self, clock: Clock, last: bool) {
        let (host, topology) = (self.host, &self.plan.topology);
        for (n, end) in self.ends.iter_mut().filter(|(_, end)| !end.connecting) {
            let info = Box::new(snapshot(&mut end.snapshots, &end.socket, topology, host));
            let flow = self.flows[*n].idx;
            let notification = Notification::Sample(clock.now(), flow, HostIdx(host as u32), info);
            if last {
                self.notifier.send(notification)
            } else {
                self.notifier.try_send(notification)
            }
        }
    }
}

/// How a connection is, with the names of this host's paths.
fn snapshot(
    snapshots: &mut Snapshots,
    socket: &KernelSocket,
    topology: &Topology,
    host: usize,
) -> Info {
    snapshots.take(socket, |ends: [IpAddr; 2]| {
        let paths = 0..topology.hosts[host].paths.len();
        let own = paths.into_iter().find(|p| ends.contains(&topology.address(host, *p)));
        PathId(own.unwrap_or(0) as u8)
    })
}
