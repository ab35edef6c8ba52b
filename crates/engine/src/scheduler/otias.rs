//! `otias`, out-of-order transmission for in-order arrival (Yang et al., 2014; algorithms 1.8):
//! each packet is for the subflow on which it arrives first, by smoothed RTT and present window.
//!
//! There packets queue on the subflow chosen for them and cannot be moved when it turns slow. With
//! data bound late that weakness is not reproduced; see `sttf.rs`, from which it differs in that
//! windows are not expected to grow.

use super::Scheduler;
use super::sttf::{Growth, Sttf};
use crate::policy::{PolicyError, Values};

/// Makes the scheduler `otias`.
pub(super) fn build(_: &Values<'_>) -> Result<Box<dyn Scheduler>, PolicyError> {
    Ok(Box::new(Sttf::new(Growth::None)))
}
