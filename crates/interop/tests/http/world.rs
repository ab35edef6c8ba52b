//! Two endpoints, 5 ms apart, in virtual time: nothing is lost, nothing waits for a real clock.

use bytes::Bytes;
use std::collections::VecDeque;
use std::net::SocketAddr;
use tabane_engine::config::PathConfig;
use tabane_engine::record::CloseReason;
use tabane_engine::view::PathId;
use tabane_engine::{Config, ConnId, Duration, Endpoint, Event, Instant};
use tabane_net::App;
use tabane_wire::Segment;

pub(crate) const SERVER: &str = "10.0.0.2:80";
const DELAY: Duration = Duration::from_millis(5);

/// Both ends and the segments between them.
pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) client: Endpoint,
    pub(crate) server: Endpoint,
    to_client: VecDeque<(Instant, Segment)>,
    to_server: VecDeque<(Instant, Segment)>,
}

impl World {
    pub(crate) fn new() -> Self {
        let endpoint = |address: &str, seed| {
            let path = PathConfig::new(PathId(0), vec![address.parse().unwrap()], 1500);
            let config = Config::default().with(|c| c.paths = vec![path]);
            Endpoint::new(config, [seed; 32]).unwrap()
        };
        let mut server = endpoint("10.0.0.2", 2);
        server.listen(SERVER.parse().unwrap()).unwrap();
        Self {
            now: Instant::ZERO,
            client: endpoint("10.0.0.1", 1),
            server,
            to_client: VecDeque::new(),
            to_server: VecDeque::new(),
        }
    }

    pub(crate) fn connect(&mut self) -> ConnId {
        let remote: SocketAddr = SERVER.parse().unwrap();
        self.client.connect(self.now, "10.0.0.1:0".parse().unwrap(), remote).unwrap()
    }

    /// Runs until `done` or `limit` has passed; whether it was done.
    pub(crate) fn run<C: App, S: App>(
        &mut self,
        client: &mut C,
        server: &mut S,
        limit: Duration,
        done: impl Fn(&C, &S) -> bool,
    ) -> bool {
        let end = self.now + limit;
        let mut still = 0;
        loop {
            let before = self.now;
            self.step(client, server);
            if done(client, server) {
                return true;
            }
            let fronts = [self.to_client.front(), self.to_server.front()];
            let next = fronts
                .into_iter()
                .flatten()
                .map(|(at, _)| *at)
                .chain(self.client.poll_timeout())
                .chain(self.server.poll_timeout())
                .chain(client.next_wakeup())
                .chain(server.next_wakeup())
                .min();
            match next {
                Some(next) if next <= end => {
                    self.now = next.max(self.now);
                    still = if self.now > before { 0 } else { still + 1 };
                    assert!(still < 10_000, "time stands still at {:?}", self.now);
                }
                _ => {
                    self.now = end;
                    return false;
                }
            }
        }
    }

    /// Everything that is due now.
    fn step(&mut self, client: &mut impl App, server: &mut impl App) {
        let Self { now, client: ours, server: theirs, to_client, to_server } = self;
        side(*now, ours, client, to_client, to_server);
        side(*now, theirs, server, to_server, to_client);
    }
}

fn side(
    now: Instant,
    endpoint: &mut Endpoint,
    app: &mut impl App,
    inbox: &mut VecDeque<(Instant, Segment)>,
    outbox: &mut VecDeque<(Instant, Segment)>,
) {
    while inbox.front().is_some_and(|(at, _)| *at <= now) {
        let (_, segment) = inbox.pop_front().unwrap();
        endpoint.handle_segment(now, PathId(0), &segment);
    }
    if endpoint.poll_timeout().is_some_and(|due| due <= now) {
        endpoint.handle_timeout(now);
    }
    // As the driver: to send makes events too, even when nothing leaves.
    loop {
        app.on_wakeup(endpoint, now);
        while let Some(departure) = endpoint.poll_segment(now) {
            outbox.push_back((now + DELAY, departure.segment));
        }
        let mut told = false;
        while let Some((conn, event)) = endpoint.poll_event() {
            app.on_event(endpoint, now, conn, event);
            told = true;
        }
        if !told {
            return;
        }
    }
}

/// Writes what it is given and keeps what it reads, on the last connection it heard of.
#[derive(Default)]
pub(crate) struct Raw {
    pub(crate) send: VecDeque<Bytes>,
    pub(crate) received: Vec<u8>,
    pub(crate) closed: Option<CloseReason>,
    pub(crate) peer_finished: bool,
    /// Close our side after the last byte.
    pub(crate) finish: bool,
    pub(crate) conn: Option<ConnId>,
}

impl Raw {
    pub(crate) fn sending(text: impl Into<Bytes>) -> Self {
        Self { send: VecDeque::from([text.into()]), ..Self::default() }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.received).into_owned()
    }
}

impl App for Raw {
    fn on_event(&mut self, _: &mut Endpoint, _: Instant, conn: ConnId, event: Event) {
        match event {
            Event::Connected | Event::Accepted { .. } => self.conn = Some(conn),
            Event::Closed(reason) => self.closed = Some(reason),
            Event::PeerFinished => self.peer_finished = true,
            _ => {}
        }
    }

    fn on_wakeup(&mut self, endpoint: &mut Endpoint, now: Instant) {
        let Some(conn) = self.conn.and_then(|id| endpoint.connection(id)) else { return };
        while let Some(data) = conn.read(usize::MAX) {
            self.received.extend_from_slice(&data);
        }
        while let Some(front) = self.send.front_mut() {
            conn.write(front);
            if !front.is_empty() {
                return;
            }
            self.send.pop_front();
        }
        if self.finish {
            conn.close(now);
            self.finish = false;
        }
    }
}
