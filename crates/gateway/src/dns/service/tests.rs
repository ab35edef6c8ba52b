//! The service with its threads, against a resolver and a name server of the test.

use super::*;
use crate::dns::message::{Family, Outcome, parse_reply, query};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A resolver that holds its callers until it is let go.
#[derive(Default)]
struct RateLimiter {
    open: Mutex<bool>,
    opened: Condvar,
    calls: AtomicUsize,
}

impl RateLimiter {
    fn lookup(self: &Arc<Self>) -> LookupFn {
        let limiter = Arc::clone(self);
        Arc::new(move |name: &str| {
            limiter.calls.fetch_add(1, Ordering::Relaxed);
            let mut open = limiter.open.lock().unwrap();
            while !*open {
                open = limiter.opened.wait(open).unwrap();
            }
            match name {
                "none.example" => Err(LookupError::NoName),
                "broken.example" => Err(LookupError::Failed),
                _ => Ok(vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()]),
            }
        })
    }

    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

struct World {
    service: Service,
    woken: Receiver<()>,
}

impl World {
    fn new(lookup: LookupFn, name_server: Option<SocketAddr>) -> Self {
        let (wake, woken) = waker();
        Self { service: Service::with(lookup, name_server, wake), woken }
    }

    fn ask(&mut self, client: u16, port: u16, query: &[u8]) {
        self.service.ask(Instant::ZERO, asker(client, port), query);
    }

    /// Waits until an answer is there.
    fn next(&mut self) -> (Asker, Vec<u8>) {
        loop {
            if let Some(answer) = self.service.poll_answer(Instant::ZERO) {
                return answer;
            }
            self.woken.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
        }
    }

    fn now(&mut self) -> Option<(Asker, Vec<u8>)> {
        self.service.poll_answer(Instant::ZERO)
    }
}

fn waker() -> (Arc<dyn Fn() + Send + Sync>, Receiver<()>) {
    let (wake, woken) = channel();
    let wake = Mutex::new(wake);
    // It fails when the test has ended.
    (Arc::new(move || wake.lock().unwrap().send(()).unwrap_or_default()), woken)
}

fn asker(client: u16, port: u16) -> Asker {
    Asker {
        client: ClientNumber(client),
        source: SocketAddr::from(([10, 81, 0, 31], port)),
        destination: SocketAddr::from(([10, 81, 0, 1], 53)),
    }
}

fn code(answer: &[u8]) -> u8 {
    answer[3] & 0xf
}

#[test]
fn names_are_looked_up_once_for_a_client() {
    let limiter = Arc::new(RateLimiter::default());
    let mut world = World::new(limiter.lookup(), None);
    let a = query(1, "www.example", Family::V4).unwrap();
    let aaaa = query(2, "www.example", Family::V6).unwrap();
    world.ask(1, 4000, &a);
    world.ask(1, 4000, &a);
    world.ask(1, 4000, &aaaa);
    assert_eq!(world.service.waiting(), 2, "a repetition is none");
    assert!(world.now().is_none());
    limiter.open();
    let mut got: Vec<(Asker, Outcome)> = (0..2)
        .map(|_| world.next())
        .map(|(asker, bytes)| (asker, parse_reply(&bytes).unwrap().outcome))
        .collect();
    got.sort_by_key(|(asker, outcome)| (*asker, format!("{outcome:?}")));
    let v4 = Outcome::Addresses(vec!["192.0.2.1".parse().unwrap()], 30);
    let v6 = Outcome::Addresses(vec!["2001:db8::1".parse().unwrap()], 30);
    assert_eq!(got, [(asker(1, 4000), v4), (asker(1, 4000), v6)]);
    assert_eq!(limiter.calls.load(Ordering::Relaxed), 1);
    assert_eq!(world.service.waiting(), 0);
    // It is known now, for less and less long.
    world.service.ask(Instant::ZERO + Duration::from_secs(29), asker(1, 1), &a);
    assert_eq!(ttl(&world.now().unwrap().1), 1);
    assert_eq!(limiter.calls.load(Ordering::Relaxed), 1);
}

