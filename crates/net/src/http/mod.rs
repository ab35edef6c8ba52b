//! Heads and bodies of HTTP/1.1 messages (RFC 9112), as proxies and peers read them.

pub mod body;
pub mod head;
pub mod hex;

/// Longest head of a request or response, bytes.
pub const HEAD_MAX: usize = 16 << 10;
/// Most header fields in a head.
pub const FIELDS_MAX: usize = 64;
/// Hashed at once, bytes.
const BLOCK: usize = 128 << 10;
