//! `wifi`: the numbers of IEEE 802.11 that its medium access needs.
//!
//! - `wifi`, the default: OFDM at 5 GHz (IEEE 802.11-2016, clause 17, "802.11a"): slots of 9 us,
//!   SIFS 16 us, DIFS 34 us, preamble and SIGNAL field 20 us, symbols of 4 us that carry 16 bits of
//!   service and 6 of tail besides the frame, contention windows of 15 to 1023, seven attempts
//!   (dot11ShortRetryLimit). At 2.4 GHz (clause 18, "802.11g") without stations of 802.11b the sums
//!   are the same: SIFS is 10 us there, but 6 us of signal extension follow each frame.
//!   A frame has 36 bytes more than its IP packet: MAC header 24, FCS 4, LLC and SNAP 8. ACKs have
//!   14, at the highest of 24, 12 and 6 Mbit/s that is at most the data's rate. After a frame that
//!   it could not decode a station waits EIFS, SIFS + ACK at 6 Mbit/s + DIFS.
//! - `wifi-fhss`: table II of Bianchi, "Performance Analysis of the IEEE 802.11 Distributed
//!   Coordination Function", IEEE JSAC 18(3), 2000, which are those of the frequency hopping PHY of
//!   1997 but for his own window (W = 32, m = 5: `cwmin=31,cwmax=1023`) and frames that are sent
//!   until they arrive. A collision is followed by DIFS there.
//!
//! Interference is what is no 802.11, such as a microwave oven at 2.4 GHz: nobody waits for it, and
//! frames that meet it are garbled for all. Its bursts and pauses last exponentially distributed
//! times.
//!
//! Not modelled: RTS/CTS, aggregation (802.11n and later), access categories (802.11e), rates that
//! adapt to losses, beacons, power saving, and capture: frames that overlap at a receiver harm
//! each other, whatever their power.

use tabane_engine::Duration;
use tabane_engine::policy::{Param, PolicyError, Values};

/// Defaults in which the rows differ.
struct Numbers {
    /// Contention window, least and greatest.
    cw: [f64; 2],
    attempts: f64,
    slot: f64,
    sifs: f64,
    difs: f64,
    eifs: f64,
    preamble: f64,
    symbol: f64,
    propagation: f64,
    header: f64,
    ack: f64,
}

/// Parameters of the row `wifi`.
pub(super) const OFDM: &[Param] = &params(Numbers {
    cw: [15.0, 1023.0],
    attempts: 7.0,
    slot: 9.0,
    sifs: 16.0,
    difs: 34.0,
    eifs: 94.0,
    preamble: 20.0,
    symbol: 4.0,
    propagation: 0.0,
    header: 36.0,
    ack: 24.0,
});

/// Parameters of the row `wifi-fhss`.
pub(super) const FHSS: &[Param] = &params(Numbers {
    cw: [31.0, 1023.0],
    attempts: ENDLESS,
    slot: 50.0,
    sifs: 28.0,
    difs: 128.0,
    eifs: 128.0,
    preamble: 128.0,
    symbol: 0.0,
    propagation: 1.0,
    header: 34.0,
    ack: 1.0,
});

/// Attempts after which nobody gives up.
const ENDLESS: f64 = 1e9;

const fn params(of: Numbers) -> [Param; 17] {
    let [cwmin, cwmax] = of.cw;
    [
        Param::count(
            "stations",
            0.0,
            0.0..=100.0,
            "other stations, which always have data to send",
        ),
        Param::count("hidden", 0.0, 0.0..=100.0, "of these, how many the terminal does not hear"),
        Param::count("bytes", 1500.0, 20.0..=65_535.0, "their packets, bytes of IP"),
        Param::new("interference", 0.0, 0.0..=0.99, "share of the time that harms what is sent"),
        Param::new("burst_ms", 5.0, 0.01..=1e6, "mean length of a burst of interference, ms"),
        Param::count("attempts", of.attempts, 1.0..=ENDLESS, "times that a frame is sent at most"),
        Param::count("cwmin", cwmin, 1.0..=32_767.0, "first contention window, slots"),
        Param::count("cwmax", cwmax, 1.0..=32_767.0, "largest contention window, slots"),
        Param::new("slot_us", of.slot, 1.0..=1000.0, "slot, us"),
        Param::new("sifs_us", of.sifs, 1.0..=1000.0, "SIFS, us"),
        Param::new("difs_us", of.difs, 1.0..=1000.0, "DIFS, us; more than SIFS"),
        Param::new("eifs_us", of.eifs, 1.0..=1000.0, "DIFS after a garbled frame, us"),
        Param::new("preamble_us", of.preamble, 1.0..=1000.0, "preamble and header of the PHY, us"),
        Param::new("symbol_us", of.symbol, 0.0..=1000.0, "OFDM symbol, us; 0: bit by bit"),
        Param::new("propagation_us", of.propagation, 0.0..=100.0, "propagation delay, us"),
        Param::count("header", of.header, 0.0..=1000.0, "bytes of a frame besides the IP packet"),
        Param::new("ack_mbps", of.ack, 0.1..=1000.0, "rate of ACKs, Mbit/s; or its half, quarter"),
    ]
}

