//! How well emulated links did what the model says: how late packets left, at which rate, and
//! what was lost that should not have been.

use serde::Serialize;
use tabane_engine::{Duration, Instant};

/// How well the emulated links of a run did.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Accuracy {
    /// Packets that left links.
    pub packets: u64,
    /// Half of them left no later after their time than this, microseconds.
    pub lateness_p50_us: u64,
    /// 99 % did.
    pub lateness_p99_us: u64,
    /// 99.9 % did.
    pub lateness_p999_us: u64,
    /// All did.
    pub lateness_max_us: u64,
    /// Whether the emulator's thread has a real-time priority.
    pub realtime: bool,
    /// Packets that devices refused or dropped, which no link of the scenario does.
    pub dropped_by_devices: u64,
    /// That the kernel was short of memory for TCP, which shrinks every window; only looked at
    /// where the kernel's stack runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp_memory: Option<String>,
    /// Notifications to observers that were dropped because these could not keep up.
    pub dropped_notifications: u64,
    /// Link directions, in file order.
    pub links: Vec<LinkAccuracy>,
    /// Why this run should not be believed; `None` if nothing speaks against it.
    pub poor: Option<String>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LinkAccuracy {
    /// Name of the link.
    pub link: String,
    /// Node that sends into it.
    pub from: String,
    /// Node it leads to.
    pub to: String,
    /// Its rate at the end, where it is constant.
    pub rate_bps: Option<f64>,
    /// The rate at which packets that stood in a queue behind each other left; `None` if too few
    /// did.
    pub achieved_bps: Option<f64>,
    /// Share of packets that the model lost on the way.
    pub loss: f64,
}

/// No run is believed with p99 above this, or above [`OF_ROUND_TRIP`] of the shortest delay.
const LATE_MAX: Duration = Duration::from_millis(1);
/// See [`LATE_MAX`].
const OF_ROUND_TRIP: f64 = 0.05;
/// Below this lateness is of no account, however short the delays.
const LATE_MIN: Duration = Duration::from_micros(300);
/// Packets dropped by devices, as a share.
const DROPPED: f64 = 1e-4;
/// How far from a link's rate it may be.
const RATE: f64 = 0.02;

impl Accuracy {
    /// Says whether the run is to be believed, given the shortest delay of its links.
    pub(crate) fn judge(&mut self, shortest: Duration) {
        let limit = Duration((shortest.0 as f64 * 2.0 * OF_ROUND_TRIP) as u64);
        let limit = limit.min(LATE_MAX).max(LATE_MIN).as_micros();
        let wrong = self.links.iter().find_map(|link| {
            let (rate, achieved) = (link.rate_bps?, link.achieved_bps?);
            ((achieved / rate - 1.0).abs() > RATE).then(|| {
                let share = achieved / rate * 100.0;
                format!("{} {}>{} ran at {share:.1} % of its rate", link.link, link.from, link.to)
            })
        });
        self.poor = if let Some(why) = &self.tcp_memory {
            Some(why.clone())
        } else if self.lateness_p99_us > limit {
            Some(format!(
                "1 % of the packets left more than {} us late; {limit} us are allowed",
                self.lateness_p99_us
            ))
        } else if self.dropped_by_devices as f64 > self.packets as f64 * DROPPED {
            Some(format!("devices dropped {} packets", self.dropped_by_devices))
        } else {
            wrong
        };
    }
}

/// A histogram in steps of 10 us up to 100 ms; what is later is in the last step.
#[derive(Clone, Debug)]
pub struct Lateness {
    steps: Vec<u32>,
    count: u64,
    most: Duration,
}

const STEP: u64 = 10_000;
const STEPS: usize = 10_000;

impl Default for Lateness {
    fn default() -> Self {
        Self { steps: vec![0; STEPS], count: 0, most: Duration::ZERO }
    }
}

impl Lateness {
    pub(crate) fn add(&mut self, late: Duration) {
        let step = usize::try_from(late.0 / STEP).unwrap_or(usize::MAX).min(STEPS - 1);
        self.steps[step] += 1;
        self.count += 1;
        self.most = self.most.max(late);
    }

