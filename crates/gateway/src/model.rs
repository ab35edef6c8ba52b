//! What an agent tells about itself: snapshots and events, as the control socket, `tabane top`,
//! the metrics and the web page show them. One vocabulary for all; rates are bits per second,
//! sizes bytes, times as their names say.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// What a path may be used for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Always.
    #[default]
    Primary,
    /// When the primary paths do not suffice.
    Secondary,
    /// When no primary or secondary works.
    Backup,
    /// Not at all.
    Never,
}

/// Whether a path works.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum PathState {
    /// Its interface is not there, or has no address or no way to the server.
    #[default]
    Absent,
    /// The tunnel is being set up.
    Connecting,
    /// It carries packets.
    Up,
    /// It has gone dead: probes are not answered.
    Down,
}

/// Snapshot of a path.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, Debug)]
#[serde(default)]
pub struct PathStatus {
    /// As configured.
    pub name: String,
    /// Numeric id, as in records and captures.
    pub id: u8,
    /// Whose path it is; at a server only.
    pub client: Option<String>,
    /// The interface that it is bound to, if any.
    pub interface: Option<String>,
    /// Our outer address.
    pub local: Option<SocketAddr>,
    /// The far end's outer address.
    pub remote: Option<SocketAddr>,
    /// Our outer address as the far end sees it, if it told; another than `local` behind a NAT.
    pub seen_as: Option<SocketAddr>,
    /// As configured or set.
    pub role: Role,
    /// See [`PathState`].
    pub state: PathState,
    /// Why it is in that state, or idle; for people.
    pub reason: String,
    /// Seconds in that state.
    pub since_s: f64,
    /// Round-trip time of the last probes, smoothed.
    pub rtt_ms: Option<f64>,
    /// Share of the last probes that were not answered, 0 to 1.
    pub loss: Option<f64>,
    /// Largest inner packet.
    pub mtu: u16,
    /// Packets that were longer and did not go.
    pub too_big: u64,
    /// What is known of the direction from here.
    pub sending: DirectionStatus,
    /// What is known of the direction to here.
    pub receiving: DirectionStatus,
    /// Inner bytes sent in the last second, as a rate.
    pub tx_bps: f64,
    /// Inner bytes received in the last second, as a rate.
    pub rx_bps: f64,
    /// Inner bytes sent.
    pub tx_bytes: u64,
    /// Inner bytes received.
    pub rx_bytes: u64,
    /// Inner packets sent.
    pub tx_packets: u64,
    /// Inner packets received.
    pub rx_packets: u64,
    /// Payload bytes sent again on it.
    pub retransmitted_bytes: u64,
    /// Congestion window of its subflows, together.
    pub cwnd_bytes: u64,
    /// In flight on its subflows.
    pub inflight_bytes: u64,
    /// Subflows on it.
    pub subflows: u32,
    /// What records say of it, where they are kept.
    #[serde(alias = "tally")]
    pub record_counters: Option<PathRecordTotals>,
    /// Since the last WireGuard handshake.
    pub handshake_age_s: Option<f64>,
    /// Bytes that its quota leaves in this period.
    pub quota_left: Option<u64>,
    /// Rate cap.
    pub cap_bps: Option<u64>,
}

/// One direction of a path, as both ends' counts show it; nothing of an end that sends no reports.
#[derive(Clone, Copy, PartialEq, Default, Serialize, Deserialize, Debug)]
#[serde(default)]
pub struct DirectionStatus {
    /// What arrives now, bits per second; nothing while it is idle.
    pub delivery_bps: Option<f64>,
    /// What it has shown to carry when it was the bottleneck, bits per second; nothing if it never
    /// was.
    pub capacity_bps: Option<f64>,
    /// How much `capacity_bps` may be trusted, 0 to 1.
    pub confidence: f64,
    /// One-way delay above its base.
    pub queueing_ms: Option<f64>,
    /// Variation of the one-way delay.
    pub jitter_ms: Option<f64>,
    /// Share of packets that were lost lately, 0 to 1.
    pub loss: Option<f64>,
}

