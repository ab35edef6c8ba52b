//! Settings, as structs with defaults. New versions add settings, so that other crates begin with
//! the defaults and change what they want: by assigning fields, or in an expression by `with`.
//!
//! ```
//! use tabane_engine::config::{Config, TcpConfig};
//!
//! let config = Config::default().with(|c| c.tcp = TcpConfig::default().with(|t| t.nagle = false));
//! assert!(!config.tcp.nagle);
//! ```

use crate::policy::Spec;
use crate::time::Duration;
use crate::view::PathId;
use crate::with::with;
use std::net::IpAddr;
use std::sync::Arc;

/// Settings of an endpoint. Those in `tcp` and `mptcp` are defaults for its connections.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The paths, each with the addresses that this host has on it. A subflow belongs to the path
    /// that has its local address.
    pub paths: Vec<PathConfig>,
    /// TCP settings, for subflows.
    pub tcp: TcpConfig,
    /// MPTCP settings, for connections.
    pub mptcp: MptcpConfig,
    /// What the endpoint refuses to hold more of.
    pub limits: Limits,
    /// Whether records are made.
    pub records: bool,
    /// With `records`: whether those of single segments and of subflows' TCP are among them, most
    /// of all. Without, decisions, reinjections and what happens to subflows and connections are.
    pub segment_records: bool,
    /// Answer segments for no connection with RST (RFC 9293 section 3.10.7.1).
    pub reset_unknown: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            paths: Vec::new(),
            tcp: TcpConfig::default(),
            mptcp: MptcpConfig::default(),
            limits: Limits::default(),
            records: false,
            segment_records: true,
            reset_unknown: true,
        }
    }
}

impl Config {
    /// A path by its id.
    pub fn path(&self, id: PathId) -> Option<&PathConfig> {
        self.paths.iter().find(|p| p.id == id)
    }

    /// The path that has this address of ours.
    pub fn path_of(&self, address: IpAddr) -> Option<PathId> {
        self.paths.iter().find(|p| p.addresses.contains(&address)).map(|p| p.id)
    }
}

/// Settings as connections share them: see `Endpoint::profile`.
#[derive(Clone, Debug)]
pub struct Profile {
    pub(crate) config: Arc<Config>,
    /// `config.tcp`, as subflows share it.
    pub(crate) tcp: Arc<TcpConfig>,
}

impl Profile {
    pub(crate) fn new(config: Config) -> Self {
        Self { tcp: Arc::new(config.tcp.clone()), config: Arc::new(config) }
    }
}

/// A path out of this host: an interface or a tunnel.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct PathConfig {
    /// Its id, 0 to 63.
    pub id: PathId,
    /// Addresses of this host on it.
    pub addresses: Vec<IpAddr>,
    /// Largest IP packet, bytes.
    pub mtu: u16,
    /// New subflows on it ask for low priority.
    pub backup: bool,
    /// Addresses that the peer has on it, if it is known: what comes from there belongs to it, also
    /// when a copy comes by another path ([`MptcpConfig::hedging`]).
    pub peers: Vec<IpAddr>,
}

impl PathConfig {
    /// A path of normal priority.
    pub fn new(id: PathId, addresses: Vec<IpAddr>, mtu: u16) -> Self {
        Self { id, addresses, mtu, backup: false, peers: Vec::new() }
    }
}

with!(Config, PathConfig, TcpConfig, MptcpConfig, Limits);

