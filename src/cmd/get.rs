//! `tabane get`: an HTTP/1.1 client on the engine behind TUN devices.

use super::attach;
use crate::exit::Failure;
use crate::say;
use anyhow::{Context, anyhow};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Read, Write};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use tabane_engine::mptcp::Info;
use tabane_engine::{ConnId, Duration, Endpoint, Event, Instant};
use tabane_net::App;
use tabane_net::control::Controlled;
use tabane_net::http::{Fetch, FetchReport, FetchRequest, hex};

/// Download or upload over HTTP, from the engine behind TUN devices (root or CAP_NET_ADMIN).
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The host's kernel is the first router of every path: it must know a way from every TUN device to the
server and back (routes by source address, net.ipv4.ip_forward=1).
Not supported: https, redirects, compression. A name is looked up by this host, not on the paths.

Examples:
  sudo tabane get --tun tab0=10.99.1.2/24 --tun tab1=10.99.2.2/24 http://10.1.0.1/big -o big
  sudo tabane get --tun tab0=10.99.1.2/24 http://10.1.0.1/big -o big --resume
  sudo tabane get --tun tab0=10.99.1.2/24 --upload big http://10.1.0.1:8080/big")]
pub(crate) struct Args {
    #[command(flatten)]
    attach: attach::DeviceArgs,
    /// File for the body; `-` is standard output.
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Resume where FILE ends.
    #[arg(long, requires = "output")]
    resume: bool,
    /// Upload this file with PUT instead.
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    upload: Option<PathBuf>,
    /// Give up after this many seconds without progress.
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    idle: u64,
    /// End with one line of JSON on standard output.
    #[arg(long)]
    json: bool,
    /// http://HOST[:PORT]/PATH; write an IPv6 address in brackets.
    url: Url,
}

/// The parts of a URL that matter.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Url {
    text: String,
    host: String,
    port: u16,
    target: String,
}

impl std::str::FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rest = match text.split_once("://") {
            Some(("http", rest)) => rest,
            Some((scheme, _)) => return Err(format!("{scheme} is not supported, only http")),
            None => return Err("a URL begins with http://".to_owned()),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let slash = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(slash);
        if authority.contains('@') {
            return Err("user names in a URL are not supported".to_owned());
        }
        let target = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        if target.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err("a URL has no blanks: write %20".to_owned());
        }
        let behind_bracket = authority.find(']').map_or(0, |bracket| bracket + 1);
        let (host, port) = match authority[behind_bracket..].rfind(':') {
            None => (authority, 80),
            Some(colon) => {
                let (host, port) = authority.split_at(behind_bracket + colon);
                (host, port[1..].parse().map_err(|_| format!("'{}' is no port", &port[1..]))?)
            }
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err("there is no host in it".to_owned());
        }
        Ok(Self { text: text.to_owned(), host, port, target })
    }
}

/// The fetch with a progress bar and a last look at the connection.
struct Shown {
    inner: Controlled<Fetch>,
    bar: ProgressBar,
    next: Instant,
    info: Option<Info>,
}

/// A file that is made when there is something to write: an error leaves what was there.
enum Fresh {
    Named(PathBuf),
    Open(File),
}

/// Between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// Downloads or uploads.
///
/// # Errors
/// When there is no device, no server, or no end.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let to_stdout = args.output.as_os_str() == "-";
    if args.json && to_stdout && args.upload.is_none() {
        return Err(Failure::usage("--json needs standard output for itself: say -o FILE"));
    }
    let mut attached = args.attach.attach()?;
    let (local, remote) = ends(&args.url, &attached.config)?;
    let (request, upload_len) = request(args)?;
    let now = attached.driver.clock().now();
    let endpoint = attached.driver.endpoint();
    let conn = endpoint.connect(now, local, remote).map_err(anyhow::Error::new)?;
    let (mut driver, mut inner, _control) = attached.with(Fetch::new(now, conn, request));
    inner.add(conn);
    let bar = if say::is_quiet() || !io::stderr().is_terminal() {
        ProgressBar::hidden()
    } else {
        ProgressBar::new(upload_len.unwrap_or(0)).with_style(style())
    };
    let mut shown = Shown { inner, bar, next: now, info: None };
    driver.run(&mut shown).map_err(anyhow::Error::new)?;
    shown.bar.finish_and_clear();
    if driver.waker().is_stopped() {
        return Err(anyhow!("interrupted{}", hint(args)).into());
    }
    let end = shown.inner.app.finished_at().unwrap_or(now);
    let seconds = end.saturating_since(now).as_secs_f64();
    let report = shown.inner.app.into_outcome().map_err(anyhow::Error::new)?;
    tell(args, &report, shown.info.as_ref(), seconds)
}

