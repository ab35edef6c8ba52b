//! An MPTCP connection: its data in both directions, and what its hosts signal each other.

use super::classify::Side;
use super::data::{Data, Maps};
use super::flow::PayloadRange;
use super::groups::{Group, Host};
use crate::track::{Clock, Track};
use serde::Serialize;
use std::collections::BTreeSet;
use std::net::IpAddr;
use tabane_engine::Instant;
use tabane_wire::Headers;
use tabane_wire::mptcp::MptcpOption;

/// State of a connection.
#[derive(Default, Debug)]
pub(super) struct Connection {
    /// By the host that sends it.
    pub(super) data: [Data; 2],
    /// A set, because anybody may join as often as ports allow.
    pub(super) streams: BTreeSet<u32>,
    pub(super) events: Vec<Event>,
    /// Events beyond the limit.
    pub(super) more_events: u64,
    pub(super) track: Option<Box<Track<2>>>,
    pub(super) dirty: bool,
}

/// Something that a host says by an option.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Event {
    /// Seconds since the first packet of the capture.
    pub t: f64,
    /// Stream on which it was said.
    pub stream: u32,
    /// Side of the stream that said it.
    #[serde(skip)]
    pub side: Side,
    /// Whether that is the side that opened the stream.
    pub by_client: bool,
    #[serde(flatten)]
    pub what: What,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum What {
    AddAddr {
        id: u8,
        address: IpAddr,
        /// Port, if it is not the connection's.
        port: Option<u16>,
        /// Whether it is the peer's confirmation.
        echo: bool,
    },
    RemoveAddr {
        ids: Vec<u8>,
    },
    Prio {
        /// Whether the subflow is to be a backup.
        backup: bool,
    },
    /// MP_FAIL: a checksum was wrong.
    Fail {
        /// Data sequence number of the mapping.
        dsn: u64,
    },
    FastClose,
    Reset {
        /// Reason code (RFC 8684 section 3.6).
        reason: u8,
        /// Whether it may pass.
        transient: bool,
    },
    /// The infinite mapping: plain TCP from here on.
    InfiniteMapping,
}

impl What {
    /// In words.
    pub fn words(&self) -> String {
        match self {
            Self::AddAddr { id, address, port, echo } => {
                let port = port.map_or_else(String::new, |port| format!(" port {port}"));
                let verb = if *echo { "confirms" } else { "announces" };
                format!("{verb} address {id}: {address}{port}")
            }
            Self::RemoveAddr { ids } => {
                let ids: Vec<String> = ids.iter().map(u8::to_string).collect();
                format!("withdraws address {}", ids.join(", "))
            }
            Self::Prio { backup: true } => "makes the subflow a backup".to_owned(),
            Self::Prio { backup: false } => "makes the subflow no backup".to_owned(),
            Self::Fail { dsn } => format!("found a wrong checksum at DSN {dsn}"),
            Self::FastClose => "closes the connection at once".to_owned(),
            Self::Reset { reason, .. } => {
                let reasons = [
                    "unspecified",
                    "MPTCP-specific error",
                    "lack of resources",
                    "prohibited",
                    "too much outstanding data",
                    "bad performance",
                    "middlebox interference",
                ];
                let known = reasons.get(usize::from(*reason)).copied().unwrap_or("unknown");
                format!("resets the subflow: {known} ({reason})")
            }
            Self::InfiniteMapping => "falls back by the infinite mapping".to_owned(),
        }
    }
}

/// Events that are kept of a connection.
const EVENTS: usize = 1000;

/// Where a packet stands in its connection.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) stream: u32,
    pub(super) side: Side,
    pub(super) host: Host,
    pub(super) by_client: bool,
    /// Nanoseconds since the start.
    pub(super) now: u64,
    /// Position of the flow's SYN.
    pub(super) syn: Option<u64>,
}

impl Connection {
    /// A packet with MPTCP options.
    #[inline]
    pub(super) fn options(
        &mut self,
        place: Place,
        group: &Group,
        maps: &mut Maps,
        headers: &Headers,
        range: &PayloadRange,
    ) {
        let data = &mut self.data[place.host];
        if data.idsn.is_none() {
            data.idsn = group.hosts[place.host].idsn;
        }
        if let Some(dss) = &headers.options.dss {
            if let Some(number) = dss.data_ack {
                self.data[place.host ^ 1].acknowledged(number, place.now);
            }
            let data = &mut self.data[place.host];
            let before = maps.infinite;
            maps.dss(data, dss, range, place.syn);
            if maps.infinite && !before {
                self.event(place, What::InfiniteMapping);
            }
        }
        for option in headers.options.mptcp() {
            self.option(place, maps, option, range);
        }
    }

    fn option(
        &mut self,
        place: Place,
        maps: &mut Maps,
        option: &MptcpOption,
        range: &PayloadRange,
    ) {
        let what = match option {
            MptcpOption::Capable(capable) => {
                if let Some((length, _)) = capable.data {
                    maps.first(&self.data[place.host], length, place.syn, range);
                }
                return;
            }
            MptcpOption::AddAddr(add) => What::AddAddr {
                id: add.address_id,
                address: add.address,
                port: add.port,
                echo: add.hmac.is_none(),
            },
            MptcpOption::RemoveAddr(ids) => What::RemoveAddr { ids: ids.clone() },
            MptcpOption::Prio { backup } => What::Prio { backup: *backup },
            MptcpOption::Fail(dsn) => What::Fail { dsn: *dsn },
            MptcpOption::FastClose(_) => What::FastClose,
            MptcpOption::TcpRst(rst) => {
                What::Reset { reason: rst.reason, transient: rst.transient }
            }
            // Joins are told by their subflows; the others say nothing.
            _ => return,
        };
        self.event(place, what);
    }

    /// Repeats of what the same host said last on the same subflow are not events of their own.
    fn event(&mut self, place: Place, what: What) {
        let Place { stream, side, now, by_client, .. } = place;
        let t = now as f64 / 1e9;
        let repeated = self.events.iter().rev().take(8);
        if repeated.into_iter().any(|e| e.stream == stream && e.side == side && e.what == what) {
            return;
        }
        if self.events.len() == EVENTS {
            self.more_events += 1;
            return;
        }
        self.events.push(Event { t, stream, side, by_client, what });
    }

    /// Writes down how things stand.
    pub(super) fn row(&mut self, clock: &Clock, at: Instant) {
        if let Some(track) = &mut self.track {
            let row = [self.data[0].new_bytes as f64, self.data[1].new_bytes as f64];
            track.push(clock, at, row);
        }
        self.dirty = false;
    }
}
