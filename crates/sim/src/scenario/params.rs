//! The parameters of a link, declared once. A link, each of its directions and a timed change have
//! them as fields; the rows of the table say their names, types and meanings.

// Who has the parameters as fields imports this file whole, for their types.
pub(super) use super::jitter::Jitter;
pub(super) use super::link::{Conditions, Loss, Queue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub(super) use tabane_config::quantity::{Rate, Ratio, Time};

/// A struct that has the parameters among its fields. A row: name, type, the stage of the link
/// that is made from it, and what it means for a link, for a direction and, unless it is fixed, in
/// a change. A macro, since fields that serde flattens lose their line and column in errors.
macro_rules! with_link_params {
    (
        $(#[$meta:meta])*
        pub struct $name:ident for $kind:ident { $($before:tt)* } $({ $($after:tt)* })?
    ) => {
        with_link_params! {
            @$kind $name [$(#[$meta])* pub struct $name] [$($before)*] [$($($after)*)?]
            [
                /// Bits per second on the wire, IP headers included.
                rate: Rate => Rate, "Bits per second on the wire.", "Its rate from now on.";
                /// A mahimahi trace file instead of a constant rate, relative to the scenario.
                trace: String => Rate, "A mahimahi trace file.";
                /// One-way propagation delay.
                delay: Time => Delay, "One-way propagation delay.", "Its delay from now on.";
                #[doc = "Variation of the delay: `\"5ms\"` is its standard deviation, \
                    `\"uniform 5ms\"` half the width\nof a uniform one. Packets stay in order, \
                    unless `reordering` is added."]
                jitter: Jitter => Delay, "Variation of the delay.", "Its jitter from now on.";
            ]
            [
                /// Queue in front of the link: `"100 packets"`, `"64KiB"`, or a model (`"codel"`,
                /// `"fq_codel"`, `"pie"`, `"red"`).
                queue: Queue => Queue, "Queue in front of the link.",
                    "Its queue from now on; what waits moves to it, as far as it fits.";
            ]
            [
                /// Packets lost at random: `"1%"`, or a model such as `"gilbert:p=0.01,r=0.4"`.
                loss: Loss => Loss, "Packets lost at random.", "Its loss from now on.";
            ]
            [
                /// Share of packets that come late, behind packets sent after them.
                reorder: Ratio => Faults, "Share of packets that come late.",
                    "Its share of packets that come late from now on.";
                /// Share of packets that come twice.
                duplicate: Ratio => Faults, "Share of packets that come twice.",
                    "Its share of packets that come twice from now on.";
                /// Share of packets damaged on the way (then dropped by the checksum at the host).
                corrupt: Ratio => Faults, "Share of packets damaged.",
                    "Its share of damaged packets from now on.";
                /// How rate, delay, loss and queue change over time: a CSV file, relative to the
                /// scenario, or a model such as `"leo"` or `"cellular:dwell_ms=1000"`.
                conditions: Conditions => Conditions,
                    "How rate, delay, loss and queue change over time.";
            ]
        }
    };
    (
        @link $name:ident [$($head:tt)*] [$($before:tt)*] [$($after:tt)*]
        $([$($(#[$link:meta])* $param:ident: $type:ty => $stage:ident, $direction:literal
            $(, $change:literal)?;)*])*
    ) => {
        $($head)* {
            $($before)*
            $($(
                $(#[$link])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $param: Option<$type>,
            )*)*
            $($after)*
        }

        impl $name {
            /// Those for both directions.
            fn params(&self) -> LinkParams {
                LinkParams { $($($param: Clone::clone(&self.$param),)*)* }
            }
        }
    };
    (
        @direction $name:ident [$($head:tt)*] [$($before:tt)*] [$($after:tt)*]
        $([$($(#[$link:meta])* $param:ident: $type:ty => $stage:ident, $direction:literal
            $(, $change:literal)?;)*])*
    ) => {
        $($head)* {
            $($before)*
            $($(
                #[doc = $direction]
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $param: Option<$type>,
            )*)*
            $($after)*
        }

        impl $name {
            /// Whether one is given that `stage` is made from.
            pub fn shapes(&self, stage: Stage) -> bool {
                false $($(|| (stage == Stage::$stage && self.$param.is_some()))*)*
            }

            /// Replaces those that `over` gives.
            pub fn lay(&mut self, over: &Self) {
                // A rate replaces a trace, and the reverse.
                if over.shapes(Stage::Rate) {
                    (self.rate, self.trace) = (None, None);
                }
                $($(
                    if over.$param.is_some() {
                        self.$param.clone_from(&over.$param);
                    }
                )*)*
            }
        }
    };
    // Changes have always been written with the loss before the queue.
    (@change $name:ident $head:tt $before:tt $after:tt $first:tt $queue:tt $loss:tt $rest:tt) => {
        with_link_params! { @ordered $name $head $before $after $first $loss $queue $rest }
    };
    (
        @ordered $name:ident [$($head:tt)*] [$($before:tt)*] [$($after:tt)*]
        $([$($(#[$link:meta])* $param:ident: $type:ty => $stage:ident, $direction:literal
            $(, $change:literal)?;)*])*
    ) => {
        $($head)* {
            $($before)*
            $($($(
                #[doc = $change]
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $param: Option<$type>,
            )?)*)*
            $($after)*
        }

        impl $name {
            /// Link parameters given.
            pub fn params(&self) -> LinkParams {
                let mut params = LinkParams::default();
                $($($({
                    const _: &str = $change;
                    params.$param.clone_from(&self.$param);
                })?)*)*
                params
            }

            /// The link parameters that may change, with whether this gives them.
            pub(super) fn params_given(&self) -> Vec<(&'static str, bool)> {
                vec![$($($({
                    const _: &str = $change;
                    (stringify!($param), self.$param.is_some())
                },)?)*)*]
            }
        }
    };
}
pub(super) use with_link_params;

/// What a direction of a link consists of, in the order in which packets meet it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    Queue,
    Rate,
    Loss,
    Delay,
    /// What real networks do more rarely.
    Faults,
    /// How all that changes over time.
    Conditions,
}

with_link_params! {
    /// Parameters of one direction; those not given are the link's.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    #[schemars(rename = "Direction")]
    pub struct LinkParams for direction {}
}
