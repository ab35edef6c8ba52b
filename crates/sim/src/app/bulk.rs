//! A number of bytes, or bytes without end, as fast as the connection takes them.

/// State of a bulk source.
#[derive(Debug)]
pub(super) struct Bulk {
    /// `None` is without end.
    bytes: Option<u64>,
}

impl Bulk {
    pub(super) fn new(bytes: Option<u64>) -> Self {
        Self { bytes }
    }

    /// Bytes that should have been written by now.
    pub(super) fn goal(&self) -> u64 {
        self.bytes.unwrap_or(u64::MAX)
    }

    /// Whether `count` bytes are all there is.
    pub(super) fn is_all(&self, count: u64) -> bool {
        self.bytes.is_some_and(|all| count >= all)
    }
}
