//! "Did you mean": the nearest of the known names.

/// What [`nearest`] found as the end of a message: `; did you mean 'x'?`, or nothing.
pub fn meant(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean '{name}'?"))
}

/// The name that somebody meant who wrote `name`: the nearest of `known`, if at most a third of
/// the letters differ, or the only one that begins so (three letters at least). Case does not
/// count.
pub fn nearest<'k>(name: &str, known: impl Iterator<Item = &'k str> + Clone) -> Option<&'k str> {
    let lower = name.to_ascii_lowercase();
    let measured = known.clone().map(|k| (distance(k, name), k));
    let (distance, found) = measured.min_by_key(|(distance, _)| *distance)?;
    // Of two letters a third is none: one too many at the end may be.
    let longer = distance == 1 && (lower.starts_with(found) || found.starts_with(&lower));
    if longer || distance <= found.chars().count().max(name.chars().count()) / 3 {
        return Some(found);
    }
    let mut begin = known.filter(|k| lower.len() >= 3 && k.starts_with(&lower));
    begin.next().filter(|_| begin.next().is_none())
}

/// The distance of Damerau and Levenshtein, of the first 64 letters of each: text from a file may
/// be of any length.
fn distance(a: &str, b: &str) -> usize {
    let letters = |text: &str| text.chars().take(64).collect::<String>().to_ascii_lowercase();
    strsim::osa_distance(&letters(a), &letters(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_near_is_suggested() {
        let known = ["at", "link", "flow", "congestion", "rate"];
        for (name, meant) in [
            ("lte", None),
            ("it", None),
            ("rtae", Some("rate")),
            ("Rate", Some("rate")),
            ("lnik", Some("link")),
            ("cong", Some("congestion")),
            ("flw", Some("flow")),
            ("", None),
            ("att", Some("at")),
            ("r", None),
        ] {
            assert_eq!(nearest(name, known.into_iter()), meant, "{name}");
        }
    }
}
