//! HyStart++ (RFC 9406): leaves the first slow start when round-trip times rise, before loss.
//!
//! Only for the first slow start (section 4.3), and for senders that do not pace (L = 8).

use super::Ack;
use crate::time::Duration;

const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u64 = 8;
const N_RTT_SAMPLE: u32 = 8;
const CSS_GROWTH_DIVISOR: u64 = 4;
const CSS_ROUNDS: u32 = 5;
const L: u64 = 8;

/// State of the first slow start.
#[derive(Clone, Copy, Debug)]
pub(super) struct HyStart {
    /// The round ends when this is acknowledged; unknown before the first ACK.
    window_end: Option<u64>,
    /// RTT samples of this round.
    samples: u32,
    current_round_min_rtt: Duration,
    last_round_min_rtt: Duration,
    css: Option<Css>,
}

/// Conservative slow start.
#[derive(Clone, Copy, Debug)]
struct Css {
    baseline_min_rtt: Duration,
    /// Rounds ended in it, the one it began in included.
    rounds: u32,
}

impl HyStart {
    pub(super) fn new() -> Self {
        Self {
            window_end: None,
            samples: 0,
            current_round_min_rtt: Duration::MAX,
            last_round_min_rtt: Duration::MAX,
            css: None,
        }
    }

    /// Whether in conservative slow start.
    pub(super) fn conservative(&self) -> bool {
        self.css.is_some()
    }

    /// RTTs from now on have nothing to do with those before.
    pub(super) fn restart(&mut self) {
        *self = Self::new();
    }

    /// By how many bytes the window grows for `bytes` newly acknowledged.
    pub(super) fn growth(&self, bytes: u64, mss: u64) -> u64 {
        let counted = bytes.min(L * mss);
        if self.conservative() { counted / CSS_GROWTH_DIVISOR } else { counted }
    }

    /// After the window has grown by `ack`: whether slow start is over.
    pub(super) fn on_ack(&mut self, ack: &Ack) -> bool {
        if let Some(rtt) = ack.rtt {
            self.current_round_min_rtt = self.current_round_min_rtt.min(rtt);
            self.samples += 1;
        }
        if self.samples >= N_RTT_SAMPLE {
            self.compare();
        }
        let end = *self.window_end.get_or_insert(ack.snd_nxt);
        if ack.snd_una < end {
            return false;
        }
        self.next_round(ack.snd_nxt)
    }

    fn compare(&mut self) {
        let (current, last) = (self.current_round_min_rtt, self.last_round_min_rtt);
        match self.css {
            Some(css) if current < css.baseline_min_rtt => self.css = None,
            Some(_) => {}
            None if last == Duration::MAX => {}
            None => {
                let threshold = (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if current >= last + threshold {
                    self.css = Some(Css { baseline_min_rtt: current, rounds: 0 });
                }
            }
        }
    }

    fn next_round(&mut self, snd_nxt: u64) -> bool {
        self.window_end = Some(snd_nxt);
        self.last_round_min_rtt = self.current_round_min_rtt;
        self.current_round_min_rtt = Duration::MAX;
        self.samples = 0;
        let Some(css) = &mut self.css else { return false };
        css.rounds += 1;
        css.rounds >= CSS_ROUNDS
    }
}
