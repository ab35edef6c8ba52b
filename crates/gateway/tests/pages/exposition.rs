//! A strict parser of Prometheus text, version 0.0.4: every family has its HELP and TYPE, once and
//! before its samples, which follow each other; no sample comes twice.

/// A family.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) samples: Vec<Sample>,
}

/// A sample.
#[derive(PartialEq, Debug)]
pub(crate) struct Sample {
    /// Of a histogram: `_bucket`, `_sum` or `_count`; else nothing.
    pub(crate) part: &'static str,
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) value: f64,
}

pub(crate) fn parse(text: &str) -> Result<Vec<Family>, String> {
    if !text.ends_with('\n') {
        return Err("the last line has no end".into());
    }
    let mut families: Vec<Family> = Vec::new();
    let mut helped = None;
    for line in text.lines() {
        let wrong = |what: &str| format!("{what}: {line}");
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').ok_or_else(|| wrong("no help"))?;
            if help.is_empty() || families.iter().any(|family| family.name == name) {
                return Err(wrong("empty or second help"));
            }
            helped = Some(name.to_owned());
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').ok_or_else(|| wrong("no type"))?;
            if helped.take().as_deref() != Some(name) || !is_name(name) {
                return Err(wrong("a type without its help, or a bad name"));
            }
            if !["gauge", "counter", "histogram"].contains(&kind)
                || (kind == "counter") != name.ends_with("_total")
            {
                return Err(wrong("a bad type, or a counter that does not end in _total"));
            }
            let (name, kind) = (name.to_owned(), kind.to_owned());
            families.push(Family { name, kind, samples: Vec::new() });
        } else {
            let family = families.last_mut().ok_or_else(|| wrong("a sample without a family"))?;
            let rest = line.strip_prefix(&family.name).ok_or_else(|| wrong("out of order"))?;
            let parts = if family.kind == "histogram" { &PARTS[..] } else { &[""] };
            let found = parts.iter().find_map(|part| Some((*part, rest.strip_prefix(part)?)));
            let (part, rest) = found.ok_or_else(|| wrong("no part of a histogram"))?;
            let sample = sample(part, rest).ok_or_else(|| wrong("not a sample"))?;
            let same = |other: &Sample| (other.part, &other.labels) == (part, &sample.labels);
            if family.samples.iter().any(same) {
                return Err(wrong("a sample twice"));
            }
            family.samples.push(sample);
        }
    }
    match families.iter().find(|family| family.samples.is_empty()) {
        Some(empty) => Err(format!("{} has no samples", empty.name)),
        None => Ok(families),
    }
}

const PARTS: [&str; 3] = ["_bucket", "_sum", "_count"];

fn sample(part: &'static str, text: &str) -> Option<Sample> {
    let (labels, value) = match text.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), text),
    };
    let value: f64 = value.strip_prefix(' ')?.parse().ok()?;
    value.is_finite().then_some(Sample { part, labels, value })
}

/// Labels behind the opening brace, and what is behind the closing one.
fn labels(mut text: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut labels: Vec<(String, String)> = Vec::new();
    loop {
        let (name, rest) = text.split_once("=\"")?;
        let mut value = String::new();
        let mut chars = rest.char_indices();
        let end = loop {
            match chars.next()? {
                (at, '"') => break at,
                (_, '\\') => value.push(match chars.next()?.1 {
                    'n' => '\n',
                    c @ ('"' | '\\') => c,
                    _ => return None,
                }),
                (_, c) => value.push(c),
            }
        };
        if !is_name(name) || name.contains(':') || labels.iter().any(|label| label.0 == name) {
            return None;
        }
        labels.push((name.to_owned(), value));
        text = &rest[end + 1..];
        match text.strip_prefix(',') {
            Some(more) => text = more,
            None => return Some((labels, text.strip_prefix('}')?)),
        }
    }
}

fn is_name(name: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    name.chars().all(word) && name.chars().next().is_some_and(|c| !c.is_ascii_digit())
}

#[test]
fn what_is_wrong_is_not_taken() {
    let head = "# HELP a_total x\n# TYPE a_total counter\n";
    parse(&format!("{head}a_total{{b=\"c\\n\\\"\"}} 1\n")).unwrap();
    for bad in [
        "a_total 1\n",
        "a_total{b=\"c} 1\n",
        "a_total{b=\"\\x\"} 1\n",
        "a_total{1=\"c\"} 1\n",
        "a_total{b=\"c\",b=\"d\"} 1\n",
        "a_total x\n",
        "a_total 1\na_total 2\n",
        "b_total 1\n",
        "",
        "a_total 1",
        "a_total{b=\"c\",} 1\n",
        "a_total NaN\n",
    ] {
        let head = if bad == "a_total 1\n" { "" } else { head };
        parse(&format!("{head}{bad}")).unwrap_err();
    }
    parse("# HELP a x\n# TYPE a counter\na 1\n").unwrap_err();
    parse("# TYPE a gauge\na 1\n").unwrap_err();
}
