//! Packets as pcapng: one file a host or link, one interface block a path or link direction,
//! simulated nanoseconds on top of 2000-01-01 (wire says why not on top of 0).
//!
//! The name of the program that stands in the file also says scenario, seed and version. It does
//! not classify anything; Wireshark does.

use crate::observe::{CapturePoint, HostIdx, Layout, LinkIdx, Observer, Wants};
use crate::run::RunInfo;
use std::collections::BTreeMap;
use std::io::{self, Write};
use tabane_engine::Instant;
use tabane_engine::view::PathId;
use tabane_wire::Segment;
use tabane_wire::pcapng::{InterfaceId, PcapngWriter};
use thiserror::Error;

/// Writes the packets of one host (sent and received) or of one link (as they enter it).
/// Keeps one packet.
#[derive(Debug)]
pub struct Capture<W: Write> {
    out: Option<W>,
    place: String,
    snap_len: u32,
    info: RunInfo,
    writer: Option<PcapngWriter<W>>,
    paths: BTreeMap<(HostIdx, PathId), InterfaceId>,
    links: BTreeMap<LinkIdx, InterfaceId>,
    packet: Vec<u8>,
    error: Option<CaptureError>,
}

/// Why a capture is not what it should be.
#[derive(Error, Debug)]
pub enum CaptureError {
    #[error("the capture of '{0}' cannot be written: {1}")]
    Io(String, #[source] io::Error),
    /// The run has no such host or link.
    #[error("nothing to capture is called '{place}'; hosts and links are: {known}")]
    NoSuchPlace {
        /// What was asked for.
        place: String,
        /// What there is.
        known: String,
    },
    /// A segment that has no form on the wire.
    #[error("a segment at '{0}' cannot be written: {1}")]
    Segment(String, tabane_wire::EmitError),
}

impl<W: Write> Capture<W> {
    /// Captures at `place`, the name of a host or a link, at most `snap_len` bytes of each packet
    /// (0: all of it). `out` should be buffered.
    pub fn new(out: W, place: &str, snap_len: u32, info: RunInfo) -> Self {
        Self {
            out: Some(out),
            place: place.to_owned(),
            snap_len,
            info,
            writer: None,
            paths: BTreeMap::new(),
            links: BTreeMap::new(),
            packet: Vec::new(),
            error: None,
        }
    }

    /// Flushes the file.
    ///
    /// # Errors
    /// The first thing that went wrong; nothing was written after it.
    pub fn finish(mut self) -> Result<(), CaptureError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        match &mut self.writer {
            Some(writer) => writer.flush().map_err(|e| CaptureError::Io(self.place, e)),
            None => Ok(()),
        }
    }

    fn start(&mut self, layout: &Layout) -> Result<(), CaptureError> {
        let place = self.place.clone();
        let io = |e| CaptureError::Io(place.clone(), e);
        let Some(out) = self.out.take() else { return Ok(()) };
        let known = places(layout);
        if !known.contains(&place) {
            return Err(CaptureError::NoSuchPlace { known: known.join(", "), place });
        }
        let program = format!("tabane {} ({})", self.info.version, self.info.caption());
        let mut writer = PcapngWriter::new(out, &program).map_err(io)?;
        for (h, host) in layout.hosts.iter().enumerate().filter(|(_, h)| h.name == place) {
            for path in &host.paths {
                let name = format!("{}/{}", host.name, path.name);
                let interface = writer.interface(&name, self.snap_len).map_err(io)?;
                self.paths.insert((HostIdx(h as u32), path.id), interface);
            }
        }
        for (l, link) in layout.links.iter().enumerate().filter(|(_, l)| l.name == place) {
            let name = format!("{} {}>{}", link.name, link.from, link.to);
            let interface = writer.interface(&name, self.snap_len).map_err(io)?;
            self.links.insert(LinkIdx(l as u32), interface);
        }
        self.writer = Some(writer);
        Ok(())
    }

