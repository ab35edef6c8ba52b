//! Reading a file that is expected to be small: whoever names `/dev/zero`, or a file of terabytes
//! by mistake, gets an error that says so, and not a machine without memory.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Most bytes read of a source document: a scenario, a configuration.
pub const SOURCE_DOCUMENT: u64 = 4 << 20;
/// Most that is read of a file that a program writes: measured rates, results that are kept.
pub const DATA: u64 = 256 << 20;

/// Reads all of a file of at most `limit` bytes.
///
/// # Errors
/// [`ErrorKind::FileTooLarge`] beyond the limit, which it names; else those of reading.
pub fn bytes(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    all(File::open(path)?, limit)
}

/// Reads all of a text of at most `limit` bytes, without the byte order mark that spreadsheets
/// put first.
///
/// # Errors
/// As [`bytes()`], and [`ErrorKind::InvalidData`] if it is not UTF-8.
pub fn text(path: &Path, limit: u64) -> io::Result<String> {
    utf8(bytes(path, limit)?)
}

/// As [`text`], of what is open already, standard input for one.
///
/// # Errors
/// As [`text`].
pub fn text_of(reader: impl Read, limit: u64) -> io::Result<String> {
    utf8(all(reader, limit)?)
}

fn all(reader: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    reader.take(limit + 1).read_to_end(&mut read)?;
    if read.len() as u64 <= limit {
        return Ok(read);
    }
    let most = match limit {
        0..=65_535 => format!("{limit} bytes"),
        65_536..=1_048_575 => format!("{} KiB", limit >> 10),
        _ => format!("{} MiB", limit >> 20),
    };
    let words = format!("it is longer than {most}, the most that is read of such a file");
    Err(io::Error::new(ErrorKind::FileTooLarge, words))
}

fn utf8(bytes: Vec<u8>) -> io::Result<String> {
    let wrong = |_| io::Error::new(ErrorKind::InvalidData, "it is not text in UTF-8");
    let text = String::from_utf8(bytes).map_err(wrong)?;
    Ok(match text.strip_prefix('\u{feff}') {
        Some(text) => text.to_owned(),
        None => text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_not_read_to_it() {
        let error = text(Path::new("/dev/zero"), SOURCE_DOCUMENT).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert!(error.to_string().contains("4 MiB"), "{error}");
        assert_eq!(text_of(&b"abc"[..], 3).unwrap(), "abc");
        assert_eq!(text_of("\u{feff}abc".as_bytes(), 6).unwrap(), "abc");
        assert!(text_of(&b"abcd"[..], 3).unwrap_err().to_string().contains("3 bytes"));
        assert!(text_of(&b"\xff"[..], 3).unwrap_err().to_string().contains("UTF-8"));
    }
}
