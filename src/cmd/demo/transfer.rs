//! One run of the demo: a web server on loopback, a server agent, a client agent, and the emulated
//! links between them; a download through the client's SOCKS5 port. Everything is what users run,
//! each on a thread of its own.

use super::links::DemoLink;
use crate::bed::web::WebServer;
use crate::bed::{Bed, Plan, connect, status, wait_for_paths};
use anyhow::{Context, anyhow, bail};
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tabane_engine::Instant;
use tabane_gateway::config::rule::Policies;
use tabane_gateway::model::AgentEvent;
use tabane_gateway::request_channel::{Answer, Request, RequestSender};
use tabane_lab::loopback::Report;
use tabane_net::Clock;

/// What is the same in all runs.
pub(crate) struct Setup<'a> {
    /// The file.
    pub(crate) source: &'a Path,
    /// Where it goes.
    pub(crate) output: &'a Path,
    /// Policies of both directions.
    pub(crate) policies: Policies,
    /// Seed of what the links do.
    pub(crate) seed: u64,
}

/// A run on its way.
pub(crate) struct Transfer {
    /// How far it is.
    pub(crate) progress: Arc<Progress>,
    bed: Bed,
    /// Ends with the run.
    _web: WebServer,
    download: JoinHandle<anyhow::Result<Outcome>>,
}

/// Written by the run, read by whoever shows it.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Inner bytes that came over each link, in the order of the links.
    pub(crate) links: Vec<AtomicU64>,
    /// Bytes of the file that have come.
    pub(crate) file: AtomicU64,
    /// To end it.
    stop: AtomicBool,
    /// It has ended, well or not.
    pub(crate) ended: AtomicBool,
}

impl Progress {
    /// What has come by `now`: of the file, and over each link.
    pub(crate) fn frame(&self, now: Instant) -> (Instant, u64, Vec<u64>) {
        let links = self.links.iter().map(|link| link.load(Ordering::Relaxed));
        (now, self.file.load(Ordering::Relaxed), links.collect())
    }
}

/// What came of a run.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// From the connection to the last byte.
    pub(crate) seconds: f64,
    /// Bytes of the file.
    pub(crate) bytes: u64,
    /// Bytes that came over each link.
    pub(crate) links: Vec<u64>,
    /// Longest time without a byte, seconds.
    pub(crate) gap: f64,
    /// What the network did.
    pub(crate) network: Report,
}

/// Without a byte for so long, a download has failed.
const SILENCE: Duration = Duration::from_secs(20);

impl Transfer {
    /// Starts a run over these links; with `kill`, that link dies when half of the file is there.
    ///
    /// # Errors
    /// No sockets, no files, or wrong policies.
    pub(crate) fn start(
        setup: &Setup<'_>,
        links: &[&DemoLink],
        kill: Option<usize>,
    ) -> anyhow::Result<Self> {
        let path = |link: &&DemoLink| (link.name.clone(), Some(link.directions.clone()));
        let bed = Bed::start(&Plan {
            paths: links.iter().map(path).collect(),
            seed: setup.seed,
            client: |_| {},
            server: |_| {},
            policies: setup.policies.clone(),
        })?;
        let web = WebServer::start(setup.source)?;
        let progress = Arc::new(Progress {
            links: links.iter().map(|_| AtomicU64::new(0)).collect(),
            file: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        });
        let download = Download {
            progress: progress.clone(),
            client: bed.client.clone(),
            socks: bed.socks,
            web: web.address(),
            cut: kill.map(|link| bed.cut[link].clone()),
            output: File::create(setup.output).context("cannot write the received file")?,
        };
        let shown = progress.clone();
        let download = thread::Builder::new().name("download".into()).spawn(move || {
            let outcome = download.run();
            shown.ended.store(true, Ordering::Release);
            outcome
        })?;
        Ok(Self { progress, bed, _web: web, download })
    }

    /// Ends the run where it is.
    pub(crate) fn stop(&self) {
        self.progress.stop.store(true, Ordering::Relaxed);
    }