/// Snapshot of an agent.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, Debug)]
#[serde(default)]
pub struct Status {
    /// `client` or `server`.
    pub agent: String,
    /// Of the program.
    pub version: String,
    pub name: String,
    /// Since it started.
    pub uptime_s: f64,
    /// The server in use (at a client), or where it listens.
    pub server: Option<SocketAddr>,
    /// Its paths.
    pub paths: Vec<PathStatus>,
    /// Connections open.
    pub connections: u64,
    /// Connections asked for since the start, refused ones among them.
    pub connections_total: u64,
    /// Connections that could not be opened.
    pub refused_total: u64,
    /// Flows of datagrams open.
    pub udp_flows: u64,
    /// How far the far end's clock is ahead of ours, if it told.
    pub clock_ahead_ms: Option<f64>,
    /// The host's side of a client in TUN mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tun: Option<TunStatus>,
    /// What records say, where they are kept.
    #[serde(alias = "tally")]
    pub record_counters: Option<RecordTotals>,
    /// Clients with at least one working path; at a server only.
    pub clients: u64,
    /// Bytes that connections hold: at a server those of its clients, in the kernel too; at a
    /// client those of programs, in the agent.
    pub held_bytes: u64,
    /// The file that its configuration comes from, if it comes from one.
    pub configuration: Option<PathBuf>,
    /// It has a copy of that file, and takes another configuration only as text
    /// (`Request::Configure`).
    pub configuration_copied: bool,
    /// Why clients cannot ping through it; at a server only.
    pub no_pings: Option<String>,
    /// Counters with a name of their own: duplicates removed, drops by reason and the like.
    pub counters: Vec<(String, u64)>,
}

/// What a client in TUN mode has made of its host.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
#[serde(default)]
pub struct TunStatus {
    /// The device's name.
    pub device: String,
    /// `waiting` (for the server's address), `up`, `lost` (the device is gone and is made again),
    /// `faulty` (what is wanted of the host cannot be had).
    pub state: String,
    /// Why, for people.
    pub reason: String,
    /// Nothing of `routes` leaves beside the tunnel.
    pub kill_switch: bool,
    /// Prefixes that lead to the device.
    pub(crate) routes: Vec<String>,
    /// With the kill switch: networks that the host is in stay beside the tunnel if they are in one
    /// of these.
    pub(crate) local_networks: Vec<String>,
    /// Its routing table.
    pub(crate) table: u32,
    /// Hosts behind the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lan: Option<LanStatus>,
}

/// What a client does for the hosts behind it.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
#[serde(default)]
pub struct LanStatus {
    /// `carried`, or `direct`: their packets leave by the routes of the client's host.
    pub state: String,
    /// What becomes of their packets while no path works: `block` or `direct`.
    pub when_down: String,
    /// Where they are.
    pub interfaces: Vec<LanInterface>,
    /// Their addresses that were heard of in the last ten minutes: a host with IPv4 and IPv6 has
    /// two. At most 4096.
    pub hosts: u64,
    /// Sources of datagrams and echo requests.
    pub udp_flows: u64,
    /// Packets that were not carried, by the reason.
    pub refused: Vec<(String, u64)>,
}

/// An interface that hosts are behind.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
#[serde(default)]
pub struct LanInterface {
    /// As `ip link` shows it.
    pub name: String,
    /// The networks that it has an address in; none if it is not there, or is down.
    pub networks: Vec<String>,
}

/// What the engine's records say of a path, where they are kept (`crate::record_counters`).
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, Debug)]
#[serde(default)]
pub struct PathRecordTotals {
    /// How often the scheduler changed to it, by reason.
    pub decisions: Vec<(String, u64)>,
    /// Payload bytes sent again on it.
    pub retransmitted_bytes: u64,
    /// Payload bytes sent on it that had been sent on another one.
    pub reinjected_bytes: u64,
    /// Payload bytes that came by it and had come before.
    pub duplicate_bytes: u64,
}

