//! Moving bytes between two streams: what a proxy does that splits a connection in two (RFC 3135
//! section 3.1).
//!
//! What one stream does not take stays with the other, whose window then closes. In between are,
//! in each direction, one batch of chunks at most. The end of a stream is passed on when all of it
//! has been; the other direction goes on.

use crate::mptcp::Connection;
use crate::time::Instant;
use bytes::Bytes;
use std::collections::VecDeque;

/// Where bytes come from. Nothing blocks: its owner steps the pipe again when there is more.
pub trait Source {
    /// The next bytes, not copied where possible.
    fn read(&mut self) -> Read;
}

/// Where bytes go. Nothing blocks: its owner steps the pipe again when there is room after
/// [`Written::Full`].
pub trait Sink {
    /// Takes chunks from the front, as far as there is room. Also called without any: a sink that
    /// holds something itself tries to get rid of it.
    fn write(&mut self, chunks: &mut VecDeque<Bytes>) -> Written;

    /// The peer gets everything written so far and then the end.
    fn shutdown(&mut self);

    /// Pieces that one `write` likes to take: more than one where each call costs much.
    fn batch(&self) -> usize {
        1
    }
}

/// Both ways, as a connection is.
pub trait Stream: Source + Sink {
    /// Ends it at once, both ways; the peer sees a reset.
    fn reset(&mut self);
}

/// What [`Source::read`] found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Read {
    /// Bytes; never empty.
    Data(Bytes),
    /// Nothing now.
    Pending,
    /// The peer sends no more, and everything has been read. Repeated when asked again.
    End,
    /// It is broken.
    Gone,
}

/// What came of [`Sink::write`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    /// Everything has been taken.
    All,
    /// Something is left: there is no room.
    Full,
    /// It is broken.
    Gone,
}

/// How a pipe, or one direction of it, stands after a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// Waits for one of the streams.
    Waits,
    /// There may be more to do at once: others have their turn first.
    More,
    /// Everything has been passed on, and the end too.
    Ended,
    /// One of the streams is broken.
    Broken,
}

/// A pipe between two streams, the near and the far one.
#[derive(Default, Debug)]
pub struct Pipe {
    /// From near to far.
    pub up: Direction,
    /// From far to near.
    pub down: Direction,
}

/// One direction of a pipe.
#[derive(Default, Debug)]
pub struct Direction {
    /// Read and not yet taken.
    waiting: VecDeque<Bytes>,
    ended: bool,
    passed: u64,
}

/// A connection of an endpoint as a [`Stream`]: what it cannot take now makes it tell of room
/// later (`Event::Writable`).
pub struct ConnectionStream<'a> {
    /// The connection.
    pub connection: &'a mut Connection,
    /// The time of what is done with it.
    pub now: Instant,
}

impl Pipe {
    /// Moves what can be moved, about `turn` bytes in each direction at most.
    pub fn step(&mut self, near: &mut impl Stream, far: &mut impl Stream, turn: u64) -> Flow {
        let up = self.up.step(near, far, turn);
        if up == Flow::Broken {
            return up;
        }
        match (up, self.down.step(far, near, turn)) {
            (_, Flow::Broken) => Flow::Broken,
            (Flow::More, _) | (_, Flow::More) => Flow::More,
            (Flow::Ended, Flow::Ended) => Flow::Ended,
            _ => Flow::Waits,
        }
    }

    /// Bytes that have been read and not yet taken, both directions.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.up.held() + self.down.held()
    }
}

impl Direction {
    /// Moves what can be moved, about `turn` bytes at most.
    pub fn step(&mut self, from: &mut impl Source, to: &mut impl Sink, turn: u64) -> Flow {
        let end = self.passed.saturating_add(turn);
        while self.passed < end {
            let mut found = None;
            while self.waiting.len() < to.batch() {
                match from.read() {
                    Read::Data(chunk) => self.waiting.push_back(chunk),
                    Read::Gone => return Flow::Broken,
                    other => {
                        found = Some(other);
                        break;
                    }
                }
            }
            let idle = self.waiting.is_empty();
            match (self.give(to), found) {
                (Written::Full, _) => return Flow::Waits,
                (Written::Gone, _) => return Flow::Broken,
                (Written::All, Some(Read::End)) => return self.finish(to),
                (Written::All, Some(_)) if idle => return Flow::Waits,
                // As much as was read fitted: there may be more.
                (Written::All, _) => {}
            }
        }
        Flow::More
    }

    /// The source is gone, in order: passes on what has been read, and the
    /// end.
    pub fn finish(&mut self, to: &mut impl Sink) -> Flow {
        match self.give(to) {
            Written::Full => return Flow::Waits,
            Written::Gone => return Flow::Broken,
            Written::All => {}
        }
        if std::mem::replace(&mut self.ended, true) {
            return Flow::Ended;
        }
        to.shutdown();
        // A sink may have had something to say at the end.
        match to.write(&mut self.waiting) {
            Written::All => Flow::Ended,
            Written::Full => Flow::Waits,
            Written::Gone => Flow::Broken,
        }
    }

