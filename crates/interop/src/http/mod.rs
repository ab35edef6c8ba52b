//! HTTP/1.1 (RFC 9110, RFC 9112) over the engine's connections: a file server and a client.
//!
//! Enough for `curl`, browsers and experiments: no TLS, no compression, no redirects, no
//! multipart ranges. Both are state machines as the engine is: they are told the time, and hold
//! at most one block of a file in memory for each connection.

mod answer;
pub mod client;
pub mod files;
pub mod server;
mod session;
mod upload;

pub use client::{Fetch, FetchError, FetchReport, FetchRequest, FetchState};
pub use server::{Access, FileServer, ServerConfig};
use tabane_net::http::{body, head, hex};

/// Read from a file, or from a connection, at once, bytes.
const BLOCK: usize = 128 << 10;