/// What they say of all paths together.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, Debug)]
#[serde(default)]
pub struct RecordTotals {
    /// How often the scheduler began to wait, by reason.
    pub held: Vec<(String, u64)>,
    /// Connections that went on without MPTCP, by reason.
    pub fallbacks: Vec<(String, u64)>,
    /// How long gaps in the data held up what came behind them.
    pub gaps: Histogram,
}

/// Counts by size.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, Debug)]
#[serde(default)]
pub struct Histogram {
    /// By bucket, each without those before it; empty if nothing was counted.
    pub counts: Vec<u64>,
    /// Of all values, seconds.
    pub sum: f64,
}

/// Snapshot of a connection.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, Debug)]
#[serde(default)]
pub struct ConnStatus {
    /// As in records.
    pub id: u64,
    /// MPTCP token.
    pub token: u32,
    /// Whose; at a server only.
    pub client: Option<String>,
    /// The program's address.
    pub source: Option<SocketAddr>,
    /// Where it goes, as the program named it.
    pub target: String,
    /// Since it was opened.
    pub age_s: f64,
    /// Payload bytes sent into the bond.
    pub tx_bytes: u64,
    /// Payload bytes received from it.
    pub rx_bytes: u64,
    /// Sent more than once at connection level.
    pub reinjected_bytes: u64,
    /// Scheduler, congestion control and egress in use.
    pub policies: [String; 3],
    /// Its subflows.
    pub subflows: Vec<SubflowStatus>,
}

/// Snapshot of a subflow.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, Debug)]
#[serde(default)]
pub struct SubflowStatus {
    /// Name of its path.
    pub path: String,
    /// TCP state.
    pub state: String,
    /// Low priority.
    pub backup: bool,
    /// Round-trip time.
    pub rtt_ms: f64,
    /// Congestion window, bytes.
    pub cwnd_bytes: u64,
    /// Bytes in flight.
    pub inflight_bytes: u64,
    /// Payload bytes sent.
    pub tx_bytes: u64,
    /// Payload bytes delivered in order of data.
    pub rx_bytes: u64,
    /// Payload bytes sent again.
    pub retransmitted_bytes: u64,
}

/// Something that happened.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct AgentEvent {
    /// Counts up from 1.
    pub seq: u64,
    /// Unix time in milliseconds.
    pub unix_ms: u64,
    pub kind: EventKind,
    /// The path, if it is about one.
    pub path: Option<String>,
    /// The client, if it is about one.
    pub client: Option<String>,
    /// For people.
    pub text: String,
}

impl Role {
    /// All, in falling order of use.
    pub const ALL: [Self; 4] = [Self::Primary, Self::Secondary, Self::Backup, Self::Never];

    /// As users type it.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Secondary => "secondary",
            Self::Backup => "backup",
            Self::Never => "never",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|role| role.name() == text)
            .ok_or_else(|| format!("'{text}' is no role: primary, secondary, backup or never"))
    }
}

/// How much an event matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Something does not work that should.
    Error,
    /// Somebody may want to do something.
    Warning,
    /// Worth knowing.
    Notice,
    /// For those who look closely.
    Detail,
}

