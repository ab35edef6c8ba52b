//! The files of the page, built into the library. They need no network and nothing of a server
//! but that it gives them out, each with the media type that the ending of its name says.

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// Its name below the page's address.
    pub name: &'static str,
    pub bytes: &'static [u8],
}

macro_rules! files {
    ($($from:literal $name:literal;)*) => {
        &[$(File {
            name: $name,
            bytes: include_bytes!(concat!($from, $name)),
        },)*]
    };
}

/// Written by people.
const WEB: &[File] = files! {
    "../web/" "index.html";
    "../web/" "style.css";
    "../web/" "app.js";
    "../web/" "cards.js";
    "../web/" "charts.js";
    "../web/" "paper.js";
    "../web/" "presets.js";
    "../web/" "state.js";
    "../web/" "strings.js";
    "../web/" "worker.js";
    "../web/" "world.js";
    "../web/" "uplot/uPlot.esm.js";
    "../web/" "uplot/uPlot.min.css";
    "../web/" "uplot/LICENSE";
};

/// Made by build.rs.
const MADE: &[File] = &[
    File { name: "tabane.js", bytes: include_bytes!(concat!(env!("OUT_DIR"), "/tabane.js")) },
    File {
        name: "tabane_bg.wasm",
        bytes: include_bytes!(concat!(env!("OUT_DIR"), "/tabane_bg.wasm")),
    },
    File { name: "papers.json", bytes: include_bytes!(concat!(env!("OUT_DIR"), "/papers.json")) },
];

/// Scenarios of the papers that are presets.
const PAPERS: &[File] = files! {
    "../../../" "papers/bicast/table.toml";
    "../../../" "papers/hayack/shared.toml";
    "../../../" "papers/ecf3/heterogeneous.toml";
    "../../../" "papers/two_wans/bundle.toml";
    "../../../" "papers/proxies/path.toml";
};

/// All of them.
pub fn files() -> impl Iterator<Item = &'static File> {
    WEB.iter().chain(MADE).chain(PAPERS)
}
