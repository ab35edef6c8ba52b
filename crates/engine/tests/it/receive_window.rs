//! The receive buffer and its window to the byte and the millisecond, against a scripted peer that
//! speaks plain TCP: when a round trip is over and what the buffer becomes then, how much must be
//! read before the peer is told, and how often it is.

use crate::mptcp_net::{config, ms, secs};
use bytes::Bytes;
use tabane_engine::config::Autotuning;
use tabane_engine::view::PathId;
use tabane_engine::{ConnId, Duration, Endpoint, Event, Instant};
use tabane_wire::{Ecn, Flags, Segment, SeqNum, TcpOptions, Timestamps};

/// Payload of a full segment: 1460 less the timestamps.
const MSS: usize = 1448;

/// An endpoint that has accepted a connection, and the script's side of it.
struct Peer {
    endpoint: Endpoint,
    id: ConnId,
    now: Instant,
    seq: SeqNum,
    ack: SeqNum,
    /// TSval of the endpoint's SYN+ACK, and when that left.
    stamp: u32,
    stamped_at: Instant,
}

impl Peer {
    /// Connected, with a round trip of 100 ms.
    fn new(buffer: u64, buffer_max: u64) -> Self {
        Self::tuned(buffer, buffer_max, Autotuning::default())
    }

    fn tuned(buffer: u64, buffer_max: u64, autotuning: Autotuning) -> Self {
        let mut config = config(2, 1);
        config.mptcp.enabled = false;
        config.tcp.autotuning = autotuning;
        (config.tcp.receive_buffer, config.tcp.receive_buffer_max) = (buffer, buffer_max);
        let mut endpoint = Endpoint::new(config, [3; 32]).unwrap();
        endpoint.listen("0.0.0.0:80".parse().unwrap()).unwrap();
        let now = Instant::ZERO + secs(100);
        let (seq, ack) = (SeqNum(1000), SeqNum(0));
        let mut peer = Self { endpoint, id: ConnId(0), now, seq, ack, stamp: 0, stamped_at: now };
        let mut syn = peer.segment(0, 0);
        (syn.flags, syn.options.mss, syn.options.window_scale) = (Flags::SYN, Some(1460), Some(0));
        peer.endpoint.handle_segment(now, PathId(0), &syn);
        let answer = peer.polled().remove(0);
        (peer.seq, peer.ack) = (SeqNum(1001), answer.seq.plus(1));
        peer.stamp = answer.options.timestamps.unwrap().value;
        peer.now = now + ms(100);
        let established = peer.segment(0, 100);
        peer.endpoint.handle_segment(peer.now, PathId(0), &established);
        let events = std::iter::from_fn(|| peer.endpoint.poll_event());
        let accepted = events.filter(|(_, event)| matches!(event, Event::Accepted { .. })).last();
        peer.id = accepted.unwrap().0;
        peer.polled();
        peer
    }

    /// The next `len` bytes, that echo what left `age` milliseconds ago.
    fn segment(&self, len: usize, age: u32) -> Segment {
        let since = (self.now - self.stamped_at).as_millis() as u32;
        Segment {
            src: "10.0.0.1:5".parse().unwrap(),
            dst: "10.0.0.2:80".parse().unwrap(),
            seq: self.seq,
            ack: self.ack,
            flags: Flags::ACK,
            window: 60_000,
            ecn: Ecn::NotEct,
            options: TcpOptions {
                timestamps: Some(Timestamps {
                    value: self.now.as_millis() as u32,
                    echo: self.stamp.wrapping_add(since).wrapping_sub(age),
                }),
                ..TcpOptions::default()
            },
            payload: Bytes::from(vec![7; len]),
        }
    }

    /// Data comes that has taken a round trip of `age` milliseconds.
    fn data(&mut self, len: usize, age: u32) {
        let segment = self.segment(len, age);
        self.seq = self.seq.plus(len as u32);
        self.endpoint.handle_segment(self.now, PathId(0), &segment);
    }

    fn polled(&mut self) -> Vec<Segment> {
        let now = self.now;
        let departures = std::iter::from_fn(|| self.endpoint.poll_segment(now));
        let segments: Vec<_> = departures.map(|d| d.segment).take(100).collect();
        while self.endpoint.poll_event().is_some() {}
        assert!(segments.len() < 100, "no end to what leaves");
        segments
    }

    /// Bytes come in segments, their acknowledgements leave, and a second passes.
    fn fill(&mut self, bytes: usize) {
        for at in (0..bytes).step_by(MSS) {
            self.data((bytes - at).min(MSS), 100);
        }
        self.polled();
        self.wait(secs(1));
    }

    /// Time passes; when what leaves meanwhile does so, in milliseconds from now.
    fn wait(&mut self, time: Duration) -> Vec<u64> {
        let (start, end) = (self.now, self.now + time);
        let mut left = Vec::new();
        while let Some(at) = self.endpoint.poll_timeout().filter(|at| *at <= end) {
            self.now = at.max(self.now);
            self.endpoint.handle_timeout(self.now);
            let since = (self.now - start).as_millis();
            left.extend(self.polled().iter().map(|_| since));
        }
        self.now = end;
        left
    }

    /// The application reads. Whether the peer is told at once.
    fn read(&mut self, bytes: usize) -> bool {
        let mut left = bytes;
        while left > 0 {
            left -= self.endpoint.connection(self.id).unwrap().read(left).unwrap().len();
        }
        !self.polled().is_empty()
    }

    fn buffer(&mut self) -> u64 {
        self.endpoint.connection(self.id).unwrap().info(self.now).receive_buffer
    }

    fn window(&mut self) -> u64 {
        self.endpoint.connection(self.id).unwrap().info(self.now).receive_window
    }
}

