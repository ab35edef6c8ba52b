//! A scheduler and a congestion controller from outside the crate. Once they are registered they
//! have a name, parameters with ranges and defaults, and "did you mean", as the crate's own have.
//!
//! `cargo run --release -p tabane-engine --example own_policies`

mod network;

use bytes::Bytes;
use network::{Link, config, transfer};
use tabane_engine::congestion::{self, Ack, CcState, Congestion, CongestionController};
use tabane_engine::policy::{Entry, Param, RegisterError};
use tabane_engine::scheduler::{self, Reason, Scheduler, Work};
use tabane_engine::view::{SubflowSet, SubflowView};
use tabane_engine::{Duration, Instant};

/// Uses the path with the lowest number, and others only for backlogs of `patience` bytes.
struct CheapestFirst {
    patience: u64,
    reason: Reason,
}

impl Scheduler for CheapestFirst {
    fn select(&mut self, work: &Work, subflows: &[SubflowView]) -> SubflowSet {
        let cheapest = subflows.iter().filter(|s| s.usable).min_by_key(|s| s.path);
        let with_space = || subflows.iter().filter(|s| s.usable && s.sendable > 0);
        let chosen = with_space().min_by_key(|s| s.path);
        let waits = chosen.map(|s| s.id) != cheapest.map(|s| s.id) && work.unsent < self.patience;
        self.reason = match (chosen, cheapest) {
            (Some(_), Some(cheapest)) if waits => Reason::AwaitsTurn(cheapest.id),
            (Some(_), _) => Reason::Turn,
            (None, _) => Reason::NoSpace,
        };
        chosen.filter(|_| !waits).map_or(SubflowSet::NONE, |s| SubflowSet::only(s.id))
    }

    fn reason(&self) -> Reason {
        self.reason
    }
}

/// Keeps a window of so many segments, whatever happens.
struct Fixed {
    segments: u64,
    mss: u64,
}

impl CongestionController for Fixed {
    fn on_ack(&mut self, _: &Ack, _: &[SubflowView]) {}

    fn on_congestion(&mut self, _: &Congestion, _: &[SubflowView]) {}

    fn on_spurious(&mut self, _: Instant) {}

    fn on_mss(&mut self, mss: u64) {
        self.mss = mss;
    }

    fn report(&self, state: &mut CcState) {
        state.cwnd = self.segments * self.mss;
        state.ssthresh = u64::MAX;
    }
}

const CHEAPEST_FIRST: Entry<scheduler::Build> = Entry {
    name: "cheapestfirst",
    aliases: &[],
    summary: "the first path; others for a long backlog alone",
    params: &[Param::count(
        "patience",
        100_000.0,
        0.0..=1e9,
        "backlog that others help with, bytes",
    )],
    build: &|values| {
        let patience = values.get("patience") as u64;
        Ok(Box::new(CheapestFirst { patience, reason: Reason::default() }))
    },
};

const FIXED: Entry<congestion::Build> = Entry {
    name: "fixed",
    aliases: &[],
    summary: "a window of so many segments",
    params: &[Param::count("segments", 40.0, 1.0..=10_000.0, "the window, segments")],
    build: &|values, start| {
        let segments = values.get("segments") as u64;
        Ok(Box::new(Fixed { segments, mss: start.mss }))
    },
};

fn register() -> Result<(), RegisterError> {
    scheduler::REGISTRY.register(CHEAPEST_FIRST)?;
    congestion::REGISTRY.register(FIXED)
}

pub(crate) fn main() -> Result<(), String> {
    register().map_err(|error| error.to_string())?;
    for (scheduler, congestion) in [
        ("necf", "cubic"),
        ("cheapestfirst", "cubic"),
        ("cheapestfirst:patience=1e9", "fixed:segments=60"),
    ] {
        let mut client = config(1, 2);
        client.mptcp.scheduler = scheduler.parse().map_err(|e| format!("{e}"))?;
        client.tcp.congestion = congestion.parse().map_err(|e| format!("{e}"))?;
        let links = [10, 30].map(|ms| Link { delay: Duration::from_millis(ms), rate: 2_500_000 });
        let outcome = transfer(client, &links, Bytes::from(vec![7; 5_000_000]))?;
        let seconds = outcome.took.as_secs_f64();
        println!("{scheduler} with {congestion}: {seconds:.2} s, by path {:?}", outcome.sent);
    }
    let mut mistaken = config(1, 2);
    mistaken.mptcp.scheduler = "cheapestfrist".parse().map_err(|e| format!("{e}"))?;
    match transfer(mistaken, &[], Bytes::new()) {
        Err(error) => println!("{error}"),
        Ok(_) => return Err("a scheduler that does not exist was taken".into()),
    }
    Ok(())
}
