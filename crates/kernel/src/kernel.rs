//! The kernel's own description of its types (BTF, Documentation/bpf/btf.rst), as far as
//! registering a struct_ops needs it: where the members of a structure are.

use crate::Error;
use crate::object::BTF;
use std::fs;

/// The types of the running kernel, or of a file like its.
pub(crate) struct Types {
    bytes: Vec<u8>,
    types: usize,
    strings: usize,
}

/// A structure.
#[derive(Debug)]
pub(crate) struct Structure {
    /// Its number among the types.
    pub(crate) id: u32,
    /// In bytes.
    pub(crate) size: usize,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    name: String,
    /// In bytes.
    offset: usize,
}

const MAGIC: u16 = 0xeb9f;
const KIND_STRUCT: u32 = 4;

impl Types {
    pub(crate) fn of_kernel() -> Result<Self, Error> {
        let bytes = fs::read(BTF).map_err(|error| Error::NoBtf { path: BTF, error })?;
        Self::new(bytes).ok_or_else(|| Error::NoBtf {
            path: BTF,
            error: std::io::Error::other("not BTF of this machine's byte order"),
        })
    }

    /// `None` if this is no description of types.
    fn new(bytes: Vec<u8>) -> Option<Self> {
        let magic = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
        let word = |at: usize| word(&bytes, at).map(|word| word as usize);
        let (header, types, strings) = (word(4)?, word(8)?, word(16)?);
        let (types, strings) = (header.checked_add(types)?, header.checked_add(strings)?);
        let sound = magic == MAGIC && types <= strings && strings <= bytes.len();
        sound.then_some(Self { bytes, types, strings })
    }

    /// The structure of this name; `None` also where the description ends too early.
    pub(crate) fn structure(&self, name: &str) -> Option<Structure> {
        let mut at = self.types;
        let mut id = 1;
        while at + 12 <= self.strings {
            let info = word(&self.bytes, at + 4)?;
            let (kind, count) = (info >> 24 & 31, (info & 0xffff) as usize);
            if kind == KIND_STRUCT && self.text(word(&self.bytes, at)?)? == name {
                let size = word(&self.bytes, at + 8)? as usize;
                // The upper bit: offsets share their word with the length of bit fields.
                let mask = if info >> 31 == 1 { 0xff_ffff } else { u32::MAX };
                let member = |n: usize| {
                    let at = at + 12 + 12 * n;
                    let name = self.text(word(&self.bytes, at)?)?.to_owned();
                    Some(Member { name, offset: (word(&self.bytes, at + 8)? & mask) as usize / 8 })
                };
                let members = (0..count).map(member).collect::<Option<Vec<_>>>()?;
                return Some(Structure { id, size, members });
            }
            at += 12 + trailing(kind, count)?;
            id += 1;
        }
        None
    }

    fn text(&self, offset: u32) -> Option<&str> {
        let rest = self.bytes.get(self.strings.checked_add(offset as usize)?..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(&rest[..end]).ok()
    }
}

impl Structure {
    /// The number of a member, from 0, and its offset in bytes.
    pub(crate) fn member(&self, name: &str) -> Option<(u32, usize)> {
        let number = self.members.iter().position(|member| member.name == name)?;
        Some((number as u32, self.members[number].offset))
    }
}

/// Bytes that follow the first twelve of a type; `None` for a kind that is not known.
fn trailing(kind: u32, count: usize) -> Option<usize> {
    match kind {
        1 | 14 | 17 => Some(4),
        2 | 7..=12 | 16 | 18 => Some(0),
        3 => Some(12),
        4 | 5 | 15 | 19 => Some(12 * count),
        6 | 13 => Some(8 * count),
        _ => None,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// A description with a single type, `u32`: the kernel wants one beside a map of its own types.
pub(crate) fn least_types() -> Vec<u8> {
    let strings = b"\0u32\0";
    let words = [24u32, 0, 16, 16, strings.len() as u32];
    // INT, four bytes: its name is at 1, its encoding 32 bits without a sign.
    let int = [1u32, 1 << 24, 4, 32];
    let mut bytes = MAGIC.to_ne_bytes().to_vec();
    bytes.extend([1, 0]);
    bytes.extend(words.iter().chain(&int).flat_map(|word| word.to_ne_bytes()));
    bytes.extend(strings);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// INT u32, then STRUCT pair { a at 0, b at 64 bits }.
    fn sample() -> Vec<u8> {
        let strings = b"\0u32\0pair\0a\0b\0";
        let types =
            [[1, 1 << 24, 4, 32].as_slice(), &[5, 4 << 24 | 2, 16], &[10, 1, 0], &[12, 1, 64]]
                .concat();
        let len = 4 * types.len() as u32;
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        let header = [24u32, 0, len, len, strings.len() as u32];
        bytes.extend(header.iter().chain(&types).flat_map(|word: &u32| word.to_ne_bytes()));
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn a_structure_is_found_with_its_members() {
        let types = Types::new(sample()).unwrap();
        let pair = types.structure("pair").unwrap();
        assert_eq!((pair.id, pair.size), (2, 16));
        assert_eq!(pair.member("a"), Some((0, 0)));
        assert_eq!(pair.member("b"), Some((1, 8)));
        assert_eq!(pair.member("c"), None);
        assert!(types.structure("u32").is_none(), "a type, but no structure");
    }

    #[test]
    fn what_is_cut_off_is_no_structure() {
        let whole = sample();
        for len in 0..whole.len() {
            let found = Types::new(whole[..len].to_vec()).and_then(|t| t.structure("pair"));
            let named = found.is_some_and(|pair| pair.member("b").is_some());
            assert!(!named || len >= whole.len() - 1, "of {len} bytes");
        }
        assert!(Types::new(vec![0; 64]).is_none(), "another magic");
    }

    #[test]
    fn the_least_description_is_sound() {
        let types = Types::new(least_types()).unwrap();
        assert_eq!(types.text(1), Some("u32"));
        assert!(types.structure("u32").is_none());
    }
}
