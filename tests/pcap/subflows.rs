//! What a capture costs that somebody has made to cost much.
#![allow(clippy::disallowed_methods)] // What is measured is real time.

use std::net::SocketAddr;
use tabane_trace::analysis::{Analyzer, Settings};
use tabane_wire::mptcp::{MpJoin, MptcpOption};
use tabane_wire::{Flags, Headers};

/// A connection that is joined from as many ports as there are costs as much a packet as any: the
/// time grows with the number of packets, not with its square.
#[test]
fn many_subflows_of_one_connection_cost_no_more_each() {
    let analyse = |count: u32| -> std::time::Duration {
        let began = std::time::Instant::now();
        let mut analyzer = Analyzer::new(Settings::default());
        for n in 0..count {
            let [_, high, mid, low] = n.to_be_bytes();
            let mut headers = Headers {
                src: SocketAddr::from(([10, high, mid, low], 40_000)),
                dst: SocketAddr::from(([10, 255, 9, 9], 443)),
                flags: Flags::SYN,
                window: 1_000,
                ..Headers::default()
            };
            let (token, nonce) = (7, n);
            let join = MpJoin::Syn { token, nonce, address_id: 1, backup: false };
            headers.options.push_mptcp(MptcpOption::Join(join));
            analyzer.packet(1_700_000_000_000_000_000 + u64::from(n), &headers);
        }
        let analysis = analyzer.analysis();
        assert_eq!(analysis.connections.len(), 1);
        assert_eq!(analysis.connections[0].subflows.len(), count as usize);
        began.elapsed()
    };
    // In turns, since others are busy, too; the square would be 36 times as much.
    let times = [(); 5].map(|()| (analyse(15_000), analyse(90_000)));
    let few = times.iter().map(|(few, _)| *few).min().unwrap_or_default();
    let many = times.iter().map(|(_, many)| *many).min().unwrap_or_default();
    assert!(many < few * 20, "6 times the packets: {few:?}, then {many:?}");
}
