//! A host's settings: policies, and what differs from the engine's defaults.

use super::linux::LinuxBuffers;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU8;
use tabane_config::policy::PolicySpec;
use tabane_config::quantity::{Size, Time};
use tabane_engine::config::{Autotuning, Config, MptcpConfig, NumberSize, SUBFLOWS_MAX, TcpConfig};

/// Settings of a host. What is not given comes from `[defaults]`, then from the engine.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Host {
    /// Which subflow carries the next data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<PolicySpec>,
    /// How much may be in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<PolicySpec>,
    /// Which way out a segment leaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress: Option<PolicySpec>,
    /// `false` is plain TCP; a table changes MPTCP settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mptcp: Option<Mptcp>,
    /// TCP settings.
    #[serde(skip_serializing_if = "Tcp::is_default")]
    pub tcp: Tcp,
}

impl Host {
    /// Whether nothing is given.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Puts these settings over `config`.
    pub fn apply(&self, config: &mut Config) {
        if let Some(choice) = &self.scheduler {
            config.mptcp.scheduler = choice.0.clone();
        }
        if let Some(choice) = &self.congestion {
            config.tcp.congestion = choice.0.clone();
        }
        if let Some(choice) = &self.egress {
            config.mptcp.egress = choice.0.clone();
        }
        match &self.mptcp {
            None => {}
            Some(Mptcp::Switch(on)) => config.mptcp.enabled = *on,
            Some(Mptcp::Settings(settings)) => {
                config.mptcp.enabled = true;
                settings.apply(&mut config.mptcp);
            }
        }
        self.tcp.apply(&mut config.tcp);
    }
}

/// MPTCP on, off, or on with settings.
#[derive(Clone, PartialEq, Debug)]
pub enum Mptcp {
    /// On or off.
    Switch(bool),
    /// On, with these settings.
    Settings(MptcpSettings),
}

impl<'de> Deserialize<'de> for Mptcp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Mptcp;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false or a table of MPTCP settings")
            }
            fn visit_bool<E>(self, on: bool) -> Result<Mptcp, E> {
                Ok(Mptcp::Switch(on))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Mptcp, A::Error> {
                let settings = MptcpSettings::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Mptcp::Settings(settings))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl Serialize for Mptcp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Switch(on) => serializer.serialize_bool(*on),
            Self::Settings(settings) => settings.serialize(serializer),
        }
    }
}

impl JsonSchema for Mptcp {
    fn schema_name() -> Cow<'static, str> {
        "Mptcp".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let settings = generator.subschema_for::<MptcpSettings>();
        json_schema!({ "anyOf": [{ "type": "boolean" }, settings] })
    }
}

