//! What surrounds an agent while it runs: signals, the service manager, the control socket, and the
//! page.
//!
//! TERM and INT end it in order, USR2 ends it for another that takes over at once, HUP makes it
//! read its configuration again, unless it comes because the terminal was closed in which the agent
//! runs: that ends it, too. The service manager
//! hears that it is ready, that it lives (as long as its thread answers), and that it stops
//! (sd_notify(3)); without one nothing is said.

use crate::control::{ControlSocket, Places};
use crate::request_channel::{Request, RequestSender};
use crate::web::{Pages, Settings, Token};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR2};
use signal_hook::iterator::{Handle, Signals};
use std::error::Error;
use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use thiserror::Error;

/// Why an agent cannot start, or cannot go on; for people.
#[derive(Error, Debug)]
#[error(transparent)]
pub struct AgentError(Box<dyn Error + Send + Sync>);

impl AgentError {
    pub(crate) fn new(why: impl Error + Send + Sync + 'static) -> Self {
        Self(Box::new(why))
    }
}

/// Ends what surrounds an agent when it is dropped.
pub struct Runtime {
    signals: Handle,
    ended: Arc<AtomicBool>,
}

/// Where an agent that runs can be asked and seen.
#[derive(Clone, Default, Debug)]
pub struct Endpoints {
    /// Its name, for the control socket.
    pub name: String,
    /// The control socket, if not where the command line looks for it.
    pub control: Option<PathBuf>,
    /// Its metrics. Port 0 takes a free one, also for the page.
    pub metrics: Option<SocketAddr>,
    /// Its page.
    pub web: Option<SocketAddr>,
    /// The token that changes on the page need; without it, nothing can be changed there.
    pub web_token_file: Option<PathBuf>,
}

/// Endpoints that are open until this is dropped.
pub struct OpenEndpoints {
    /// The control socket.
    pub control: PathBuf,
    /// Where the metrics are.
    pub metrics: Option<SocketAddr>,
    /// Where the page is.
    pub page: Option<SocketAddr>,
    _socket: ControlSocket,
    _pages: Option<Pages>,
}

/// Least time between signs of life to the service manager.
const SIGN_MIN: Duration = Duration::from_millis(200);

impl Endpoints {
    /// Opens them for an agent that is about to run.
    ///
    /// # Errors
    /// A socket or an address that cannot be had, a token that is none.
    pub fn open(self, agent: &RequestSender) -> io::Result<OpenEndpoints> {
        let control = match self.control {
            Some(path) => path,
            None => Places::from_env().socket_for(&self.name).map_err(io::Error::other)?,
        };
        let socket = ControlSocket::start(&control, agent.clone()).map_err(io::Error::other)?;
        let mut open =
            OpenEndpoints { control, metrics: None, page: None, _socket: socket, _pages: None };
        if self.web.is_some() || self.metrics.is_some() {
            let token = self.web_token_file.map(|file| Token::read(&file)).transpose();
            let token = token.map_err(io::Error::other)?;
            let settings = Settings { page: self.web, metrics: self.metrics, token };
            let pages = Pages::start(settings, agent.clone()).map_err(io::Error::other)?;
            (open.metrics, open.page) = (pages.metrics(), pages.page());
            open._pages = Some(pages);
        }
        Ok(open)
    }
}

/// Surrounds an agent that is about to run. `tell` gets a line for people when a signal had
/// no effect.
///
/// # Errors
/// The system's.
pub fn start_runtime(
    request_channel: &RequestSender,
    tell: impl Fn(&str) + Send + 'static,
) -> io::Result<Runtime> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR2])?;
    let ended = Arc::new(AtomicBool::new(false));
    let runtime = Runtime { signals: signals.handle(), ended: ended.clone() };
    let agent = request_channel.clone();
    let terminals = terminals();
    thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in &mut signals {
            if signal != SIGHUP || terminals.iter().any(has_hung_up) {
                notify(&[sd_notify::NotifyState::Stopping]);
                let restarts = signal == SIGUSR2;
                // It has ended already, or ends now.
                let _ = agent.ask(if restarts { Request::StopForRestart } else { Request::Stop });
                continue;
            }
            notify(&[sd_notify::NotifyState::Reloading]);
            // What came of it is an event, which the agent logs.
            if let Err(error) = agent.ask(Request::Reload) {
                tell(&format!("not reloaded: {error}"));
            }
            notify(&[sd_notify::NotifyState::Ready]);
        }
    })?;
    notify(&[sd_notify::NotifyState::Ready]);
    watchdog(request_channel.clone(), ended)?;
    Ok(runtime)
}

/// Lets this process open as many files as it may: each connection takes one, and shells give 1024
/// of the half a million or so that are allowed. How many that are now.
pub fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // Best effort: a limit stays what it was, and connections beyond it are refused.
    let limit = if setrlimit(Resource::Nofile, raised).is_ok() { raised } else { limit };
    limit.current.unwrap_or(u64::MAX)
}

/// Those of standard input, output and error that are terminals now.
fn terminals() -> Vec<OwnedFd> {
    let all = [io::stdin().as_fd(), io::stdout().as_fd(), io::stderr().as_fd()]
        .map(|fd| fd.is_terminal().then(|| fd.try_clone_to_owned().ok()).flatten());
    all.into_iter().flatten().collect()
}

fn has_hung_up(terminal: &OwnedFd) -> bool {
    let mut one = [PollFd::new(terminal, PollFlags::empty())];
    let told = poll(&mut one, Some(&Timespec::default()));
    told.is_ok() && one[0].revents().contains(PollFlags::HUP)
}

/// Signs of life as long as the agent's own thread answers.
fn watchdog(agent: RequestSender, ended: Arc<AtomicBool>) -> io::Result<()> {
    let Some(patience) = sd_notify::watchdog_enabled() else { return Ok(()) };
    let pause = (patience / 3).max(SIGN_MIN);
    thread::Builder::new().name("watchdog".into()).spawn(move || {
        while !ended.load(Ordering::Relaxed) {
            if agent.ask(Request::Events { since: u64::MAX }).is_ok() {
                notify(&[sd_notify::NotifyState::Watchdog]);
            }
            thread::sleep(pause);
        }
    })?;
    Ok(())
}

fn notify(states: &[sd_notify::NotifyState<'_>]) {
    // Without a service manager there is nobody to tell.
    let _ = sd_notify::notify(states);
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        self.signals.close();
    }
}
