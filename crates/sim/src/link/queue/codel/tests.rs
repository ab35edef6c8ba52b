//! CoDel against its specification, head by head.

use super::super::build;
use super::*;

const MS: u64 = 1_000_000;

fn head(now_ms: u64, waited_ms: u64) -> Head {
    let (now, waited) = (Instant(now_ms * MS), Duration::from_millis(waited_ms));
    Head { now, waited, ect: false, len: 1500, behind: 15_000, subqueue: 0 }
}

fn make(spec: &str) -> Box<dyn Queue> {
    build(&spec.parse().expect("a spec")).expect("a row")
}

/// Drops of a queue whose delay stays at 20 ms, with a packet leaving every millisecond.
fn drops(queue: &mut dyn Queue, from_ms: u64, to_ms: u64) -> Vec<u64> {
    let mut drops = Vec::new();
    for now in from_ms..to_ms {
        while queue.leave(&head(now, 20)) == Verdict::Drop {
            drops.push(now);
        }
    }
    drops
}

/// The first after one interval above target, then at interval / sqrt(1), / sqrt(2), ... after
/// each other: 100, 70.7, 57.7, 50, 44.7, 40.8 ms. Rounded up to the next packet.
#[test]
fn drops_come_closer_with_the_square_root_of_their_number() {
    let mut queue = make("codel");
    assert_eq!(drops(&mut *queue, 0, 500), [100, 200, 271, 329, 379, 424, 464]);
}

#[test]
fn one_packet_below_target_ends_it() {
    let mut queue = make("codel");
    assert_eq!(drops(&mut *queue, 0, 150), [100]);
    assert_eq!(queue.leave(&head(150, 4)), Verdict::Pass);
    assert!(drops(&mut *queue, 151, 251).is_empty());
    assert_eq!(drops(&mut *queue, 251, 252), [251]);
}

#[test]
fn a_short_backlog_is_never_too_long() {
    let mut queue = make("codel");
    for now in 0..1000 {
        let short = Head { behind: 1500, ..head(now, 500) };
        assert_eq!(queue.leave(&short), Verdict::Pass);
    }
}

/// Six drops by 424 ms leave count = 6; entering again soon begins with count - lastcount = 5.
#[test]
fn soon_again_it_begins_where_it_was() {
    let mut queue = make("codel");
    drops(&mut *queue, 0, 430);
    assert_eq!(queue.leave(&head(430, 4)), Verdict::Pass);
    // Entered at 531 with count 5: next after 100 / sqrt(5) = 44.7 ms, then 40.8.
    assert_eq!(drops(&mut *queue, 431, 620), [531, 576, 617]);
}

#[test]
fn long_after_it_begins_anew() {
    let mut queue = make("codel");
    drops(&mut *queue, 0, 430);
    queue.on_empty(Instant(430 * MS));
    assert_eq!(drops(&mut *queue, 5000, 5210), [5100, 5200]);
}

/// Two drops may be due at one head's moment: the head after a drop in the dropping state is
/// judged again, the one after the entering drop is not.
#[test]
fn late_heads_catch_up() {
    let mut queue = make("codel");
    assert_eq!(drops(&mut *queue, 0, 101), [100]);
    assert_eq!(drops(&mut *queue, 280, 281), [280, 280], "due at 200 and 270.7");
}

#[test]
fn packets_that_allow_it_are_marked() {
    let mut queue = make("codel:ecn=1");
    let mut marks = Vec::new();
    for now in 0..400 {
        let verdict = queue.leave(&Head { ect: true, ..head(now, 20) });
        assert_ne!(verdict, Verdict::Drop);
        if verdict == Verdict::Mark {
            marks.push(now);
        }
    }
    assert_eq!(marks, [100, 200, 271, 329, 379]);
    assert_eq!(make("codel:ecn=0").leave(&head(0, 20)), Verdict::Pass);
}