    /// Whether it has ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.progress.ended.load(Ordering::Acquire)
    }

    /// Notes what has come over each link.
    pub(crate) fn look(&self) {
        if let Ok(status) = status(&self.bed.client) {
            for (shown, path) in self.progress.links.iter().zip(&status.paths) {
                shown.store(path.rx_bytes, Ordering::Relaxed);
            }
        }
    }

    /// What has happened to the client so far; nothing if it does not answer.
    pub(crate) fn happened(&self) -> Vec<AgentEvent> {
        match self.bed.client.ask(Request::Events { since: 0 }) {
            Ok(Answer::Events(all)) => all,
            _ => Vec::new(),
        }
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// Why the file did not arrive.
    pub(crate) fn join(self) -> anyhow::Result<Outcome> {
        let outcome = self.download.join().map_err(|_| anyhow!("the download panicked"))?;
        let ended = self.bed.end();
        let mut outcome = outcome?;
        outcome.network = ended?.network;
        Ok(outcome)
    }
}

/// The download, as any program would do it.
struct Download {
    progress: Arc<Progress>,
    client: RequestSender,
    socks: SocketAddr,
    web: SocketAddr,
    /// To be set when half of the file is there.
    cut: Option<Arc<AtomicBool>>,
    output: File,
}

impl Download {
    fn run(mut self) -> anyhow::Result<Outcome> {
        let clock = Clock::start();
        let stop = || self.progress.stop.load(Ordering::Relaxed);
        // Every link is to be there before the clock runs.
        wait_for_paths(&self.client, stop)?;
        let begin = clock.now();
        let before = received(&self.client)?;
        let mut stream = connect(self.socks, self.web)?;
        stream.set_read_timeout(Some(Duration::from_millis(200)))?;
        let get = format!("GET / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.web);
        stream.write_all(get.as_bytes())?;
        let (bytes, gap) = self.body(&mut stream, clock)?;
        let seconds = clock.now().saturating_since(begin).as_secs_f64();
        let after = received(&self.client)?;
        let links = after.iter().zip(&before).map(|(after, before)| after - before).collect();
        Ok(Outcome { seconds, bytes, links, gap, network: Report::default() })
    }

    /// Writes the body to the file; its length, and the longest time without a byte.
    fn body(&mut self, stream: &mut TcpStream, clock: Clock) -> anyhow::Result<(u64, f64)> {
        let (mut head, mut left) = (Vec::new(), None);
        let mut out = BufWriter::with_capacity(1 << 18, &mut self.output);
        let mut block = vec![0; 1 << 16];
        let (mut bytes, mut last, mut gap) = (0, clock.now(), 0.0_f64);
        while left != Some(0) {
            if self.progress.stop.load(Ordering::Relaxed) {
                bail!("stopped");
            }
            let now = clock.now();
            let silent = now.saturating_since(last).as_secs_f64();
            let len = match stream.read(&mut block) {
                Ok(0) => bail!("the connection ended after {bytes} bytes"),
                Ok(len) => len,
                Err(error) if is_late(&error) && silent < SILENCE.as_secs_f64() => continue,
                Err(error) => return Err(error).context("the download failed"),
            };
            gap = gap.max(clock.now().saturating_since(last).as_secs_f64());
            last = clock.now();
            let mut data = &block[..len];
            let total = match &mut left {
                Some(left) => left,
                none => {
                    head.extend_from_slice(data);
                    let Some((length, at)) = body_of(&head)? else { continue };
                    data = &head[at..];
                    none.insert(length)
                }
            };
            out.write_all(data)?;
            bytes += data.len() as u64;
            *total = total.checked_sub(data.len() as u64).context("more than was announced")?;
            self.progress.file.store(bytes, Ordering::Relaxed);
            if bytes >= *total
                && let Some(cut) = &self.cut
            {
                cut.store(true, Ordering::Relaxed);
            }
        }
        out.flush()?;
        Ok((bytes, gap))
    }
}

/// The length of a body, and where it begins, once the head is whole.
fn body_of(head: &[u8]) -> anyhow::Result<Option<(u64, usize)>> {
    let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&head[..end]).to_ascii_lowercase();
    if !text.starts_with("http/1.1 200") {
        bail!("the web server answered {:?}", text.lines().next().unwrap_or_default());
    }
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
    Ok(Some((length.context("no length")?.trim().parse()?, end + 4)))
}

fn is_late(error: &std::io::Error) -> bool {
    use std::io::ErrorKind as K;
    matches!(error.kind(), K::WouldBlock | K::TimedOut | K::Interrupted)
}

fn received(client: &RequestSender) -> anyhow::Result<Vec<u64>> {
    Ok(status(client)?.paths.iter().map(|path| path.rx_bytes).collect())
}