fn hint(args: &Args) -> &'static str {
    let partial = args.upload.is_none() && args.output.as_os_str() != "-";
    if partial { "; --resume goes on where it stopped" } else { "" }
}

/// Our end on the first path of the right family, and the server's.
fn ends(url: &Url, config: &tabane_engine::Config) -> Result<(SocketAddr, SocketAddr), Failure> {
    let own: Vec<IpAddr> = config.paths.iter().flat_map(|path| path.addresses.clone()).collect();
    let found = (url.host.as_str(), url.port)
        .to_socket_addrs()
        .with_context(|| format!("cannot find the address of {}", url.host))?;
    for remote in found {
        if let Some(local) = own.iter().find(|own| own.is_ipv4() == remote.is_ipv4()) {
            return Ok((SocketAddr::new(*local, 0), remote));
        }
    }
    let why = format!("{} has no address of the family of any --tun address", url.host);
    Err(Failure::Failed(anyhow!(why)))
}

fn request(args: &Args) -> Result<(FetchRequest, Option<u64>), Failure> {
    let upload = match &args.upload {
        None => None,
        Some(path) => {
            let cannot = || format!("cannot read {}", path.display());
            let file = File::open(path).with_context(cannot)?;
            let length = file.metadata().with_context(cannot)?.len();
            Some((Box::new(file) as Box<dyn Read + Send>, length))
        }
    };
    let upload_len = upload.as_ref().map(|(_, length)| *length);
    let (sink, resume, hashed) = sink(args)?;
    let host = match args.url.host.contains(':') {
        true => format!("[{}]:{}", args.url.host, args.url.port),
        false => format!("{}:{}", args.url.host, args.url.port),
    };
    let request = FetchRequest {
        host,
        target: args.url.target.clone(),
        resume,
        hashed,
        upload,
        sink,
        idle_timeout: Duration::from_secs(args.idle),
    };
    Ok((request, upload_len))
}

/// Where the body goes, how much is there already, and its hash so far.
fn sink(args: &Args) -> Result<(Box<dyn Write + Send>, u64, Sha256), Failure> {
    let path: &Path = &args.output;
    if path.as_os_str() == "-" {
        // The answer to an upload is for the report.
        let out: Box<dyn Write + Send> =
            if args.upload.is_some() { Box::new(io::sink()) } else { Box::new(io::stdout()) };
        return Ok((out, 0, Sha256::new()));
    }
    let cannot = || format!("cannot write {}", path.display());
    if !args.resume || !path.exists() {
        return Ok((Box::new(Fresh::Named(path.to_owned())), 0, Sha256::new()));
    }
    let file = OpenOptions::new().read(true).append(true).open(path).with_context(cannot)?;
    let (hashed, length) = hex::hash(&file).with_context(cannot)?;
    Ok((Box::new(file), length, hashed))
}

