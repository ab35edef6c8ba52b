//! The commands of the control socket and how they are written.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use tabane_engine::mptcp::Policy;
use tabane_engine::policy::PolicyError;
use tabane_engine::view::SubflowId;
use thiserror::Error;

/// The grammar, one command a line.
pub const GRAMMAR: &str = "\
conn list                               every open connection with its subflows
conn closed                             the last closed connections, as they were
conn show CONN                          one connection
conn close CONN                         no more data from us (DATA_FIN)
conn abort CONN                         at once (MP_FASTCLOSE, or RST)
conn pause CONN                         stop reading: the receive window closes
conn resume CONN                        go on reading
subflow add CONN LOCAL [REMOTE] [backup]   open one (MP_JOIN); IP or IP:PORT
subflow close CONN SUBFLOW              FIN
subflow reset CONN SUBFLOW              RST with MP_TCPRST
subflow backup CONN SUBFLOW on|off      MP_PRIO
address announce CONN IP[:PORT]         ADD_ADDR
address withdraw CONN ID [ID...]        REMOVE_ADDR
policy scheduler CONN SPEC              which subflow
policy congestion CONN SPEC [SUBFLOW]   how much, on one subflow or on all
policy egress CONN SPEC                 which way out
path list                               every path with its counters
path up PATH                            link state
path down PATH
path mtu PATH BYTES
events [SINCE]                          what happened after that sequence number
stop                                    end the program
help";

/// A command.
#[derive(Clone, PartialEq, Debug)]
// `GRAMMAR` says what each does.
pub enum Command {
    ConnList,
    ConnClosed,
    ConnShow(ConnRef),
    ConnClose(ConnRef),
    ConnAbort(ConnRef),
    Reading { conn: ConnRef, on: bool },
    SubflowAdd { conn: ConnRef, local: Address, remote: Option<Address>, backup: bool },
    SubflowClose { conn: ConnRef, subflow: u8 },
    SubflowReset { conn: ConnRef, subflow: u8 },
    SubflowBackup { conn: ConnRef, subflow: u8, on: bool },
    Announce { conn: ConnRef, address: Address },
    Withdraw { conn: ConnRef, ids: Vec<u8> },
    Policy { conn: ConnRef, policy: Policy },
    PathList,
    PathUp { path: String, up: bool },
    PathMtu { path: String, mtu: u16 },
    Events { since: u64 },
    Stop,
    Help,
}

/// Which connection: its number, or `last`, the one opened last of those open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnRef {
    Id(u64),
    Last,
}

/// An address, perhaps with a port.
pub type Address = (IpAddr, Option<u16>);

