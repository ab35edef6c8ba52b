//! A request for packets of a protected flow that have not come: what the far end of the flow says
//! to its sender, in a datagram of its own between the client's own address and the server's
//! service address, port [`PORT`] on both sides.
//!
//! ```text
//!  0        6     7   8      45       47      48
//!  | tabreq | ver | f | flow | newest | count | number ...
//! ```
//! `flow` is addresses and ports as [`key`](super::generations::key) has them. Bit 0 of `f`: the
//! flow is silent, everything after `newest` is wanted; the other bits are the request's number, by
//! which copies of it are known. An end sends requests only to one that
//! has sent a packet of a protected flow, so that earlier versions never see one.

use super::generations::FlowKey;

/// Where requests are taken.
pub(crate) const PORT: u16 = 2;
/// Packets asked for at once.
pub(super) const WANTED_MAX: usize = 16;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Request {
    pub(super) flow: FlowKey,
    /// Its own, below [`REQUESTS`].
    pub(super) number: u8,
    /// The newest number that has come.
    pub(super) newest: u16,
    /// Nothing has come after it, though it should have.
    pub(super) silent: bool,
    /// Numbers that have not come; at most [`WANTED_MAX`].
    pub(super) wanted: Vec<u16>,
}

const MAGIC: &[u8; 6] = b"tabreq";
const VERSION: u8 = 1;
const SILENT: u8 = 1;
/// Requests are counted modulo this.
pub(super) const REQUESTS: u8 = 128;
const FLOW: std::ops::Range<usize> = 8..45;
const HEAD: usize = 48;

impl Request {
    pub(super) fn emit(&self) -> Vec<u8> {
        let mut payload = Vec::with_capacity(HEAD + 2 * self.wanted.len());
        payload.extend_from_slice(MAGIC);
        payload.extend_from_slice(&[VERSION, self.number << 1 | u8::from(self.silent)]);
        payload.extend_from_slice(&self.flow);
        payload.extend_from_slice(&self.newest.to_be_bytes());
        let wanted = &self.wanted[..self.wanted.len().min(WANTED_MAX)];
        payload.push(wanted.len() as u8);
        wanted.iter().for_each(|number| payload.extend_from_slice(&number.to_be_bytes()));
        payload
    }

    /// `None` for what is none.
    pub(super) fn parse(payload: &[u8]) -> Option<Self> {
        let head = payload.get(..HEAD).filter(|head| head[..6] == MAGIC[..])?;
        if head[6] != VERSION {
            return None;
        }
        let count = usize::from(head[HEAD - 1]).min(WANTED_MAX);
        let numbers = payload.get(HEAD..HEAD + 2 * count)?;
        Some(Self {
            flow: head[FLOW].try_into().ok()?,
            number: head[7] >> 1,
            newest: u16::from_be_bytes([head[45], head[46]]),
            silent: head[7] & SILENT != 0,
            wanted: numbers.chunks_exact(2).map(|n| u16::from_be_bytes([n[0], n[1]])).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn requests_are_read_as_they_are_written(
            flow: [u8; 32], number in 0..REQUESTS, newest: u16, silent: bool,
            wanted in prop::collection::vec(any::<u16>(), 0..=WANTED_MAX), cut in 0..100usize,
        ) {
            let mut key = [7; 37];
            key[..32].copy_from_slice(&flow);
            let request = Request { flow: key, number, newest, silent, wanted };
            let bytes = request.emit();
            prop_assert_eq!(Request::parse(&bytes), Some(request));
            let _ = Request::parse(&bytes[..cut.min(bytes.len())]);
        }

        #[test]
        fn any_bytes_are_taken(bytes: Vec<u8>) {
            let _ = Request::parse(&bytes);
        }
    }
}
