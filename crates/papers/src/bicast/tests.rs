//! The parts of this paper that are quick to check: the published cells, the check by capture, and
//! one cell by hand.

use super::table::{Mode, job, published};
use super::*;
use crate::Progress;

#[test]
fn every_published_cell_is_read() {
    let cells = published().unwrap();
    assert_eq!(cells.len(), 132);
    assert_eq!(cells[&(Mode::Plain, 10, 5)], 141.4);
    assert_eq!(cells[&(Mode::Bicast, 10, 5)], 61.3);
}

#[test]
fn the_check_by_capture_holds() {
    let quiet = |_: Progress<'_>| ();
    let context = Context::new(&quiet);
    let mut report = Report::new(&PAPER, &context);
    capture::check(&context, &mut report).unwrap();
    assert_eq!(report.claims.len(), 8);
    for claim in &report.claims {
        assert!(claim.verdict.holds(), "{claim:?}");
    }
}

/// Without loss the link is full: 1428 of 1500 bytes are payload.
#[test]
fn a_cell_without_loss_takes_what_the_link_takes() {
    let small = [("flow.0.bulk", "20MB")];
    let job = job((Mode::Bicast, 0, 0), 1, &small).unwrap();
    let result =
        job.run(&Context::new(&|_: Progress<'_>| ()), &mut tabane_sim::observe::Silent).unwrap();
    let seconds = job.completed(&result, "file").unwrap();
    let bound = 20e6 * 8.0 / (100e6 * 1428.0 / 1500.0);
    assert!((bound..bound * 1.01).contains(&seconds), "{seconds} against {bound}");
}

/// Copies of acknowledgements make up for lost ones.
#[test]
fn bicast_does_not_feel_uplink_loss_and_plain_does() {
    let time = |mode, up| {
        let job = job((mode, up, 4), 1, &[("flow.0.bulk", "50MB")]).unwrap();
        let result = job
            .run(&Context::new(&|_: Progress<'_>| ()), &mut tabane_sim::observe::Silent)
            .unwrap();
        job.completed(&result, "file").unwrap()
    };
    let (clean, plain, bicast) =
        (time(Mode::Bicast, 0), time(Mode::Plain, 10), time(Mode::Bicast, 10));
    assert!(bicast < 1.1 * clean, "{bicast} against {clean}");
    assert!(plain > 1.5 * bicast, "{plain} against {bicast}");
}
