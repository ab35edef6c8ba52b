//! The paper's check by capture: at the relay each packet of the client comes twice, whichever
//! subflow is active, and switching it breaks nothing.

use crate::PaperError;
use crate::context::{Context, Job};
use crate::report::{Report, Verdict};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use tabane_engine::Instant;
use tabane_sim::observe::{CapturePoint, Layout, Observer, Wants};
use tabane_wire::{Flags, Segment};

const FILE: &str = "papers/bicast/capture.toml";
const TEXT: &str = include_str!("../../../../papers/bicast/capture.toml");

/// What is looked at before and after the relay switches (10 s), seconds.
const PHASES: [(f64, f64); 2] = [(1.0, 9.9), (11.0, 19.9)];

/// A packet by what a copy shares with it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Packet {
    source: SocketAddr,
    to: SocketAddr,
    seq: u32,
    ack: u32,
    len: usize,
    timestamp: u32,
}

/// What was captured in a phase.
#[derive(Default)]
struct Phase {
    /// Copies of each packet from the client, by the relay's path that they came by.
    copies: BTreeMap<Packet, Vec<u8>>,
    /// Pure acknowledgements that the client got, by what they acknowledge.
    answers: BTreeMap<(SocketAddr, u32), u32>,
}

#[derive(Default)]
struct Watch {
    client: u32,
    relay: u32,
    phases: [Phase; 2],
}

impl Observer for Watch {
    fn wants(&self) -> Wants {
        Wants { packets: true, ..Wants::default() }
    }

    fn begin(&mut self, layout: &Layout) {
        let place = |name: &str| layout.hosts.iter().position(|h| h.name == name).unwrap_or(0);
        (self.client, self.relay) = (place("client") as u32, place("relay") as u32);
    }

    fn packet(&mut self, point: CapturePoint, now: Instant, segment: &Segment) {
        let at = now.as_secs_f64();
        let Some(n) = PHASES.iter().position(|(from, to)| (*from..*to).contains(&at)) else {
            return;
        };
        let CapturePoint::Received(host, path) = point else { return };
        let phase = &mut self.phases[n];
        let handshake = segment.flags.intersects(Flags::SYN | Flags::RST | Flags::FIN);
        // The relay has two connections a flow: its third path leads to the server.
        if host.0 == self.relay && path.0 < 2 && !handshake {
            let packet = Packet {
                source: segment.src,
                to: segment.dst,
                seq: segment.seq.0,
                ack: segment.ack.0,
                len: segment.payload.len(),
                timestamp: segment.options.timestamps.map_or(0, |t| t.value),
            };
            phase.copies.entry(packet).or_default().push(path.0);
        }
        if host.0 == self.client && segment.payload.is_empty() && !handshake {
            *phase.answers.entry((segment.dst, segment.ack.0)).or_default() += 1;
        }
    }
}

/// How many of the client's packets of a kind there were, and how many came once by each path.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Twice {
    all: usize,
    twice: usize,
}

impl Phase {
    fn twice(&self, data: bool) -> Twice {
        let of_kind = || self.copies.iter().filter(|(packet, _)| (packet.len > 0) == data);
        let once_each = |paths: &Vec<u8>| {
            let mut sorted = paths.clone();
            sorted.sort_unstable();
            sorted == [0, 1]
        };
        Twice {
            all: of_kind().count(),
            twice: of_kind().filter(|(_, paths)| once_each(paths)).count(),
        }
    }

    /// Of the client's data packets, how many were answered by two acknowledgements.
    fn answered_twice(&self) -> Twice {
        let data = || self.copies.keys().filter(|packet| packet.len > 0);
        let answered = |packet: &&Packet| {
            let end = packet.seq.wrapping_add(packet.len as u32);
            self.answers.get(&(packet.source, end)) == Some(&2)
        };
        Twice { all: data().count(), twice: data().filter(answered).count() }
    }

    /// The client's addresses that its data and acknowledgements came from.
    fn sources(&self) -> Vec<IpAddr> {
        let mut ips: Vec<_> = self.copies.keys().map(|packet| packet.source.ip()).collect();
        ips.sort_unstable();
        ips.dedup();
        ips
    }
}

/// Runs it and says what came of it.
pub(super) fn check(context: &Context<'_>, report: &mut Report) -> Result<(), PaperError> {
    let job = Job::new(FILE, TEXT, &[])?;
    let mut watch = Watch::default();
    let result = job.run(context, &mut watch)?;
    for (n, when) in ["before the relay switches", "after it has switched"].iter().enumerate() {
        let phase = &watch.phases[n];
        let kinds = [
            ("acks", "pure acknowledgements of the client captured twice", phase.twice(false)),
            ("data", "data packets of the client captured twice", phase.twice(true)),
            ("answers", "data packets of the client answered by two ACKs", phase.answered_twice()),
        ];
        for (id, text, Twice { all, twice }) in kinds {
            report.claim(
                &format!("capture-{id}-{}", n + 1),
                &format!("Share of {text}, with equal numbers, {when}"),
                (100.0, 100.0 * twice as f64 / all.max(1) as f64, "%"),
                Verdict::when(all > 0 && twice == all, || format!("{twice} of {all}")),
            );
        }
    }
    let pairs = watch.phases.each_ref().map(Phase::sources);
    let other = pairs[0].len() == 1 && pairs[1].len() == 1 && pairs[0] != pairs[1];
    let words = |ips: &[IpAddr]| ips.iter().map(ToString::to_string).collect::<Vec<_>>().join("+");
    report.claim(
        "capture-pair",
        "Address of the client before and after the relay switches the active subflow",
        ("the other pair", format!("{}, then {}", words(&pairs[0]), words(&pairs[1])), ""),
        Verdict::when(other, || "the pair did not change".into()),
    );
    let whole = result.flows.iter().all(|flow| {
        flow.failed.is_none() && flow.corrupt_at.is_none() && flow.completed_s.is_some()
    });
    let bytes: Vec<_> = result.flows.iter().map(|f| format!("{} B", f.bytes)).collect();
    report.claim(
        "capture-unbroken",
        "Switching does not break the connection: bytes delivered down and up, unharmed",
        ("unbroken", bytes.join(", "), ""),
        Verdict::when(whole, || "a flow did not finish".into()),
    );
    Ok(())
}
