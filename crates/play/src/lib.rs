//! The simulator behind a web page: a world that is stepped as the page's clock goes, changed while
//! it runs, and looked at. [`Play`] is the world; `js` (WebAssembly only) is its face towards the
//! page, whose files are in `web/`; with feature `page` the library has them, built, in itself.
//!
//! Changes by hand are kept as the scenario's own timed changes: [`Play::toml`] is a file that
//! gives the same run, byte for byte, by `tabane sim run`. Nothing here reads a clock.
#![deny(unsafe_code)]

mod changes;
mod describe;
mod dots;
#[cfg(target_arch = "wasm32")]
mod js;
#[cfg(feature = "page")]
pub mod page;
mod play;
mod status;
mod watch;

pub use describe::{About, LinkAbout, NodePolicies, SeriesAbout};
pub use play::{Play, PlayError};
pub use status::{LinkStatus, SeriesStatus, Status, WhyNot};