/// Declares a table of optional settings that are laid over a struct of the engine.
macro_rules! settings {
    ($(#[$doc:meta])* $name:ident over $target:ty {
        $($(#[$field_doc:meta])* $field:ident: $type:ty => |$c:ident, $v:ident| $set:expr;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name {
            $($(#[$field_doc])* #[serde(skip_serializing_if = "Option::is_none")]
            pub $field: Option<$type>,)*
        }

        impl $name {
            /// Puts what is given over `config`.
            pub fn apply(&self, config: &mut $target) {
                $(if let Some($v) = self.$field { let $c = &mut *config; $set; })*
            }

            /// Whether nothing is given.
            pub fn is_default(&self) -> bool {
                *self == Self::default()
            }
        }
    };
}

/// How a receive buffer grows; see the engine's `Autotuning`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BufferAutotuning {
    /// As soon as what came asks for half as much again.
    Early,
    /// Once a round trip of the slowest subflow, by what has been read.
    Linux,
}

impl From<BufferAutotuning> for Autotuning {
    fn from(autotuning: BufferAutotuning) -> Self {
        match autotuning {
            BufferAutotuning::Early => Self::Early,
            BufferAutotuning::Linux => Self::Linux,
        }
    }
}

settings! {
    /// TCP settings; see the engine's `TcpConfig` for sources.
    Tcp over TcpConfig {
        /// Receive buffer at the start.
        receive_buffer: Size => |c, v| {
            c.receive_buffer = v.0;
            c.receive_buffer_max = c.receive_buffer_max.max(v.0);
        };
        /// Receive buffer that autotuning may reach.
        receive_buffer_max: Size => |c, v| {
            c.receive_buffer_max = v.0;
            c.receive_buffer = c.receive_buffer.min(v.0);
        };
        /// Written and not yet acknowledged.
        send_buffer: Size => |c, v| c.send_buffer = v.0;
        /// Instead of these three: what Linux is told about its socket buffers.
        linux: LinuxBuffers => |c, v| v.apply(c);
        /// How the receive buffer grows: `"early"`, as soon as a round trip uses it up, or
        /// `"linux"`, once a round trip of the slowest subflow. Given `linux`, it is that.
        autotuning: BufferAutotuning => |c, v| c.autotuning = v.into();
        /// Largest MSS announced; the MTU limits it too.
        mss: u16 => |c, v| c.mss_max = v;
        /// Longest delay of an ACK; `"0ms"` acknowledges at once.
        ack_delay: Time => |c, v| c.ack_delay = v.0;
        /// Segments at the start that are acknowledged at once.
        quick_acks: u32 => |c, v| c.quick_acks = v;
        /// Nagle's algorithm.
        nagle: bool => |c, v| c.nagle = v;
        /// Selective acknowledgements.
        sack: bool => |c, v| c.sack = v;
        /// Timestamps.
        timestamps: bool => |c, v| c.timestamps = v;
        /// Explicit congestion notification.
        ecn: bool => |c, v| c.ecn = v;
        /// Initial window, segments.
        initial_window: u32 => |c, v| c.initial_window = v;
        /// Slow start threshold before the first loss; none by default.
        initial_ssthresh: Size => |c, v| c.initial_ssthresh = v.0;
        /// Smallest retransmission timeout.
        rto_min: Time => |c, v| c.rto_min = v.0;
        /// Retransmission timeout before the first sample.
        rto_initial: Time => |c, v| c.rto_initial = v.0;
        /// Largest retransmission timeout.
        rto_max: Time => |c, v| c.rto_max = v.0;
        /// SYN repetitions before giving up.
        syn_retries: u32 => |c, v| c.syn_retries = v;
        /// Retransmissions in a row before a subflow is given up.
        retries: u32 => |c, v| c.retries = v;
        /// Idle time before keepalive probes.
        keepalive: Time => |c, v| c.keepalive = Some(v.0);
        /// Restart from the initial window after an idle RTO.
        idle_restart: bool => |c, v| c.idle_restart = v;
        /// Time in TIME-WAIT.
        time_wait: Time => |c, v| c.time_wait = v.0;
    }
}

settings! {
    /// MPTCP settings; see the engine's `MptcpConfig` for sources.
    MptcpSettings over MptcpConfig {
        /// DSS checksums required.
        checksum: bool => |c, v| c.checksum = v;
        /// 8-byte data sequence numbers always.
        long_numbers: bool => |c, v| {
            c.numbers = if v { NumberSize::Long } else { NumberSize::Auto };
        };
        /// Segments that one mapping covers at the most; 1: each has its own, as Linux does it.
        segments_per_mapping: NonZeroU8 => |c, v| c.segments_per_mapping = v.get();
        /// Copies that come by several paths are dropped before the stack; `false`: a stock stack.
        remove_copies: bool => |c, v| c.remove_copies = v;
        /// As client, open subflows from every path.
        full_mesh: bool => |c, v| c.full_mesh = v;
        /// Subflows opened per path.
        subflows_per_path: u8 => |c, v| {
            c.subflows_per_path = v;
            c.max_subflows = SUBFLOWS_MAX;
        };
        /// Subflows per connection: 8 or as many as there are paths, and as many as there may be
        /// where more than one is opened per path.
        max_subflows: u8 => |c, v| c.max_subflows = v;
        /// Open subflows to addresses that the peer announces.
        accept_addresses: bool => |c, v| c.accept_addresses = v;
        /// Announce our addresses on the other paths.
        announce: bool => |c, v| c.announce = v;
        /// RTOs in a row before a subflow is stale.
        stale_after: u32 => |c, v| c.stale_after = v;
        /// Opportunistic retransmission and penalisation.
        rescue: bool => |c, v| c.opportunistic_retransmission = v;
        /// At the end of data, send again what a slower subflow would deliver later.
        race: bool => |c, v| c.tail_reinjection = v;
        /// Copies of what opens a connection leave by another path when the first is late.
        hedging: bool => |c, v| c.hedging = v;
        /// An MP_JOIN that is not answered for so long leaves once more.
        join_copy_after: Time => |c, v| c.join_copy_after = v.0;
        /// How long all subflows may be gone before the connection is.
        break_before_make: Time => |c, v| c.break_before_make = v.0;
    }
}

/// Buffers at most. Positions in the stream are numbers of 64 bits that wrap: a window of half of
/// them would have no end, and the run neither.
const BUFFER: Size = Size(1 << 40);

impl Tcp {
    /// What of these settings cannot work over `base`: the key, and why.
    pub(crate) fn fault(&self, base: &TcpConfig) -> Option<(&'static str, String)> {
        let buffers = [
            ("receive_buffer", self.receive_buffer),
            ("receive_buffer_max", self.receive_buffer_max),
            ("send_buffer", self.send_buffer),
        ];
        for (key, size) in buffers {
            let message = match size {
                None => continue,
                Some(_) if self.linux.is_some() => {
                    format!("'{key}' and 'linux' both say how large buffers are")
                }
                Some(Size(0)) => "a buffer of 0 bytes: nothing would be sent".to_owned(),
                Some(size) if size > BUFFER => {
                    format!("a buffer is too large: at most {BUFFER}, a window has room for 1 GiB")
                }
                Some(_) => continue,
            };
            return Some((key, message));
        }
        if self.mss.is_some_and(|mss| mss < TcpConfig::MSS_MIN) {
            return Some(("mss", format!("segments carry at least {} bytes", TcpConfig::MSS_MIN)));
        }
        if self.initial_window == Some(0) {
            return Some((
                "initial_window",
                "a window of 0 segments: nothing would be sent".into(),
            ));
        }
        let mut config = base.clone();
        self.apply(&mut config);
        if config.rto_min > config.rto_max {
            let key = if self.rto_max.is_some() { "rto_max" } else { "rto_min" };
            let (least, most) = (Time(config.rto_min), Time(config.rto_max));
            return Some((key, format!("the least timeout, {least}, is above the most, {most}")));
        }
        None
    }
}

impl MptcpSettings {
    /// What of these settings cannot work: the key, and why.
    pub(crate) fn fault(&self) -> Option<(&'static str, String)> {
        let counts =
            [("max_subflows", self.max_subflows), ("subflows_per_path", self.subflows_per_path)];
        counts.into_iter().find_map(|(key, count)| match count? {
            0 => Some((key, "a connection has at least one; `mptcp = false` is plain TCP".into())),
            1..=SUBFLOWS_MAX => None,
            _ => Some((key, format!("a connection has {SUBFLOWS_MAX} subflows at most"))),
        })
    }
}
