//! What numbering and the removal of copies add to a doubled datagram: the time of one call of the
//! tagger and two of the filter, for 1200 bytes of payload in 500 flows, the second copy a hundred
//! packets behind. Prints the median, the 99th percentile and the longest, in microseconds; the
//! target is a 99th percentile of 300.

use super::packet::{HEADROOM, put_udp};
use super::tag::Kind;
use super::{Filter, Tagger, Verdict};
use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Instant as Clock;
use tabane_engine::view::PathId;
use tabane_engine::{Duration, Instant};

const FLOWS: u16 = 500;
const PACKETS: u64 = 200_000;
const BEHIND: usize = 100;

/// Measures and prints.
#[expect(clippy::disallowed_methods, clippy::print_stdout, reason = "a benchmark")]
pub(crate) fn run() {
    let (mut tagger, mut filter) = (Tagger::new([7; 32]), Filter::default());
    let mut second: VecDeque<Vec<u8>> = VecDeque::new();
    let (mut times, mut copies) = (Vec::new(), 0);
    for i in 0..PACKETS {
        let now = Instant::ZERO + Duration::from_micros(i * 10);
        let from = ([10, 81, 0, 31], 4000 + (i % u64::from(FLOWS)) as u16);
        let mut buffer = vec![0xa5; HEADROOM + 1200];
        let Some(start) = put_udp(&mut buffer, from.into(), ([192, 0, 2, 1], 443).into()) else {
            panic!("no packet")
        };
        let mut packet = buffer.split_off(start);
        let copy = if second.len() < BEHIND { None } else { second.pop_front() };
        let began = Clock::now();
        tagger.tag(now, &mut packet, Kind::Copies);
        let first = filter.handle_packet(now, PathId(0), black_box(&packet));
        let late = copy.map(|copy| filter.handle_packet(now, PathId(1), black_box(&copy)));
        times.push(began.elapsed().as_nanos());
        assert_eq!(first, Verdict::Deliver);
        copies += u64::from(late == Some(Verdict::Copy));
        second.push_back(packet);
    }
    assert_eq!(copies, PACKETS - BEHIND as u64);
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize] as f64 / 1000.0;
    let (median, p99, max) = (at(0.5), at(0.99), at(1.0));
    println!("udp/duplicate: median {median:.2} us, p99 {p99:.2} us, max {max:.1} us");
}
