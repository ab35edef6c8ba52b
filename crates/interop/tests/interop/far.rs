//! What stands in tabane's place: tabane, or a second kernel to check the scenario with.

use super::kernel::{self, PORT, Speaks};
use super::namespace::Process;
use super::world::{Far, World};
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

/// Which of its paths a `get` at T uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Paths {
    Both,
    First,
    SecondIsBackup,
}

/// Address id of tabane's second address.
const SECOND: u8 = 2;

impl World {
    /// Serves `folder/served` at T.
    pub(crate) fn serve(&self, writable: bool) -> Process {
        let served = self.folder.file("served");
        fs::create_dir_all(&served).expect("the temporary folder can be written");
        let mut command = match self.far {
            Far::Tabane => self.tabane("serve", Paths::Both),
            Far::Kernel => kernel::peer(&self.t, &["serve", "--port", &PORT.to_string()]),
        };
        if writable && self.far == Far::Tabane {
            command.arg("--uploads").arg(&served);
        }
        let mut server = Process::start(command.arg(&served), self.folder.path(), "server");
        server.wait_for("serving");
        server
    }

    /// `get URL` at T into `folder/got`.
    pub(crate) fn get(&self, paths: Paths, url: &str) -> Process {
        let mut command = self.getter(paths);
        command.arg("--output").arg(self.folder.file("got")).arg(url);
        Process::start(&mut command, self.folder.path(), "get")
    }

    /// The same through a pipe whose reader takes 1 MB, then nothing for `pause`, then the rest.
    pub(crate) fn get_slowly(&self, url: &str, pause: Duration) -> Process {
        let mut getter = self.getter(Paths::Both);
        if self.far == Far::Tabane {
            getter.args(["--output", "-"]);
        }
        getter.arg(url);
        let words = [getter.get_program()].into_iter().chain(getter.get_args());
        let quoted: Vec<String> = words.map(quote).collect();
        let got = quote(self.folder.file("got").as_os_str());
        let seconds = pause.as_secs();
        let reader = format!("{{ head -c 1000000; sleep {seconds}; cat; }}");
        let script = format!("set -o pipefail; {} | {reader} >{got}", quoted.join(" "));
        let mut shell = Command::new("bash");
        shell.args(["-c", &script]);
        Process::start(&mut shell, self.folder.path(), "get")
    }

    fn getter(&self, paths: Paths) -> Command {
        if self.far == Far::Tabane {
            return self.tabane("get", paths);
        }
        match paths {
            Paths::Both => self.far_endpoint("subflow"),
            Paths::SecondIsBackup => self.far_endpoint("subflow backup"),
            Paths::First => self.t.ip("mptcp limits set subflows 4 add_addr_accepted 4"),
        };
        let mut command = kernel::program(&self.t, Speaks::Mptcp, "curl");
        command.args(["--silent", "--show-error", "--fail", "--globoff"]);
        command
    }

    /// The open connection at T tells the kernel of T's second address (ADD_ADDR); its id.
    pub(crate) fn announce_second_address(&self) -> u64 {
        let address = self.tabane_address(2);
        match self.far {
            Far::Tabane => {
                let answer = self.steer(&format!("address announce last {address}"));
                answer["address_id"].as_u64().expect("an announced address has an id")
            }
            Far::Kernel => {
                self.far_endpoint("signal");
                SECOND.into()
            }
        }
    }

    /// It takes that back (REMOVE_ADDR).
    pub(crate) fn withdraw_address(&self, id: u64) {
        match self.far {
            Far::Tabane => drop(self.steer(&format!("address withdraw last {id}"))),
            Far::Kernel => drop(self.t.ip(&format!("mptcp endpoint del id {id}"))),
        }
    }

    /// It asks the kernel to use the subflow at T's second address as a backup, or not (MP_PRIO).
    pub(crate) fn set_backup(&self, on: bool) {
        match self.far {
            Far::Tabane => {
                let (id, on) = (self.second_subflow(), if on { "on" } else { "off" });
                self.steer(&format!("subflow backup last {id} {on}"));
            }
            Far::Kernel => {
                let on = if on { "backup" } else { "nobackup" };
                self.t.ip(&format!("mptcp endpoint change id {SECOND} {on}"));
            }
        }
    }

    /// The subflow of the newest connection that has T's second address.
    fn second_subflow(&self) -> u64 {
        let shown = self.steer("conn show last");
        let local = |subflow: &serde_json::Value| -> Option<SocketAddr> {
            subflow["local"].as_str()?.parse().ok()
        };
        let address = self.tabane_address(2);
        let subflows = shown["subflows"].as_array().expect("a connection has subflows");
        let second = subflows.iter().find(|s| local(s).is_some_and(|l| l.ip() == address));
        second.and_then(|s| s["id"].as_u64()).unwrap_or_else(|| panic!("no subflow: {shown}"))
    }

    /// One command to the running `serve` or `get`, and its answer.
    pub(crate) fn steer(&self, command: &str) -> serde_json::Value {
        let socket = self.folder.file("control.sock");
        let mut stream = UnixStream::connect(&socket).expect("the control socket is there");
        writeln!(stream, "{command}").expect("the control socket takes a line");
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).expect("the control socket answers");
        let answer: serde_json::Value = serde_json::from_str(&answer).expect("an answer is JSON");
        assert_eq!(answer["ok"], true, "{command}: {answer}");
        answer
    }

    fn far_endpoint(&self, kind: &str) -> String {
        let address = self.tabane_address(2);
        self.t.ip("mptcp limits set subflows 4 add_addr_accepted 4");
        self.t.ip(&format!("mptcp endpoint add {address} id {SECOND} {kind}"))
    }

    fn tabane(&self, verb: &str, paths: Paths) -> Command {
        let mut command = self.t.command(env!("CARGO_BIN_EXE_tabane-interop"));
        command.arg(verb).arg("--control").arg(self.folder.file("control.sock"));
        let [first, second] = self.tuns();
        command.args(["--tun", &first]);
        match paths {
            Paths::Both => drop(command.args(["--tun", &second])),
            Paths::SecondIsBackup => drop(command.args(["--tun", &format!("{second},backup")])),
            Paths::First => {}
        }
        command
    }
}

fn quote(word: &OsStr) -> String {
    format!("'{}'", word.to_string_lossy().replace('\'', r"'\''"))
}
