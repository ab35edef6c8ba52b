//! Moves bytes between a program and a connection of the bond, as [`crate::relay`] does for a
//! socket: without copies, since both ends deal in refcounted bytes.
//!
//! What one end does not take stays with the other, whose window then closes; in between is one
//! piece of each direction at most. Ends of streams are passed on in order. Resets are not seen
//! here: whoever hears that one end is gone resets the other.

use super::program::{Program, Read};
use crate::relay::RelayState;
use bytes::Bytes;
use tabane_engine::Instant;
use tabane_engine::mptcp::Connection;

/// What is between a program and a connection.
#[derive(Default, Debug)]
pub struct Splice {
    /// Read from the program and not taken by the connection.
    up: Bytes,
    /// Read from the connection and not taken by the program.
    down: Bytes,
    /// The program's stream has ended, and that was passed on.
    up_closed: bool,
    /// The connection's, likewise.
    down_closed: bool,
    taken: u64,
    given: u64,
}

/// Bytes moved in one step in one direction, before others have their turn.
const TURN: u64 = 512 << 10;

impl Splice {
    /// Bytes read from the program.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Bytes given to the program.
    #[must_use]
    pub fn given(&self) -> u64 {
        self.given
    }

    /// Moves what can be moved; to be called when either end can be read or written again.
    pub fn step(
        &mut self,
        now: Instant,
        program: &mut impl Program,
        connection: &mut Connection,
    ) -> RelayState {
        let up = self.upwards(now, program, connection);
        let down = self.downwards(program, connection);
        match up {
            None => RelayState::Broken,
            Some(up) if up || down => RelayState::More,
            Some(_) if self.up_closed && self.down_closed => RelayState::Finished,
            Some(_) => RelayState::Open,
        }
    }

    /// The connection has ended in order and everything it brought has been read: what is still
    /// here is given to the program, then the end. Whether that is done; until then to be called
    /// when the program can be written again.
    pub fn finish(&mut self, program: &mut impl Program) -> bool {
        self.given += program.write(&mut self.down) as u64;
        if !self.down.is_empty() {
            return false;
        }
        if !std::mem::replace(&mut self.down_closed, true) {
            program.shutdown();
        }
        true
    }

    /// From the program; whether there may be more, `None` if it is gone.
    fn upwards(
        &mut self,
        now: Instant,
        program: &mut impl Program,
        connection: &mut Connection,
    ) -> Option<bool> {
        let turn = self.taken + TURN;
        while self.taken < turn {
            if !self.up.is_empty() {
                connection.write(&mut self.up);
                if !self.up.is_empty() {
                    return Some(false);
                }
            }
            match program.read(usize::MAX) {
                Read::Data(data) => {
                    self.taken += data.len() as u64;
                    self.up = data;
                }
                Read::Pending => return Some(false),
                Read::End => {
                    if !std::mem::replace(&mut self.up_closed, true) {
                        connection.close(now);
                    }
                    return Some(false);
                }
                Read::Gone => return None,
            }
        }
        Some(true)
    }

    /// To the program; whether there may be more.
    fn downwards(&mut self, program: &mut impl Program, connection: &mut Connection) -> bool {
        let turn = self.given + TURN;
        while self.given < turn {
            if !self.down.is_empty() {
                self.given += program.write(&mut self.down) as u64;
                if !self.down.is_empty() {
                    return false;
                }
            }
            match connection.read(usize::MAX) {
                Some(data) => self.down = data,
                None => {
                    if connection.is_finished() && !std::mem::replace(&mut self.down_closed, true) {
                        program.shutdown();
                    }
                    return false;
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
