//! The policy called `agent`, as scheduler and as congestion control. Outside of an environment it
//! takes the first subflow with space, and keeps its window. What a scheduler sees, and what its
//! answer means, is that of schedulers that have been trained (`tabane_learned::observation`).

use super::Kind;
use super::session::{Question, ask};
use tabane_engine::congestion::{self, Ack, CcPhase, CcState, Congestion, CongestionController};
use tabane_engine::congestion::{CongestionKind, Start};
use tabane_engine::policy::{Entry, RegisterError};
use tabane_engine::scheduler::{self, Reason, Scheduler, Work};
use tabane_engine::view::{RecoveryPhase, SubflowSet, SubflowView};
use tabane_learned::observation::{answer, first_able, flag, observe, saturating, width};

/// What the name of it is.
const NAME: &str = "agent";
/// Numbers of a controller.
const CONTROLLER: usize = 9;

const SCHEDULER: Entry<scheduler::Build> = Entry {
    name: NAME,
    aliases: &[],
    summary: "whoever steps the environment",
    params: &[],
    build: &|_| Ok(Box::new(Asks { reason: Reason::Turn })),
};

const CONGESTION: Entry<congestion::Build> = Entry {
    name: NAME,
    aliases: &[],
    summary: "whoever steps the environment",
    params: &[],
    build: &|_, start| Ok(Box::new(Steered::new(start))),
};

/// Registers both with the engine.
pub(crate) fn register() -> Result<(), RegisterError> {
    scheduler::REGISTRY.register(SCHEDULER)?;
    congestion::REGISTRY.register(CONGESTION)
}

impl Kind {
    /// Numbers of an observation.
    pub(super) fn width(self) -> usize {
        match self {
            Self::Scheduler { subflows } => width(subflows),
            Self::Congestion { .. } => CONTROLLER,
        }
    }
}

/// What the policies of one world share.
pub(super) struct Agent {
    kind: Kind,
    /// When it was asked last, seconds.
    asked: f64,
}

impl Agent {
    pub(super) fn new(kind: Kind) -> Self {
        Self { kind, asked: 0.0 }
    }

    /// For the time from the last decision to the end of the run.
    pub(super) fn last_reward(&self, ended: f64) -> f64 {
        match self.kind {
            Kind::Scheduler { .. } => self.asked - ended,
            Kind::Congestion { .. } => 0.0,
        }
    }
}

struct Asks {
    reason: Reason,
}

impl Scheduler for Asks {
    fn select(&mut self, work: &Work, subflows: &[SubflowView]) -> SubflowSet {
        let Some(first) = first_able(work, subflows) else {
            self.reason = Reason::NoSpace;
            return SubflowSet::NONE;
        };
        let action = ask(|agent| {
            let Kind::Scheduler { subflows: places } = agent.kind else { return None };
            let time = work.now.as_secs_f64();
            let reward = agent.asked - time;
            agent.asked = time;
            let mut observation = vec![0.0; width(places)];
            observe(work, subflows, &mut observation);
            Some(Question { observation, reward, time })
        });
        let action = action.unwrap_or(i64::from(first.id.0));
        let (chosen, reason) = answer(action, work, first, subflows);
        self.reason = reason;
        chosen
    }

    fn reason(&self) -> Reason {
        self.reason
    }
}

/// A window that actions change.
struct Steered {
    cwnd: u64,
    ssthresh: u64,
    mss: u64,
    /// Since the last decision: acknowledgements, segments delivered and lost.
    acks: u32,
    delivered: f64,
    lost: f64,
    congestion: bool,
}

impl Steered {
    fn new(start: Start) -> Self {
        let Start { mss, cwnd, ssthresh, .. } = start;
        Self { cwnd, ssthresh, mss, acks: 0, delivered: 0.0, lost: 0.0, congestion: false }
    }

    fn scene(&self, ack: &Ack) -> Vec<f32> {
        let queueing = ack.srtt.as_secs_f64() / ack.min_rtt.as_secs_f64().max(1e-6) - 1.0;
        let rate = ack.delivery_rate.map_or(0.0, |rate| rate.0 as f64 * 8e-6);
        vec![
            saturating(ack.srtt.as_secs_f64(), 0.1),
            saturating(queueing.max(0.0), 1.0),
            saturating(self.cwnd as f64 / self.mss as f64, 50.0),
            (ack.in_flight as f64 / self.cwnd as f64).min(1.0) as f32,
            saturating(self.delivered, 10.0),
            saturating(self.lost, 1.0),
            saturating(rate, 50.0),
            flag(ack.cwnd_limited),
            flag(self.congestion || ack.phase != RecoveryPhase::Open),
        ]
    }

    /// Actions: half, a segment less, as it is, a segment more, twice.
    fn act(&mut self, action: i64) {
        let cwnd = match action {
            0 => self.cwnd / 2,
            1 => self.cwnd.saturating_sub(self.mss),
            3 => self.cwnd + self.mss,
            4 => self.cwnd * 2,
            _ => self.cwnd,
        };
        // 64 MB: more than any path of a scenario holds, and no overflow.
        self.cwnd = cwnd.clamp(self.mss, 64 << 20);
    }
}

impl CongestionController for Steered {
    fn on_ack(&mut self, ack: &Ack, _: &[SubflowView]) {
        self.acks += 1;
        self.delivered += ack.delivered as f64 / self.mss as f64;
        self.lost += ack.lost as f64 / self.mss as f64;
        let action = ask(|agent| {
            let Kind::Congestion { every, loss_weight, delay_weight } = agent.kind else {
                return None;
            };
            if self.acks < every {
                return None;
            }
            let time = ack.now.as_secs_f64();
            agent.asked = time;
            let queueing = ack.srtt.as_secs_f64() / ack.min_rtt.as_secs_f64().max(1e-6) - 1.0;
            let delay = delay_weight * queueing.max(0.0);
            let reward = self.delivered * (1.0 - delay) - loss_weight * self.lost;
            Some(Question { observation: self.scene(ack), reward, time })
        });
        if let Some(action) = action {
            self.act(action);
            (self.acks, self.delivered, self.lost, self.congestion) = (0, 0.0, 0.0, false);
        }
    }

    fn on_congestion(&mut self, event: &Congestion, _: &[SubflowView]) {
        self.congestion = true;
        self.ssthresh = self.cwnd.max(2 * self.mss);
        if event.kind == CongestionKind::Rto {
            self.cwnd = self.mss;
        }
    }

    fn on_mss(&mut self, mss: u64) {
        self.mss = mss;
        self.cwnd = self.cwnd.max(mss);
    }

    fn report(&self, state: &mut CcState) {
        state.cwnd = self.cwnd;
        state.ssthresh = self.ssthresh;
        state.pacing_rate = None;
        state.phase = CcPhase::Other(0);
    }
}
