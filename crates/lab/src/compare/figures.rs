//! The page of a folder that has a text of its own, `page.toml`: chosen figures of every point, a
//! table each, beside published ones where there are any.

use super::tables::{VALUES, mbits, millis, number, spread};
use super::{Compared, Outcome, Runner};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use tabane_trace::estimate::estimate;

/// A page, as its folder says it.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// What comes before the tables, Markdown.
    head: String,
    table: Vec<Table>,
    /// What comes after them.
    #[serde(default)]
    tail: String,
}

/// A table: one figure of every point, by who ran it.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    title: String,
    /// `completed`, `sent again` and so on; `FLOW/PATH goodput`, `FLOW/PATH srtt`;
    /// `FLOW/PATH over FLOW/PATH`, of goodputs.
    figure: String,
    /// What a paper has, by point, in the unit of the figure.
    #[serde(default)]
    published: BTreeMap<String, f64>,
}

/// A value of an outcome, and how it reads.
type Figure = (Box<dyn Fn(&Outcome) -> Option<f64>>, fn(f64) -> String);

impl Page {
    /// The page.
    ///
    /// # Errors
    /// In words, a figure that does not exist and a published one of no point.
    pub fn write(&self, all: &[Compared], machine: &str) -> Result<String, String> {
        let runs = all.iter().flat_map(|c| c.runs.values().map(Vec::len)).max().unwrap_or(0);
        let runs = if runs == 1 { "One run".to_owned() } else { format!("{runs} runs") };
        let mut out = format!("{}\n\n{machine} {runs} of each.\n", self.head.trim());
        for table in &self.table {
            table.write(all, &mut out)?;
        }
        accuracy(all, &mut out);
        if !self.tail.is_empty() {
            let _ = write!(out, "\n{}\n", self.tail.trim());
        }
        Ok(out)
    }
}

impl Table {
    fn write(&self, all: &[Compared], out: &mut String) -> Result<(), String> {
        let (value, words) = figure(&self.figure)
            .ok_or_else(|| format!("page.toml: there is no figure '{}'", self.figure))?;
        let nobody = |name: &&String| !all.iter().any(|c| point(c) == **name);
        if let Some(name) = self.published.keys().find(nobody) {
            return Err(format!("page.toml: '{name}' is published, but no point of the folder"));
        }
        let mut head = vec!["".to_owned()];
        head.extend((!self.published.is_empty()).then(|| "paper".to_owned()));
        head.extend(runners(all).iter().map(|runner| runner.as_str().to_owned()));
        let _ = writeln!(out, "\n## {}\n", self.title);
        line(out, &head);
        line(out, &vec!["---".to_owned(); head.len()]);
        for compared in all {
            let mut row = vec![point(compared)];
            if !self.published.is_empty() {
                let published = self.published.get(&point(compared));
                row.push(published.map_or_else(String::new, |x| words(*x)));
            }
            for runner in runners(all) {
                let runs = compared.runs.get(&runner).into_iter().flatten();
                let values: Vec<f64> = runs.filter_map(&value).collect();
                let own = estimate(&values);
                row.push(own.map_or_else(|| "none".to_owned(), |e| spread(e, words)));
            }
            line(out, &row);
        }
        Ok(())
    }
}

/// How late packets were, and which runs were too inaccurate however often they were tried.
fn accuracy(all: &[Compared], out: &mut String) {
    let real: Vec<Runner> = runners(all).into_iter().filter(|r| r.stack().is_some()).collect();
    *out += "\n## Accuracy\n\n99 % of the packets left their link no later than that after their \
             time, in the worst run; runs of poor accuracy, if any remained.\n\n";
    let mut head = vec!["".to_owned()];
    head.extend(real.iter().map(|runner| runner.as_str().to_owned()));
    line(out, &head);
    line(out, &vec!["---".to_owned(); head.len()]);
    for compared in all {
        let mut row = vec![point(compared)];
        for runner in &real {
            let runs = compared.runs.get(runner).map_or(&[][..], Vec::as_slice);
            let late = runs.iter().filter_map(|run| run.lateness_p99_us).max().unwrap_or(0);
            let poor = runs.iter().filter(|run| run.poor.is_some()).count();
            row.push(match poor {
                0 => format!("{late} us"),
                _ => format!("{late} us, {poor} of {} poor", runs.len()),
            });
        }
        line(out, &row);
    }
}

/// The points of a sweep are called after their values.
fn point(compared: &Compared) -> String {
    let name = compared.scenario.as_str();
    let inside = name.split_once(" [").and_then(|(_, rest)| rest.strip_suffix(']'));
    let Some(inside) = inside else { return name.to_owned() };
    let values = inside.split(", ").map(|pair| pair.split_once('=').map_or(pair, |(_, v)| v));
    values.collect::<Vec<&str>>().join(" / ")
}

fn runners(all: &[Compared]) -> Vec<Runner> {
    let mut runners: Vec<Runner> = all.iter().flat_map(|c| c.runs.keys().copied()).collect();
    runners.sort();
    runners.dedup();
    runners
}

fn figure(name: &str) -> Option<Figure> {
    if let Some((_, words, value)) = VALUES.iter().find(|(known, ..)| *known == name) {
        let value = *value;
        return Some((Box::new(value), *words));
    }
    let goodput = |subflow: &str| {
        let subflow = subflow.to_owned();
        move |o: &Outcome| o.subflows.get(&subflow).map(|s| s.goodput_bps)
    };
    if let Some((one, other)) = name.split_once(" over ") {
        let (one, other) = (goodput(one), goodput(other));
        let value = move |o: &Outcome| Some(one(o)? / other(o).filter(|bps| *bps > 0.0)?);
        return Some((Box::new(value), number));
    }
    if let Some(subflow) = name.strip_suffix(" goodput") {
        return Some((Box::new(goodput(subflow)), mbits));
    }
    let subflow = name.strip_suffix(" srtt")?.to_owned();
    let value = move |o: &Outcome| o.subflows.get(&subflow).and_then(|s| s.srtt_p50_s);
    Some((Box::new(value), millis))
}

fn line(out: &mut String, cells: &[String]) {
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}
