//! HTTP/1.1 (RFC 9110, RFC 9112) over the engine's connections: a file server and a client.
//!
//! Enough for `curl`, browsers and experiments: no TLS, no compression, no redirects, no
//! multipart ranges. Both are state machines as the engine is: they are told the time, and hold
//! at most one block of a file in memory for each connection.

mod answer;
pub mod body;
pub mod client;
pub mod files;
pub mod head;
pub mod hex;
pub mod server;
mod session;
mod upload;

pub use client::{Fetch, FetchError, FetchReport, FetchRequest, FetchState};
pub use server::{Access, FileServer, ServerConfig};

/// Longest head of a request or response, bytes.
pub const HEAD_MAX: usize = 16 << 10;
/// Most header fields in a head.
pub const FIELDS_MAX: usize = 64;
/// Read from a file, or from a connection, at once, bytes.
pub(crate) const BLOCK: usize = 128 << 10;
