//! `tabane-interop serve|get`: what stands opposite the kernel in `tests/interop.rs`.

mod attach;
mod get;
mod serve;

use clap::Parser;
use std::process::ExitCode;

#[derive(Parser, Debug)]
enum Verb {
    /// Serve a directory over HTTP.
    Serve(serve::Args),
    /// Download over HTTP.
    Get(get::Args),
}

fn main() -> ExitCode {
    let done = match Verb::parse() {
        Verb::Serve(args) => serve::run(&args),
        Verb::Get(args) => get::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tabane-interop: {error:#}");
            ExitCode::FAILURE
        }
    }
}
