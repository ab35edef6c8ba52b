//! `tabane bench gateway`: client and server agents on this machine, between them emulated links
//! or none, and what the gateway is to be beside what it is. One file a row of the table.
//!
//! Everything runs in this process, on loopback, but for the server of [`idle`] (a process of its
//! own, whose memory is the figure) and for [`tun`] and [`datagrams`] (namespaces that they make
//! and remove).

mod beside;
mod bloated;
mod bond;
mod bursts;
mod cost;
mod datagrams;
mod failover;
mod far;
mod figure;
mod idle;
mod latency;
mod leo;
mod link;
mod lossy;
mod outage;
mod process;
mod program;
mod quic;
mod scene;
mod trail;
mod train;
mod tun;
mod unshaped;
mod users;
mod voice;
mod whatif;

use super::median;
use crate::exit::Failure;
use crate::say;
use anyhow::{Context, anyhow};
use clap::ValueEnum;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{Cell, CellAlignment, Color, ContentArrangement, Table};
use figure::{Figure, Verdict};
use link::Links;
use serde::Serialize;
use tabane_net::Clock;

/// Measure the gateway on this machine, beside its targets.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Every figure has a target that must hold and one that is aimed at. Speeds and times are those of a
machine that does nothing else. Links are emulated: Mbit/s, round-trip time, a queue of 50 ms; in
the rows from `bursts` on, those of scenarios/links. Beside some of these, the kernel's MPTCP with
BBR is measured without a tunnel, where root allows (not with --quick). The row `quic` needs a build
with QUIC inside: cargo build --release --features quic.

Examples:
  tabane bench gateway                     all rows, about fifty minutes
  tabane bench gateway whatif --set train  of that row one set: three minutes of thirty-five
  tabane bench gateway unshaped failover   these
  tabane bench gateway train --verbose     what paths and subflows did, each quarter of a second
  tabane bench gateway bond --links 50@40+5@80 --loss 1
                                           one pair of links; 50@40 is that link alone
  tabane bench gateway --quick --json      less of everything, as one JSON document")]
pub(super) struct Args {
    /// Rows to measure [default: all].
    rows: Vec<Row>,
    /// Fewer and shorter measurements.
    #[arg(long)]
    quick: bool,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    /// Links for the row `bond`, in Mbit/s and ms, instead of the usual pairs; can be repeated.
    #[arg(long, value_name = "MBIT@MS[+MBIT@MS]")]
    links: Vec<Links>,
    /// Loss for the row `bond`, in percent, instead of 0 and 1; can be repeated.
    #[arg(long, value_name = "PERCENT", value_parser = link::percent)]
    loss: Vec<f64>,
    /// Sets of links for the row `whatif`, instead of all ten; can be repeated.
    #[arg(long = "set", value_name = "NAME", value_parser = whatif::SETS.map(|set| set.0))]
    sets: Vec<String>,
}

/// A row of the table.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Row {
    /// One flow over two paths without limits, and what it costs.
    Unshaped,
    /// The same through a TUN device; in network namespaces, which needs root.
    Tun,
    /// Datagrams through a TUN device before any are lost; in network namespaces, which needs root.
    Datagrams,
    /// Processor time of both agents on links that limit them, and idle.
    Cost,
    /// One flow over two links, beside each of them alone.
    #[value(alias = "bundle")]
    Bond,
    /// A link dies during a download, and comes back.
    Failover,
    /// Setting up a connection, beside the path's round trip.
    Setup,
    /// A doubled datagram, beside the path alone.
    Udp,
    /// Memory of a server with clients and connections that do nothing.
    Idle,
    /// A download over links that lose packets in bursts.
    Bursts,
    /// A download over satellites in low orbit, beside DSL and alone.
    Leo,
    /// Bulk over two mobile links in a train, down and up.
    Train,
    /// New connections while one of two links loses 5 %.
    Lossy,
    /// A download over a good link and one that is slow and far away.
    Far,
    /// Small requests beside a download, on links with deep queues and usual ones.
    Bloated,
    /// 200 people who open pages beside five downloads.
    Users,
    /// Bulk goes on after all links were dead.
    Outage,
    /// A download by QUIC over two links, beside each of them alone.
    Quic,
    /// A call while a link flaps.
    Voice,
    /// Recordings of links that vary, asked what would have been, beside what is.
    Whatif,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    version: &'static str,
    cores: usize,
    quick: bool,
    seconds: f64,
    figures: &'a [Figure],
    /// Rows that could not be measured, and why.
    failed: &'a [String],
}

