//! The scheduler `learned:file=policy.onnx`: a neural network that was trained in the environments
//! of the Python package and saved as ONNX.
//!
//! [`observation`] is what a policy sees and what its answers mean; the environments use the same
//! functions. A program calls [`register`] once; the name is then known wherever a policy is named.
//! Files are run in builds with the feature `onnx` alone; the others know the name, and say so.
//!
//! Why not in the engine: it does no I/O, and does not depend on an inference library.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

#[cfg(feature = "onnx")]
mod check;
#[cfg(feature = "onnx")]
mod model;
pub mod observation;
#[cfg(feature = "onnx")]
mod scheduler;
#[cfg(feature = "onnx")]
mod store;

#[cfg(feature = "onnx")]
pub use model::{Model, ModelError, Running};

use tabane_engine::policy::{Entry, Param, PolicyError, RegisterError, Values};
use tabane_engine::scheduler::{Build, REGISTRY, Scheduler};

/// By which it is called.
pub const NAME: &str = "learned";

const SCHEDULER: Entry<Build> = Entry {
    name: NAME,
    aliases: &[],
    summary: "what a neural network says that was trained in the Python package's environments",
    params: &[Param::file("the network, as ONNX")],
    build: &build,
};

/// Makes the name known to the engine. What has been registered stays: a second call does nothing.
///
/// # Errors
/// [`RegisterError`], if another scheduler has the name.
pub fn register() -> Result<(), RegisterError> {
    if REGISTRY.entries().iter().any(|entry| std::ptr::eq(entry.params, SCHEDULER.params)) {
        return Ok(());
    }
    REGISTRY.register(SCHEDULER)
}

fn fault(message: String) -> PolicyError {
    PolicyError::File { policy: NAME, message }
}

fn build(values: &Values<'_>) -> Result<Box<dyn Scheduler>, PolicyError> {
    let file = values
        .file()
        .ok_or_else(|| fault("which policy? write learned:file=policy.onnx".to_owned()))?;
    of_file(file)
}

#[cfg(feature = "onnx")]
fn of_file(file: &str) -> Result<Box<dyn Scheduler>, PolicyError> {
    let model =
        store::model(std::path::Path::new(file)).map_err(|e| fault(format!("{file}: {e}")))?;
    let running = model.start().map_err(|e| fault(format!("{file}: {e}")))?;
    Ok(Box::new(scheduler::Learned::new(running)))
}

#[cfg(not(feature = "onnx"))]
fn of_file(file: &str) -> Result<Box<dyn Scheduler>, PolicyError> {
    let remedy =
        "this program was built without learned policies; build it with --features learned";
    Err(fault(format!("{file} cannot be run: {remedy}")))
}
