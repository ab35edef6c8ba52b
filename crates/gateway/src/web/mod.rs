//! The page of an agent, and its metrics, over HTTP; both are off unless configured.
//!
//! One thread with a current-thread runtime serves both; all it knows it asks for through the
//! request channel, once a second however many look. The page is for people on this machine: an
//! address beyond it is refused unless there is a token, which reading then needs too. Changes
//! always need the token. There is no TLS: use the loopback address and a tunnel.

mod api;
mod guard;
mod history;
mod listener;
pub(crate) mod metrics;
mod token;

pub(crate) use token::Token;

use crate::request_channel::RequestSender;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use thiserror::Error;
use tokio::sync::oneshot;

/// A running page and metrics; end when dropped.
#[derive(Debug)]
pub(crate) struct Pages {
    page: Option<SocketAddr>,
    metrics: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What is served where.
#[derive(Default, Debug)]
pub(crate) struct Settings {
    /// The page.
    pub page: Option<SocketAddr>,
    /// What changes on the page need; without one, nothing can be changed there.
    pub token: Option<Token>,
    /// `/metrics`.
    pub metrics: Option<SocketAddr>,
}

/// Why nothing is served.
#[derive(Error, Debug)]
pub(crate) enum WebError {
    /// The page would be open to the network.
    #[error(
        "the page on {0} could be read by others: listen on 127.0.0.1, or set `web_token_file`"
    )]
    Open(SocketAddr),
    /// Somebody else listens there, or it is not ours.
    #[error("cannot listen on {address} for the {what}: {error}")]
    Listen {
        /// `page` or `metrics`.
        what: &'static str,
        /// Where.
        address: SocketAddr,
        /// Why not.
        error: io::Error,
    },
    /// No thread.
    #[error("the page's thread cannot start: {0}")]
    Start(io::Error),
}

/// Patience with what is still under way when it ends.
const END_PATIENCE: Duration = Duration::from_millis(200);

impl Pages {
    /// Serves what `settings` say from the agent behind `request_channel`. Port 0 takes a free one.
    ///
    /// # Errors
    /// [`WebError`].
    pub(crate) fn start(
        settings: Settings,
        request_channel: RequestSender,
    ) -> Result<Self, WebError> {
        if let Some(open) = settings.page.filter(|a| !a.ip().is_loopback())
            && settings.token.is_none()
        {
            return Err(WebError::Open(open));
        }
        let page = settings.page.map(|address| listen("page", address)).transpose()?;
        let metrics = settings.metrics.map(|address| listen("metrics", address)).transpose()?;
        let address = |listener: &Option<TcpListener>| listener.as_ref()?.local_addr().ok();
        let (page_at, metrics_at) = (address(&page), address(&metrics));
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(8)
            .thread_name("web-ask")
            .build()
            .map_err(WebError::Start)?;
        let thread = thread::Builder::new().name("web".into()).spawn(move || {
            let token_reads = page_at.is_some_and(|address| !address.ip().is_loopback());
            let app = api::App::new(request_channel, settings.token, token_reads);
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = api::run(app, page, metrics) => {}
                }
            });
            runtime.shutdown_timeout(END_PATIENCE);
        });
        let thread = Some(thread.map_err(WebError::Start)?);
        Ok(Self { page: page_at, metrics: metrics_at, stop: Some(stop), thread })
    }

    /// Where the page is.
    #[must_use]
    pub(crate) fn page(&self) -> Option<SocketAddr> {
        self.page
    }

    /// Where the metrics are.
    #[must_use]
    pub(crate) fn metrics(&self) -> Option<SocketAddr> {
        self.metrics
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listen(what: &'static str, address: SocketAddr) -> Result<TcpListener, WebError> {
    let listener = TcpListener::bind(address)
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
    listener.map_err(|error| WebError::Listen { what, address, error })
}
