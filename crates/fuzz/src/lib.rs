//! Fuzz targets: everything that takes bytes from strangers, as functions of bytes that panic if
//! something is wrong.
//!
//! The same functions are run by `cargo test` (seeds, the committed corpus, and mutations of both:
//! `tests/corpus.rs`) and by libFuzzer with coverage (`.ci/fuzz`, the binary `tabane-fuzz`). A new
//! target is a function and a row of [`ALL`].

#![forbid(unsafe_code)]

mod endpoint;
mod files;
mod pair;
mod tunnel;
mod wire;

/// Something that takes bytes.
#[derive(Debug)]
pub struct Target {
    /// Name, also of its folder in `corpus/`.
    pub name: &'static str,
    /// What it does with them.
    pub run: fn(&[u8]),
    /// Inputs that lead deep into it, to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Every target.
pub const ALL: &[Target] = &[
    Target { name: "packet", run: wire::packet, seeds: wire::packets },
    Target { name: "options", run: wire::options, seeds: wire::option_soups },
    Target { name: "endpoint", run: endpoint::endpoint, seeds: endpoint::seeds },
    Target { name: "scenario", run: files::scenario, seeds: files::scenarios },
    Target { name: "capture", run: files::capture, seeds: files::captures },
    gateway(3),
    gateway(4),
    gateway(5),
    gateway(0),
    gateway(1),
    Target { name: "tunnel", run: tunnel::tunnel, seeds: tunnel::seeds },
    gateway(2),
];

const fn gateway(n: usize) -> Target {
    let (name, run, seeds) = tabane_gateway::FUZZ[n];
    Target { name, run, seeds }
}

/// The target of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Target> {
    ALL.iter().find(|target| target.name == name)
}
