//! a(w) and b(w) of RFC 3649: the formulas of section 5, and the table as Linux has it.

use super::{RENO, Step};

const LOW_WINDOW: u64 = 38;
const HIGH_WINDOW: f64 = 83_000.0;
const HIGH_DECREASE: f64 = 0.1;

/// Linux's table: up to which window, segments, the step of this row holds (row n from 1 on has
/// a = n), and b in 256ths. The windows are those at which the RFC's appendix B says that a
/// becomes n. Its last row, 73 from 94717 on, is not in Linux.
#[rustfmt::skip]
const LINUX: [(u64, u16); 72] = [
    (38, 128), (118, 112), (221, 104), (347, 98), (495, 93), (663, 89), (851, 86), (1058, 83),
    (1284, 81), (1529, 78), (1793, 76), (2076, 74), (2378, 72), (2699, 71), (3039, 69), (3399, 68),
    (3778, 66), (4177, 65), (4596, 64), (5036, 62), (5497, 61), (5979, 60), (6483, 59), (7009, 58),
    (7558, 57), (8130, 56), (8726, 55), (9346, 54), (9991, 53), (10661, 52), (11358, 52),
    (12082, 51), (12834, 50), (13614, 49), (14424, 48), (15265, 48), (16137, 47), (17042, 46),
    (17981, 45), (18955, 45), (19965, 44), (21013, 43), (22101, 43), (23230, 42), (24402, 41),
    (25618, 41), (26881, 40), (28193, 39), (29557, 39), (30975, 38), (32450, 38), (33986, 37),
    (35586, 36), (37253, 36), (38992, 35), (40808, 35), (42707, 34), (44694, 33), (46776, 33),
    (48961, 32), (51258, 32), (53677, 31), (56230, 30), (58932, 30), (61799, 29), (64851, 28),
    (68113, 28), (71617, 27), (75401, 26), (79517, 26), (84035, 25), (89053, 24),
];

/// Linux's: the first row whose window is not exceeded, the last beyond.
pub(super) fn linux(w: u64) -> Step {
    let row = LINUX.partition_point(|row| row.0 < w).min(LINUX.len() - 1);
    Step { a: (row + 1) as f64, b: f64::from(LINUX[row].1) / 256.0 }
}

/// Section 5: b falls with log w from 0.5 to 0.1; p(w) = 0.078 / w^1.2;
/// a(w) = w^2 p(w) 2 b(w) / (2 - b(w)), at least Reno's.
pub(super) fn formula(w: u64) -> Step {
    if w <= LOW_WINDOW {
        return RENO;
    }
    let (a, b) = exact(w as f64);
    Step { a: a.max(RENO.a), b }
}

fn exact(w: f64) -> (f64, f64) {
    let low = ln(LOW_WINDOW as f64);
    let part = (ln(w) - low) / (ln(HIGH_WINDOW) - low);
    // Beyond High_Window the decrease stays: the RFC gives no window there.
    let b = ((HIGH_DECREASE - 0.5) * part + 0.5).max(HIGH_DECREASE);
    // w^2 p(w) = 0.078 w^0.8
    let a = 0.078 * exp(0.8 * ln(w)) * 2.0 * b / (2.0 - b);
    (a, b)
}

/// Natural logarithm of a normal positive number: exponent, and the series of artanh for the
/// mantissa, whose terms fall by nine at least.
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let exponent = (bits >> 52) as i64 - 1023;
    let mantissa = f64::from_bits(bits & !(0x7ff << 52) | 1023 << 52);
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let (mut sum, mut power) = (0.0, s);
    for n in 0..18 {
        sum += power / f64::from(2 * n + 1);
        power *= s * s;
    }
    exponent as f64 * std::f64::consts::LN_2 + 2.0 * sum
}

/// e^x for 0 <= x < 100: a power of two, and Taylor's series for the rest.
fn exp(x: f64) -> f64 {
    let twos = (x / std::f64::consts::LN_2) as u64;
    let rest = x - twos as f64 * std::f64::consts::LN_2;
    let (mut sum, mut term) = (0.0, 1.0);
    for n in 1..24 {
        sum += term;
        term *= rest / f64::from(n);
    }
    sum * f64::from_bits((1023 + twos) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithm_and_power_are_right_to_the_last_digits() {
        for x in [1.0, 1.5, 2.0, 38.0, 118.0, 1e4, 83_000.0, 1e9] {
            assert!((ln(x) - x.ln()).abs() <= 4e-15 * x.ln().max(1.0), "ln {x}: {}", ln(x));
        }
        for x in [0.0, 0.3, 1.0, 2.9, 9.06, 30.0] {
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-14, "exp {x}: {}", exp(x));
        }
    }

    /// Computed by hand from the formulas of section 5 (p(w) with 0.078).
    #[test]
    fn formulas_of_the_rfc() {
        for (w, a, b) in
            [(38.0, 0.955, 0.5), (118.0, 2.006, 0.4411), (221.0, 3.005, 0.4084), (83e3, 70.73, 0.1)]
        {
            let got = exact(w);
            assert!((got.0 - a).abs() < a * 1e-3, "a({w}) = {}", got.0);
            assert!((got.1 - b).abs() < 1e-4, "b({w}) = {}", got.1);
        }
        assert_eq!(formula(38), RENO);
        assert_eq!(formula(39).a, 1.0, "never slower than Reno");
    }

    /// Appendix B gives the window at which a becomes n; the formula agrees to some percent, up
    /// to High_Window, beyond which appendix B lets b fall below High_Decrease.
    #[test]
    fn table_and_formula_tell_the_same() {
        for (row, &(w, md)) in LINUX.iter().enumerate().take_while(|row| row.1.0 <= 83_000) {
            let step = formula(w);
            let n = (row + 1) as f64;
            assert!((step.a / n - 1.0).abs() < 0.03, "a({w}) = {}, {n} in the table", step.a);
            let b = f64::from(md) / 256.0;
            assert!((step.b - b).abs() < 0.011, "b({w}) = {}, {b} in the table", step.b);
        }
    }

    #[test]
    fn linux_rounds_up() {
        let at = |w| (linux(w).a, linux(w).b * 256.0);
        assert_eq!(at(38), (1.0, 128.0));
        assert_eq!(at(39), (2.0, 112.0));
        assert_eq!(at(118), (2.0, 112.0));
        assert_eq!(at(119), (3.0, 104.0));
        assert_eq!(at(1_000_000), (72.0, 24.0));
    }
}
