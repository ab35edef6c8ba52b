//! Tidy CSV (RFC 4180, line ends LF): one observation a row, as `pandas.read_csv` takes it. The
//! first line is the header, and there are no comments: what a file belongs to stands in its
//! columns, or in `meta.json` beside it.
//!
//! - summary: `scenario,seed,version,scheduler,congestion,egress,AXES,flow,host,subflow,path,
//!   metric,value`, where each axis of a sweep is a column of its own, `seed` excepted, which has
//!   one anyway
//! - series: `t,flow,host,subflow,path,metric,value`

use crate::report::{Report, Subject};
use crate::run::RunInfo;
use std::fmt::Write;

/// Columns of a summary that say which run it is.
const RUN: [&str; 6] = ["scenario", "seed", "version", "scheduler", "congestion", "egress"];
/// Columns that say what a value belongs to.
pub const SUBJECT: &str = "flow,host,subflow,path,metric";

/// First line of a summary file of runs with these axes.
pub fn summary_header(axes: &[(String, String)]) -> String {
    let axes = own_columns(axes).map(|(key, _)| quoted(key));
    let run = RUN.map(str::to_owned).into_iter().chain(axes);
    format!("{},{SUBJECT},value\n", run.collect::<Vec<_>>().join(","))
}

/// Axes that are no column anyway.
fn own_columns(axes: &[(String, String)]) -> impl Iterator<Item = &(String, String)> {
    axes.iter().filter(|(key, _)| !RUN.contains(&key.as_str()))
}

/// Rows of a summary file, one a figure; header not included, so that runs can follow each other.
pub fn summary_rows(info: &RunInfo, report: &Report) -> String {
    let mut run = vec![
        quoted(&info.scenario),
        info.seed.to_string(),
        quoted(&info.version),
        quoted(&info.scheduler),
        quoted(&info.congestion),
        quoted(&info.egress),
    ];
    run.extend(own_columns(&info.axes).map(|(_, value)| quoted(value)));
    let run = run.join(",");
    let mut out = String::new();
    for figure in &report.figures {
        let (subject, metric) = (columns(&figure.subject), quoted(&figure.metric));
        writeln!(out, "{run},{subject},{metric},{}", figure.value)
            .expect("invariant: a String takes everything");
    }
    out
}

/// A series file.
pub fn series(report: &Report) -> String {
    let mut out = format!("t,{SUBJECT},value\n");
    for series in &report.series {
        let (subject, metric) = (columns(&series.subject), series.metric.name());
        for (t, value) in &series.points {
            writeln!(out, "{t},{subject},{metric},{value}")
                .expect("invariant: a String takes everything");
        }
    }
    out
}

/// Flow, host, subflow and path: all of [`SUBJECT`] but the metric.
pub fn columns(subject: &Subject) -> String {
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
        assert_eq!(commas(&row), commas(&summary_header(&[])));
        let axis = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let axes = vec![axis("link.lte.rate", "5Mbps"), axis("seed", "7")];
        let swept = RunInfo { axes, ..info };
        assert_eq!(summary_rows(&swept, &report), "s,7,,,,,5Mbps,bulk,,,wifi,x_s,0.25\n");
        let header = summary_header(&swept.axes);
        assert!(header.contains(",egress,link.lte.rate,flow,"), "{header}");
        assert_eq!(header.matches("seed").count(), 1, "{header}");
        assert_eq!(
            series(&report),
            "t,flow,host,subflow,path,metric,value\n0.1,bulk,,,wifi,srtt_s,0.02\n"
        );
    }
}
