//! Sockets of programs, and of destinations, as streams.

use crate::kernel_memory;
use bytes::{Buf, Bytes};
use mio::net::TcpStream;
use rustix::buffer::spare_capacity;
use socket2::{SockRef, TcpKeepalive};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::net::Shutdown;
use std::time::Duration;
use tabane_engine::pipe::{Read, Sink, Source, Stream, Written};

/// A socket, and what the poll has said of it.
pub(crate) struct Socket {
    stream: TcpStream,
    /// As the poll said last; edges, so they hold until the system says otherwise.
    readable: bool,
    writable: bool,
}

/// A socket as a stream.
pub(crate) struct SocketStream<'a> {
    pub(crate) socket: &'a mut Socket,
    pub(crate) pool: &'a mut Pool,
}

/// Memory that is read into: one block. A read that fills at least half of it gives it away; of a
/// shorter one a copy, so that nobody keeps more than twice of what he holds.
#[derive(Default)]
pub(crate) struct Pool {
    block: Vec<u8>,
}

/// Read from a socket at a time: enough for a batch of segments.
const BLOCK: usize = 64 << 10;
/// Pieces given to the socket in one call.
const CHUNKS: usize = 64;
/// A peer is asked whether it is still there after so long a silence, then again at each interval;
/// after so many questions in vain the connection is over: two and a half minutes in all. RFC 1122
/// section 4.2.3.6 has two hours, for whoever asks for keepalive and says nothing more.
pub(crate) const IDLE: Duration = Duration::from_secs(75);
pub(crate) const INTERVAL: Duration = Duration::from_secs(15);
pub(crate) const PROBES: u32 = 5;

impl Socket {
    pub(crate) fn new(stream: TcpStream) -> Self {
        // Without it small answers wait for the ACK of those before. It can be missing.
        let _ = stream.set_nodelay(true);
        // Without it a peer that vanished while nothing was sent to it would never be missed.
        let keepalive = TcpKeepalive::new().with_time(IDLE).with_interval(INTERVAL);
        let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive.with_retries(PROBES));
        Self { stream, readable: true, writable: true }
    }

    /// The poll says so.
    pub(crate) fn ready(&mut self, readable: bool, writable: bool) {
        self.readable |= readable;
        self.writable |= writable;
    }

    /// The socket itself.
    pub(crate) fn inner(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Bytes that wait in the kernel's queues, both directions.
    pub(crate) fn held(&self) -> u64 {
        kernel_memory::held(&self.stream)
    }

    /// The next bytes.
    pub(crate) fn read(&mut self, pool: &mut Pool) -> Read {
        self.receive(|stream| pool.read(stream)).unwrap_or_else(|other| other)
    }

    /// Looks whether the end has come; what comes instead of it stays where it is.
    pub(crate) fn watch(&mut self) -> Read {
        let seen = self.receive(|stream| match stream.peek(&mut [0])? {
            0 => Ok(Bytes::new()),
            _ => Err(ErrorKind::WouldBlock.into()),
        });
        seen.unwrap_or_else(|other| other)
    }

    fn receive(
        &mut self,
        mut read: impl FnMut(&mut TcpStream) -> io::Result<Bytes>,
    ) -> Result<Read, Read> {
        while self.readable {
            match read(&mut self.stream) {
                Ok(data) if data.is_empty() => return Ok(Read::End),
                Ok(data) => return Ok(Read::Data(data)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.readable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Read::Gone),
            }
        }
        Err(Read::Pending)
    }

    /// Gives it chunks from the front, as many as it takes.
    pub(crate) fn write(&mut self, chunks: &mut VecDeque<Bytes>) -> Written {
        while !chunks.is_empty() {
            if !self.writable {
                return Written::Full;
            }
            let mut slices = [IoSlice::new(&[]); CHUNKS];
            for (slice, chunk) in slices.iter_mut().zip(&*chunks) {
                *slice = IoSlice::new(chunk);
            }
            match self.stream.write_vectored(&slices[..chunks.len().min(CHUNKS)]) {
                Ok(len) => advance(chunks, len),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.writable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Written::Gone,
            }
        }
        Written::All
    }

    /// The peer gets the end, and before it all that has been written, though it is closed.
    pub(crate) fn shutdown(&mut self) {
        self.linger(None);
        // It may be gone already, which reading will tell.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// When it is closed, the peer sees a reset.
    pub(crate) fn reset(&mut self) {
        self.linger(Some(Duration::ZERO));
    }

    /// A stream begins: until [`Socket::shutdown`] has ended it, a close is a reset, so that what
    /// was cut off does not look complete. The system closes it, too, if the agent is killed.
    pub(crate) fn begin(&mut self) {
        self.linger(Some(Duration::ZERO));
    }

    /// A close without lingering sends RST, and throws away what has not been sent. Best effort.
    fn linger(&self, linger: Option<Duration>) {
        let _ = SockRef::from(&self.stream).set_linger(linger);
    }
}

impl Source for SocketStream<'_> {
    fn read(&mut self) -> Read {
        self.socket.read(self.pool)
    }
}

