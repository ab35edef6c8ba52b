//! Where programs connect: the sockets of `[front]`, also of one that is read again.

use super::ClientError;
use crate::config::ListenerConfig;
use crate::index::ListenerIndex;
use crate::listener::{Auto, Login, Negotiation};
use crate::reactor::EventSource;
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry};
use slab::Slab;
use std::io;
use std::net::SocketAddr;

#[derive(Default)]
pub(super) struct Listeners {
    all: Slab<Listener>,
    /// What each program has to know.
    login: Option<Login>,
}

struct Listener {
    /// As configured, where port 0 is any.
    at: SocketAddr,
    socket: TcpListener,
    /// Whether somebody may wait whom the poll, which tells of changes, will not tell again.
    left: Left,
}

/// Who is left in the queue of a listener.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    Nobody,
    /// The batch was full: more at once.
    More,
    /// It could not be accepted, for want of descriptors: again at the next tick.
    Later,
}

impl Listeners {
    /// Listens at what `front` says and nowhere else; where that is, in its order. Sockets that are
    /// there stay, and with them who waits for them. Where an address cannot be had, all is as
    /// before.
    ///
    /// # Errors
    /// [`ClientError::Listen`].
    pub(super) fn set(
        &mut self,
        registry: &Registry,
        front: &ListenerConfig,
    ) -> Result<Vec<SocketAddr>, ClientError> {
        let wanted: Vec<SocketAddr> = front.socks5.iter().chain(&front.http).copied().collect();
        // First, since 127.0.0.1 stands in the way of 0.0.0.0.
        let unwanted: Vec<usize> =
            self.all.iter().filter(|(_, l)| !wanted.contains(&l.at)).map(|(key, _)| key).collect();
        let closed: Vec<SocketAddr> = unwanted.iter().map(|key| self.all.remove(*key).at).collect();
        let before: Vec<usize> = self.all.iter().map(|(key, _)| key).collect();
        let mut locals = Vec::new();
        for at in &wanted {
            match self.open(registry, *at) {
                Ok(local) => locals.push(local),
                Err(source) => {
                    self.all.retain(|key, _| before.contains(&key));
                    for at in closed {
                        // It was ours until now; whoever was faster has it.
                        let _ = self.open(registry, at);
                    }
                    return Err(ClientError::Listen { at: *at, source });
                }
            }
        }
        self.login = front.login.as_deref().map(Login::new);
        Ok(locals)
    }

    /// Listens there, unless it does.
    fn open(&mut self, registry: &Registry, at: SocketAddr) -> io::Result<SocketAddr> {
        if let Some((_, listener)) = self.all.iter().find(|(_, listener)| listener.at == at) {
            return listener.socket.local_addr();
        }
        let mut socket = TcpListener::bind(at)?;
        let local = socket.local_addr()?;
        let entry = self.all.vacant_entry();
        let token = EventSource::Listener(entry.key()).token();
        registry.register(&mut socket, token, Interest::READABLE)?;
        entry.insert(Listener { at, socket, left: Left::Nobody });
        Ok(local)
    }

    /// Takes up to `most` that wait for a listener.
    pub(super) fn accept(
        &mut self,
        index: ListenerIndex,
        most: usize,
    ) -> Vec<(TcpStream, SocketAddr)> {
        let mut accepted = Vec::new();
        let Some(listener) = self.all.get_mut(index.get()) else { return accepted };
        for _ in 0..most {
            match listener.socket.accept() {
                Ok(one) => accepted.push(one),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => {
                        listener.left = Left::Nobody;
                        return accepted;
                    }
                    // The program has gone again: the next one.
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    _ => {
                        listener.left = Left::Later;
                        return accepted;
                    }
                },
            }
        }
        listener.left = Left::More;
        accepted
    }

    /// Those with somebody left.
    pub(super) fn with(&self, left: Left) -> Vec<ListenerIndex> {
        let those = self.all.iter().filter(|(_, listener)| listener.left == left);
        those.map(|(key, _)| ListenerIndex::new(key)).collect()
    }

    /// What a new program talks to.
    pub(super) fn negotiation(&self) -> Box<dyn Negotiation> {
        Box::new(Auto::new(self.login.clone()))
    }
}
