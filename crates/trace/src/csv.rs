//! Tidy CSV (RFC 4180, line ends LF): one observation a row, as `pandas.read_csv` takes it.
//!
//! - summary: `scenario,seed,scheduler,congestion,egress,flow,host,subflow,path,metric,value`
//! - series: `t,flow,host,subflow,path,metric,value`
//!
//! Series files begin with one comment line `# scenario · seed · version`
//! (`read_csv(..., comment="#")`); summary files say it in their columns.

use crate::report::{Report, Subject};
use crate::run::RunInfo;
use std::fmt::Write;

/// First line of a summary file.
pub const SUMMARY_HEADER: &str =
    "scenario,seed,version,scheduler,congestion,egress,flow,host,subflow,path,metric,value\n";

/// Rows of a summary file, one a figure; header not included, so that runs can follow each other.
pub fn summary_rows(info: &RunInfo, report: &Report) -> String {
    let run = [
        quoted(&info.scenario),
        info.seed.to_string(),
        quoted(&info.version),
        quoted(&info.scheduler),
        quoted(&info.congestion),
        quoted(&info.egress),
    ]
    .join(",");
    let mut out = String::new();
    for figure in &report.figures {
        let (subject, metric) = (columns(&figure.subject), quoted(&figure.metric));
        writeln!(out, "{run},{subject},{metric},{}", figure.value)
            .expect("invariant: a String takes everything");
    }
    out
}

/// A series file.
pub fn series(info: &RunInfo, report: &Report) -> String {
    let mut out = format!("# {}\n", info.caption().replace('\n', " "));
    out += "t,flow,host,subflow,path,metric,value\n";
    for series in &report.series {
        let (subject, metric) = (columns(&series.subject), series.metric.name());
        for (t, value) in &series.points {
            writeln!(out, "{t},{subject},{metric},{value}")
                .expect("invariant: a String takes everything");
        }
    }
    out
}

fn columns(subject: &Subject) -> String {
    let subflow = subject.subflow.map_or_else(String::new, |n| n.to_string());
    format!(
        "{},{},{subflow},{}",
        quoted(&subject.flow),
        quoted(&subject.host),
        quoted(&subject.path)
    )
}

/// A field, quoted if it must be.
pub fn quoted(field: &str) -> String {
    if field.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Figure, Metric, Series};

    #[test]
    fn fields_with_commas_and_quotes_survive() {
        assert_eq!(quoted("minrtt"), "minrtt");
        assert_eq!(quoted("ecf:beta=1,w=2"), "\"ecf:beta=1,w=2\"");
        assert_eq!(quoted("a \"b\""), "\"a \"\"b\"\"\"");
    }

    #[test]
    fn rows_have_as_many_fields_as_the_header() {
        let subject = Subject { flow: "bulk".into(), path: "wifi".into(), ..Subject::default() };
        let report = Report {
            figures: vec![Figure { subject: subject.clone(), metric: "x_s".into(), value: 0.25 }],
            series: vec![Series { subject, metric: Metric::Srtt, points: vec![(0.1, 0.02)] }],
            ..Report::default()
        };
        let info = RunInfo { scenario: "s".into(), seed: 7, ..RunInfo::default() };
        let row = summary_rows(&info, &report);
        assert_eq!(row, "s,7,,,,,bulk,,,wifi,x_s,0.25\n");
        let commas = |s: &str| s.matches(',').count();
        assert_eq!(commas(&row), commas(SUMMARY_HEADER));
        let text = series(&info, &report);
        assert!(text.ends_with("value\n0.1,bulk,,,wifi,srtt_s,0.02\n"), "{text}");
    }
}
