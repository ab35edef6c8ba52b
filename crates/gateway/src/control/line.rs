//! Lines of bounded length, and what a question may be.

use crate::request_channel::Request;
use serde::Deserialize;
use std::io::{self, BufRead, Read};

/// What a line asks.
#[derive(Clone, PartialEq, Debug)]
pub enum Question {
    /// One answer.
    Ask(Request),
    /// Events after that number, as they come.
    Follow {
        /// The last one known; 0 for all that are remembered.
        since: u64,
    },
}

/// What was read.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Line {
    /// A line, without its end.
    Whole(Vec<u8>),
    /// It is longer than allowed.
    TooLong,
    /// Nobody will write any more.
    End,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FollowLine {
    #[serde(rename = "ask")]
    _ask: String,
    #[serde(default)]
    since: u64,
}

impl Question {
    /// Reads a line; the error is for people.
    pub(super) fn parse(line: &[u8]) -> Result<Self, String> {
        let value: serde_json::Value = serde_json::from_slice(line)
            .map_err(|error| format!("not JSON: {error}; write {EXAMPLE}"))?;
        let Some(ask) = value.get("ask").and_then(serde_json::Value::as_str) else {
            return Err(format!("no \"ask\" in it; write {EXAMPLE}"));
        };
        let wrong = |error: serde_json::Error| error.to_string();
        if ask == "follow" {
            let follow: FollowLine = serde_json::from_value(value).map_err(wrong)?;
            return Ok(Self::Follow { since: follow.since });
        }
        serde_json::from_value(value).map(Self::Ask).map_err(wrong)
    }

    /// As a line, without its end.
    #[must_use]
    pub fn to_line(&self) -> String {
        match self {
            Self::Ask(request) => serde_json::to_string(request)
                .expect("invariant: requests have no maps with odd keys, so they are JSON"),
            Self::Follow { since } => {
                serde_json::json!({ "ask": "follow", "since": since }).to_string()
            }
        }
    }
}

const EXAMPLE: &str = r#"{"ask":"status"}"#;

/// The next line of at most `max` bytes.
pub(super) fn read_line(reader: &mut impl BufRead, max: usize) -> io::Result<Line> {
    let mut line = Vec::new();
    let taken = reader.by_ref().take(max as u64 + 1).read_until(b'\n', &mut line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
        return Ok(Line::Whole(line));
    }
    if taken > max {
        return Ok(Line::TooLong);
    }
    // A last line without an end counts as one.
    Ok(if line.is_empty() { Line::End } else { Line::Whole(line) })
}
