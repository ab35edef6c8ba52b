//! Two endpoints in one thread that exchange IP packets as bytes: what emit, parse, checksums
//! and protocol cost together, without a simulator around them.

use anyhow::bail;
use bytes::Bytes;
use tabane_engine::config::PathConfig;
use tabane_engine::view::PathId;
use tabane_engine::{Config, ConnId, Duration, Endpoint, Event, Instant};

/// Bytes of one transfer.
pub(super) const BYTES: u64 = 1_000_000_000;

const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [10, 0, 0, 2];
const PORT: u16 = 80;
const MTU: u16 = 1_500;
/// Packets that one side sends before the other is fed: fits the second-level cache.
const BATCH: usize = 64;
/// Time that a batch takes, so that there are RTT samples.
const TICK: Duration = Duration::from_micros(50);
/// Application writes.
const WRITE: usize = 1 << 18;
/// Rounds without a byte delivered before it is called stuck.
const PATIENCE: u32 = 100_000;

/// Sends `total` bytes from server to client.
pub(super) fn transfer(total: u64) -> anyhow::Result<()> {
    let mut now = Instant::ZERO;
    let mut client = Endpoint::new(config(CLIENT), [1; 32])?;
    let mut server = Endpoint::new(config(SERVER), [2; 32])?;
    server.listen((SERVER, PORT).into())?;
    let local = (CLIENT, 0).into();
    let conn = client.connect(now, local, (SERVER, PORT).into())?;
    let mut wire = Wire::new();
    let mut source = Source { conn: None, left: total, rest: Bytes::new() };
    let (mut received, mut idle) = (0, 0);
    while received < total {
        now += TICK;
        wire.carry(now, &mut client, &mut server);
        while client.poll_event().is_some() {}
        source.work(now, &mut server);
        wire.carry(now, &mut server, &mut client);
        let got = drain(&mut client, conn);
        received += got;
        idle = if got > 0 { 0 } else { idle + 1 };
        if idle > PATIENCE {
            bail!("stuck after {received} bytes");
        }
        for endpoint in [&mut client, &mut server] {
            if endpoint.poll_timeout().is_some_and(|at| at <= now) {
                endpoint.handle_timeout(now);
            }
        }
    }
    Ok(())
}

fn config(address: [u8; 4]) -> Config {
    let addresses = vec![address.into()];
    let path = PathConfig::new(PathId(0), addresses, MTU);
    let mut config = Config::default().with(|c| c.paths = vec![path]);
    config.mptcp.enabled = false;
    config
}

/// What the server's application does: writes until all is written.
struct Source {
    conn: Option<ConnId>,
    left: u64,
    rest: Bytes,
}

impl Source {
    fn work(&mut self, now: Instant, server: &mut Endpoint) {
        while let Some((id, event)) = server.poll_event() {
            if let Event::Accepted { .. } = event {
                self.conn = Some(id);
            }
        }
        let Some(connection) = self.conn.and_then(|id| server.connection(id)) else { return };
        while self.left > 0 || !self.rest.is_empty() {
            if self.rest.is_empty() {
                static ZEROS: [u8; WRITE] = [0; WRITE];
                let len = self.left.min(WRITE as u64);
                self.rest = Bytes::from_static(&ZEROS).slice(..len as usize);
                self.left -= len;
            }
            if connection.write(&mut self.rest) == 0 {
                return;
            }
        }
        connection.close(now);
    }
}

/// Reads everything; how much it was.
fn drain(client: &mut Endpoint, conn: ConnId) -> u64 {
    while client.poll_event().is_some() {}
    let Some(connection) = client.connection(conn) else { return 0 };
    let mut got = 0;
    while let Some(data) = connection.read(usize::MAX) {
        got += data.len() as u64;
    }
    got
}

/// Buffers for a batch of packets, used again and again.
struct Wire {
    buffers: Vec<[u8; MTU as usize]>,
    lens: Vec<usize>,
}

impl Wire {
    fn new() -> Self {
        Self { buffers: vec![[0; MTU as usize]; BATCH], lens: Vec::with_capacity(BATCH) }
    }

    /// Everything that `from` wants to send now goes to `to`, a batch at a time.
    fn carry(&mut self, now: Instant, from: &mut Endpoint, to: &mut Endpoint) {
        loop {
            self.lens.clear();
            for buffer in &mut self.buffers {
                let Some(transmit) = from.poll_transmit(now, buffer) else { break };
                self.lens.push(transmit.len);
            }
            for (buffer, len) in self.buffers.iter().zip(&self.lens) {
                to.handle_packet(now, PathId(0), &buffer[..*len]);
            }
            if self.lens.len() < BATCH {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_arrive() {
        transfer(3_000_000).unwrap();
    }
}
