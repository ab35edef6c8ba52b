//! The stock kernel's programs: curl under mptcpize, and a peer of our own in Python
//! (`peers/peer.py`) on the kernel's MPTCP sockets, for what curl cannot do.

use super::namespace::{Namespace, Process};
use super::world::World;
use std::net::{IpAddr, SocketAddr};
use std::process::Command;

/// Where servers listen.
pub(crate) const PORT: u16 = 8080;

/// How a program of the kernel speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Speaks {
    Mptcp,
    Tcp,
}

/// `http://ADDRESS:PORT/NAME`.
pub(crate) fn url(address: IpAddr, name: &str) -> String {
    format!("http://{}/{name}", SocketAddr::new(address, PORT))
}

/// A program in a namespace, under mptcpize if it is to speak MPTCP.
pub(crate) fn program(host: &Namespace, speaks: Speaks, name: &str) -> Command {
    match speaks {
        Speaks::Tcp => host.command(name),
        Speaks::Mptcp => {
            let mut command = host.command("mptcpize");
            command.args(["run", name]);
            command
        }
    }
}

/// Our Python peer with its arguments.
pub(crate) fn peer(host: &Namespace, arguments: &[&str]) -> Command {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/interop/peers/peer.py");
    let mut command = host.command("python3");
    command.args(["-u", script]).args(arguments);
    command
}

impl World {
    /// curl at K; the arguments are curl's.
    pub(crate) fn curl(&self, speaks: Speaks, arguments: &[&str]) -> Process {
        let mut command = program(&self.k, speaks, "curl");
        command.args(["--silent", "--show-error", "--fail", "--globoff"]).args(arguments);
        Process::start(&mut command, self.folder.path(), "curl")
    }

    /// An HTTP server of the kernel at K, serving the test's folder.
    pub(crate) fn kernel_server(&self, speaks: Speaks, extra: &[&str]) -> Process {
        let port = PORT.to_string();
        let mut arguments = vec!["serve", "--port", &port];
        if speaks == Speaks::Tcp {
            arguments.push("--tcp");
        }
        arguments.extend(extra);
        let mut command = peer(&self.k, &arguments);
        command.arg(self.folder.path());
        let mut server = Process::start(&mut command, self.folder.path(), "kernel-server");
        server.wait_for("serving");
        server
    }

    /// Our Python peer at K.
    pub(crate) fn peer(&self, arguments: &[&str]) -> Process {
        Process::start(&mut peer(&self.k, arguments), self.folder.path(), "peer")
    }

    /// Lets the kernel at K use link 2 for a subflow of each connection: with kind `subflow` it
    /// joins those that it makes, with `signal` it announces its second address on those that it
    /// accepts; `subflow backup` joins as a backup.
    pub(crate) fn joining(&self, kind: &str) -> &Self {
        let address = self.kernel_address(2);
        self.k.ip(&format!("mptcp endpoint add {address} dev k2 id 2 {kind}"));
        self
    }
}
