//! Handshakes have their turn after data, and a share of the time.
//!
//! Anybody can send a server messages that look like handshakes; some of them cost a hundred times
//! what a packet of data does. They come by sockets of their own
//! ([`UdpPort::open_handshakes`]), so that they cannot fill the queue of data in the kernel; they
//! are taken after everything else in a round, a batch at a time; and after a batch they wait for
//! [`REST`] times as long as it took. What does not fit the kernel's queue meanwhile it drops, for
//! next to nothing. So strangers get a fifth of the agent's time, whatever they send, and at most
//! [`LONGEST`] and one call of the system at a time.

use super::{Core, ServerError};
use crate::index::PortIndex;
use crate::reactor::{EventSource, register_port};
use mio::Registry;
use std::collections::VecDeque;
use std::io;
use tabane_engine::{Duration, Instant};
use tabane_net::wireguard::{Batch, FourTuple, UdpPort};

pub(super) struct Handshakes {
    /// The companions of the server's ports, in their order.
    ports: Vec<UdpPort>,
    /// Whether there may be something to take.
    unread: bool,
    /// Those that came by a port for data all the same, with the port.
    strays: VecDeque<(PortIndex, FourTuple, Vec<u8>)>,
    /// Not before then.
    next: Instant,
}

/// Calls of the system in a batch, of 32 messages each.
const CALLS: usize = 4;
/// A batch that has taken so long is the last of its round.
const LONGEST: Duration = Duration::from_millis(1);
/// Time for others after a batch, in units of what it took.
const REST: u64 = 4;
/// Handshakes that came by ports for data and wait; more are dropped.
const STRAYS_MAX: usize = 64;
/// The longest message of a handshake, bytes.
const MESSAGE_MAX: usize = 148;

impl Handshakes {
    /// Waits for what comes by these ports.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn new(ports: Vec<UdpPort>, registry: &Registry) -> io::Result<Self> {
        for (i, port) in ports.iter().enumerate() {
            register_port(registry, port, EventSource::Handshakes(i))?;
        }
        Ok(Self { ports, unread: false, strays: VecDeque::new(), next: Instant::ZERO })
    }

    /// Something has come.
    pub(super) fn ready(&mut self) {
        self.unread = true;
    }

    /// A message that came by a port for data.
    pub(super) fn push(&mut self, port: PortIndex, four_tuple: &FourTuple, message: &[u8]) {
        if self.strays.len() < STRAYS_MAX && message.len() <= MESSAGE_MAX {
            self.strays.push_back((port, *four_tuple, message.to_vec()));
        }
    }

    /// When they have their turn, if any wait.
    pub(super) fn next_turn(&self) -> Option<Instant> {
        (self.unread || !self.strays.is_empty()).then_some(self.next)
    }
}

impl Core {
    /// Takes handshakes, if it is their turn.
    pub(super) fn take_handshakes(&mut self, now: Instant) -> Result<(), ServerError> {
        if self.handshakes.next_turn().is_none_or(|turn| turn > now) {
            return Ok(());
        }
        let began = self.clock.now();
        while let Some((port, four_tuple, message)) = self.handshakes.strays.pop_front() {
            self.open(now, port, &four_tuple, &message);
        }
        let Some(mut batch) = self.batch.take() else { return Ok(()) };
        let read = self.read_handshakes(now, began, &mut batch);
        self.batch = Some(batch);
        self.handshakes.unread = read?;
        let took = self.clock.now().saturating_since(began);
        self.handshakes.next = began + Duration(took.0.saturating_mul(1 + REST));
        Ok(())
    }

    /// Takes a batch from every port; whether there may be more.
    fn read_handshakes(
        &mut self,
        now: Instant,
        began: Instant,
        batch: &mut Batch,
    ) -> Result<bool, ServerError> {
        let mut more = false;
        for index in PortIndex::first(self.handshakes.ports.len()) {
            for call in 1..=CALLS {
                if !self.handshakes.ports[index].recv(batch)? {
                    break;
                }
                for (four_tuple, message) in batch.datagrams() {
                    self.open(now, index, four_tuple, message);
                }
                if call == CALLS || self.clock.now().saturating_since(began) >= LONGEST {
                    more = true;
                    break;
                }
            }
        }
        Ok(more)
    }
}
