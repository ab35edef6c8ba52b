//! `tabane kernel`: helpers for hosts that stay on the Linux kernel's own TCP and MPTCP, loaded
//! into it as eBPF. Needs root; what is loaded stays until it is taken away.

mod cc;
mod steer;

use crate::exit::Failure;
use clap::Subcommand;
use tabane_kernel::steer::Policy;

/// Help hosts that stay on the kernel's TCP and MPTCP.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Send every packet by every interface.
    Bicast {
        #[command(subcommand)]
        verb: Bicast,
    },
    /// Send pure ACKs of MPTCP by the interface with the smallest round-trip time.
    Hayack {
        #[command(subcommand)]
        verb: Hayack,
    },
    /// Congestion controls for the kernel's connections.
    Cc {
        #[command(subcommand)]
        verb: cc::Verb,
    },
}

#[derive(Subcommand, Debug)]
enum Bicast {
    /// Attach; it stays active after this program has ended.
    Attach(steer::BicastArgs),
    /// Detach, and leave nothing behind.
    Detach(steer::DetachArgs),
    /// Show what is attached, and what it has done.
    Status(steer::StatusArgs),
}

#[derive(Subcommand, Debug)]
enum Hayack {
    /// Attach; it stays active, and follows the round-trip times, after this program has ended.
    Attach(steer::HayackArgs),
    /// Detach, and leave nothing behind.
    Detach(steer::DetachArgs),
    /// Show what is attached, and what it has done.
    Status(steer::StatusArgs),
}

/// Does it.
///
/// # Errors
/// Without privilege, where the kernel lacks something, or where it is there already.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.verb {
        Verb::Bicast { verb: Bicast::Attach(args) } => args.attach(),
        Verb::Bicast { verb: Bicast::Detach(args) } => args.detach(Policy::Bicast),
        Verb::Bicast { verb: Bicast::Status(args) } => args.show(Policy::Bicast),
        Verb::Hayack { verb: Hayack::Attach(args) } => args.attach(),
        Verb::Hayack { verb: Hayack::Detach(args) } => args.detach(Policy::Hayack),
        Verb::Hayack { verb: Hayack::Status(args) } => args.show(Policy::Hayack),
        Verb::Cc { verb } => cc::run(verb),
    }
}

/// What the crate says, as a failure.
fn failed(error: tabane_kernel::Error) -> Failure {
    anyhow::Error::new(error).into()
}
