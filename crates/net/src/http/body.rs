//! Where a message body ends (RFC 9112 section 6): after so many bytes, after the last chunk, or
//! with the connection. Trailer fields are skipped. Lines of a chunked body end with CR LF and
//! nothing else: if one reader sees an end where another sees none, a request can be smuggled.

use bytes::{Buf, Bytes};
use thiserror::Error;

/// Takes a body out of what is received.
#[derive(Debug)]
pub struct BodyReader {
    state: State,
}

/// How the head says that the body ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// After so many bytes.
    Length(u64),
    /// After the chunk of size 0.
    Chunked,
    /// When the connection ends.
    UntilClose,
}

/// What is wrong with a body.
#[derive(Error, Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyError {
    /// A chunk size that is no hexadecimal number.
    #[error("a chunk begins with a size that is no hexadecimal number")]
    ChunkSize,
    /// A chunk that does not end where its size says.
    #[error("a chunk is longer than its size")]
    ChunkEnd,
    /// A chunk extension or trailer that never ends.
    #[error("a line of the chunked body is longer than {LINE_MAX} bytes")]
    Line,
    /// CR without LF, or LF without CR.
    #[error("a line of the chunked body does not end with CR LF")]
    LineEnd,
    /// The connection ended first.
    #[error("the connection ended in the middle of the body")]
    Truncated,
}

/// Longest chunk size line with its extensions, and longest trailer section, bytes.
const LINE_MAX: usize = 4096;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Length(u64),
    UntilClose,
    /// In the size of a chunk; `digits` so far.
    Size {
        value: u64,
        digits: u8,
    },
    /// Behind the size: extensions up to the line end.
    Extension {
        value: u64,
        skipped: usize,
    },
    /// Behind the CR of that line.
    SizeEnd(u64),
    Data(u64),
    /// CR LF after a chunk; how many of the two were seen.
    DataEnd(u8),
    /// Trailer section: length so far, length of the line.
    Trailer {
        skipped: usize,
        line: usize,
    },
    /// Behind the CR of one of its lines.
    TrailerEnd {
        skipped: usize,
        line: usize,
    },
    Done,
}

impl BodyReader {
    /// A reader of a body framed like that.
    #[must_use]
    pub fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::Length(0) => State::Done,
            Framing::Length(left) => State::Length(left),
            Framing::Chunked => State::Size { value: 0, digits: 0 },
            Framing::UntilClose => State::UntilClose,
        };
        Self { state }
    }

    /// Whether the body is complete.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// The next piece of the body; `None` when `input` is used up or the body complete. What
    /// comes after the body stays in `input`.
    ///
    /// # Errors
    /// [`BodyError`]; the connection is then of no more use.
    pub fn next(&mut self, input: &mut Bytes) -> Result<Option<Bytes>, BodyError> {
        while !input.is_empty() {
            match self.state {
                State::Done => return Ok(None),
                State::UntilClose => return Ok(Some(std::mem::take(input))),
                State::Length(left) => {
                    let (piece, left) = split(input, left);
                    self.state = if left == 0 { State::Done } else { State::Length(left) };
                    return Ok(Some(piece));
                }
                State::Data(left) => {
                    let (piece, left) = split(input, left);
                    self.state = if left == 0 { State::DataEnd(0) } else { State::Data(left) };
                    return Ok(Some(piece));
                }
                _ => {
                    let byte = input.get_u8();
                    self.state = self.state.line_byte(byte)?;
                }
            }
        }
        Ok(None)
    }

    /// As [`BodyReader::next`], for whoever passes the body on as it is: everything in `input` that
    /// belongs to the body, its framing included. What comes after the body stays in `input`.
    ///
    /// # Errors
    /// [`BodyError`]; the connection is then of no more use.
    pub fn pass(&mut self, input: &mut Bytes) -> Result<Bytes, BodyError> {
        let mut whole = input.clone();
        while self.next(input)?.is_some() {}
        whole.truncate(whole.len() - input.len());
        Ok(whole)
    }

    /// The connection has ended.
    ///
    /// # Errors
    /// [`BodyError::Truncated`] if the body had not.
    pub fn finish(&mut self) -> Result<(), BodyError> {
        match self.state {
            State::Done | State::UntilClose => {
                self.state = State::Done;
                Ok(())
            }
            _ => Err(BodyError::Truncated),
        }
    }
}