fn ttl(bytes: &[u8]) -> u32 {
    let Outcome::Addresses(_, ttl) = parse_reply(bytes).unwrap().outcome else { panic!() };
    ttl
}

/// Neither by the time that is left, nor by not being asked for again.
#[test]
fn what_others_have_asked_does_not_show() {
    let limiter = Arc::new(RateLimiter::default());
    limiter.open();
    let mut world = World::new(limiter.lookup(), None);
    let a = query(1, "www.example", Family::V4).unwrap();
    world.ask(1, 1, &a);
    assert_eq!(ttl(&world.next().1), 30);
    world.service.ask(Instant::ZERO + Duration::from_secs(20), asker(2, 1), &a);
    assert_eq!(ttl(&world.next().1), 30);
    assert_eq!(limiter.calls.load(Ordering::Relaxed), 2);
}

/// One client asks for names that nobody answers, as many as it can.
#[test]
fn who_asks_for_dead_names_takes_no_others_turn() {
    let (held, dead) = (Arc::new(RateLimiter::default()), Arc::new(AtomicUsize::new(0)));
    let lookup: LookupFn = Arc::new({
        let (slow, dead) = (held.lookup(), dead.clone());
        move |name: &str| {
            if name.ends_with("dead.example") {
                dead.fetch_add(1, Ordering::Relaxed);
                return slow(name);
            }
            Ok(vec!["192.0.2.1".parse().unwrap()])
        }
    });
    let mut world = World::new(lookup, None);
    for i in 0..4 * QUEUE_MAX {
        world.ask(1, 1, &query(1, &format!("{i}.dead.example"), Family::V4).unwrap());
    }
    while dead.load(Ordering::Relaxed) < LOOKUP_THREADS / 2 {
        std::thread::yield_now();
    }
    for client in 2..20 {
        world.ask(client, 1, &query(7, "alive.example", Family::V4).unwrap());
        let answer =
            std::iter::repeat_with(|| world.next()).find(|(asker, _)| asker.client.0 == client);
        assert_eq!(code(&answer.unwrap().1), 0, "client {client}");
    }
    assert_eq!(dead.load(Ordering::Relaxed), LOOKUP_THREADS / 2);
    held.open();
}

/// The resolver may take its time; who asks is told in two seconds, and for a while at once.
#[test]
fn nobody_waits_for_more_than_two_seconds() {
    let limiter = Arc::new(RateLimiter::default());
    let mut world = World::new(limiter.lookup(), None);
    let a = query(1, "slow.example", Family::V4).unwrap();
    let at = |ms| Instant::ZERO + Duration::from_millis(ms);
    world.ask(1, 1, &a);
    world.service.expire(at(1999));
    assert!(world.now().is_none());
    world.service.expire(at(2000));
    assert_eq!(code(&world.now().unwrap().1), 2);
    assert_eq!(world.service.waiting(), 0);
    world.service.ask(at(3000), asker(1, 2), &a);
    assert_eq!(code(&world.service.poll_answer(at(3000)).unwrap().1), 2, "remembered");
    // What comes late is not lost: it is known when it is asked for again.
    limiter.open();
    while world.service.clients[&ClientNumber(1)].names.contains_key("slow.example") {
        assert!(world.service.poll_answer(at(3000)).is_none());
        std::thread::yield_now();
    }
    world.service.ask(at(4000), asker(1, 3), &a);
    assert_eq!(code(&world.service.poll_answer(at(4000)).unwrap().1), 0);
    // And then nothing is kept of it.
    world.service.expire(at(60_000));
    assert!(world.service.clients.is_empty());
}

#[test]
fn what_is_not_there_is_not_asked_for_again_at_once() {
    let limiter = Arc::new(RateLimiter::default());
    limiter.open();
    let mut world = World::new(limiter.lookup(), None);
    for (calls, name) in ["none.example", "broken.example"].into_iter().enumerate() {
        let a = query(9, name, Family::V4).unwrap();
        world.ask(1, 1, &a);
        let first = code(&world.next().1);
        world.ask(1, 1, &a);
        assert_eq!(code(&world.now().unwrap().1), first);
        assert_eq!(limiter.calls.load(Ordering::Relaxed), calls + 1);
    }
}

