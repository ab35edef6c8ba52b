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
    let measured = known.clone().map(|k| (edit_distance(&k.to_ascii_lowercase(), &lower), k));
    let (distance, found) = measured.min_by_key(|(distance, _)| *distance)?;
    // Of two letters a third is none: one too many at the end may be.
    let longer = distance == 1 && (lower.starts_with(found) || found.starts_with(&lower));
    if longer || distance <= found.chars().count().max(name.chars().count()) / 3 {
        return Some(found);
    }
    let mut begin = known.filter(|k| lower.len() >= 3 && k.starts_with(&lower));
    begin.next().filter(|_| begin.next().is_none())
}

/// How many letters are to be changed, put in, left out or swapped with their neighbour
/// (Damerau and Levenshtein), for "did you mean". Of the first 64 letters of each.
pub fn edit_distance(a: &str, b: &str) -> usize {
    let letters = |text: &str| text.chars().take(64).collect::<Vec<_>>();
    let (a, b) = (letters(a), letters(b));
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let substitute = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = substitute.min(row[j - 1] + 1).min(last[j] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_counted() {
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("rtae", "rate"), 1);
    }

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
