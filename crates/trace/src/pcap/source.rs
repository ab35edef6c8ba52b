//! Where the bytes of a capture come from: a slice (a file in memory), or anything that can be
//! read, through one buffer.

use std::io::{self, ErrorKind, Read};

/// Bytes, front to back.
pub trait Source {
    /// At least `n` of the bytes that follow, or all that are left if there are fewer.
    ///
    /// # Errors
    /// Those of the reader underneath.
    fn fill(&mut self, n: usize) -> io::Result<&[u8]>;

    /// Goes on by `n` bytes, which [`Source::fill`] has shown.
    fn consume(&mut self, n: usize);
}

impl Source for &[u8] {
    #[inline]
    fn fill(&mut self, _n: usize) -> io::Result<&[u8]> {
        Ok(self)
    }

    #[inline]
    fn consume(&mut self, n: usize) {
        *self = self.get(n..).unwrap_or(&[]);
    }
}

/// A reader with a buffer of 256 KiB, which stays in the processor's cache; it grows to the
/// largest piece that is ever asked for.
#[derive(Debug)]
pub struct Buffered<R> {
    reader: R,
    buffer: Vec<u8>,
    /// What is filled and not consumed.
    start: usize,
    end: usize,
}

const BUFFER: usize = 256 << 10;

impl<R: Read> Buffered<R> {
    /// Reads from `reader`.
    pub fn new(reader: R) -> Self {
        Self { reader, buffer: vec![0; BUFFER], start: 0, end: 0 }
    }

    #[cold]
    fn read(&mut self, n: usize) -> io::Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if n > self.buffer.len() {
            self.buffer.resize(n.next_power_of_two(), 0);
        }
        while self.end < n {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl<R: Read> Source for Buffered<R> {
    #[inline]
    fn fill(&mut self, n: usize) -> io::Result<&[u8]> {
        if self.end - self.start < n {
            self.read(n)?;
        }
        Ok(&self.buffer[self.start..self.end])
    }

    #[inline]
    fn consume(&mut self, n: usize) {
        self.start = (self.start + n).min(self.end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte at a time.
    struct Drops<'a>(&'a [u8]);

    impl Read for Drops<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let n = to.len().min(self.0.len()).min(1);
            to[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    #[test]
    fn pieces_larger_than_the_buffer_and_the_end() {
        let bytes: Vec<u8> = (0..BUFFER as u32 * 2).map(|n| (n % 251) as u8).collect();
        let mut source = Buffered::new(Drops(&bytes));
        assert_eq!(source.fill(3).unwrap()[..3], bytes[..3]);
        source.consume(2);
        let wanted = BUFFER + 1000;
        assert_eq!(source.fill(wanted).unwrap()[..wanted], bytes[2..2 + wanted]);
        source.consume(wanted);
        let left = bytes.len() - 2 - wanted;
        assert_eq!(source.fill(left + 10).unwrap().len(), left);
    }
}
