//! `own`: a segment leaves by the path of its subflow, and by no other. This is what RFC 8684
//! assumes and what every other stack does.

use super::{Egress, Outgoing};
use crate::policy::{PolicyError, Values};
use crate::view::{PathSet, PathView};

/// The egress policy `own`.
pub(super) struct Own;

impl Own {
    pub(super) fn build(_: &Values<'_>) -> Result<Box<dyn Egress>, PolicyError> {
        Ok(Box::new(Self))
    }
}

impl Egress for Own {
    fn route(&mut self, segment: &Outgoing, _paths: &[PathView]) -> PathSet {
        PathSet::only(segment.own)
    }
}