impl Sink for SocketStream<'_> {
    fn write(&mut self, chunks: &mut VecDeque<Bytes>) -> Written {
        self.socket.write(chunks)
    }

    fn shutdown(&mut self) {
        self.socket.shutdown();
    }

    fn batch(&self) -> usize {
        CHUNKS
    }
}

impl Stream for SocketStream<'_> {
    fn reset(&mut self) {
        self.socket.reset();
    }
}

fn advance(chunks: &mut VecDeque<Bytes>, mut len: usize) {
    while len > 0 {
        let Some(first) = chunks.front_mut() else { return };
        if first.len() > len {
            first.advance(len);
            return;
        }
        len -= first.len();
        chunks.pop_front();
    }
}

impl Pool {
    /// Reads at most a block; empty at the end of the stream.
    fn read(&mut self, stream: &mut TcpStream) -> io::Result<Bytes> {
        self.block.clear();
        self.block.reserve_exact(BLOCK);
        let len = rustix::io::read(&*stream, spare_capacity(&mut self.block))?;
        if len < BLOCK / 2 {
            return Ok(Bytes::copy_from_slice(&self.block));
        }
        Ok(std::mem::take(&mut self.block).into())
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // Real sockets.
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::net::{TcpListener, TcpStream as Peer};

    /// A socket whose stream has begun, and its peer.
    fn begun() -> (Socket, Peer) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = Peer::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut socket = Socket::new(TcpStream::from_std(stream));
        socket.begin();
        (socket, peer)
    }

    #[test]
    fn a_peer_that_says_nothing_is_asked_whether_it_is_there() {
        let (socket, _peer) = begun();
        let socket = SockRef::from(&socket.stream);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), IDLE);
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), INTERVAL);
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), PROBES);
    }

    /// The system closes the sockets of an agent that is killed: what it had not ended is cut off.
    #[test]
    fn a_stream_that_nobody_ended_is_reset_when_its_socket_is_closed() {
        let (socket, mut peer) = begun();
        drop(socket);
        let error = peer.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }

    #[test]
    fn all_of_a_stream_arrives_that_ended_before_its_socket_is_closed() {
        let (mut socket, mut peer) = begun();
        // More than the peer has room for, so that the rest waits in the kernel.
        let (mut chunks, mut taken) = (VecDeque::new(), 0);
        while chunks.is_empty() {
            chunks.push_back(Bytes::from_static(&[7; 100_000]));
            socket.write(&mut chunks);
            taken += 100_000 - chunks.front().map_or(0, Bytes::len);
        }
        socket.shutdown();
        drop(socket);
        let mut got = Vec::new();
        peer.read_to_end(&mut got).unwrap();
        assert_eq!(got.len(), taken);
    }
}
