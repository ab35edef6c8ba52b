//! The analysis of a simulation's packets without a file in between.

use super::{Analyzer, Settings};
use crate::observe::{CapturePoint, Layout, LinkIdx, Observer, Wants};
use std::collections::BTreeSet;
use tabane_engine::Instant;
use tabane_engine::view::PathId;
use tabane_wire::pcapng::BASE_TIME;
use tabane_wire::{Headers, Segment};

/// Analyses the packets of one host (sent and received) or of one link (as they enter it), as
/// [`crate::Capture`] would write them: the result is that of the file.
///
/// ```
/// use tabane_trace::analysis::{Label, Settings, Watch};
/// use tabane_trace::observe::Observer;
///
/// let mut watch = Watch::new("client", Settings::default());
/// // A world is run with `&mut watch` among its observers; this stands for it.
/// watch.begin(&Default::default());
/// for stream in watch.analyzer().streams() {
///     let errors = stream.labels();
///     println!("{} fast retransmissions", errors.get(Label::FastRetransmission));
/// }
/// ```
#[derive(Debug)]
pub struct Watch {
    place: String,
    hosts: BTreeSet<u32>,
    links: BTreeSet<LinkIdx>,
    headers: Headers,
    analyzer: Analyzer,
}

impl Watch {
    /// Watches `place`, the name of a host or a link; a place that does not exist has no packets.
    pub fn new(place: &str, settings: Settings) -> Self {
        Self {
            place: place.to_owned(),
            hosts: BTreeSet::new(),
            links: BTreeSet::new(),
            headers: Headers::default(),
            analyzer: Analyzer::new(settings),
        }
    }

    /// What was found out until now.
    pub fn analyzer(&self) -> &Analyzer {
        &self.analyzer
    }

    /// The analyzer, to ask for [`Analyzer::analysis`].
    pub fn into_analyzer(self) -> Analyzer {
        self.analyzer
    }

    fn is_here(&self, point: CapturePoint) -> bool {
        match point {
            CapturePoint::Sent(host, PathId { .. })
            | CapturePoint::Received(host, PathId { .. }) => self.hosts.contains(&host.0),
            CapturePoint::Link(link) => self.links.contains(&link),
        }
    }
}

impl Observer for Watch {
    fn wants(&self) -> Wants {
        Wants { packets: true, ..Wants::default() }
    }

    fn begin(&mut self, layout: &Layout) {
        let named = |name: &str| name == self.place;
        let hosts = layout.hosts.iter().zip(0..).filter(|(h, _)| named(&h.name));
        self.hosts = hosts.map(|(_, n)| n).collect();
        let links = layout.links.iter().zip(0..).filter(|(l, _)| named(&l.name));
        self.links = links.map(|(_, n)| LinkIdx(n)).collect();
    }

    fn packet(&mut self, point: CapturePoint, now: Instant, segment: &Segment) {
        if self.is_here(point) {
            self.headers.set(segment);
            self.analyzer.packet(BASE_TIME.saturating_add(now.0), &self.headers);
        }
    }
}