    /// Adds another one's packets.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.most = self.most.max(other.most);
        for (step, count) in self.steps.iter_mut().zip(&other.steps) {
            *step += count;
        }
    }

    /// Packets counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// All were no later than that, microseconds.
    pub fn most_us(&self) -> u64 {
        self.most.as_micros()
    }

    /// No more than this share of the packets was later than that, microseconds.
    pub fn quantile_us(&self, share: f64) -> u64 {
        let wanted = (self.count as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (step, count) in (1..).zip(&self.steps) {
            seen += u64::from(*count);
            if seen >= wanted && wanted > 0 {
                return (step * STEP / 1000).min(self.most_us());
            }
        }
        self.most_us()
    }
}

/// The rate of a link direction while packets stood behind each other in its queue.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Achieved {
    /// When the last packet was due, and when it left.
    last: Option<(Instant, Instant)>,
    bytes: u64,
    time: Duration,
}

/// Less than this is too short for a rate.
const ENOUGH: Duration = Duration::from_millis(100);

impl Achieved {
    /// A packet that was due and has left.
    pub(crate) fn add(&mut self, due: Instant, left: Instant, bytes: usize, rate: Option<f64>) {
        if let (Some((before, then)), Some(rate)) = (self.last, rate) {
            let service = bytes as f64 * 8.0 / rate;
            // Packets lost on the way leave gaps that are no rate.
            if due.saturating_since(before).as_secs_f64() <= service * 1.01 {
                self.bytes += bytes as u64;
                self.time = self.time + left.saturating_since(then);
            }
        }
        self.last = Some((due, left));
    }

    /// Bits a second.
    pub(crate) fn rate(&self) -> Option<f64> {
        (self.time > ENOUGH).then(|| self.bytes as f64 * 8.0 / self.time.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_upper_bounds() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.quantile_us(0.5), 0);
        for us in 1..=100 {
            lateness.add(Duration::from_micros(us * 100));
        }
        lateness.add(Duration::from_secs(9));
        assert_eq!((lateness.count(), lateness.most_us()), (101, 9_000_000));
        assert!((5_100..=5_110).contains(&lateness.quantile_us(0.5)));
    }

    #[test]
    fn a_rate_is_that_of_packets_behind_each_other() {
        let mut achieved = Achieved::default();
        let (ms, rate) = (|n: u64| Instant(n * 1_000_000), Some(12_000_000.0));
        // 1500 bytes a millisecond, each a quarter of one late; then a pause that does not count.
        for n in (0..200).chain(1_000..1_200) {
            achieved.add(ms(n), ms(n) + Duration::from_micros(250), 1500, rate);
        }
        let rate = achieved.rate().unwrap();
        assert!((rate / 12e6 - 1.0).abs() < 1e-9, "{rate}");
        assert_eq!(Achieved::default().rate(), None);
    }

    #[test]
    fn what_speaks_against_a_run_is_said() {
        let link = LinkAccuracy {
            link: "wifi".into(),
            from: "a".into(),
            to: "b".into(),
            rate_bps: Some(10e6),
            achieved_bps: Some(9.9e6),
            loss: 0.0,
        };
        let good = Accuracy {
            packets: 100_000,
            lateness_p50_us: 20,
            lateness_p99_us: 250,
            lateness_p999_us: 900,
            lateness_max_us: 2_000,
            realtime: true,
            dropped_by_devices: 2,
            tcp_memory: None,
            dropped_notifications: 0,
            links: vec![link.clone()],
            poor: None,
        };
        let verdict = |mut accuracy: Accuracy, ms| {
            accuracy.judge(Duration::from_millis(ms));
            accuracy.poor
        };
        assert_eq!(verdict(good.clone(), 5), None);
        let late = Accuracy { lateness_p99_us: 700, ..good.clone() };
        assert_eq!(verdict(late.clone(), 50), None);
        assert!(verdict(late, 1).unwrap().contains("300 us"));
        let dropped = Accuracy { dropped_by_devices: 200, ..good.clone() };
        assert!(verdict(dropped, 50).unwrap().contains("200 packets"));
        let short = Accuracy { tcp_memory: Some("short of memory".into()), ..good.clone() };
        assert!(verdict(short, 50).unwrap().contains("short of memory"));
        let slow = LinkAccuracy { achieved_bps: Some(9e6), ..link };
        let slow = Accuracy { links: vec![slow], ..good };
        assert!(verdict(slow, 50).unwrap().contains("wifi a>b ran at 90.0 %"));
    }
}
