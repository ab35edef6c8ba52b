//! Why something could not be loaded, attached or taken away, with the remedy.

use std::io;
use thiserror::Error;

/// What went wrong.
#[derive(Error, Debug)]
#[non_exhaustive]
pub enum Error {
    /// No privilege.
    #[error("{what}: not permitted; it needs root, or CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN")]
    Privilege {
        /// What was tried.
        what: String,
    },
    /// The system call bpf(2), or netlink, failed otherwise.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// The verifier did not take a program.
    #[error("this kernel does not take the program {program}: {error}\n{log}")]
    Refused {
        program: String,
        /// What the kernel said.
        error: io::Error,
        /// The end of the verifier's reasons.
        log: String,
    },
    /// An object of ours cannot be read, or does not fit this kernel.
    #[error("the object {object} does not fit this kernel: {reason}")]
    Object {
        /// Which.
        object: &'static str,
        /// Why.
        reason: String,
    },
    /// The kernel does not describe its types.
    #[error(
        "this kernel does not describe its types ({path}: {error}); \
         it needs one with CONFIG_DEBUG_INFO_BTF"
    )]
    NoBtf {
        /// Where the description should be.
        path: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
    /// No congestion controls from BPF.
    #[error(
        "this kernel takes no congestion control from BPF (no {missing}); \
         it needs Linux 5.6 or later with CONFIG_BPF_JIT and CONFIG_DEBUG_INFO_BTF"
    )]
    NoStructOps {
        /// What was looked for.
        missing: String,
    },
    /// No clsact.
    #[error("this kernel has no qdisc clsact (CONFIG_NET_SCH_INGRESS): {error}")]
    NoClsact {
        /// What the kernel said.
        error: io::Error,
    },
    /// No classifier.
    #[error("this kernel has no BPF classifier (CONFIG_NET_CLS_BPF): {error}")]
    NoClassifier {
        /// What the kernel said.
        error: io::Error,
    },
    /// An interface cannot be used, or what was said of it.
    #[error("{0}")]
    Interface(String),
    /// A name that cannot be given.
    #[error("{0}")]
    Name(String),
    /// It is there already.
    #[error("{0}")]
    Already(String),
    /// It is not there.
    #[error("{0}")]
    Missing(String),
    /// It is in use.
    #[error("{0}")]
    InUse(String),
}

impl Error {
    /// A failed system call; lack of privilege is told from the rest.
    pub(crate) fn system(what: impl Into<String>, error: io::Error) -> Self {
        let what = what.into();
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::Privilege { what },
            _ => Self::System { what, error },
        }
    }
}