    fn write(&mut self, at: Instant, to: InterfaceId, seg: &Segment) -> Result<(), CaptureError> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        self.packet.resize(seg.wire_len(), 0);
        let len =
            seg.emit(&mut self.packet).map_err(|e| CaptureError::Segment(self.place.clone(), e))?;
        writer
            .packet(to, at.0, &self.packet[..len], "")
            .map_err(|e| CaptureError::Io(self.place.clone(), e))
    }
}

impl<W: Write> Observer for Capture<W> {
    fn wants(&self) -> Wants {
        Wants { packets: true, ..Wants::default() }
    }

    fn begin(&mut self, layout: &Layout) {
        self.error = self.start(layout).err();
    }

    fn packet(&mut self, point: CapturePoint, now: Instant, segment: &Segment) {
        let interface = match point {
            CapturePoint::Sent(host, path) | CapturePoint::Received(host, path) => {
                self.paths.get(&(host, path))
            }
            CapturePoint::Link(link) => self.links.get(&link),
        };
        if let (Some(&interface), None) = (interface, &self.error) {
            self.error = self.write(now, interface, segment).err();
        }
    }
}

/// Names that can be captured: hosts, then links, each once.
pub fn places(layout: &Layout) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let hosts = layout.hosts.iter().map(|h| &h.name);
    for name in hosts.chain(layout.links.iter().map(|l| &l.name)) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::{HostLayout, LinkLayout, PathLayout};
    use tabane_wire::{Ecn, Flags, SeqNum, TcpOptions};

    fn layout() -> Layout {
        let path = |id, name: &str| PathLayout {
            id: PathId(id),
            name: name.into(),
            addresses: Vec::new(),
        };
        let client =
            HostLayout { name: "client".into(), paths: vec![path(0, "wifi"), path(1, "lte")] };
        let link = |from: &str, to: &str| LinkLayout {
            name: "wifi".into(),
            from: from.into(),
            to: to.into(),
        };
        let links = vec![link("client", "server"), link("server", "client")];
        Layout { hosts: vec![client], links, ..Layout::default() }
    }

    fn segment() -> Segment {
        Segment {
            src: "10.0.0.1:1000".parse().unwrap(),
            dst: "10.0.0.2:80".parse().unwrap(),
            seq: SeqNum(1),
            ack: SeqNum(0),
            flags: Flags::SYN,
            window: 100,
            ecn: Ecn::default(),
            options: TcpOptions::default(),
            payload: bytes::Bytes::from_static(b"hello"),
        }
    }

    fn capture(place: &str) -> Result<Vec<u8>, CaptureError> {
        let mut file = Vec::new();
        let info = RunInfo { scenario: "s".into(), seed: 7, ..RunInfo::default() };
        let mut capture = Capture::new(&mut file, place, 0, info);
        capture.begin(&layout());
        let points = [
            CapturePoint::Sent(HostIdx(0), PathId(1)),
            CapturePoint::Received(HostIdx(0), PathId(0)),
            CapturePoint::Link(LinkIdx(1)),
        ];
        points.into_iter().for_each(|p| capture.packet(p, Instant(5), &segment()));
        capture.finish()?;
        Ok(file)
    }

    fn count(file: &[u8], what: &[u8]) -> usize {
        file.windows(what.len()).filter(|w| *w == what).count()
    }

    #[test]
    fn a_host_has_an_interface_a_path_and_a_link_one_a_direction() {
        let host = capture("client").unwrap();
        assert_eq!((count(&host, b"client/wifi"), count(&host, b"client/lte")), (1, 1));
        assert_eq!(count(&host, b"hello"), 2);
        assert_eq!(count(&host, b"seed 7"), 1);
        let link = capture("wifi").unwrap();
        assert_eq!(count(&link, b"wifi client>server"), 1);
        assert_eq!(count(&link, b"hello"), 1);
    }

    #[test]
    fn an_unknown_place_is_refused_with_what_there_is() {
        let error = capture("wifl").unwrap_err().to_string();
        assert!(error.contains("'wifl'") && error.contains("client, wifi"), "{error}");
    }
}
