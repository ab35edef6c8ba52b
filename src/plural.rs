//! Numbers of things, as people say them.

use std::fmt::Display;

/// `1 connection`, `2 connections`: a number and what it counts, whose plural ends with `s`.
pub(crate) fn count(n: impl TryInto<u64> + Display + Copy, thing: &str) -> String {
    let end = if n.try_into().is_ok_and(|n: u64| n == 1) { "" } else { "s" };
    format!("{n} {thing}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        let said = [0_u64, 1, 2].map(|n| count(n, "connection"));
        assert_eq!(said, ["0 connections", "1 connection", "2 connections"]);
        assert_eq!(count(1_usize, "UDP flow"), "1 UDP flow");
    }
}
