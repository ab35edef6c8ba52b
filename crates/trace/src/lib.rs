//! Functions of records and of captures: series, tables, plots; and [`observe`], through which
//! the worlds that run the engine report what happens.
#![forbid(unsafe_code)]

pub mod observe;