macro_rules! event_kinds {
    ($($kind:ident $name:literal $level:ident: $doc:literal;)*) => {
        /// What an event is, by the names that logs, `tabane monitor` and JSON have.
        #[derive(Clone, PartialEq, Eq, Debug)]
        #[non_exhaustive]
        pub enum EventKind {
            $(#[doc = $doc] $kind,)*
            /// Of an agent of another version.
            Other(String),
        }

        impl EventKind {
            /// Its name for machines.
            #[must_use]
            pub(crate) fn name(&self) -> &str {
                match self {
                    $(Self::$kind => $name,)*
                    Self::Other(name) => name,
                }
            }

            /// How much it matters.
            #[must_use]
            pub fn level(&self) -> Level {
                match self {
                    $(Self::$kind => Level::$level,)*
                    Self::Other(_) => Level::Notice,
                }
            }
        }

        impl From<&str> for EventKind {
            fn from(name: &str) -> Self {
                match name {
                    $($name => Self::$kind,)*
                    _ => Self::Other(name.to_owned()),
                }
            }
        }
    };
}

event_kinds! {
    AccessDenied "access-denied" Notice: "A client asked for what it may not reach.";
    ClientAdded "client-added" Notice: "A client may connect from now on.";
    ClientConnected "client-connected" Notice: "The first path of a client works.";
    ClientDisabled "client-disabled" Notice: "A client may not connect any more.";
    ClientGone "client-gone" Notice: "None of a client's paths works any more.";
    ClientNotAdded "client-not-added" Notice: "Somebody was to join, and could not be added.";
    ClientRekeyed "client-rekeyed" Notice: "A client has other keys.";
    ClientRemoved "client-removed" Notice: "A client is no client any more.";
    DatagramDropped "datagram-dropped" Detail: "Datagrams that are none of WireGuard.";
    EnrolmentRefused "enrolment-refused" Notice: "An invitation or new keys were not taken.";
    Exhausted "exhausted" Notice: "Programs are refused for want of something.";
    HandshakeRefused "handshake-refused" Warning: "Handshakes came to nothing.";
    Joined "joined" Notice: "A client's keys are known to the server now.";
    KeysChanged "keys-changed" Notice: "A client has changed its keys.";
    KeysShared "keys-shared" Warning: "Two clients run with the same keys.";
    NextFailed "next-failed" Error: "The bond to the next server cannot be waited for.";
    NoPort "no-port" Notice: "This machine has no port left towards a target.";
    NotLogged "not-logged" Warning: "There were more events than the log takes.";
    PathDown "path-down" Warning: "A path has ceased to work.";
    PathMtu "path-mtu" Detail: "A path carries packets of another size.";
    PathTooBig "path-too-big" Notice: "A packet was longer than its path carries.";
    PathUp "path-up" Notice: "A path works.";
    PathUse "path-use" Detail: "A path is used for something else.";
    PathWaits "path-waits" Warning: "A path cannot be used for want of something.";
    PoliciesRefused "policies-refused" Warning: "The server does not take a client's policies.";
    QuotaNotSaved "quota-not-saved" Error: "What was used of quotas cannot be saved.";
    RecordStopped "record-stopped" Error: "Nothing, or not everything, is recorded.";
    Reload "reload" Notice: "The configuration was read again.";
    ReloadFailed "reload-failed" Error: "The configuration was read again, and not taken.";
    Role "role" Detail: "A path has another role.";
    ServerChanged "server-changed" Warning: "The client uses another server.";
    ServerRestarted "server-restarted" Notice: "The server was started again.";
    SessionsRenewed "sessions-renewed" Notice: "The sessions of all paths begin anew.";
    StateNotSaved "state-not-saved" Notice: "The clients that have joined cannot be saved.";
    TunFailed "tun-failed" Error: "The host's routes are not as they should be.";
    TunGone "tun-gone" Error: "The TUN device is lost.";
    TunRestored "tun-mended" Notice: "What somebody took of the host's routes is back.";
    TunNote "tun-note" Notice: "Something about the host that users should know.";
    TunUp "tun-up" Notice: "The host's traffic is routed to the TUN device.";
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for EventKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for EventKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(deserializer).map(|name| Self::from(&*name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_work_is_said_loudest() {
        let levels = [EventKind::TunGone, EventKind::PathDown, EventKind::Reload, EventKind::Role];
        let levels = levels.map(|kind| kind.level());
        assert_eq!(levels, [Level::Error, Level::Warning, Level::Notice, Level::Detail]);
    }

    #[test]
    fn names_go_through_json_those_of_other_versions_too() {
        for name in ["path-down", "brought-by-a-later-version"] {
            let text = format!("\"{name}\"");
            let kind: EventKind = serde_json::from_str(&text).unwrap();
            assert_eq!(matches!(kind, EventKind::Other(_)), name != "path-down");
            assert_eq!(serde_json::to_string(&kind).unwrap(), text);
        }
    }
}