// `Autotuning::Linux` waits for the end of the round; `Early` does not, if what was read in it asks
// for half as much again.
#[test]
fn the_buffer_grows_early_unless_told_otherwise() {
    for (autotuning, early) in [(Autotuning::Early, true), (Autotuning::Linux, false)] {
        let mut p = Peer::tuned(20_000, 1 << 20, autotuning);
        p.now += secs(1);
        p.data(100, 120);
        let start = p.now;
        for _ in 0..13 {
            p.now += ms(1);
            p.data(MSS, 120);
            p.read(MSS);
        }
        assert_eq!(p.buffer() > 20_000, early, "{autotuning:?} within the round");
        p.read(100);
        p.now = start + ms(120);
        p.data(1, 120);
        assert_eq!(p.buffer(), grown(100 + 13 * MSS), "{autotuning:?} after it");
    }
}

/// What the buffer becomes after a round in which so much was read.
fn grown(read: usize) -> u64 {
    (2 * read + 16 * MSS) as u64
}

// Dynamic right-sizing (as Linux does): a round lasts as long as data takes from our timestamp to
// its echo, smoothed by an eighth upwards and taken at once downwards.
#[test]
fn the_buffer_grows_once_a_round_trip_by_what_was_read() {
    // Ages that have come, and the round trip that they make.
    let cases: [(&[u32], u64); 5] = [
        (&[120], 120),
        (&[120, 200], 130),
        (&[120, 200, 110], 110),
        (&[200, 10_000], 1_425),
        (&[120, 10_001], 120),
    ];
    for (ages, rtt) in cases {
        let mut p = Peer::new(20_000, 1 << 20);
        for age in ages {
            p.now += secs(20);
            p.data(100, *age);
        }
        p.polled();
        assert!(!p.read(100 * ages.len()), "{ages:?}: nothing to tell");
        // The last of them began a round. What was read before it counts in it.
        let start = p.now;
        p.now = start + ms(rtt - 1);
        p.data(MSS, rtt as u32);
        assert_eq!(p.buffer(), 20_000, "{ages:?}: too early");
        p.now = start + ms(rtt);
        p.data(MSS, rtt as u32);
        assert_eq!(p.buffer(), grown(100 * ages.len()), "{ages:?}: in time");
    }
}

// Less than before is no reason to grow; more is, up to the limit.
#[test]
fn the_buffer_follows_the_round_in_which_most_was_read() {
    let mut p = Peer::new(20_000, 40_000);
    let mut sizes = Vec::new();
    for read in [1_000, 900, 1_100, 10_000] {
        p.now += secs(1);
        p.data(MSS, 120);
        for _ in 0..6 {
            p.data(MSS, 120);
        }
        p.data(10_000 % MSS, 120);
        p.read(read);
        p.now += secs(1);
        p.data(1, 120);
        sizes.push(p.buffer());
        let rest = p.endpoint.connection(p.id).unwrap().readable() as usize;
        p.read(rest);
    }
    assert_eq!(sizes[0], grown(1_000));
    assert_eq!(sizes[3], 40_000, "{sizes:?}: the limit");
    assert!(sizes.is_sorted(), "{sizes:?}");
}

// RFC 9293 section 3.8.6.2.2: the peer is told when the window has doubled, and by a segment at
// least, or half the buffer.
#[test]
fn the_peer_is_told_of_a_window_that_has_doubled_by_a_segment_at_least() {
    // Segments that fill it, the window then, what may be read in silence, and the next window.
    for (segments, window, quiet, opened) in [(10, 5_520, 5_519, 11_040), (13, 1_176, 1_447, 2_624)]
    {
        let mut p = Peer::new(20_000, 20_000);
        p.fill(segments * MSS);
        assert_eq!(p.window(), window);
        assert!(!p.read(quiet), "{segments}");
        assert!(p.read(1), "{segments}");
        assert_eq!(p.window(), opened);
    }
}

#[test]
fn the_peer_is_told_of_half_a_small_buffer() {
    let mut p = Peer::new(2_000, 2_000);
    p.fill(1_400);
    assert_eq!(p.window(), 600);
    assert!(!p.read(700));
    // Nor does the right edge move with other news.
    p.fill(100);
    assert_eq!(p.window(), 500);
    assert!(!p.read(299));
    assert!(p.read(1), "half");
    assert_eq!(p.window(), 1_500);
}

// One that had been told that there is next to nothing waits for the news: they are repeated until
// it sends, four times in all, a retransmission timeout apart.
#[test]
fn updates_of_a_window_that_was_closed_are_repeated() {
    let rto = 300;
    // Buffer, what remains of the window, and whether that is next to nothing.
    let cases =
        [(20_000, 1_459, true), (20_000, 1_460, false), (2_000, 999, true), (2_000, 1_000, false)];
    for (buffer, remains, closed) in cases {
        let mut p = Peer::new(buffer, buffer);
        p.fill(buffer as usize - remains);
        assert_eq!(p.window(), remains as u64);
        assert!(p.read(buffer as usize - remains), "{remains}");
        let repeated = if closed { vec![rto, 2 * rto, 3 * rto] } else { vec![] };
        assert_eq!(p.wait(secs(10)), repeated, "{buffer}, {remains}");
    }
    // Data says that they have arrived.
    let mut p = Peer::new(20_000, 20_000);
    p.fill(20_000);
    assert!(p.read(20_000));
    assert_eq!(p.wait(ms(350)), [rto]);
    p.data(2, 100);
    p.polled();
    p.wait(ms(100));
    assert_eq!(p.wait(secs(10)), [] as [u64; 0]);
}
