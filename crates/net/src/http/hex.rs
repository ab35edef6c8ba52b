//! Hashes as people compare them.

use sha2::{Digest, Sha256};
use std::io::{self, Read};

/// The hash so far as 64 lower-case hexadecimal digits.
#[must_use]
pub fn digest(hasher: &Sha256) -> String {
    use std::fmt::Write;
    hasher.clone().finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Hashes all that can be read; also says how many bytes that was.
///
/// # Errors
/// The reader's.
pub fn hash(mut reader: impl Read) -> io::Result<(Sha256, u64)> {
    let (mut hasher, mut length) = (Sha256::new(), 0);
    let mut block = vec![0; super::BLOCK];
    loop {
        match reader.read(&mut block)? {
            0 => return Ok((hasher, length)),
            count => {
                hasher.update(&block[..count]);
                length += count as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_abc_is_the_standards() {
        let (hasher, length) = hash(&b"abc"[..]).unwrap();
        assert_eq!(length, 3);
        // FIPS 180-2, appendix B.1.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest(&hasher), expected);
    }
}