/// Runs the rows.
///
/// # Errors
/// [`Failure`] at the end, if a row could not be measured; a target that is missed is none.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let clock = Clock::start();
    let (mut figures, mut failed) = (Vec::new(), Vec::new());
    for row in Row::value_variants() {
        if args.rows.is_empty() || args.rows.contains(row) {
            let name = row.to_possible_value().context("invariant: no row is hidden")?;
            let help = name.get_help().map(ToString::to_string).unwrap_or_default();
            say::note(&format!("{}: {help}", name.get_name()));
            match row.measure(args) {
                Ok(measured) => figures.extend(measured),
                Err(error) => {
                    let why = format!("row {}: {error:#}", name.get_name());
                    say::warning(&why);
                    failed.push(why);
                }
            }
        }
    }
    if args.json {
        let document = Document {
            version: env!("CARGO_PKG_VERSION"),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            quick: args.quick,
            seconds: clock.now().as_secs_f64(),
            figures: &figures,
            failed: &failed,
        };
        say::print(&serde_json::to_string_pretty(&document).map_err(|e| anyhow!(e))?)?;
    } else {
        say::print(&table(&figures).to_string())?;
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(anyhow!("not measured: {}", failed.join("; ")).into())
}

impl Row {
    fn measure(self, args: &Args) -> anyhow::Result<Vec<Figure>> {
        let quick = args.quick;
        match self {
            Self::Unshaped => unshaped::measure(quick),
            Self::Tun => tun::measure(quick),
            Self::Datagrams => datagrams::measure(quick),
            Self::Cost => cost::measure(quick),
            Self::Bond => bond::measure(quick, &args.links, &args.loss),
            Self::Failover => failover::measure(quick),
            Self::Setup => latency::measure_setup(quick),
            Self::Udp => latency::measure_udp(quick),
            Self::Idle => idle::measure(quick),
            Self::Bursts => bursts::measure(quick),
            Self::Leo => leo::measure(quick),
            Self::Train => train::measure(quick),
            Self::Lossy => lossy::measure(quick),
            Self::Far => far::measure(quick),
            Self::Bloated => bloated::measure(quick),
            Self::Users => users::measure(quick),
            Self::Outage => outage::measure(quick),
            Self::Quic => quic::measure(quick),
            Self::Voice => voice::measure(quick),
            Self::Whatif => whatif::measure(quick, &args.sets),
        }
    }
}

fn table(figures: &[Figure]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    if table.width().is_none() {
        // No terminal to ask: what figures are made of would make lines of 350.
        table.set_width(160);
    }
    table.set_header(["row", "what", "figure", "must", "aim", "", "beside", "made of"]);
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    for figure in figures {
        let [must, aim] = figure.target.words(figure.unit);
        let value = figure.value.map_or_else(|| "-".into(), |value| figure.unit.text(value));
        let beside = figure.beside.map_or_else(String::new, |value| figure.unit.text(value));
        let colour = match figure.verdict {
            Verdict::Aim => Color::Green,
            Verdict::Must => Color::Yellow,
            Verdict::Missed => Color::Red,
            Verdict::Skipped => Color::DarkGrey,
        };
        table.add_row(vec![
            Cell::new(figure.row),
            Cell::new(&figure.what),
            right(value),
            right(must),
            right(aim),
            Cell::new(figure.verdict.word()).fg(colour),
            right(beside),
            Cell::new(&figure.note),
        ]);
    }
    table
}

/// A figure that has just been measured, for whoever waits.
fn tell(figure: &Figure) {
    let value = figure.value.map_or_else(|| "-".into(), |value| figure.unit.text(value));
    let (what, note) = (&figure.what, &figure.note);
    let beside = figure.beside.map(|value| format!(" (beside: {})", figure.unit.text(value)));
    let beside = beside.unwrap_or_default();
    say::note(&format!("  {what}: {value} ({}) {note}{beside}", figure.verdict.word()));
}

/// The value that this share of them does not exceed.
fn quantile(values: &mut [f64], share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * share).ceil() as usize;
    values.get(at.clamp(1, values.len().max(1)) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values() {
        let mut values = [4.0, 1.0, 3.0, 2.0];
        let quantiles = [0.0, 0.5, 0.75, 0.99, 1.0].map(|share| quantile(&mut values, share));
        assert_eq!(quantiles, [1.0, 2.0, 3.0, 4.0, 4.0].map(Some));
        assert_eq!(quantile(&mut [], 0.5), None);
    }
}
