//! What surrounds an agent while it runs: signals, the service manager, and the control socket.
//!
//! TERM and INT end it in order, USR2 ends it for another that takes over at once, HUP makes it
//! read its configuration again. The service manager
//! hears that it is ready, that it lives (as long as its thread answers), and that it stops
//! (sd_notify(3)); without one nothing is said.

use crate::mailbox::{Answer, Mailbox, Request};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR2};
use signal_hook::iterator::{Handle, Signals};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Ends what surrounds an agent when it is dropped.
pub struct Surroundings {
    signals: Handle,
    ended: Arc<AtomicBool>,
}

/// Least time between signs of life to the service manager.
const SIGN_MIN: Duration = Duration::from_millis(200);

/// Surrounds an agent that is about to run. `tell` gets a line for people when a signal had an
/// effect that they should know.
///
/// # Errors
/// The system's.
pub fn surround(
    mailbox: &Mailbox,
    tell: impl Fn(&str) + Send + 'static,
) -> io::Result<Surroundings> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR2])?;
    let ended = Arc::new(AtomicBool::new(false));
    let surroundings = Surroundings { signals: signals.handle(), ended: ended.clone() };
    let agent = mailbox.clone();
    thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in &mut signals {
            if signal != SIGHUP {
                notify(&[sd_notify::NotifyState::Stopping]);
                let restarts = signal == SIGUSR2;
                // It has ended already, or ends now.
                let _ = agent.ask(if restarts { Request::StopForRestart } else { Request::Stop });
                continue;
            }
            notify(&[sd_notify::NotifyState::Reloading]);
            match agent.ask(Request::Reload) {
                Ok(Answer::Error(error)) => tell(&format!("not reloaded: {error}")),
                Ok(_) => tell("reloaded"),
                Err(error) => tell(&format!("not reloaded: {error}")),
            }
            notify(&[sd_notify::NotifyState::Ready]);
        }
    })?;
    notify(&[sd_notify::NotifyState::Ready]);
    watchdog(mailbox.clone(), ended)?;
    Ok(surroundings)
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

/// Signs of life as long as the agent's own thread answers.
fn watchdog(agent: Mailbox, ended: Arc<AtomicBool>) -> io::Result<()> {
    let Some(patience) = sd_notify::watchdog_enabled() else { return Ok(()) };
    let pause = (patience / 3).max(SIGN_MIN);
    thread::Builder::new().name("watchdog".into()).spawn(move || {
        while !ended.load(Ordering::Relaxed) {
            if agent.ask(Request::Happenings { since: u64::MAX }).is_ok() {
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

impl Drop for Surroundings {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        self.signals.close();
    }
}
