//! Why a path that works carries nothing, or what it does: from a snapshot of all paths, so that
//! the words are the same wherever the snapshot is shown. Reasons that say more are left as they
//! are.

use crate::model::{PathState, PathStatus, Status};

/// How a path begins what it says when it is there for whatever is to be sent: without more, or
/// with why it is and others are not.
const IN_USE: &str = "in use";
/// Less than this is probes, and ACKs of what others carry.
const BUSY_BPS: f64 = 20_000.0;

/// Gives every working path its reason.
pub(super) fn say_why(status: &mut Status) {
    let open = status.connections + status.udp_flows > 0;
    let reasons: Vec<Option<String>> =
        status.paths.iter().map(|path| why(path, &status.paths, open)).collect();
    for (path, reason) in status.paths.iter_mut().zip(reasons) {
        if let Some(reason) = reason {
            path.reason = reason;
        }
    }
}

fn why(path: &PathStatus, all: &[PathStatus], open: bool) -> Option<String> {
    let why = path.reason.strip_prefix(IN_USE)?;
    if path.state != PathState::Up || is_busy(path) {
        return None;
    }
    if !why.is_empty() {
        return Some(format!("ready{why}"));
    }
    let works = |other: &&PathStatus| other.state == PathState::Up && other.name != path.name;
    if !open {
        return Some("idle: no connection is open".into());
    }
    if path.subflows == 0 {
        return Some("idle: no open connection has a subflow on it".into());
    }
    Some(match all.iter().filter(works).find(|other| is_busy(other)) {
        Some(other) => format!("idle: the scheduler sends by {}, which suffices", other.name),
        None => "idle: open connections send nothing".into(),
    })
}

fn is_busy(path: &PathStatus) -> bool {
    path.rx_bps.max(path.tx_bps) >= BUSY_BPS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reasons(change: impl Fn(&mut Status)) -> Vec<String> {
        let path = |name: &str| PathStatus {
            name: name.into(),
            state: PathState::Up,
            reason: IN_USE.into(),
            subflows: 1,
            ..PathStatus::default()
        };
        let paths = vec![path("wan1"), path("wan2")];
        let mut status = Status { paths, connections: 1, ..Status::default() };
        change(&mut status);
        say_why(&mut status);
        status.paths.into_iter().map(|path| path.reason).collect()
    }

    #[test]
    fn every_idle_path_has_its_reason() {
        let none = "idle: open connections send nothing";
        assert_eq!(reasons(|_| {}), [none, none]);
        assert_eq!(reasons(|s| s.connections = 0)[0], "idle: no connection is open");
        assert_eq!(
            reasons(|s| s.paths[0].rx_bps = 1e6),
            ["in use", "idle: the scheduler sends by wan1, which suffices"]
        );
        assert_eq!(
            reasons(|s| s.paths[1].subflows = 0)[1],
            "idle: no open connection has a subflow on it"
        );
    }

    #[test]
    fn what_says_more_is_left() {
        let down = reasons(|s| {
            s.paths[0].state = PathState::Down;
            s.paths[0].reason = "no answer for 0.9 s".into();
        });
        assert_eq!(down, ["no answer for 0.9 s", "idle: open connections send nothing"]);
        let kept = "backup: wan1 works";
        assert_eq!(reasons(|s| s.paths[1].reason = kept.into())[1], kept);
    }

    /// A path is "in use" only while it is.
    #[test]
    fn what_is_wanted_and_idle_is_ready() {
        let help = "in use: wan1 alone is full";
        let said = |rx_bps| {
            reasons(|s| (s.paths[1].reason, s.paths[1].rx_bps) = (help.into(), rx_bps)).remove(1)
        };
        assert_eq!((said(0.0).as_str(), said(1e6).as_str()), ("ready: wan1 alone is full", help));
    }
}
