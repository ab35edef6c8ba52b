//! A listener with a bounded number of connections, of which somebody who comes later can always
//! have one.
//!
//! When all places are taken, or all that one address may have, the newcomer gets the place of
//! whoever has waited longest without an answer, else of whoever was answered longest ago. A
//! connection that was not sent anything for [`IDLE`] ends: who has not finished asking by then, or
//! does not read what he is told, is not waited for.

use axum::serve::Listener;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep};

/// Accepts always, and keeps no more than its bounds.
pub(super) struct Bounded {
    listener: TcpListener,
    places: Arc<Mutex<Places>>,
    bounds: Bounds,
}

/// How many connections may be open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// All together.
    pub(super) all: usize,
    /// From one address.
    pub(super) each: usize,
}

/// A connection and its place.
pub(super) struct Placed {
    stream: TcpStream,
    place: u64,
    places: Arc<Mutex<Places>>,
    /// Somebody else has got the place.
    evicted: oneshot::Receiver<()>,
    idle: Pin<Box<Sleep>>,
    over: bool,
}

#[derive(Default)]
struct Places {
    next: u64,
    taken: BTreeMap<u64, Place>,
}

struct Place {
    from: IpAddr,
    /// Whether it was ever sent anything, and when that or its beginning was.
    answered: bool,
    since: Instant,
    /// Tells the connection when this is dropped.
    _evict: oneshot::Sender<()>,
}

/// A connection ends that was not sent anything for so long.
const IDLE: Duration = Duration::from_secs(15);

impl Bounded {
    pub(super) fn new(listener: TcpListener, bounds: Bounds) -> Self {
        Self { listener, places: Arc::default(), bounds }
    }
}

impl Listener for Bounded {
    type Io = Placed;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Placed, SocketAddr) {
        let (stream, from) = Listener::accept(&mut self.listener).await;
        let (evict, evicted) = oneshot::channel();
        let place = lock(&self.places).take(from.ip().to_canonical(), self.bounds, evict);
        let (places, idle) = (Arc::clone(&self.places), Box::pin(sleep(IDLE)));
        (Placed { stream, place, places, evicted, idle, over: false }, from)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Places {
    /// A place for somebody from there, if need be that of another.
    fn take(&mut self, from: IpAddr, bounds: Bounds, evict: oneshot::Sender<()>) -> u64 {
        let own = self.taken.values().filter(|place| place.from == from).count();
        if own >= bounds.each {
            self.evict(|place| place.from == from);
        } else if self.taken.len() >= bounds.all {
            self.evict(|_| true);
        }
        self.next += 1;
        let place = Place { from, answered: false, since: Instant::now(), _evict: evict };
        self.taken.insert(self.next, place);
        self.next
    }

    fn evict(&mut self, of: impl Fn(&Place) -> bool) {
        let taken = self.taken.iter().filter(|(_, place)| of(place));
        let longest = taken.min_by_key(|(_, place)| (place.answered, place.since));
        if let Some(id) = longest.map(|(id, _)| *id) {
            self.taken.remove(&id);
        }
    }
}

impl Placed {
    /// Whether the connection is to end.
    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        self.over = self.over
            || Pin::new(&mut self.evicted).poll(cx).is_ready()
            || self.idle.as_mut().poll(cx).is_ready();
        self.over
    }

    /// It was sent something.
    fn note_sent(&mut self) {
        let now = Instant::now();
        self.idle.as_mut().reset(now + IDLE);
        if let Some(place) = lock(&self.places).taken.get_mut(&self.place) {
            (place.answered, place.since) = (true, now);
        }
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        lock(&self.places).taken.remove(&self.place);
    }
}

impl AsyncRead for Placed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_over(cx) {
            // As if nothing more came.
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Placed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_over(cx) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let sent = ready!(Pin::new(&mut self.stream).poll_write(cx, buf));
        self.note_sent();
        Poll::Ready(sent)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

fn lock(places: &Mutex<Places>) -> MutexGuard<'_, Places> {
    places.lock().unwrap_or_else(PoisonError::into_inner)
}
