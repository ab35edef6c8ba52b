//! Ctrl-C and SIGTERM.

use crate::exit::Failure;
use anyhow::Context;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that Ctrl-C and SIGTERM set, for verbs that have something to save or to take away.
///
/// # Errors
/// Signals cannot be caught.
pub(crate) fn interruption() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    let set = flag.clone();
    ctrlc::set_handler(move || set.store(true, Ordering::Relaxed))
        .context("signals cannot be caught")?;
    Ok(flag)
}
