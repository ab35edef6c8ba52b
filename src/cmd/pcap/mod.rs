//! `tabane pcap`: what a capture says about its connections, as Wireshark would label them.
//! docs/pcap.md explains the figures.

mod table;

use crate::exit::Failure;
use crate::say;
use anyhow::{Context, anyhow};
use serde::Serialize;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use tabane_config::quantity::Time;
use tabane_trace::analysis::{Analysis, Analyzer, Rules, Settings, files, plots};
use tabane_trace::pcap::{Buffered, End, Segments, Skip, Skips};
use tabane_wire::Headers;

/// Analyse a capture: subflows, connections, error packets, fairness.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  tabane pcap FILE                         a table of connections and subflows
  tabane pcap FILE --out results           the same, with CSV series and SVG plots
  tabane pcap FILE --json | jq '.labels'   one JSON document
  tcpdump -w - | tabane pcap -             from standard input")]
pub(crate) struct Args {
    /// A pcap or pcapng file, or - for standard input.
    file: PathBuf,
    /// Print one JSON document instead of tables.
    #[arg(long)]
    json: bool,
    /// Write analysis.json, series.csv and plots into this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Sliding window of Jain's index, as in 1s [default: ten RTTs, at least 1s].
    #[arg(long, value_name = "TIME")]
    window: Option<Time>,
    /// Leave out this much of Jain's index after the second flow begins [default: 5s, or a tenth
    /// of the capture].
    #[arg(long, value_name = "TIME")]
    skip: Option<Time>,
    /// Whose labels: tshark 4.0's, or those of Wireshark since 4.2 (from its source, not compared
    /// with one).
    #[arg(long, value_name = "VERSION", default_value = "4.0", value_parser = rules)]
    rules: Rules,
}

/// The document of `--json` and of `analysis.json`.
#[derive(Serialize, Debug)]
struct Document {
    file: About,
    /// Version of Wireshark whose labels these are.
    rules: &'static str,
    #[serde(flatten)]
    analysis: Analysis,
}

/// About the file itself.
#[derive(Serialize, Debug)]
struct About {
    name: String,
    format: &'static str,
    /// Read until the end, or until where it is cut off or damaged.
    bytes: u64,
    /// Frames of all kinds.
    frames: u64,
    /// Bytes of frames that the file keeps.
    captured_bytes: u64,
    /// Frames without a time of their own.
    untimed_frames: u64,
    /// Whether it ends after a whole packet; if not, `end` says where.
    whole: bool,
    end: String,
    skipped_frames: u64,
    /// By reason.
    skipped: Skips,
}

fn rules(name: &str) -> Result<Rules, String> {
    let all = [Rules::Tshark40, Rules::Recent];
    let found = all.into_iter().find(|rules| rules.name() == name);
    found.ok_or_else(|| "there are 4.0 and 4.2".to_owned())
}

/// Does it.
///
/// # Errors
/// When the file cannot be read at all, or the results cannot be written.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let settings = Settings {
        window: args.window.map(|time| time.0),
        skip: args.skip.map(|time| time.0),
        rules: args.rules,
        ..Settings::default()
    };
    let document = read(&args.file, settings)?;
    if !document.file.whole {
        say::note(&format!("{}: {}", document.file.name, document.file.end));
    }
    if let Some(folder) = &args.out {
        write(folder, &document)?;
    }
    if args.json {
        return say::print(&serde_json::to_string_pretty(&document).map_err(anyhow::Error::new)?);
    }
    say::print(&table::text(&document))
}

fn read(path: &Path, settings: Settings) -> Result<Document, Failure> {
    if path == Path::new("-") {
        return analyse("standard input", std::io::stdin().lock(), settings);
    }
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| name.clone())?;
    if file.metadata().is_ok_and(|m| m.is_dir()) {
        return Err(anyhow!("{name}: a folder; name a capture in it").into());
    }
    analyse(&name, file, settings)
}

fn analyse(name: &str, reader: impl Read, settings: Settings) -> Result<Document, Failure> {
    let opened = Segments::open(Buffered::new(reader));
    let mut segments = opened.map_err(|error| anyhow!("{name}: {error}"))?;
    let rules = settings.rules.name();
    let mut analyzer = Analyzer::new(settings);
    let mut headers = Headers::default();
    loop {
        let next = segments.next_segment(&mut headers);
        let at = segments.position();
        let Some(seen) = next.with_context(|| format!("{name}: at offset {at}"))? else { break };
        analyzer.packet(seen.time, &headers);
    }
    let analysis = analyzer.analysis();
    let mut skipped = segments.skips().clone();
    skipped.add_many(Skip::TooManyStreams, analysis.beyond_limit);
    let end = segments.end().cloned().unwrap_or(End::Whole);
    let file = About {
        name: name.to_owned(),
        format: segments.format(),
        bytes: segments.position(),
        frames: segments.frames(),
        captured_bytes: segments.captured(),
        untimed_frames: segments.untimed(),
        whole: end == End::Whole,
        end: end.to_string(),
        skipped_frames: skipped.total(),
        skipped,
    };
    Ok(Document { file, rules, analysis })
}

fn write(folder: &Path, document: &Document) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("{} cannot be made", folder.display()))?;
    let file = Path::new(&document.file.name).file_name();
    let file = file.map_or_else(|| document.file.name.clone(), |f| f.to_string_lossy().into());
    let source = format!("{file} · tabane {}", env!("CARGO_PKG_VERSION"));
    let analysis = &document.analysis;
    let json = serde_json::to_string_pretty(document).map_err(anyhow::Error::new)? + "\n";
    let mut outputs = vec![("analysis.json".to_owned(), json)];
    outputs.push(("series.csv".to_owned(), files::csv(analysis)));
    let drawn = plots::plots(analysis, &source).map_err(anyhow::Error::new)?;
    outputs.extend(drawn.into_iter().map(|(name, svg)| (format!("{name}.svg"), svg)));
    for (name, text) in &outputs {
        let path = folder.join(name);
        std::fs::write(&path, text)
            .with_context(|| format!("{} cannot be written", path.display()))?;
    }
    let names: Vec<&str> = outputs.iter().map(|(name, _)| name.as_str()).collect();
    say::note(&format!("written to {}: {}", folder.display(), names.join(", ")));
    Ok(())
}
