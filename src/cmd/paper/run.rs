//! `tabane paper run`: repeats papers, writes a page for each, prints one row a claim.

use crate::cmd::progress::Progress;
use crate::cmd::sets::Sets;
use crate::exit::Failure;
use crate::say;
use anyhow::anyhow;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table};
use serde::Serialize;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Mutex;
use tabane_papers::report::{Report, Verdict, compact};
use tabane_papers::{ALL, Context, Options, Paper, output};

/// Repeat papers; print a summary, and write a page with figures for each.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Papers by name or number: bicast (s1), hayack (s2), ecf3 (s3), two_wans (s4), proxies (s5),
    /// wsp (s6), olia (s7), ecf (s8), stms (s9); or `all`.
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Fewer points and repetitions: a minute for all instead of ten.
    #[arg(long)]
    quick: bool,
    /// Parallel runs [default: one per core].
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZero<usize>>,
    /// Write reports into this folder, each into a subfolder named after the paper.
    #[arg(long, value_name = "DIR", default_value = "paper-reports")]
    out: PathBuf,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    sets: Sets,
    /// With proxies: find the best place for a proxy.
    #[arg(long)]
    place: bool,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  tabane paper run ecf3                      the paper's tables beside ours, in paper-reports/ecf3/
  tabane paper run all --quick --out DIR     every paper, in about a minute
  tabane paper run ecf3 --set defaults.congestion=cubic   not as published: the report says so
  tabane paper run ecf3 --json | jq '.papers[0].claims'

Each paper gets report.html (one page that needs no network), report.json, cells.csv, series.csv
and its figures as SVG. A claim that is not reproduced is a result, not a failure.";

/// What `--json` prints.
#[derive(Serialize)]
struct Printed<'a> {
    version: &'static str,
    papers: Vec<&'a Report>,
}

/// Repeats them.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let papers = choose(&args.names)?;
    if args.place && !papers.iter().any(|paper| paper.name == "proxies") {
        return Err(Failure::usage("--place belongs to proxies: tabane paper run proxies --place"));
    }
    let (mut reports, mut failed) = (Vec::new(), Vec::new());
    for paper in papers {
        match repeat(args, paper) {
            Ok(report) => {
                let names = output::write(&args.out.join(paper.name), &report);
                let names = names.map_err(|e| anyhow!(e))?;
                let folder = args.out.join(paper.name);
                say::note(&format!("written to {}: {}", folder.display(), names.join(", ")));
                reports.push(report);
            }
            Err(error) => failed.push(format!("{}: {error}", paper.name)),
        }
    }
    let all: Vec<&Report> = reports.iter().collect();
    if !all.is_empty() {
        output::write_index(&args.out, &all).map_err(|e| anyhow!(e))?;
    }
    if args.json {
        let printed = Printed { version: env!("CARGO_PKG_VERSION"), papers: all };
        say::print(&serde_json::to_string(&printed).map_err(|e| anyhow!(e))?)?;
    } else {
        say::print(&summary(&all).to_string())?;
    }
    if failed.is_empty() { Ok(()) } else { Err(anyhow!(failed.join("\n")).into()) }
}

/// The papers of these names, each once, in the order given; `all` is all.
fn choose(names: &[String]) -> Result<Vec<&'static Paper>, Failure> {
    let mut papers: Vec<&'static Paper> = Vec::new();
    for name in names {
        let named = match name.as_str() {
            "all" => ALL.to_vec(),
            name => {
                vec![tabane_papers::find(name).map_err(|e| Failure::usage(e.to_string()))?]
            }
        };
        for paper in named {
            if !papers.iter().any(|known| known.name == paper.name) {
                papers.push(paper);
            }
        }
    }
    Ok(papers)
}

#[allow(clippy::disallowed_methods)] // How long it took is real time.
fn repeat(args: &Args, paper: &'static Paper) -> Result<Report, tabane_papers::PaperError> {
    let began = std::time::Instant::now();
    let stage: Mutex<Option<(String, Progress)>> = Mutex::new(None);
    let tell = |told: tabane_papers::Progress<'_>| {
        let mut stage = stage.lock().expect("invariant: nothing panics while it is held");
        if stage.as_ref().is_none_or(|(name, _)| name != told.stage) {
            if let Some((_, bar)) = stage.take() {
                bar.finish();
            }
            let label = format!("{}: {}", paper.name, told.stage);
            *stage = Some((told.stage.to_owned(), Progress::new(&label, told.of as u64)));
        }
        if let Some((_, bar)) = stage.as_ref() {
            bar.set(told.done as u64);
        }
    };
    let mut context = Context::new(&tell);
    context.quick = args.quick;
    context.seed = args.seed;
    let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
    context.jobs = args.jobs.map_or_else(cores, NonZero::get);
    context.options = Options { place: args.place, sets: args.sets.values().to_vec() };
    let report = tabane_papers::repeat(paper, &context);
    let last = stage.into_inner().expect("invariant: nothing panics while it is held");
    if let Some((_, bar)) = last {
        bar.finish();
    }
    let mut report = report?;
    report.run_s = Some(began.elapsed().as_secs_f64());
    Ok(report)
}

/// One row a claim and a target.
fn summary(reports: &[&Report]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    if table.width().is_none() {
        // No terminal to ask: claims and verdicts are sentences, and would make lines of 300.
        table.set_width(150);
    }
    let head = ["paper", "claim", "paper's", "ours", "verdict"];
    table.set_header(head.iter().map(|h| Cell::new(h).add_attribute(Attribute::Dim)));
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    for report in reports {
        for claim in &report.claims {
            table.add_row(vec![
                Cell::new(report.paper).add_attribute(Attribute::Bold),
                Cell::new(&claim.text),
                right(claim.paper.words(&claim.unit)),
                right(claim.ours.words(&claim.unit)),
                verdict(&claim.verdict, claim.verdict.words()),
            ]);
        }
        for target in &report.beyond {
            let with_unit = |value| format!("{} {}", compact(value), target.unit);
            table.add_row(vec![
                Cell::new(report.paper).add_attribute(Attribute::Bold),
                Cell::new(format!("beyond: {}", target.text)),
                right(with_unit(target.bound).trim_end().to_owned()),
                right(with_unit(target.ours).trim_end().to_owned()),
                verdict(&target.verdict, target.verdict.target_words()),
            ]);
        }
    }
    table
}

fn verdict(verdict: &Verdict, words: String) -> Cell {
    let colour = match verdict {
        Verdict::Reproduced => Color::Green,
        Verdict::Fitted(_) | Verdict::Partly(_) => Color::Yellow,
        Verdict::Not(_) | Verdict::Unknown(_) => Color::Red,
    };
    Cell::new(words).fg(colour)
}