/// Why a line is no command.
#[derive(Error, Clone, PartialEq, Debug)]
pub enum CommandError {
    /// Not in the grammar.
    #[error("unknown command '{0}'; try 'help'")]
    Unknown(String),
    /// A word is missing.
    #[error("{0} is missing; try 'help'")]
    Missing(&'static str),
    /// A word is too much.
    #[error("'{0}' is too much; try 'help'")]
    TooMuch(String),
    /// A word is not what it should be.
    #[error("'{text}' is not {wanted}")]
    Wrong {
        /// What was written.
        text: String,
        /// What it should have been.
        wanted: &'static str,
    },
    /// A policy.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

impl Command {
    /// The connection it is about.
    #[must_use]
    pub fn conn(&self) -> Option<ConnRef> {
        match *self {
            Self::ConnShow(conn) | Self::ConnClose(conn) | Self::ConnAbort(conn) => Some(conn),
            Self::Reading { conn, .. }
            | Self::SubflowAdd { conn, .. }
            | Self::SubflowClose { conn, .. }
            | Self::SubflowReset { conn, .. }
            | Self::SubflowBackup { conn, .. }
            | Self::Announce { conn, .. }
            | Self::Withdraw { conn, .. }
            | Self::Policy { conn, .. } => Some(conn),
            _ => None,
        }
    }
}

impl FromStr for Command {
    type Err = CommandError;

    fn from_str(line: &str) -> Result<Self, CommandError> {
        let mut words = Words(line.split_whitespace());
        let verb = words.0.next().unwrap_or_default();
        let command = match verb {
            "conn" => words.conn_command()?,
            "subflow" => words.subflow_command()?,
            "address" => words.address_command()?,
            "policy" => words.policy_command()?,
            "path" => words.path_command()?,
            "events" => {
                let since = words.0.next().map_or(Ok(0), |text| parse(text, "a number"))?;
                Self::Events { since }
            }
            "stop" => Self::Stop,
            "help" => Self::Help,
            _ => return Err(CommandError::Unknown(line.trim().to_owned())),
        };
        match words.0.next() {
            None => Ok(command),
            Some(word) => Err(CommandError::TooMuch(word.to_owned())),
        }
    }
}

/// The words of a line.
struct Words<'l>(std::str::SplitWhitespace<'l>);

impl<'l> Words<'l> {
    fn next(&mut self, what: &'static str) -> Result<&'l str, CommandError> {
        self.0.next().ok_or(CommandError::Missing(what))
    }

    fn conn(&mut self) -> Result<ConnRef, CommandError> {
        match self.next("the connection")? {
            "last" => Ok(ConnRef::Last),
            text => parse(text, "a connection number or 'last'").map(ConnRef::Id),
        }
    }

    fn subflow(&mut self) -> Result<u8, CommandError> {
        parse(self.next("the subflow")?, "a subflow number")
    }

    fn conn_command(&mut self) -> Result<Command, CommandError> {
        Ok(match self.next("list, closed, show, close, abort, pause or resume")? {
            "list" => Command::ConnList,
            "closed" => Command::ConnClosed,
            "show" => Command::ConnShow(self.conn()?),
            "close" => Command::ConnClose(self.conn()?),
            "abort" => Command::ConnAbort(self.conn()?),
            "pause" => Command::Reading { conn: self.conn()?, on: false },
            "resume" => Command::Reading { conn: self.conn()?, on: true },
            other => return Err(CommandError::Unknown(format!("conn {other}"))),
        })
    }

    fn subflow_command(&mut self) -> Result<Command, CommandError> {
        let verb = self.next("add, close, reset or backup")?;
        let conn = self.conn()?;
        Ok(match verb {
            "add" => {
                let local = address(self.next("the local address")?)?;
                let (mut remote, mut backup) = (None, false);
                for word in self.0.by_ref() {
                    match word {
                        "backup" => backup = true,
                        word if remote.is_none() => remote = Some(address(word)?),
                        word => return Err(CommandError::TooMuch(word.to_owned())),
                    }
                }
                Command::SubflowAdd { conn, local, remote, backup }
            }
            "close" => Command::SubflowClose { conn, subflow: self.subflow()? },
            "reset" => Command::SubflowReset { conn, subflow: self.subflow()? },
            "backup" => {
                let subflow = self.subflow()?;
                let on = match self.next("on or off")? {
                    "on" => true,
                    "off" => false,
                    text => return Err(wrong(text, "on or off")),
                };
                Command::SubflowBackup { conn, subflow, on }
            }
            other => return Err(CommandError::Unknown(format!("subflow {other}"))),
        })
    }

    fn address_command(&mut self) -> Result<Command, CommandError> {
        let verb = self.next("announce or withdraw")?;
        let conn = self.conn()?;
        match verb {
            "announce" => {
                Ok(Command::Announce { conn, address: address(self.next("the address")?)? })
            }
            "withdraw" => {
                let mut ids = vec![parse(self.next("the address id")?, "an address id")?];
                for word in self.0.by_ref() {
                    ids.push(parse(word, "an address id")?);
                }
                Ok(Command::Withdraw { conn, ids })
            }
            other => Err(CommandError::Unknown(format!("address {other}"))),
        }
    }

    fn policy_command(&mut self) -> Result<Command, CommandError> {
        let kind = self.next("scheduler, congestion or egress")?;
        let conn = self.conn()?;
        let spec = self.next("the policy")?.parse()?;
        let policy = match kind {
            "scheduler" => Policy::Scheduler(spec),
            "egress" => Policy::Egress(spec),
            "congestion" => {
                let subflow = self.0.next().map(|text| parse(text, "a subflow number"));
                Policy::Congestion(subflow.transpose()?.map(SubflowId), spec)
            }
            other => return Err(CommandError::Unknown(format!("policy {other}"))),
        };
        policy.check()?;
        Ok(Command::Policy { conn, policy })
    }

    fn path_command(&mut self) -> Result<Command, CommandError> {
        let verb = self.next("list, up, down or mtu")?;
        if verb == "list" {
            return Ok(Command::PathList);
        }
        let path = self.next("the path")?.to_owned();
        match verb {
            "up" => Ok(Command::PathUp { path, up: true }),
            "down" => Ok(Command::PathUp { path, up: false }),
            "mtu" => {
                let mtu = parse(self.next("the MTU")?, "a number of bytes")?;
                Ok(Command::PathMtu { path, mtu })
            }
            other => Err(CommandError::Unknown(format!("path {other}"))),
        }
    }
}

fn wrong(text: &str, wanted: &'static str) -> CommandError {
    CommandError::Wrong { text: text.to_owned(), wanted }
}

fn parse<T: FromStr>(text: &str, wanted: &'static str) -> Result<T, CommandError> {
    text.parse().map_err(|_| wrong(text, wanted))
}

/// `IP`, `IPv4:PORT` or `[IPv6]:PORT`.
fn address(text: &str) -> Result<Address, CommandError> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok((ip, None));
    }
    let both: SocketAddr = parse(text, "an address as 10.0.0.1, 10.0.0.1:80 or [fd00::1]:80")?;
    Ok((both.ip(), Some(both.port())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ok(line: &str) -> Command {
        line.parse().unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    #[test]
    fn commands_are_understood() {
        let ip: IpAddr = "10.0.0.1".parse().unwrap();
        assert_eq!(ok("conn list"), Command::ConnList);
        assert_eq!(ok("  conn  abort 7 "), Command::ConnAbort(ConnRef::Id(7)));
        assert_eq!(ok("conn pause last"), Command::Reading { conn: ConnRef::Last, on: false });
        let conn = ConnRef::Id(1);
        assert_eq!(
            ok("subflow add 1 10.0.0.1"),
            Command::SubflowAdd { conn, local: (ip, None), remote: None, backup: false }
        );
        assert_eq!(
            ok("subflow add 1 10.0.0.1:5 [fd00::1]:80 backup"),
            Command::SubflowAdd {
                conn,
                local: (ip, Some(5)),
                remote: Some(("fd00::1".parse().unwrap(), Some(80))),
                backup: true
            }
        );
        assert_eq!(
            ok("subflow backup 1 0 on"),
            Command::SubflowBackup { conn, subflow: 0, on: true }
        );
        assert_eq!(ok("address withdraw 1 2 3"), Command::Withdraw { conn, ids: vec![2, 3] });
        let congestion = |subflow| Command::Policy {
            conn,
            policy: Policy::Congestion(subflow, "cubic".parse().unwrap()),
        };
        assert_eq!(ok("policy congestion 1 cubic"), congestion(None));
        assert_eq!(ok("policy congestion 1 cubic 2"), congestion(Some(SubflowId(2))));
        assert_eq!(ok("path mtu tab0 1300"), Command::PathMtu { path: "tab0".into(), mtu: 1300 });
        assert_eq!(ok("events"), Command::Events { since: 0 });
    }

    #[test]
    fn every_line_of_the_grammar_is_a_command() {
        for line in GRAMMAR.lines() {
            // Two spaces end the command; words in capitals stand for values.
            let usage = line.split("  ").next().unwrap();
            let example = usage
                .split_whitespace()
                .filter(|word| !word.starts_with('[') || *word == "[REMOTE]")
                .map(|word| match word {
                    "CONN" | "last" => "last",
                    "LOCAL" | "[REMOTE]" | "IP[:PORT]" => "10.0.0.1",
                    "SUBFLOW" | "ID" | "BYTES" | "PATH" => "1",
                    "SPEC" if line.contains("scheduler") => "minrtt",
                    "SPEC" if line.contains("egress") => "own",
                    "SPEC" => "cubic",
                    "on|off" => "on",
                    word => word,
                })
                .collect::<Vec<_>>()
                .join(" ");
            ok(&example);
        }
    }

    #[test]
    fn nonsense_is_named() {
        for (line, named) in [
            ("", "unknown"),
            ("con list", "unknown command 'con list'"),
            ("conn fly 1", "unknown command 'conn fly'"),
            ("conn show", "the connection is missing"),
            ("conn show x", "'x' is not a connection"),
            ("conn list now", "'now' is too much"),
            ("subflow backup 1 0 maybe", "on or off"),
            ("subflow add 1 nowhere", "'nowhere' is not an address"),
            ("policy scheduler 1 :x", "not of the form"),
        ] {
            let error = line.parse::<Command>().unwrap_err().to_string();
            assert!(error.contains(named), "{line}: {error}");
        }
    }
}
