//! The same scenario on this machine: its hosts as network namespaces, its links emulated in real
//! time by the simulator's own link model, its flows run by the kernel's stack or by ours.
//!
//! [`run`] does that once and tells an [`Observer`](tabane_sim::observe::Observer) what the
//! simulator would tell; [`up`] only builds the network. Every result says how accurate the
//! emulation was. Linux only, and root: it makes namespaces and devices.
//! [`loopback`] has links between sockets instead, for who has no privilege.
#![cfg(target_os = "linux")]

mod accuracy;
pub mod compare;
pub mod doctor;
mod emulator;
mod engine_host;
mod flows;
mod kernel;
pub mod loopback;
mod memory;
mod namespace;
mod network;
mod notification;
mod packet;
mod plan;
mod priority;
mod run;
mod switch;
mod translate;
mod wires;

pub use accuracy::{Accuracy, Lateness, LinkAccuracy};
pub use namespace::{Found, is_alive, list, remove_leftovers};
pub use network::{Up, up};
pub use plan::{DevicePlan, HostPlan, NetworkPlan, PREFIX};
pub use run::{LabResult, run};
pub use translate::{KernelSettings, refuse};

use serde::Serialize;
use std::io;
use tabane_sim::scenario::Fault;
use thiserror::Error;

/// What runs the flows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stack {
    /// The Linux kernel's TCP and MPTCP, by sockets.
    Kernel,
    /// The engine, behind TUN devices.
    Tabane,
}

impl Stack {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Tabane => "tabane",
        }
    }
}

/// Why the lab could not do it.
#[derive(Error, Debug)]
pub enum LabError {
    /// The scenario asks for something that it, or the stack, cannot do.
    #[error("{}", .0.message)]
    Refused(Fault),
    /// Not root.
    #[error(
        "the lab makes network namespaces and devices, which needs root: sudo tabane lab ...\n\
         = `tabane lab doctor` says what else is missing; `tabane sim run` needs no privilege"
    )]
    Privilege,
    /// The system refused something.
    #[error("cannot {what}: {source}")]
    System { what: String, source: io::Error },
    #[error("{command}: {said}")]
    Command {
        /// It.
        command: String,
        /// What it said.
        said: String,
    },
    /// A part of the lab cannot go on.
    #[error("{0}")]
    Broken(String),
    /// Somebody ended it.
    #[error("interrupted")]
    Interrupted,
}
