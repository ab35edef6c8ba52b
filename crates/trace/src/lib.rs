//! Functions of records and of captures: series, tables, plots; and [`observe`], through which
//! the worlds that run the engine report what happens.
//!
//! ```text
//! world --observe--> RecordLines   one JSON object a line, as it happens
//!               |--> Capture       pcapng, one interface block a path
//!               '--> Collector     bounded tracks and counters --> Report --> csv, plot, idle
//! ```
//! Everything here is a pure function of its input: the same run gives the same bytes. What is
//! kept while a run goes on is bounded by [`Settings`], whatever its length.
#![forbid(unsafe_code)]

pub mod analysis;
pub mod capture;
pub mod collect;
pub mod csv;
pub mod estimate;
pub mod fairness;
pub mod histogram;
pub mod idle;
pub mod jsonl;
pub mod observe;
pub mod pcap;
pub mod plot;
pub mod report;
pub mod run;
pub mod track;

pub use capture::{Capture, CaptureError};
pub use collect::{Collector, Settings};
pub use jsonl::RecordLines;
pub use report::{Figure, Metric, Report, Series};
pub use run::RunInfo;
