//! Why bicast helps, from what the sender did: timeouts, recoveries, windows, with and without
//! copies of the acknowledgements (algorithms: RFC 5681, 6675, 8985; RFC 2883 and 3708 for copies
//! of data).

use super::table::{Grid, Mode, job};
use crate::PaperError;
use crate::context::Context;
use crate::figure::{Series, Source};
use crate::report::{Report, Table, Verdict};
use tabane_engine::mptcp::Info;
use tabane_engine::{Duration, Instant};
use tabane_sim::observe::{FlowIdx, HostIdx, Layout, Observer, Wants};

/// Cells that are looked at: uplink and downlink loss.
const CELLS: [(u8, u8); 3] = [(0, 5), (5, 5), (10, 5)];
/// Windows are drawn to here.
const DRAWN: f64 = 4.0;

/// What the server's Wi-Fi subflow went through.
#[derive(Default)]
struct Watch {
    server: HostIdx,
    /// Time and cwnd in segments.
    windows: Vec<(f64, f64)>,
    sum: f64,
    count: u32,
    last: Info,
}

impl Observer for Watch {
    fn wants(&self) -> Wants {
        Wants { sample: Some(Duration::from_millis(10)), ..Wants::default() }
    }

    fn begin(&mut self, layout: &Layout) {
        self.server = layout.flows[0].server;
    }

    fn sample(&mut self, now: Instant, _: FlowIdx, host: HostIdx, info: &Info) {
        if host != self.server {
            return;
        }
        if let Some(wifi) = info.subflows.first() {
            let (at, cwnd) = (now.as_secs_f64(), wifi.view.cwnd as f64 / wifi.view.mss as f64);
            if at <= DRAWN {
                self.windows.push((at, cwnd));
            }
            self.sum += cwnd;
            self.count += 1;
        }
        self.last.clone_from(info);
    }
}

/// One cell, one mode.
struct Seen {
    place: (Mode, u8, u8),
    seconds: f64,
    timeouts: u64,
    recoveries: u64,
    probes: u64,
    acks: u64,
    undone: u64,
    resent: f64,
    cwnd: f64,
    windows: Vec<(f64, f64)>,
}

fn look(context: &Context<'_>, place: (Mode, u8, u8), seed: u64) -> Result<Seen, PaperError> {
    let job = job(place, seed, &[])?;
    let mut watch = Watch::default();
    let result = job.run(context, &mut watch)?;
    let stats = watch.last.subflows.first().map(|s| s.stats).unwrap_or_default();
    Ok(Seen {
        place,
        seconds: job.completed(&result, "file")?,
        timeouts: stats.timeouts,
        recoveries: stats.recoveries,
        probes: stats.tail_loss_probes,
        acks: stats.segments_received,
        undone: stats.undone,
        resent: stats.bytes_retransmitted as f64 / stats.bytes_sent.max(1) as f64,
        cwnd: watch.sum / f64::from(watch.count.max(1)),
        windows: watch.windows,
    })
}

/// Runs the cells and says what copies change.
pub(super) fn explain(
    context: &Context<'_>,
    grid: &Grid,
    report: &mut Report,
) -> Result<(), PaperError> {
    let places: Vec<_> =
        CELLS.iter().flat_map(|(up, down)| Mode::BOTH.map(|m| (m, *up, *down))).collect();
    let seen = context.each("traces", &places, |place| look(context, *place, context.seed))?;
    let head = [
        "cell, up/down",
        "mode",
        "time",
        "timeouts",
        "recoveries",
        "tail loss probes",
        "segments from the client",
        "undone",
        "sent again",
        "mean cwnd",
    ];
    let rows = seen.iter().map(|s| {
        let (mode, up, down) = s.place;
        vec![
            format!("{up} % / {down} %"),
            mode.name().into(),
            format!("{:.1} s", s.seconds),
            s.timeouts.to_string(),
            s.recoveries.to_string(),
            s.probes.to_string(),
            s.acks.to_string(),
            s.undone.to_string(),
            format!("{:.2} %", s.resent * 100.0),
            format!("{:.1}", s.cwnd),
        ]
    });
    report.tables.push(Table {
        title: "What copies change for the sender".into(),
        head: head.map(str::to_owned).into(),
        rows: rows.collect(),
        caption: "The server's Wi-Fi subflow, one seed: both modes meet the same losses down."
            .into(),
    });
    let panel = |pair: &[Seen]| {
        let series = pair.iter().enumerate().map(|(hue, s)| Series {
            label: s.place.0.name().into(),
            hue,
            source: Source::Ours,
            points: s.windows.clone(),
        });
        let (_, up, down) = pair[0].place;
        (format!("{up} % up, {down} % down"), series.collect())
    };
    super::figures::windows(report, seen.chunks(2).map(panel).collect());
    let lossy = (&seen[seen.len() - 2], &seen[seen.len() - 1]);
    report.note(format!(
        "Why bicast helps with uplink loss: at 10 % up and 5 % down the plain sender had {} \
         retransmission timeouts (200 ms at least, each), with bicast {}: an acknowledgement is \
         lost with probability 0.1 x 0.01 instead of 0.1, so SACK information about the last \
         packets of a window arrives, and losses are repaired by fast recovery.",
        lossy.0.timeouts, lossy.1.timeouts
    ));
    at_no_uplink_loss(grid, &seen[0], &seen[1], report);
    Ok(())
}

/// The paper's gain without uplink loss, which copies of acknowledgements cannot give.
fn at_no_uplink_loss(grid: &Grid, plain: &Seen, bicast: &Seen, report: &mut Report) {
    let gain = |of: &dyn Fn(Mode) -> f64| 100.0 * (1.0 - of(Mode::Bicast) / of(Mode::Plain));
    let theirs = gain(&|mode| grid.theirs((mode, 0, 5)));
    let ours = gain(&|mode| grid.mean((mode, 0, 5)));
    report.claim(
        "gain-without-uplink-loss",
        "Time saved by bicast with 0 % uplink and 5 % downlink loss",
        (theirs, ours, "%"),
        Verdict::within(theirs, ours, 3.0, || {
            format!(
                "a copy of an acknowledgement acknowledges nothing new: with SACK it neither grows \
                 cwnd nor counts as a duplicate; the trace shows {} timeouts and {} recoveries \
                 without copies, {} and {} with them, and windows that coincide",
                plain.timeouts, plain.recoveries, bicast.timeouts, bicast.recoveries
            )
        }),
    );
    report.note(
        "Additional acknowledgements do not grow the window, as the paper supposes they do: growth \
         counts newly acknowledged bytes, here as in the kernel that was used.",
    );
    // Which of our rows the paper's row without uplink loss is like.
    let distance = |up: u8| {
        let error = |down| {
            let theirs = grid.theirs((Mode::Plain, 0, down));
            (grid.mean((Mode::Plain, up, down)) - theirs).abs() / theirs
        };
        [3, 4, 5].into_iter().map(error).sum::<f64>() / 3.0
    };
    let near = grid.rows.iter().map(|up| (*up, distance(*up))).min_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((up, error)) = near.filter(|(up, _)| *up > 0) {
        report.note(format!(
            "The paper's plain row without uplink loss (3 to 5 % down) is nearest to ours with \
             {up} % uplink loss (mean error {:.1} %, against {:.1} % for ours without): as if \
             their uplink lost acknowledgements that bicast made up for.",
            error * 100.0,
            distance(0) * 100.0
        ));
    }
}
