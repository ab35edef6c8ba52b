//! The verbs that need Linux: its sockets, network namespaces and TUN devices.

use super::{
    bench, client, compare, config, conn, demo, doctor, kernel, keys, lab, monitor, path, policy,
    record, reload, server, service, status, top, whatif,
};
use crate::exit::Failure;
use clap::Subcommand;

/// What tabane can do on Linux only.
#[derive(Subcommand, Debug)]
pub(crate) enum Verb {
    /// Bond this machine's links towards a server.
    Client(client::Args),
    /// Run the far end of the bond for clients.
    Server(server::Args),
    /// Check a configuration, or show its effective values.
    Config(config::Args),
    /// Make a private key.
    Genkey(keys::MakeArgs),
    /// Print the public key of the private key on standard input.
    Pubkey,
    /// Make a preshared key.
    Genpsk(keys::MakeArgs),
    /// Run as a service of systemd.
    Service(service::Args),
    /// Show what a running agent does: its server, its paths, and why a path is idle.
    Status(status::Args),
    /// Show the paths of a running agent, or change one.
    Path(path::Args),
    /// Show the connections of a running agent, or end one.
    Conn(conn::Args),
    /// Change the policies of a running agent.
    Policy(policy::Args),
    /// Show the events of a running agent as they happen.
    Monitor(monitor::Args),
    /// Check each link and say what is wrong and what to do.
    Doctor(doctor::Args),
    /// Show a running agent live: links, why a link is idle, connections.
    Top(top::Args),
    /// Show what an agent has recorded of its links and connections, or make a scenario of it.
    Record(record::Args),
    /// Tell what would have happened in a recorded time with other policies or roles.
    Whatif(whatif::Args),
    /// Make a running agent read its configuration again.
    Reload(reload::Args),
    /// Send a file over emulated Wi-Fi and LTE links, alone and together; no root needed.
    Demo(demo::Args),
    /// Measure the speed and memory of the simulator and the engine.
    Bench(bench::Args),
    /// Run scenarios on this machine, over emulated links: the kernel's stack, or ours.
    Lab(lab::Args),
    /// Run scenarios on the simulator, our stack and the kernel's, and compare the results.
    Compare(compare::Args),
    /// Help hosts that stay on the kernel's TCP and MPTCP: bicast, HayACK, congestion controls.
    Kernel(kernel::Args),
}

/// Does it.
///
/// # Errors
/// [`Failure`], as the verb says.
pub(super) fn run(verb: Verb) -> Result<(), Failure> {
    match verb {
        Verb::Client(args) => client::run(&args),
        Verb::Server(args) => server::run(&args),
        Verb::Config(args) => config::run(&args),
        Verb::Genkey(args) => keys::genkey(&args),
        Verb::Pubkey => keys::pubkey(),
        Verb::Genpsk(args) => keys::genpsk(&args),
        Verb::Service(args) => service::run(&args),
        Verb::Status(args) => status::run(&args),
        Verb::Path(args) => path::run(&args),
        Verb::Conn(args) => conn::run(&args),
        Verb::Policy(args) => policy::run(&args),
        Verb::Monitor(args) => monitor::run(&args),
        Verb::Doctor(args) => doctor::run(&args),
        Verb::Top(args) => top::run(&args),
        Verb::Record(args) => record::run(&args),
        Verb::Whatif(args) => whatif::run(&args),
        Verb::Reload(args) => reload::run(&args),
        Verb::Demo(args) => demo::run(&args),
        Verb::Bench(args) => bench::run(&args),
        Verb::Lab(args) => lab::run(args),
        Verb::Compare(args) => compare::run(&args),
        Verb::Kernel(args) => kernel::run(&args),
    }
}