/// TCP settings, for the subflows of a connection.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct TcpConfig {
    /// Congestion control of new subflows.
    pub congestion: Spec,
    /// Offer and accept timestamps (RFC 7323).
    pub timestamps: bool,
    /// Offer and accept SACK (RFC 2018).
    pub sack: bool,
    /// Offer and accept ECN (RFC 3168).
    pub ecn: bool,
    /// Nagle's algorithm (RFC 1122 section 4.2.3.4), at connection level.
    pub nagle: bool,
    /// Initial window in segments (RFC 6928).
    pub initial_window: u32,
    /// Slow start threshold before the first loss, bytes: arbitrarily high by default (RFC 5681
    /// section 3.1).
    pub initial_ssthresh: u64,
    /// Smallest RTO. RFC 6298 says 1 s; Linux has 200 ms, as we do.
    pub rto_min: Duration,
    /// RTO before the first sample.
    pub rto_initial: Duration,
    /// Largest RTO that backoff reaches.
    pub rto_max: Duration,
    /// Longest delay of an ACK (RFC 1122 allows 500 ms).
    pub ack_delay: Duration,
    /// Segments at the start that are acknowledged at once.
    pub quick_acks: u32,
    /// SYN retransmissions before giving up.
    pub syn_retries: u32,
    /// Retransmissions in a row before a subflow is given up (RFC 9293 R2).
    pub retries: u32,
    /// Idle time before keepalive probes; `None` is off (RFC 1122 section 4.2.3.6).
    pub keepalive: Option<Duration>,
    /// Time between keepalive probes.
    pub keepalive_interval: Duration,
    /// Unanswered keepalive probes before giving up.
    pub keepalive_probes: u32,
    /// Receive buffer at the start, bytes.
    pub receive_buffer: u64,
    /// Receive buffer that autotuning may reach, bytes. Equal to `receive_buffer`: no autotuning.
    pub receive_buffer_max: u64,
    /// How the receive buffer grows towards that.
    pub autotuning: Autotuning,
    /// Send buffer limit, bytes: written and not yet acknowledged (at data level).
    pub send_buffer: u64,
    /// Time in TIME-WAIT (2 MSL).
    pub time_wait: Duration,
    /// Restart from the initial window after an idle RTO (RFC 5681 section 4.1).
    pub idle_restart: bool,
    /// Upper limit on the MSS we announce, bytes; the path's MTU limits it too.
    pub mss_max: u16,
    /// Challenge ACKs per second and connection (RFC 5961 section 7).
    pub challenge_acks: u32,
    /// What a paced subflow may send at once, as time at its pacing rate: so late its driver may
    /// be without a loss of rate. Longer than the driver's usual sleep.
    pub pacing_credit: Duration,
}

impl TcpConfig {
    /// Smallest payload a segment is cut to, bytes, whatever the path's MTU or a peer claims.
    pub const MSS_MIN: u16 = 88;
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            congestion: Spec::named("cubicd"),
            timestamps: true,
            sack: true,
            ecn: false,
            nagle: true,
            initial_window: 10,
            initial_ssthresh: u64::MAX,
            rto_min: Duration::from_millis(200),
            rto_initial: Duration::from_secs(1),
            rto_max: Duration::from_secs(120),
            ack_delay: Duration::from_millis(40),
            quick_acks: 16,
            syn_retries: 6,
            retries: 15,
            keepalive: None,
            keepalive_interval: Duration::from_secs(75),
            keepalive_probes: 9,
            receive_buffer: 128 << 10,
            receive_buffer_max: 16 << 20,
            autotuning: Autotuning::default(),
            send_buffer: 16 << 20,
            time_wait: Duration::from_secs(60),
            idle_restart: true,
            mss_max: 65_495,
            challenge_acks: 10,
            // As Linux (`sk_pacing_shift`): bursts that a timer could not resolve anyway.
            pacing_credit: Duration::from_millis(1),
        }
    }
}

/// When a receive buffer grows to twice what came in a round trip, or to four times with several
/// subflows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Autotuning {
    /// As soon as what came asks for half as much again, what is out of order included: a window
    /// does not wait for the round trips of the slowest subflow.
    #[default]
    Early,
    /// Once a round trip of the slowest subflow, by what the application has read in it (dynamic
    /// right-sizing: `tcp_rcv_space_adjust`, `mptcp_rcv_space_adjust`).
    Linux,
}

