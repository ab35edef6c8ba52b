//! QUIC in virtual time.

use super::end::{Configs, End};
use super::world::Datagram;
use std::net::SocketAddr;
use std::time::Instant as Clock;
use tabane_engine::{Duration, Instant};

/// A program that speaks QUIC.
pub(super) struct Quic {
    pub(super) end: End,
    /// The origin of virtual time.
    origin: Clock,
    /// What is to be sent.
    pub(super) out: Vec<Vec<u8>>,
}

const REMOTE: ([u8; 4], u16) = ([192, 0, 2, 1], 443);

/// A client and a server; the server sends a stream without end.
#[expect(clippy::disallowed_methods, reason = "the origin of virtual time")]
pub(super) fn download(now: Instant, flows: usize) -> Vec<[Quic; 2]> {
    let (configs, origin) = (Configs::new().unwrap(), Clock::now());
    let quic = |end: End| Quic { end, origin, out: Vec::new() };
    let pair = |flow: usize| {
        let (at, seed) = ((clock(origin, now), REMOTE.into()), Some([flow as u8; 32]));
        let near = End::client(&configs, at, seed).unwrap();
        [quic(near), quic(End::server(&configs, seed))]
    };
    (0..flows).map(pair).collect()
}

fn clock(origin: Clock, now: Instant) -> Clock {
    origin + std::time::Duration::from(Duration(now.0))
}

impl Quic {
    /// When it wants to be asked.
    pub(super) fn next(&mut self) -> Option<Instant> {
        let due = self.end.poll_timeout()?;
        Some(Instant::ZERO + Duration::from(due.saturating_duration_since(self.origin)))
    }

    /// Takes a datagram.
    pub(super) fn handle(&mut self, now: Instant, datagram: &Datagram) {
        let (remote, out): (SocketAddr, _) = (REMOTE.into(), &mut self.out);
        let at = (clock(self.origin, now), remote);
        self.end.handle(at, &datagram.payload, &mut |answer| out.push(answer.to_vec()));
    }

    /// Does what there is to do now; what is to be sent is in `out`.
    pub(super) fn run(&mut self, now: Instant) {
        let Self { end, origin, out } = self;
        end.run(clock(*origin, now), &mut |datagram| out.push(datagram.to_vec()));
    }
}
