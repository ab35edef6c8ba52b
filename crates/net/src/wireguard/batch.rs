//! Buffers that a [`UdpPort`](super::UdpPort) receives into, a batch a system call.

use super::FourTuple;
use quinn_udp::{BATCH_SIZE, RecvMeta};
use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr};

/// Buffers to receive into; one serves all ports of a thread.
#[derive(Debug)]
pub struct Batch {
    buffer: Box<[u8]>,
    meta: [RecvMeta; BATCH_SIZE],
    four_tuples: [FourTuple; BATCH_SIZE],
    /// Buffers filled, and the size of one.
    filled: usize,
    size: usize,
}

/// Bytes of all receive buffers together: 8 with offload, of 64 KiB; 32 without. A datagram longer
/// than its buffer is cut, so no tunnel will open it.
const BATCH_BYTES: usize = 512 << 10;
/// A buffer of coalesced datagrams.
const COALESCED: usize = 64 << 10;

impl Batch {
    /// Empty buffers (512 KiB).
    #[must_use]
    pub fn new() -> Self {
        let nowhere = FourTuple::to((Ipv4Addr::UNSPECIFIED, 0).into());
        Self {
            buffer: vec![0; BATCH_BYTES].into_boxed_slice(),
            meta: [RecvMeta::default(); BATCH_SIZE],
            four_tuples: [nowhere; BATCH_SIZE],
            filled: 0,
            size: COALESCED,
        }
    }

    /// Fills it by one call of `recv`, with large buffers for `coalesced` datagrams.
    pub(crate) fn fill(
        &mut self,
        coalesced: bool,
        recv: impl FnOnce(&mut [IoSliceMut<'_>], &mut [RecvMeta]) -> io::Result<usize>,
    ) -> io::Result<()> {
        self.filled = 0;
        self.size = if coalesced { COALESCED } else { BATCH_BYTES / BATCH_SIZE };
        let mut chunks = self.buffer.chunks_exact_mut(self.size);
        let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        self.filled = recv(&mut slices[..BATCH_BYTES / self.size], &mut self.meta)?;
        Ok(())
    }

    /// Whether there was room for more than what had come: there is nothing else to take before
    /// the next readiness is told. (No error can have cut the batch short, since unconnected
    /// sockets are told of none.)
    #[must_use]
    pub fn took_all(&self) -> bool {
        self.filled < BATCH_BYTES / self.size
    }

    /// Says which port it was filled by, and whether the addresses of ours matter. The datagrams
    /// in it and their bytes.
    pub(crate) fn note(&mut self, port: u8, with_local: bool) -> (u64, u64) {
        let (mut datagrams, mut bytes) = (0, 0);
        for (meta, four_tuple) in self.meta[..self.filled].iter().zip(&mut self.four_tuples) {
            four_tuple.remote = canonical(meta.addr);
            four_tuple.local = meta.dst_ip.filter(|_| with_local).map(|ip| ip.to_canonical());
            four_tuple.port = port;
            datagrams += meta.len.div_ceil(meta.stride.max(1)).max(1) as u64;
            bytes += meta.len as u64;
        }
        (datagrams, bytes)
    }

    /// What [`UdpPort::recv`](super::UdpPort::recv) has put there, in the order received.
    pub fn datagrams(&self) -> impl Iterator<Item = (&FourTuple, &[u8])> {
        let buffers = self.buffer.chunks_exact(self.size).zip(&self.meta).zip(&self.four_tuples);
        buffers.take(self.filled).flat_map(|((buffer, meta), four_tuple)| {
            let (first, rest) = buffer[..meta.len.min(buffer.len())]
                .split_at(meta.stride.min(meta.len).min(buffer.len()));
            // The first may be empty, and is one all the same (RFC 768).
            let rest = rest.chunks(meta.stride.max(1));
            std::iter::once(first).chain(rest).map(move |datagram| (four_tuple, datagram))
        })
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

/// IPv4 as IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
            Some(v4) => (v4, v6.port()).into(),
            None => address,
        },
        SocketAddr::V4(_) => address,
    }
}
