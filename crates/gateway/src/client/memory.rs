//! What the connections of programs hold in a client, and what is done when it is much.
//!
//! A program's upload waits in the send buffer of its connection, up to 8 MiB of each: hundreds of
//! uploads that go on slowly, or not at all, are gigabytes. So all of them together have a limit.
//! Above half of it every connection gets a share of the other half, until no more than a quarter
//! is held. A full buffer stops its program from writing (TCP's own back-pressure): nothing is
//! lost, and no connection ends. Freed memory goes back to the system.

use super::Core;
use crate::kernel_memory::Peak;
use tabane_engine::mptcp::Connection;
use tabane_engine::{ConnId, Instant};

/// For all connections together, unless the configuration says otherwise, bytes.
const TOTAL: u64 = 256 << 20;
/// The least share of a connection: some segments on every path.
const SHARE_MIN: u64 = 16 << 10;

/// Bytes in the engine's buffers of a connection, in both directions.
pub(crate) fn buffered(now: Instant, conn: &Connection) -> u64 {
    let info = conn.info(now);
    (info.written - info.acked) + (info.received - info.read) + info.out_of_order
}

/// What is held, as of the last look.
#[derive(Default)]
pub(super) struct Memory {
    /// All together, bytes.
    pub(super) held: u64,
    /// Connections have a share each.
    tight: bool,
    /// Bytes that programs had written at that time, all together.
    taken: u64,
    peak: Peak,
}

impl Core {
    /// Looks at once when programs have written much since the last look: how fast they write must
    /// not decide how much is held.
    pub(super) fn mind_uploads(&mut self, now: Instant) {
        if self.carried.taken().saturating_sub(self.memory.taken) > self.total() / 8 {
            self.mind_memory(now);
        }
    }

    fn total(&self) -> u64 {
        self.config.buffer.map_or(TOTAL, |size| size.0)
    }

    /// Counts what is held, and divides what may be held if it is much.
    pub(super) fn mind_memory(&mut self, now: Instant) {
        let total = self.total();
        self.memory.taken = self.carried.taken();
        let endpoint = &mut self.bond.endpoint;
        let ids: Vec<ConnId> = endpoint.connection_ids().collect();
        let mut held = 0;
        for id in &ids {
            held += endpoint.connection(*id).map_or(0, |conn| buffered(now, conn));
        }
        let was_tight = self.memory.tight;
        let tight = held > total / 2 || was_tight && held > total / 4;
        (self.memory.held, self.memory.tight) = (held, tight);
        self.memory.peak.note(held);
        if !tight && !was_tight {
            return;
        }
        let share = (total / 2 / (ids.len() as u64).max(1)).max(SHARE_MIN);
        for id in ids {
            if let Some(conn) = endpoint.connection(id) {
                conn.limit_send_buffer(if tight { share } else { u64::MAX });
            }
        }
    }
}
