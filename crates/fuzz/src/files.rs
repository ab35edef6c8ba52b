//! Files that people hand over: scenarios, and captures of any kind.

use std::net::SocketAddr;
use tabane_sim::scenario::{Document, Scenario};
use tabane_sim::swarm;
use tabane_trace::analysis::{Analyzer, Rules, Settings, files};
use tabane_trace::pcap::{Buffered, Segments};
use tabane_wire::{Headers, PcapngWriter};

/// Points of a sweep that are looked at: their number is the file's.
const POINTS_MAX: usize = 50;

/// A scenario file: refused with a message, or read, and the same after it is printed.
pub(crate) fn scenario(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Scenario::parse("fuzz.toml", text) {
        Ok(scenario) => {
            let printed = scenario.to_toml();
            let again = Scenario::parse("fuzz.toml", &printed);
            let again = again.unwrap_or_else(|e| panic!("printed, it is refused: {e}\n{printed}"));
            assert!(again == scenario, "printed, it is another:\n{printed}");
        }
        Err(error) => assert!(!error.to_string().trim().is_empty()),
    }
    let Ok(document) = Document::parse("fuzz.toml", text, &[]) else { return };
    let points = document.axes().iter().map(|axis| axis.values.len()).product::<usize>();
    if points <= POINTS_MAX
        && let Ok(variants) = document.variants()
    {
        assert_eq!(variants.len(), points);
    }
}

/// The examples, and worlds that the swarm draws.
pub(crate) fn scenarios() -> Vec<Vec<u8>> {
    let examples = [
        include_str!("../../../scenarios/backup.toml"),
        include_str!("../../../scenarios/cross-traffic.toml"),
        include_str!("../../../scenarios/failover.toml"),
        include_str!("../../../scenarios/shared-bottleneck.toml"),
        include_str!("../../../scenarios/sweep.toml"),
        include_str!("../../../scenarios/voice.toml"),
        include_str!("../../../scenarios/wifi-lte.toml"),
    ];
    let drawn = (0..6).map(|seed| swarm::generate(seed).to_toml().into_bytes());
    examples.into_iter().map(|text| text.as_bytes().to_vec()).chain(drawn).collect()
}

/// A capture: all that `tabane pcap` does with one.
pub(crate) fn capture(data: &[u8]) {
    let Ok(mut reader) = Segments::open(Buffered::new(data)) else { return };
    let rules = if data.len().is_multiple_of(2) { Rules::Recent } else { Rules::Tshark40 };
    let settings = Settings { rules, bins: 16, streams: 8, ..Settings::default() };
    let mut analyzer = Analyzer::new(settings);
    let mut headers = Headers::default();
    let mut packets = 0;
    while let Some(seen) = reader.next_segment(&mut headers).expect("memory gives no errors") {
        let _ = analyzer.packet(seen.time, &headers);
        packets += 1;
    }
    assert!(reader.end().is_some(), "it ended without saying how");
    let analysis = analyzer.analysis();
    assert_eq!(analysis.packets, packets);
    assert_eq!(reader.frames(), packets + reader.skips().total());
    files::csv(&analysis);
}

/// One of each file format, of raw IP and of Ethernet.
pub(crate) fn captures() -> Vec<Vec<u8>> {
    let packets = crate::wire::packets();
    let mut all = vec![classic(101, &packets), classic(228, &packets)];
    let framed: Vec<Vec<u8>> = packets.iter().map(|p| ethernet(p)).collect();
    all.push(classic(1, &framed));
    let mut ng = Vec::new();
    if let Ok(mut writer) = PcapngWriter::new(&mut ng, "fuzz")
        && let Ok(interface) = writer.interface("wan1", 1500)
    {
        for (n, packet) in packets.iter().enumerate() {
            let _ = writer.packet(interface, n as u64 * 1000, packet, "why");
        }
    }
    all.push(ng);
    all
}

/// The old format, little endian, in microseconds.
fn classic(link_type: u32, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
    file.extend([0; 8]);
    file.extend(65_535_u32.to_le_bytes());
    file.extend(link_type.to_le_bytes());
    for (n, packet) in packets.iter().enumerate() {
        let len = packet.len() as u32;
        for field in [n as u32, n as u32 * 7, len, len] {
            file.extend(field.to_le_bytes());
        }
        file.extend(packet);
    }
    file
}

fn ethernet(packet: &[u8]) -> Vec<u8> {
    let kind: [u8; 2] = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
    [&[2; 12], &kind[..], packet].concat()
}

/// An address for what needs one.
pub(crate) fn somewhere(host: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, host], port))
}
