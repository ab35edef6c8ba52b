//! What Wireshark calls a packet that is not as it should be (its `tcp.analysis` fields).

use std::ops::{BitOr, BitOrAssign};

/// One label. Wireshark's documentation says what each is for, [`super::classify`] when it is
/// given.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u16)]
pub enum Label {
    /// An ACK that repeats the one before it.
    DuplicateAck,
    /// A segment sent again soon after duplicate ACKs asked for it.
    FastRetransmission,
    /// A segment sent again.
    Retransmission,
    /// A segment sent again although it was acknowledged.
    SpuriousRetransmission,
    /// A segment overtaken by others on the way to the capture.
    OutOfOrder,
    /// Segments before it are missing in the capture.
    LostSegment,
    /// It acknowledges what is missing in the capture.
    AckLostSegment,
    /// The receive window is closed.
    ZeroWindow,
    /// The receive window is used up by it.
    WindowFull,
    /// An ACK that changes nothing but the window.
    WindowUpdate,
    /// A segment that only asks whether the peer is alive.
    KeepAlive,
    /// The answer to that.
    KeepAliveAck,
    /// A segment that only asks whether the window has opened.
    ZeroWindowProbe,
    /// The answer to that: not yet.
    ZeroWindowProbeAck,
}

pub const LABELS: usize = Label::ALL.len();

impl Label {
    /// All of them; the position is the label's index.
    pub const ALL: [Self; 14] = [
        Self::DuplicateAck,
        Self::FastRetransmission,
        Self::Retransmission,
        Self::SpuriousRetransmission,
        Self::OutOfOrder,
        Self::LostSegment,
        Self::AckLostSegment,
        Self::ZeroWindow,
        Self::WindowFull,
        Self::WindowUpdate,
        Self::KeepAlive,
        Self::KeepAliveAck,
        Self::ZeroWindowProbe,
        Self::ZeroWindowProbeAck,
    ];

    /// The five that papers count as error packets.
    pub const ERRORS: [Self; 5] = [
        Self::DuplicateAck,
        Self::FastRetransmission,
        Self::Retransmission,
        Self::SpuriousRetransmission,
        Self::OutOfOrder,
    ];

    /// Name in files: that of Wireshark's field after `tcp.analysis.`.
    pub fn name(self) -> &'static str {
        match self {
            Self::DuplicateAck => "duplicate_ack",
            Self::FastRetransmission => "fast_retransmission",
            Self::Retransmission => "retransmission",
            Self::SpuriousRetransmission => "spurious_retransmission",
            Self::OutOfOrder => "out_of_order",
            Self::LostSegment => "lost_segment",
            Self::AckLostSegment => "ack_lost_segment",
            Self::ZeroWindow => "zero_window",
            Self::WindowFull => "window_full",
            Self::WindowUpdate => "window_update",
            Self::KeepAlive => "keep_alive",
            Self::KeepAliveAck => "keep_alive_ack",
            Self::ZeroWindowProbe => "zero_window_probe",
            Self::ZeroWindowProbeAck => "zero_window_probe_ack",
        }
    }

    #[inline]
    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// The labels of one packet.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Labels(u16);

impl Labels {
    pub const NONE: Self = Self(0);

    /// Whether there is none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether this one is among them.
    #[inline]
    pub fn contains(self, label: Label) -> bool {
        self.0 & label.bit() != 0
    }

    /// One after the other.
    pub fn iter(self) -> impl Iterator<Item = Label> {
        Label::ALL.into_iter().filter(move |label| self.contains(*label))
    }
}

impl From<Label> for Labels {
    #[inline]
    fn from(label: Label) -> Self {
        Self(label.bit())
    }
}

impl BitOr<Label> for Labels {
    type Output = Self;
    #[inline]
    fn bitor(self, label: Label) -> Self {
        Self(self.0 | label.bit())
    }
}

impl BitOrAssign<Label> for Labels {
    #[inline]
    fn bitor_assign(&mut self, label: Label) {
        self.0 |= label.bit();
    }
}

/// How often each label was given.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts([u64; LABELS]);

impl Counts {
    /// Counts the labels of a packet.
    #[inline]
    pub fn add(&mut self, labels: Labels) {
        let mut left = labels.0;
        while left != 0 {
            self.0[left.trailing_zeros() as usize] += 1;
            left &= left - 1;
        }
    }

    /// Adds those of another place.
    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, n)| *sum += n);
    }

    /// How often this one.
    #[inline]
    pub fn get(&self, label: Label) -> u64 {
        self.0[label as usize]
    }

    /// All that were given at all.
    pub fn iter(&self) -> impl Iterator<Item = (Label, u64)> {
        Label::ALL.into_iter().map(|label| (label, self.get(label))).filter(|(_, n)| *n > 0)
    }
}

impl serde::Serialize for Counts {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Label::ALL.into_iter().map(|label| (label.name(), self.get(label))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_of_a_label_is_its_position() {
        for (i, label) in Label::ALL.into_iter().enumerate() {
            assert_eq!(label as usize, i);
        }
        let mut counts = Counts::default();
        counts.add(Labels::from(Label::ZeroWindow) | Label::DuplicateAck);
        counts.add(Label::DuplicateAck.into());
        let given: Vec<_> = counts.iter().collect();
        assert_eq!(given, [(Label::DuplicateAck, 2), (Label::ZeroWindow, 1)]);
    }
}