impl State {
    /// A byte of the framing of a chunked body.
    fn line_byte(self, byte: u8) -> Result<Self, BodyError> {
        match self {
            Self::Size { value, digits } => match (byte as char).to_digit(16) {
                // 15 digits: 2^60 bytes.
                Some(digit) if digits < 15 => {
                    Ok(Self::Size { value: value << 4 | u64::from(digit), digits: digits + 1 })
                }
                None if digits > 0 && matches!(byte, b'\r' | b';' | b' ' | b'\t') => {
                    Self::Extension { value, skipped: 0 }.line_byte(byte)
                }
                _ => Err(BodyError::ChunkSize),
            },
            Self::Extension { skipped: LINE_MAX, .. } => Err(BodyError::Line),
            Self::Extension { value, .. } if byte == b'\r' => Ok(Self::SizeEnd(value)),
            Self::Extension { .. } if byte == b'\n' => Err(BodyError::LineEnd),
            Self::Extension { value, skipped } => {
                Ok(Self::Extension { value, skipped: skipped + 1 })
            }
            Self::SizeEnd(0) if byte == b'\n' => Ok(Self::Trailer { skipped: 0, line: 0 }),
            Self::SizeEnd(value) if byte == b'\n' => Ok(Self::Data(value)),
            Self::DataEnd(0) if byte == b'\r' => Ok(Self::DataEnd(1)),
            Self::DataEnd(1) if byte == b'\n' => Ok(Self::Size { value: 0, digits: 0 }),
            Self::DataEnd(_) => Err(BodyError::ChunkEnd),
            Self::Trailer { skipped: LINE_MAX.., .. } => Err(BodyError::Line),
            Self::Trailer { skipped, line } if byte == b'\r' => {
                Ok(Self::TrailerEnd { skipped: skipped + 2, line })
            }
            Self::Trailer { .. } if byte == b'\n' => Err(BodyError::LineEnd),
            Self::Trailer { skipped, line } => {
                Ok(Self::Trailer { skipped: skipped + 1, line: line + 1 })
            }
            Self::TrailerEnd { line: 0, .. } if byte == b'\n' => Ok(Self::Done),
            Self::TrailerEnd { skipped, .. } if byte == b'\n' => {
                Ok(Self::Trailer { skipped, line: 0 })
            }
            Self::SizeEnd(_) | Self::TrailerEnd { .. } => Err(BodyError::LineEnd),
            Self::Length(_) | Self::UntilClose | Self::Data(_) | Self::Done => Ok(self),
        }
    }
}

fn split(input: &mut Bytes, left: u64) -> (Bytes, u64) {
    let take = left.min(input.len() as u64);
    (input.split_to(take as usize), left - take)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `text` in pieces of `step` bytes; the body and what was left over.
    fn read(framing: Framing, text: &str, step: usize) -> Result<(String, String), BodyError> {
        let mut reader = BodyReader::new(framing);
        let (mut body, mut rest) = (Vec::new(), Vec::new());
        for piece in text.as_bytes().chunks(step) {
            let mut input = Bytes::copy_from_slice(piece);
            while let Some(piece) = reader.next(&mut input)? {
                body.extend_from_slice(&piece);
            }
            rest.extend_from_slice(&input);
        }
        if !reader.is_done() {
            reader.finish()?;
        }
        Ok((String::from_utf8(body).unwrap(), String::from_utf8(rest).unwrap()))
    }

    #[test]
    fn bodies_end_where_they_should_however_they_are_cut() {
        let chunked =
            "4\r\nWiki\r\n6;x=\"y\"\r\npedia \r\nE\r\nin \r\n\r\nchunks.\r\n0\r\n\r\nNEXT";
        let trailer = "1\r\na\r\n0\r\nA: b\r\nC: d\r\n\r\nNEXT";
        for step in 1..=chunked.len() {
            let (body, rest) = read(Framing::Chunked, chunked, step).unwrap();
            assert_eq!((body.as_str(), rest.as_str()), ("Wikipedia in \r\n\r\nchunks.", "NEXT"));
            let (body, rest) = read(Framing::Chunked, trailer, step).unwrap();
            assert_eq!((body.as_str(), rest.as_str()), ("a", "NEXT"));
            let (body, rest) = read(Framing::Length(5), "HelloNEXT", step).unwrap();
            assert_eq!((body.as_str(), rest.as_str()), ("Hello", "NEXT"));
            assert_eq!(read(Framing::UntilClose, "all", step).unwrap().0, "all");
            for text in [chunked, trailer] {
                let mut reader = BodyReader::new(Framing::Chunked);
                let mut passed = Vec::new();
                for piece in text.as_bytes().chunks(step) {
                    let mut input = Bytes::copy_from_slice(piece);
                    passed.extend_from_slice(&reader.pass(&mut input).unwrap());
                }
                assert_eq!([&passed[..], b"NEXT"].concat(), text.as_bytes(), "as it is");
            }
        }
        assert_eq!(read(Framing::Length(0), "NEXT", 9).unwrap(), (String::new(), "NEXT".into()));
    }

    #[test]
    fn broken_chunks_are_refused() {
        for (text, error) in [
            ("xyz\r\n", BodyError::ChunkSize),
            ("\r\n", BodyError::ChunkSize),
            ("-1\r\n", BodyError::ChunkSize),
            ("ffffffffffffffff\r\n", BodyError::ChunkSize),
            ("2\r\nabc\r\n", BodyError::ChunkEnd),
            ("5\r\nabc", BodyError::Truncated),
            ("0\r\n", BodyError::Truncated),
            // One reader's line end, and not another's.
            ("3\nabc\r\n", BodyError::ChunkSize),
            ("3;x\nabc\r\n", BodyError::LineEnd),
            ("3;x\rabc\r\n", BodyError::LineEnd),
            ("3\r\nabc\n0\r\n\r\n", BodyError::ChunkEnd),
            ("3\r\nabc\r\r\n0\r\n\r\n", BodyError::ChunkEnd),
            ("0\r\nA: b\n\r\n", BodyError::LineEnd),
            ("0\r\nA: b\rC\r\n\r\n", BodyError::LineEnd),
            ("0\r\n\n", BodyError::LineEnd),
        ] {
            assert_eq!(read(Framing::Chunked, text, 100).unwrap_err(), error, "{text:?}");
        }
        let long = format!("1;{}\r\n", "x".repeat(5000));
        assert_eq!(read(Framing::Chunked, &long, 100).unwrap_err(), BodyError::Line);
        assert_eq!(read(Framing::Length(9), "short", 3).unwrap_err(), BodyError::Truncated);
    }
}
