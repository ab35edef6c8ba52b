//! The native half of the Python package `tabane`: what Python calls. Everything that a user sees
//! has its name, its documentation and its types in `python/tabane`; here is only what must be
//! fast or must reach the engine.
//!
//! Columns cross as bytes (`table.rs`), times as seconds, errors as the package's own exceptions
//! (`error.rs`). The interpreter is released while worlds run.

mod error;
mod gym;
mod observers;
mod papers;
mod pcap;
mod policy;
mod run;
mod scenario;
mod sweep;
mod table;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    use pyo3::prelude::*;
    use tabane_learned::observation;

    #[pymodule_export]
    use crate::gym::Envs;
    #[pymodule_export]
    use crate::papers::{papers, repeat_paper};
    #[pymodule_export]
    use crate::pcap::read_pcap;
    #[pymodule_export]
    use crate::policy::{Ack, Blocked, Congestion, SubflowView, Work, register};
    #[pymodule_export]
    use crate::run::{Output, capture, run};
    #[pymodule_export]
    use crate::scenario::{Document, Plan};
    #[pymodule_export]
    use crate::sweep::{Pool, Rows, estimate_of};

    /// Version of the program.
    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// The policy that environments ask is there from the start, in every process.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let of = (observation::VERSION, observation::CONNECTION, observation::SUBFLOW);
        module.add("OBSERVATION", of)?;
        let registered = crate::gym::register().and_then(|()| tabane_learned::register());
        registered.map_err(|e| pyo3::exceptions::PyImportError::new_err(e.to_string()))
    }
}