/// MPTCP settings (RFC 8684).
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct MptcpConfig {
    /// Ask for and accept MPTCP.
    pub enabled: bool,
    /// Require DSS checksums (flag A).
    pub checksum: bool,
    /// Size of data sequence numbers sent.
    pub numbers: NumberSize,
    /// Scheduler of new connections.
    pub scheduler: Spec,
    /// Egress of new connections.
    pub egress: Spec,
    /// Segments that one mapping (RFC 8684 section 3.3.1) covers at the most: the first carries it,
    /// and those after it, which have no MPTCP options, 20 bytes more of data. As many leave
    /// together as the scheduler has given a subflow in a row, no more than a quarter of its
    /// window, and only while the end of the data is not near. Each has its own with 1 (or 0), as
    /// Linux does it, where checksums are in use, and under a scheduler that is to be asked for
    /// each ([`Scheduler::places_runs`](crate::scheduler::Scheduler::places_runs)).
    pub segments_per_mapping: u8,
    /// Drop copies that come by several paths before the stack sees them (`egress` of the peer
    /// is `bicast` or the like). Without it they are answered as any stack answers duplicates.
    pub remove_copies: bool,
    /// Subflows per connection, at most [`SUBFLOWS_MAX`].
    pub max_subflows: u8,
    /// As client, open a subflow from every path to the peer's address once established.
    pub full_mesh: bool,
    /// Subflows opened per path (several share a path).
    pub subflows_per_path: u8,
    /// Open subflows to addresses that the peer announces.
    pub accept_addresses: bool,
    /// Announce our addresses on the other paths (ADD_ADDR).
    pub announce: bool,
    /// Tell the peer not to join the address it connected to (flag C).
    pub deny_join_initial: bool,
    /// RTOs in a row on an established subflow, with another at hand, before it is stale.
    pub stale_after: u32,
    /// SYN (with MP_CAPABLE) transmissions before one without the option; those that leave because
    /// a path comes up are not counted.
    pub capable_syns: u32,
    /// Opportunistic retransmission and penalisation: when the peer's window or the send buffer is
    /// full, the scheduler may have the data that blocks it sent again on a subflow with space.
    pub opportunistic_retransmission: bool,
    /// Tail reinjection (ours; Linux has none): when nothing new may leave, data that a slower
    /// subflow still has in flight is sent again on one with space that delivers it sooner; data in
    /// flight on an unresponsive subflow is reinjected at its tail loss probe, not at its timeout.
    pub tail_reinjection: bool,
    /// Hedged openings (ours): what opens a connection and is not answered within its path's
    /// expected round trip ([`Endpoint::set_path_rtt`](crate::Endpoint::set_path_rtt)) leaves once
    /// more by another path, which must carry the addresses of this one, as tunnels do.
    pub hedging: bool,
    /// An MP_JOIN that is not answered for so long leaves once more, and again after twice as long,
    /// before the timer of its SYN (1 s, RFC 6298) is due (ours; a second or more, or zero: never).
    pub join_copy_after: Duration,
    /// How long all subflows may be gone before the connection is.
    pub break_before_make: Duration,
}

impl Default for MptcpConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            checksum: false,
            numbers: NumberSize::Auto,
            scheduler: Spec::named("necf"),
            egress: Spec::named("own"),
            segments_per_mapping: 8,
            remove_copies: true,
            max_subflows: 8,
            full_mesh: true,
            subflows_per_path: 1,
            accept_addresses: true,
            announce: false,
            deny_join_initial: false,
            stale_after: 2,
            capable_syns: 3,
            opportunistic_retransmission: true,
            tail_reinjection: true,
            hedging: false,
            join_copy_after: Duration::from_millis(250),
            break_before_make: Duration::from_secs(60),
        }
    }
}

/// Size of the data sequence numbers and data acknowledgements sent (RFC 8684 section 3.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub enum NumberSize {
    /// 4 bytes, until 2^32 could wrap within an MSL or the peer uses 8; then 8.
    #[default]
    Auto,
    /// Always 8 bytes.
    Long,
}

/// Subflows that a connection has at once, whatever [`MptcpConfig::max_subflows`] says.
pub const SUBFLOWS_MAX: u8 = 32;

/// Separate out-of-order ranges that a subflow keeps track of.
pub const OUT_OF_ORDER_RANGES: usize = 4_096;

/// Limits of an endpoint. What is beyond is dropped and recorded as `DropReason::Limit`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Connections in all states, those being opened or closed included.
    pub connections: usize,
    /// Connections in SYN-RECEIVED, per endpoint.
    pub syn_backlog: usize,
    /// Subflows in SYN-RECEIVED or not yet authenticated, per connection; together with all others
    /// they are [`MptcpConfig::max_subflows`] at most. As many as that by default: a host with
    /// many addresses joins from all at once, and one that is refused (Linux) does not try again.
    pub pending_joins: usize,
    /// Separate out-of-order ranges kept per connection (a subflow has [`OUT_OF_ORDER_RANGES`]); a
    /// segment that would add one more is dropped without an acknowledgement of its bytes.
    pub out_of_order_ranges: usize,
    /// Stateless resets waiting to be sent.
    pub resets: usize,
    /// Addresses of a peer remembered per connection.
    pub addresses: usize,
    /// Segments remembered per endpoint to know copies by (`MptcpConfig::remove_copies`): as many
    /// as one path may bring before another brings the copy; 64 bytes each, when copies come.
    pub copies: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 65_536,
            syn_backlog: 1_024,
            pending_joins: SUBFLOWS_MAX.into(),
            out_of_order_ranges: OUT_OF_ORDER_RANGES,
            resets: 256,
            addresses: 16,
            copies: 16_384,
        }
    }
}
