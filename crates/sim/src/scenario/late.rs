//! What a scenario names and no run of it shows.

use super::{Change, Flow, Scenario};
use tabane_config::quantity::Time;
use tabane_engine::Duration;

impl Scenario {
    /// Flows that start, and changes that come, when the run is over, a sentence each. No fault: a
    /// run may be cut short on purpose. But only a row of zeros would tell.
    pub fn late(&self) -> Vec<String> {
        let end = self.duration;
        let flows = self.flow.iter().enumerate().filter_map(|(n, flow)| {
            let name = flow.name.clone().unwrap_or_else(|| format!("flow.{n}"));
            let late = late_starts(flow, end);
            let which = match late {
                0 => return None,
                all if all == flow.count => format!("'{name}' starts at {}", flow.start),
                some => format!("{some} of {} flows '{name}' start", flow.count),
            };
            Some(format!("{which}, when the run is over ({end})"))
        });
        let changes = self.at.iter().enumerate();
        let changes = changes.filter(|(_, change)| change.time.0 >= end.0);
        flows
            .chain(changes.map(|(n, Change { time, .. })| {
                format!("at.{n} comes at {time}, when the run is over ({end})")
            }))
            .collect()
    }
}

/// How many of a flow's connections would start at the end of the run or later.
fn late_starts(flow: &Flow, end: Time) -> u32 {
    let Some(left) = end.0.0.checked_sub(flow.start.0.0).filter(|left| *left > 0) else {
        return flow.count;
    };
    match flow.stagger.0 {
        Duration::ZERO => 0,
        Duration(stagger) => {
            let in_time = left.div_ceil(stagger).min(u64::from(flow.count));
            flow.count - in_time as u32
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn late(flow: &str) -> Vec<String> {
        let text = format!(
            "duration = \"10s\"\n[path]\nmain = [\"a\"]\n[link.a]\nrate = \"1Mbps\"\n\
             [[flow]]\nbulk = \"1MB\"\n{flow}"
        );
        Scenario::parse("test", &text).unwrap().late()
    }

    #[test]
    fn what_comes_in_time_is_not_named() {
        for flow in ["", "start = \"9.999s\"", "count = 10\nstagger = \"1s\"", "count = 3"] {
            assert_eq!(late(flow), [""; 0], "{flow}");
        }
    }

    #[test]
    fn flows_and_changes_after_the_end_are_named() {
        assert_eq!(late("start = \"10s\""), ["'flow.0' starts at 10s, when the run is over (10s)"]);
        assert_eq!(
            late("name = \"x\"\ncount = 12\nstagger = \"1s\""),
            ["2 of 12 flows 'x' start, when the run is over (10s)"]
        );
        assert_eq!(
            late("[[at]]\ntime = \"12s\"\ndown = \"a\""),
            ["at.0 comes at 12s, when the run is over (10s)"]
        );
    }
}