fn tell(
    args: &Args,
    report: &FetchReport,
    info: Option<&Info>,
    seconds: f64,
) -> Result<(), Failure> {
    let upload = args.upload.is_some();
    let bytes = if upload { report.uploaded } else { report.received };
    let sha256 = if upload { &report.upload_sha256 } else { &report.sha256 };
    let goodput = bytes as f64 * 8.0 / seconds;
    let subflows = info.map_or(&[][..], |info| &info.subflows);
    let carried = |s: &tabane_engine::mptcp::SubflowInfo| {
        if upload { s.stats.bytes_acked } else { s.delivered }
    };
    if args.json {
        let subflows: Vec<_> = subflows
            .iter()
            .map(|s| json!({ "path": s.path.0, "local": s.local.ip(), "bytes": carried(s) }))
            .collect();
        return say::print(
            &json!({
                "url": args.url.text, "status": report.status, "bytes": bytes, "sha256": sha256,
                "seconds": seconds, "goodput_bps": goodput, "mptcp": report.mptcp,
                "subflows": subflows,
            })
            .to_string(),
        );
    }
    say::note(&format!("{bytes} bytes in {seconds:.2} s, {:.2} Mbit/s", goodput / 1e6));
    for subflow in subflows {
        say::note(&format!("  {} -> {}: {}", subflow.local, subflow.remote, carried(subflow)));
    }
    say::note(&format!("sha256 {sha256}"));
    Ok(())
}

impl Fresh {
    fn open(&mut self) -> io::Result<&mut File> {
        if let Self::Named(path) = self {
            *self = Self::Open(File::create(path)?);
        }
        match self {
            Self::Open(file) => Ok(file),
            Self::Named(path) => Err(io::Error::other(format!("{} is gone", path.display()))),
        }
    }
}

impl Write for Fresh {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.open()?.write(data)
    }

    /// Called once at the end of a whole body: an empty one makes an empty file.
    fn flush(&mut self) -> io::Result<()> {
        self.open()?.flush()
    }
}

impl App for Shown {
    fn on_event(&mut self, endpoint: &mut Endpoint, now: Instant, conn: ConnId, event: Event) {
        self.inner.on_event(endpoint, now, conn, event);
        let finished = self.inner.app.state().finished;
        if let Some(conn) = endpoint.connection(conn).filter(|_| finished) {
            self.info = Some(conn.info(now));
        }
    }

    fn on_wakeup(&mut self, endpoint: &mut Endpoint, now: Instant) {
        self.inner.on_wakeup(endpoint, now);
        if now < self.next {
            return;
        }
        self.next = now + LOOK;
        let state = self.inner.app.state();
        self.bar.set_position(state.done);
        if let Some(total) = state.total {
            self.bar.set_length(total);
        }
    }

    fn next_wakeup(&self) -> Option<Instant> {
        let next = (!self.bar.is_hidden()).then_some(self.next);
        self.inner.next_wakeup().into_iter().chain(next).min()
    }

    fn set_reading(&mut self, endpoint: &mut Endpoint, now: Instant, conn: ConnId, on: bool) {
        self.inner.set_reading(endpoint, now, conn, on);
    }

    fn on_stop(&mut self, endpoint: &mut Endpoint, now: Instant) {
        self.inner.on_stop(endpoint, now);
    }

    fn is_done(&self) -> bool {
        self.inner.is_done()
    }
}

fn style() -> ProgressStyle {
    let template = "{bar:30} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}";
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        for (text, host, port, target) in [
            ("http://10.0.0.1", "10.0.0.1", 80, "/"),
            ("http://10.0.0.1:8080/a?b=c#d", "10.0.0.1", 8080, "/a?b=c"),
            ("http://[fd00::1]/x", "fd00::1", 80, "/x"),
            ("http://[fd00::1]:81?q", "fd00::1", 81, "/?q"),
        ] {
            let url: Url = text.parse().unwrap();
            assert_eq!((url.host.as_str(), url.port, url.target.as_str()), (host, port, target));
        }
    }

    #[test]
    fn urls_that_cannot_work_are_refused() {
        for (text, why) in [
            ("https://x/", "https is not supported"),
            ("x/y", "begins with http://"),
            ("http:///y", "no host"),
            ("http://x:y/", "no port"),
            ("http://me@x/", "user names"),
            ("http://x/a b", "%20"),
        ] {
            let error = text.parse::<Url>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
