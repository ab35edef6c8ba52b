//! Colours that colour-blind readers can tell apart, and units that fit the values.

/// Red, green, blue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Colour(pub u8, pub u8, pub u8);

/// Okabe and Ito's palette (2008) without its yellow, which is too pale for lines on white.
pub const PALETTE: [Colour; 7] = [
    Colour(0, 114, 178),
    Colour(230, 159, 0),
    Colour(0, 158, 115),
    Colour(204, 121, 167),
    Colour(86, 180, 233),
    Colour(213, 94, 0),
    Colour(120, 94, 50),
];

/// Totals and text.
pub const INK: Colour = Colour(51, 51, 51);
/// Captions, axes.
pub const MUTED: Colour = Colour(110, 110, 110);
pub const GRID: Colour = Colour(225, 225, 225);
/// Lines of changes.
pub const MARK: Colour = Colour(150, 30, 60);

/// The `n`th colour; the palette repeats.
pub fn colour(n: usize) -> Colour {
    PALETTE[n % PALETTE.len()]
}

/// What values are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Bits a second.
    BitRate,
    Bytes,
    Seconds,
    Packets,
    /// A pure number.
    Index,
}

impl Unit {
    /// Of a metric in files: its last word.
    pub fn of(metric: &str) -> Self {
        match metric.rsplit('_').next() {
            Some("bps") => Self::BitRate,
            Some("bytes") => Self::Bytes,
            Some("s") => Self::Seconds,
            Some("packets") => Self::Packets,
            _ => Self::Index,
        }
    }

    /// Divisor and name that make values up to `top` readable.
    pub fn scale(self, top: f64) -> (f64, &'static str) {
        let steps: &[(f64, &str)] = match self {
            Self::BitRate => &[(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")],
            Self::Bytes => &[(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")],
            Self::Seconds => &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")],
            Self::Packets => &[(1.0, "packets")],
            Self::Index => &[(1.0, "")],
        };
        let fits = steps.iter().find(|s| top >= s.0);
        *fits.unwrap_or(steps.last().expect("invariant: every unit has a step"))
    }
}

/// The least of 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8 times a power of ten that is at least `value`.
pub fn round_up(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let found = steps.iter().map(|s| s * power).find(|&top| top >= value * 0.999_999);
    found.unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_fit_the_values() {
        assert_eq!(Unit::BitRate.scale(95e6), (1e6, "Mbit/s"));
        assert_eq!(Unit::Seconds.scale(0.02), (1e-3, "ms"));
        assert_eq!(Unit::Seconds.scale(0.0), (1e-6, "µs"));
        assert_eq!(Unit::Bytes.scale(999.0), (1.0, "B"));
        assert_eq!(Unit::of("latency_p50_s"), Unit::Seconds);
        assert_eq!((Unit::of("bytes"), Unit::of("x_ratio")), (Unit::Bytes, Unit::Index));
    }

    #[test]
    fn axes_end_on_round_numbers() {
        assert_eq!(round_up(96.3), 100.0);
        assert_eq!(round_up(101.0), 120.0);
        assert_eq!(round_up(0.0), 1.0);
        assert_eq!(round_up(50.0), 50.0);
    }
}