    /// Whether the end has been passed on.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Bytes that the far side of it has taken.
    #[must_use]
    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// Bytes that have been read and not yet taken.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.waiting.iter().map(|chunk| chunk.len() as u64).sum()
    }

    fn give(&mut self, to: &mut impl Sink) -> Written {
        let before = self.held();
        let written = to.write(&mut self.waiting);
        self.passed += before - self.held();
        written
    }
}

impl Source for ConnectionStream<'_> {
    fn read(&mut self) -> Read {
        match self.connection.read(usize::MAX) {
            Some(data) => Read::Data(data),
            None if self.connection.is_finished() => Read::End,
            None => Read::Pending,
        }
    }
}

impl Sink for ConnectionStream<'_> {
    fn write(&mut self, chunks: &mut VecDeque<Bytes>) -> Written {
        while let Some(chunk) = chunks.front_mut() {
            self.connection.write(chunk);
            if !chunk.is_empty() {
                return Written::Full;
            }
            chunks.pop_front();
        }
        Written::All
    }

    fn shutdown(&mut self) {
        self.connection.close(self.now);
    }
}

impl Stream for ConnectionStream<'_> {
    fn reset(&mut self) {
        self.connection.abort(self.now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives what it was filled with, and takes as much as it has room for.
    #[derive(Default)]
    struct Ends {
        input: VecDeque<Bytes>,
        input_ended: bool,
        room: usize,
        output: Vec<u8>,
        shut: u32,
        batch: usize,
    }

    impl Source for Ends {
        fn read(&mut self) -> Read {
            match self.input.pop_front() {
                Some(chunk) => Read::Data(chunk),
                None if self.input_ended => Read::End,
                None => Read::Pending,
            }
        }
    }

    impl Sink for Ends {
        fn write(&mut self, chunks: &mut VecDeque<Bytes>) -> Written {
            while let Some(chunk) = chunks.front_mut() {
                let taken = chunk.split_to(chunk.len().min(self.room));
                self.room -= taken.len();
                self.output.extend_from_slice(&taken);
                if !chunk.is_empty() {
                    return Written::Full;
                }
                chunks.pop_front();
            }
            Written::All
        }

        fn shutdown(&mut self) {
            self.shut += 1;
        }

        fn batch(&self) -> usize {
            self.batch
        }
    }

    impl Stream for Ends {
        fn reset(&mut self) {}
    }

    fn ends(input: &[&'static str], room: usize, batch: usize) -> Ends {
        let input = input.iter().map(|text| Bytes::from_static(text.as_bytes())).collect();
        Ends { input, room, batch, ..Ends::default() }
    }

    #[test]
    fn the_end_follows_the_last_byte_once_and_the_other_direction_goes_on() {
        let (mut near, mut far) = (ends(&["ab", "cd"], 100, 1), ends(&[], 3, 1));
        near.input_ended = true;
        let mut pipe = Pipe::default();
        assert_eq!(pipe.step(&mut near, &mut far, 1000), Flow::Waits);
        assert_eq!((far.output.as_slice(), far.shut, pipe.held()), (&b"abc"[..], 0, 1));
        far.room = 10;
        assert_eq!(pipe.step(&mut near, &mut far, 1000), Flow::Waits);
        assert_eq!((far.output.as_slice(), far.shut), (&b"abcd"[..], 1));
        far.input.push_back(Bytes::from_static(b"answer"));
        far.input_ended = true;
        assert_eq!(pipe.step(&mut near, &mut far, 1000), Flow::Ended);
        assert_eq!((near.output.as_slice(), near.shut, far.shut), (&b"answer"[..], 1, 1));
        assert_eq!((pipe.up.passed(), pipe.down.passed()), (4, 6));
    }

    #[test]
    fn what_a_stream_that_has_gone_left_is_still_passed_on() {
        let (mut near, mut far) = (ends(&["abcdef"], 0, 1), ends(&[], 2, 1));
        let mut way = Direction::default();
        assert_eq!(way.step(&mut near, &mut far, 1000), Flow::Waits);
        assert_eq!(way.finish(&mut far), Flow::Waits);
        far.room = 10;
        assert_eq!(way.finish(&mut far), Flow::Ended);
        assert_eq!((far.output.as_slice(), far.shut), (&b"abcdef"[..], 1));
        assert_eq!(way.finish(&mut far), Flow::Ended);
        assert_eq!(far.shut, 1);
    }

    #[test]
    fn no_more_than_a_batch_is_held_and_turns_end() {
        let (mut near, mut far) = (ends(&["a"; 100], 0, 1), ends(&[], 0, 8));
        let mut way = Direction::default();
        assert_eq!(way.step(&mut near, &mut far, 1000), Flow::Waits);
        assert_eq!((way.held(), near.input.len()), (8, 92));
        far.room = 1000;
        assert_eq!(way.step(&mut near, &mut far, 10), Flow::More);
        assert_eq!(far.output.len(), 16);
        assert_eq!(way.step(&mut near, &mut far, 1000), Flow::Waits);
        assert_eq!(far.output.len(), 100);
    }
}
