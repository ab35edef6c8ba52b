//! `tabane pcap`: what a capture says about its connections, as Wireshark would label them.
//! docs/pcap.md explains the figures.

mod table;

use crate::exit::Failure;
use crate::say;
use anyhow::{Context, anyhow};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tabane_config::quantity::Time;
use tabane_trace::analysis::{Document, Rules, Settings, files, plots};

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
        let input = Piped::new(std::io::stdin().lock())?;
        return analyse("standard input", input, settings);
    }
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| name.clone())?;
    if file.metadata().is_ok_and(|m| m.is_dir()) {
        return Err(anyhow!("{name}: a folder; name a capture in it").into());
    }
    analyse(&name, file, settings)
}

/// Standard input behind `tcpdump -w -`: Ctrl-C goes to both, and for us it is but the end of the
/// input, of which the other one sees to it.
struct Piped<R> {
    input: R,
    ended: Arc<AtomicBool>,
}

impl<R: Read> Piped<R> {
    fn new(input: R) -> Result<Self, Failure> {
        let ended = Arc::new(AtomicBool::new(false));
        let read = ended.clone();
        let handle = move || {
            std::thread::sleep(GRACE);
            if !read.load(Ordering::Relaxed) {
                std::process::exit(130);
            }
        };
        ctrlc::set_handler(handle).context("signals cannot be caught")?;
        Ok(Self { input, ended })
    }
}

impl<R: Read> Read for Piped<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.input.read(buffer);
        if matches!(read, Ok(0)) && !buffer.is_empty() {
            self.ended.store(true, Ordering::Relaxed);
        }
        read
    }
}

/// Who writes has so long after Ctrl-C to end.
const GRACE: Duration = Duration::from_secs(1);

fn analyse(name: &str, reader: impl Read, settings: Settings) -> Result<Document, Failure> {
    Ok(Document::read(name, reader, settings).map_err(anyhow::Error::new)?)
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