#[test]
fn failures_have_their_codes() {
    let limiter = Arc::new(RateLimiter::default());
    limiter.open();
    let mut world = World::new(limiter.lookup(), None);
    for (name, expected) in [("none.example", 3), ("broken.example", 2), ("127.1", 4)] {
        world.ask(1, 1, &query(9, name, Family::V4).unwrap());
        let (_, bytes) = world.next();
        assert_eq!((code(&bytes), &bytes[..2]), (expected, &[0, 9][..]), "{name}");
    }
    world.ask(1, 1, b"\0\x09junk that is no query at all");
    assert_eq!(code(&world.now().unwrap().1), 1);
    world.ask(1, 1, b"short");
    assert!(world.now().is_none());
}

#[test]
fn a_busy_resolver_fails_what_it_cannot_hold() {
    let limiter = Arc::new(RateLimiter::default());
    let mut world = World::new(limiter.lookup(), None);
    // One client has a share only.
    for port in 0..PENDING_MAX as u16 {
        world.ask(1, port, &query(1, "slow.example", Family::V4).unwrap());
    }
    assert!(world.now().is_none());
    world.ask(1, 9999, &query(1, "slow.example", Family::V4).unwrap());
    assert_eq!(code(&world.now().unwrap().1), 2);
    // What it may have waiting beside for a thread is limited, too.
    let mut refused = 0;
    for i in 0..PENDING_MAX {
        world.ask(2, 1, &query(1, &format!("{i}.example"), Family::V4).unwrap());
        refused += usize::from(world.now().is_some());
    }
    let held = PENDING_MAX - refused;
    assert!((QUEUE_MAX..=QUEUE_MAX + LOOKUP_THREADS / 2).contains(&held), "{held}");
    let waiting = world.service.waiting();
    limiter.open();
    for _ in 0..waiting {
        assert_eq!(code(&world.next().1), 0);
    }
    assert_eq!(world.service.waiting(), 0);
}

/// A name server that answers every second query with its id, and never the first.
fn name_server() -> SocketAddr {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 1500];
        for turn in 0.. {
            let Ok((length, from)) = socket.recv_from(&mut buffer) else { return };
            buffer[2] |= 0x80;
            if turn % 2 == 1 {
                let _ = socket.send_to(&buffer[..length], from);
            }
        }
    });
    address
}

#[test]
fn other_types_go_to_the_name_server() {
    let limiter = Arc::new(RateLimiter::default());
    let mut world = World::new(limiter.lookup(), Some(name_server()));
    let mut txt = query(0x1234, "txt.example", Family::V4).unwrap();
    let at = txt.len() - 3;
    txt[at] = 16;
    world.ask(1, 1, &txt);
    let mut again = txt.clone();
    again[1] = 0x35;
    world.ask(1, 1, &again);
    assert_eq!(world.service.waiting(), 2);
    for asked in [&txt, &again] {
        let (_, answer) = world.next();
        assert_eq!((&answer[..2], answer[2] & 0x80), (&asked[..2], 0x80), "the asker's own id");
        assert_eq!(answer[12..], asked[12..]);
    }
    assert_eq!(limiter.calls.load(Ordering::Relaxed), 0);
}

#[test]
fn without_a_name_server_other_types_are_not_implemented() {
    let mut world = World::new(Arc::new(RateLimiter::default()).lookup(), None);
    let mut txt = query(7, "txt.example", Family::V4).unwrap();
    let at = txt.len() - 3;
    txt[at] = 16;
    world.ask(1, 1, &txt);
    assert_eq!(code(&world.now().unwrap().1), 4);
}

#[test]
fn the_systems_own_resolver_answers() {
    let (wake, woken) = waker();
    let mut world = World { service: Service::start(wake), woken };
    world.ask(1, 1, &query(5, "localhost", Family::V4).unwrap());
    let (_, bytes) = world.next();
    let expected = Outcome::Addresses(vec![Ipv4Addr::LOCALHOST.into()], 30);
    assert_eq!(parse_reply(&bytes).unwrap().outcome, expected);
}
