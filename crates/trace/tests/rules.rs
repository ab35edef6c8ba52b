//! Where the newer rules of Wireshark and those of 4.0 differ, and where they do not: short
//! exchanges with the labels of both. What 4.0 says is compared with tshark elsewhere.
#![allow(clippy::unwrap_used)]

use tabane_trace::analysis::{Classifier, Label, Rules};
use tabane_wire::{Flags, Headers, SackBlocks, SeqNum};

/// One end speaks: milliseconds, side, sequence and ACK number, length, window.
type Said = (u64, usize, u32, u32, u32, u16);

/// Labels of the last packet, by rules.
fn last(rules: Rules, said: &[(Said, &[(u32, u32)])]) -> Vec<Label> {
    let mut classifier = Classifier::new(rules);
    let mut labels = Vec::new();
    for ((ms, side, seq, ack, len, window), blocks) in said {
        let mut headers = Headers {
            seq: SeqNum(*seq),
            ack: SeqNum(*ack),
            flags: Flags::ACK,
            window: *window,
            payload_len: *len,
            ..Headers::default()
        };
        let mut sack = SackBlocks::default();
        for (start, end) in *blocks {
            assert!(sack.push(SeqNum(*start), SeqNum(*end)));
        }
        headers.options.sack = sack;
        let time = 1_700_000_000_000_000_000 + ms * 1_000_000;
        labels = classifier.packet(*side, time, &headers, None).labels.iter().collect();
    }
    labels
}

const NO_SACK: &[(u32, u32)] = &[];

/// Three segments of 1000 bytes, all seen; the first acknowledged at 1 ms.
const SENT: [(Said, &[(u32, u32)]); 4] = [
    ((0, 0, 1_000, 500, 1_000, 900), NO_SACK),
    ((0, 0, 2_000, 500, 1_000, 900), NO_SACK),
    ((0, 0, 3_000, 500, 1_000, 900), NO_SACK),
    ((1, 1, 500, 2_000, 0, 900), NO_SACK),
];

fn both(more: &[(Said, &[(u32, u32)])]) -> [Vec<Label>; 2] {
    let said = [&SENT[..], more].concat();
    [Rules::Tshark40, Rules::Recent].map(|rules| last(rules, &said))
}

#[test]
fn a_segment_that_was_seen_is_not_out_of_order() {
    let again = [((2, 0, 2_000, 500, 1_000, 900), NO_SACK)];
    assert_eq!(both(&again), [[Label::OutOfOrder], [Label::Retransmission]]);
    let acknowledged = [((2, 0, 1_000, 500, 1_000, 900), NO_SACK)];
    assert_eq!(both(&acknowledged), [[Label::SpuriousRetransmission]; 2]);
}

#[test]
fn a_segment_that_was_not_seen_is_out_of_order() {
    let hole =
        [((2, 0, 5_000, 500, 1_000, 900), NO_SACK), ((3, 0, 4_000, 500, 1_000, 900), NO_SACK)];
    assert_eq!(both(&hole), [[Label::OutOfOrder]; 2]);
    // Soon after the peer's last packet, but not after the segment that it comes late for.
    let later = [
        ((2, 0, 5_000, 500, 1_000, 900), NO_SACK),
        ((9, 1, 500, 3_000, 0, 900), NO_SACK),
        ((10, 0, 4_000, 500, 1_000, 900), NO_SACK),
    ];
    assert_eq!(both(&later), [[Label::Retransmission], [Label::OutOfOrder]]);
}

#[test]
fn an_update_with_sack_is_a_duplicate_ack() {
    let update = [((2, 1, 500, 2_000, 0, 950), &[(3_000, 4_000)][..])];
    assert_eq!(both(&update), [[Label::WindowUpdate], [Label::DuplicateAck]]);
    // An ACK that moves on, with a block that is new.
    let new_block = [((2, 1, 500, 2_500, 0, 900), &[(3_000, 4_000)][..])];
    assert_eq!(both(&new_block), [vec![], vec![Label::DuplicateAck]]);
    // A block below the ACK is a D-SACK.
    let doubled = [((2, 1, 500, 4_000, 0, 900), &[(1_000, 2_000)][..])];
    assert_eq!(both(&doubled), [vec![], vec![]]);
}

#[test]
fn sack_can_ask_for_a_fast_retransmission() {
    let sacked = [
        ((2, 1, 500, 2_000, 0, 900), &[(3_000, 4_000)][..]),
        ((3, 0, 2_000, 500, 1_000, 900), NO_SACK),
    ];
    let [old, new] = both(&sacked);
    // 3 ms after the segment that was sent last are not less than 3 ms.
    assert_eq!((old, new), (vec![Label::Retransmission], vec![Label::FastRetransmission]));
}

#[test]
fn the_byte_of_a_probe_may_be_acknowledged() {
    let probe = [
        ((2, 1, 500, 4_000, 0, 0), NO_SACK),
        ((300, 0, 4_000, 500, 1, 900), NO_SACK),
        ((301, 1, 500, 4_001, 0, 0), NO_SACK),
    ];
    let [old, new] = both(&probe);
    assert!(old.contains(&Label::AckLostSegment), "{old:?}");
    assert_eq!(new, [Label::ZeroWindow, Label::ZeroWindowProbeAck]);
}
