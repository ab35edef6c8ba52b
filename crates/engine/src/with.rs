//! Structs to which new versions add fields are `#[non_exhaustive]`: other crates begin with the
//! defaults, and change what they want.

use crate::congestion::{Ack, AckPath, Congestion};
use crate::egress::Outgoing;
use crate::scheduler::{Blocked, OpportunisticRetransmission, Work};
use crate::view::PathView;

macro_rules! with {
    ($($name:ty),*) => {$(
        impl $name {
            /// This after a change.
            #[must_use]
            pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
                change(&mut self);
                self
            }
        }
    )*};
}
pub(crate) use with;

// Policies name nothing beyond views and time: theirs are here.
with!(Ack, Congestion, AckPath, Work, Blocked, OpportunisticRetransmission, Outgoing, PathView);
