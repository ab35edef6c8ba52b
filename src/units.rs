//! Figures with units that people read: two digits after the point, the largest unit that fits.

/// `94.90 Mbit/s`.
pub(crate) fn rate(bps: f64) -> String {
    scaled(bps, &[(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")])
}

/// `20.00 MB`.
pub(crate) fn bytes(bytes: f64) -> String {
    scaled(bytes, &[(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")])
}

/// `83.62 ms`.
pub(crate) fn time(s: f64) -> String {
    scaled(s, &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")])
}

fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let found = units.iter().find(|u| value >= u.0).or(units.last());
    let (divisor, unit) = found.copied().unwrap_or((1.0, ""));
    format!("{:.2} {unit}", value / divisor)
}
