//! Fixed points of the paper's three scenarios: every flow at the rate of TCP's formula, sqrt(2/p)
//! segments a round trip at a loss rate of p, all round trips equal. With LIA a connection has the
//! rate of TCP on its best path, shared between the paths as the inverse of their loss rates. The
//! optimum leaves worse paths alone but for a segment a round trip, which is what OLIA aims at.

/// What users of two kinds get.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Rates {
    /// Those with two paths.
    pub(super) first: f64,
    pub(super) second: f64,
}

/// Where `f`, which rises, is zero, between `low` and `high`.
fn zero(f: impl Fn(f64) -> f64, low: f64, high: f64) -> f64 {
    let (mut low, mut high) = (low, high);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if f(middle) < 0.0 { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// Scenario A with LIA: `ratio` is N1/N2, `c1` is C1/C2; rates in C2. Type 1 has C1 in any case: of
/// that the second path carries p1/(p1+p2) as much as the first, and type 2 has C1 sqrt(p1/p2).
pub(super) fn lia_a(ratio: f64, c1: f64) -> Rates {
    // q of the first path's rate is q / (1 + q) of both: with q = s / (1 + s) that is this.
    let shared = |s: f64| c1 * s / (1.0 + 2.0 * s);
    let excess = |s: f64| ratio * shared(s) + c1 * s.sqrt() - 1.0;
    let s = zero(excess, 0.0, 1e6);
    Rates { first: c1, second: c1 * s.sqrt() }
}

/// Scenario C with LIA, in the same terms. With r for p1/p2 the own path carries C1, the shared one
/// r C1, and a single-path user has the sum times sqrt(r), or as much as it if r is above 1.
pub(super) fn lia_c(ratio: f64, c1: f64) -> Rates {
    let single = |r: f64| c1 * (1.0 + r) * r.sqrt().min(1.0);
    let r = zero(|r| ratio * r * c1 + single(r) - 1.0, 0.0, 1e6);
    Rates { first: c1 * (1.0 + r), second: single(r) }
}

/// The optimum of scenarios A and C with the cost of probing: the shared path carries `probe` of
/// each user of the first kind.
pub(super) fn optimum(ratio: f64, own: f64, probe: f64) -> Rates {
    Rates { first: own + probe, second: 1.0 - ratio * probe }
}

/// Scenario B with LIA: as many Blue users as Red ones, rates as the capacities `x` and `t` are
/// given for a pair of them. With a for px/pt and u for the rate of TCP on T.
pub(super) fn lia_b(x: f64, t: f64, upgraded: bool) -> Rates {
    // Of u: Blue by X and by T, Red by T and by both.
    let parts = |a: f64| {
        let blue = 1.0 / a.min(1.0).sqrt();
        let both = if upgraded { 1.0 / (2.0 + a) } else { 0.0 };
        (blue / (1.0 + a), blue * a / (1.0 + a), 1.0 - both, both)
    };
    let a = zero(
        |a| {
            let (bx, bt, rt, both) = parts(a);
            x / t - (bx + both) / (bt + rt + both)
        },
        1e-9,
        1e6,
    );
    let (bx, bt, rt, both) = parts(a);
    let u = t / (bt + rt + both);
    Rates { first: u * (bx + bt), second: u * (rt + both) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 5e-3
    }

    /// Worked by hand from the equations of the head.
    #[test]
    fn fixed_points() {
        assert!(near(lia_a(1.0, 1.0).second, 0.739), "{:?}", lia_a(1.0, 1.0));
        assert!(near(lia_a(3.0, 1.0).second, 0.5), "s = 1/4: 3/6 + 1/2");
        assert!(near(lia_c(1.0, 1.0).second, 0.705), "{:?}", lia_c(1.0, 1.0));
        let (before, after) = (lia_b(1.8, 2.4, false), lia_b(1.8, 2.4, true));
        let all = |r: Rates| r.first + r.second;
        assert!(near(all(before), 4.2), "nothing is wasted: {before:?}");
        assert!((0.13..0.16).contains(&(1.0 - all(after) / all(before))), "{after:?}");
        assert!((0.20..0.24).contains(&(1.0 - after.first / before.first)), "{after:?}");
    }
}