/// A wireless network in which a link is.
#[derive(Clone, PartialEq, Debug)]
pub struct Wifi {
    /// Other stations.
    pub(super) stations: usize,
    /// Those of them that the terminal does not hear, nor they it.
    pub(super) hidden: usize,
    /// Bytes of IP in a packet of theirs.
    pub(super) bytes: u32,
    /// Share of the time with interference, and the mean length of its bursts.
    pub(super) interference: (f64, Duration),
    pub(super) attempts: u32,
    pub(super) cwmin: u64,
    pub(super) cwmax: u64,
    pub(super) slot: Duration,
    pub(super) sifs: Duration,
    pub(super) difs: Duration,
    pub(super) eifs: Duration,
    preamble: Duration,
    symbol: Duration,
    propagation: Duration,
    header: u32,
    ack_bps: u64,
}

/// Bytes of an ACK.
const ACK: u32 = 14;
/// Service field and tail, bits, where there are symbols.
const AROUND: u64 = 16 + 6;

impl Wifi {
    pub(super) fn build(values: &Values<'_>) -> Result<Self, PolicyError> {
        let us = |name: &str| Duration((values.get(name) * 1e3).round() as u64);
        let [stations, hidden, cwmin, cwmax] =
            ["stations", "hidden", "cwmin", "cwmax"].map(|name| values.get(name));
        let [sifs, difs, eifs] = ["sifs_us", "difs_us", "eifs_us"].map(|name| values.get(name));
        // Each against one that another parameter gives.
        for (name, value, low, high) in [
            ("hidden", hidden, 0.0, stations),
            ("cwmax", cwmax, cwmin, 32_767.0),
            ("difs_us", difs, sifs + 1.0, 1000.0),
            ("eifs_us", eifs, difs, 1000.0),
        ] {
            if value < low || value > high {
                return Err(PolicyError::OutOfRange { name, value, low, high });
            }
        }
        Ok(Self {
            stations: stations as usize,
            hidden: hidden as usize,
            bytes: values.get("bytes") as u32,
            interference: (values.get("interference"), us("burst_ms") * 1000),
            attempts: values.get("attempts") as u32,
            cwmin: cwmin as u64,
            cwmax: cwmax as u64,
            slot: us("slot_us"),
            sifs: us("sifs_us"),
            difs: us("difs_us"),
            eifs: us("eifs_us"),
            preamble: us("preamble_us"),
            symbol: us("symbol_us"),
            propagation: us("propagation_us"),
            header: values.get("header") as u32,
            ack_bps: (values.get("ack_mbps") * 1e6) as u64,
        })
    }

    /// Least rate of a link, bits per second.
    pub(crate) const LEAST_RATE: u64 = 1_000_000;

    /// For how long a packet of `len` bytes is on the air at this rate, until it has been received.
    pub(super) fn packet_time(&self, len: u32, bps: u64) -> Duration {
        self.air_time(len.saturating_add(self.header), bps)
    }

    /// The same of the ACK of such a packet.
    pub(super) fn ack_time(&self, bps: u64) -> Duration {
        let basic = [self.ack_bps, self.ack_bps / 2, self.ack_bps / 4];
        let rate = basic.into_iter().find(|rate| *rate <= bps).unwrap_or(bps);
        self.air_time(ACK, rate)
    }

    fn air_time(&self, bytes: u32, bps: u64) -> Duration {
        let (bits, bps) = (u64::from(bytes) * 8, u128::from(bps.max(1)));
        let whole = |bits: u64| u128::from(bits) * 1_000_000_000;
        let body = match u128::from(self.symbol.0) {
            0 => whole(bits).div_ceil(bps),
            symbol => whole(bits + AROUND).div_ceil(bps * symbol) * symbol,
        };
        self.preamble + Duration(u64::try_from(body).unwrap_or(u64::MAX)) + self.propagation
    }
}
