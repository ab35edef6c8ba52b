//! One TCP stream: what passed between two ends from one SYN to the next that differs.

use super::classify::{Classifier, Rules, Side};
use super::data::Maps;
use super::flow::Flow;
use super::groups::Member;
use super::labels::Counts;
use super::opening::{Opened, Opening};
use super::table::Ends;
use crate::track::{Clock, Track};
use std::net::SocketAddr;
use tabane_engine::Instant;

/// A stream, and what is known of it so far.
#[derive(Debug)]
pub struct Stream {
    pub(super) ends: Ends,
    pub(super) classifier: Classifier,
    pub(super) member: Option<Member>,
    pub(super) opening: Opening,
    /// By the side that sends it.
    pub(super) flows: [Flow; 2],
    /// Made when the first DSS is seen.
    pub(super) maps: Option<Box<[Maps; 2]>>,
    /// Nanoseconds since the first packet of the capture.
    pub(super) first: u64,
    pub(super) last: u64,
    /// In the analyzer's list of those that a row is due for.
    pub(super) dirty: bool,
}

impl Stream {
    pub(super) fn new(ends: Ends, first: u64, rules: Rules, tracked: bool) -> Self {
        let mut flows = [Flow::default(), Flow::default()];
        if tracked {
            flows.iter_mut().for_each(|f| f.track = Some(Box::new(Track::default())));
        }
        Self {
            ends,
            classifier: Classifier::new(rules),
            member: None,
            opening: Opening::default(),
            flows,
            maps: None,
            first,
            last: first,
            dirty: false,
        }
    }

    /// Address and port of its two sides.
    pub fn ends(&self) -> [SocketAddr; 2] {
        self.ends.ends
    }

    /// The side that sent the SYN; if none was seen, that of the higher port.
    pub fn client(&self) -> Side {
        let [a, b] = self.ends.ends;
        self.opening.client.unwrap_or(usize::from(b.port() > a.port()))
    }

    /// How it was opened.
    pub fn opened(&self) -> Opened {
        self.opening.opened()
    }

    /// Payload that `side` sent, repeats included, in bytes.
    pub fn bytes(&self, side: Side) -> u64 {
        self.flows[side].bytes
    }

    /// How often each label was given, both directions together.
    pub fn labels(&self) -> Counts {
        let mut sum = self.flows[0].counts;
        sum.merge(&self.flows[1].counts);
        sum
    }

    /// How often each label was given to packets that `side` sent.
    pub fn labels_of(&self, side: Side) -> Counts {
        self.flows[side].counts
    }

    pub(super) fn row(&mut self, clock: &Clock, at: Instant) {
        let windows = [self.flows[1].window, self.flows[0].window];
        for (flow, window) in self.flows.iter_mut().zip(windows) {
            flow.row(clock, at, window);
        }
        self.dirty = false;
    }

    pub(super) fn coarsen(&mut self, clock: &Clock) {
        for track in self.flows.iter_mut().filter_map(|f| f.track.as_mut()) {
            track.coarsen(clock);
        }
    }
}
