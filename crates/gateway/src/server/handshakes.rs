//! Handshakes have their turn after data, and a share of the time.
//!
//! Anybody can send a server messages that look like handshakes; some of them cost a hundred times
//! what a packet of data does. They come by sockets of their own
//! ([`UdpPort::open_handshakes`]), so that they cannot fill the queue of data in the kernel; they
//! are taken after everything else in a round, for [`LONGEST`] at most; and after a turn they wait
//! for [`REST`] times as long as it took. What does not fit the kernel's queue meanwhile it drops,
//! for next to nothing; that queue is short, since a client that waits for an answer begins anew
//! each second. So strangers get a fifth of the agent's time, whatever they send.

use super::{Core, ServerError};
use crate::index::PortIndex;
use crate::reactor::{EventSource, register_port};
use mio::Registry;
use std::collections::VecDeque;
use std::io;
use tabane_engine::{Duration, Instant};
use tabane_net::wireguard::{Batch, FourTuple, PortError, UdpPort};

pub(super) struct Handshakes {
    /// The companions of the server's ports, in their order.
    ports: Vec<UdpPort>,
    /// Whether there may be something to take.
    unread: bool,
    /// Taken and not looked at yet, also those that came by a port for data all the same.
    waiting: VecDeque<Message>,
    /// Not before then.
    next: Instant,
}

/// A message that may be one of a handshake.
struct Message {
    port: PortIndex,
    four_tuple: FourTuple,
    len: usize,
    bytes: [u8; MESSAGE_MAX],
}

/// Calls of the system in a turn and port, of 32 messages each.
const CALLS: usize = 4;
/// A turn lasts so long, and until the message is done that was begun.
const LONGEST: Duration = Duration::from_millis(1);
/// Time for others after a turn, in units of what it took.
const REST: u64 = 4;
/// Messages that wait; more that come by ports for data are dropped.
const WAITING_MAX: usize = 64;
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
        Ok(Self { ports, unread: false, waiting: VecDeque::new(), next: Instant::ZERO })
    }

    /// Something has come.
    pub(super) fn ready(&mut self) {
        self.unread = true;
    }

    /// A message that came by a port for data.
    pub(super) fn push(&mut self, port: PortIndex, four_tuple: &FourTuple, message: &[u8]) {
        if self.waiting.len() < WAITING_MAX {
            self.wait(port, four_tuple, message);
        }
    }

    /// What is longer than any message of a handshake is none.
    fn wait(&mut self, port: PortIndex, four_tuple: &FourTuple, message: &[u8]) {
        let (len, four_tuple) = (message.len(), *four_tuple);
        let mut bytes = [0; MESSAGE_MAX];
        if let Some(place) = bytes.get_mut(..len) {
            place.copy_from_slice(message);
            self.waiting.push_back(Message { port, four_tuple, len, bytes });
        }
    }

    /// When they have their turn, if any wait.
    pub(super) fn next_turn(&self) -> Option<Instant> {
        (self.unread || !self.waiting.is_empty()).then_some(self.next)
    }

    /// Takes what one call of the system gives from each port.
    fn read(&mut self, batch: &mut Batch) -> Result<(), PortError> {
        self.unread = false;
        for index in PortIndex::first(self.ports.len()) {
            if self.ports[index].recv(batch)? {
                self.unread |= !batch.took_all();
                for (four_tuple, message) in batch.datagrams() {
                    self.wait(index, four_tuple, message);
                }
            }
        }
        Ok(())
    }
}

impl Core {
    /// Takes handshakes, if it is their turn.
    pub(super) fn take_handshakes(&mut self, now: Instant) -> Result<(), ServerError> {
        if self.handshakes.next_turn().is_none_or(|turn| turn > now) {
            return Ok(());
        }
        let Some(mut batch) = self.batch.take() else { return Ok(()) };
        let began = self.clock.now();
        let (mut calls, mut result) = (CALLS, Ok(()));
        while self.clock.now().saturating_since(began) < LONGEST {
            if let Some(message) = self.handshakes.waiting.pop_front() {
                let Message { port, four_tuple, len, bytes } = message;
                self.open(now, port, &four_tuple, &bytes[..len]);
            } else if calls > 0 && self.handshakes.unread && result.is_ok() {
                calls -= 1;
                result = self.handshakes.read(&mut batch);
            } else {
                break;
            }
        }
        self.batch = Some(batch);
        let took = self.clock.now().saturating_since(began);
        self.handshakes.next = began + Duration(took.0.saturating_mul(1 + REST));
        Ok(result?)
    }
}
