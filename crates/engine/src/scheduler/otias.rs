//! `otias`, out-of-order transmission for in-order arrival (Yang et al., 2014): each packet goes to
//! the subflow on which it arrives first, by smoothed RTT and present window.
//!
//! In the paper, packets queue on the subflow chosen for them and cannot be moved when it becomes
//! slow. As data is bound late here, that weakness is not reproduced. `sttf.rs`, which it shares
//! its code with, differs in that it expects windows to grow.

use super::Scheduler;
use super::sttf::{Growth, Sttf};
use crate::policy::{PolicyError, Values};

/// Makes the scheduler `otias`.
pub(super) fn build(_: &Values<'_>) -> Result<Box<dyn Scheduler>, PolicyError> {
    Ok(Box::new(Sttf::new(Growth::None)))
}
