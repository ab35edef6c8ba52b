//! `tabane service`: systemd units, put there and taken away again.
//!
//! `uninstall` removes what `install` may have made, and nothing else: configurations are the
//! user's. With `--root DIR` files go below that folder and systemd is left alone.

mod units;

use crate::exit::Failure;
use crate::say;
use anyhow::Context;
use clap::Subcommand;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use units::{Choices, Unit};

/// Run as a systemd service.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Install the units `tabane-server`, and `tabane-client@NAME` for /etc/tabane/NAME.toml.
    #[command(after_help = "Examples:
  sudo tabane service install --start server
  sudo tabane service install --start client@home
  sudo tabane service install --tun home --start client@home    the client takes the whole host
  sudo tabane service install --dns home --start client@home    and is its resolver
  tabane service install --root build/root --binary /usr/bin/tabane     for a package")]
    Install {
        #[command(flatten)]
        choices: ChoiceArgs,
        /// Use this folder as the root; systemd is not notified.
        #[arg(long, value_name = "DIR")]
        root: Option<PathBuf>,
        /// Enable and start a service: `server` or `client@NAME`; can be repeated.
        #[arg(long, value_name = "UNIT", conflicts_with = "root")]
        start: Vec<String>,
    },
    /// Stop the services and remove the units; configurations stay.
    Uninstall {
        /// Use this folder as the root; systemd is not notified.
        #[arg(long, value_name = "DIR")]
        root: Option<PathBuf>,
    },
    /// Print the units.
    Print {
        #[command(flatten)]
        choices: ChoiceArgs,
    },
}

#[derive(clap::Args, Debug)]
struct ChoiceArgs {
    /// The program that the units start [default: this one].
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Let this client have a TUN device (CAP_NET_ADMIN); can be repeated.
    #[arg(long, value_name = "NAME")]
    tun: Vec<String>,
    /// Let this client also be the host's resolver ([tun] dns = true), with a TUN device: it may
    /// write /etc/resolv.conf; can be repeated.
    #[arg(long, value_name = "NAME")]
    dns: Vec<String>,
    /// Let this client be the router of hosts behind it ([lan]), with a TUN device: it may turn
    /// forwarding on; can be repeated.
    #[arg(long, value_name = "NAME")]
    lan: Vec<String>,
    /// Let clients ping through the server: sets net.ipv4.ping_group_range so that all groups of
    /// this host may send pings.
    #[arg(long)]
    pings: bool,
    /// Let the server listen on ports below 1024 (CAP_NET_BIND_SERVICE).
    #[arg(long)]
    low_ports: bool,
}

/// Does what was asked.
///
/// # Errors
/// When files cannot be written or removed, or systemd refuses.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.action {
        Action::Install { choices, root, start } => {
            let names = start.iter().map(|name| unit_name(name)).collect::<Result<Vec<_>, _>>()?;
            let choices_made = choices.resolve()?;
            if root.is_none() {
                can_be_seen(&choices_made.binary)?;
            }
            install(&units::all(&choices_made), root.as_deref())?;
            if root.is_none() {
                systemctl(&["daemon-reload"])?;
                if choices.pings {
                    run_tool("sysctl", &["-q", "-p", units::SYSCTL])?;
                }
            }
            for name in &names {
                systemctl(&["enable", "--now", name])?;
                say::note(&format!("{name} runs; journalctl -u {name} -f shows what it does"));
            }
            Ok(())
        }
        Action::Uninstall { root } => uninstall(root.as_deref()),
        Action::Print { choices } => {
            let units = units::all(&choices.resolve()?);
            let text = units.iter().map(|unit| format!("# {}\n{}", unit.path, unit.text));
            say::print(text.collect::<Vec<_>>().join("\n").trim_end())
        }
    }
}

impl ChoiceArgs {
    fn resolve(&self) -> Result<Choices<'_>, Failure> {
        let binary = match &self.binary {
            Some(binary) => binary.clone(),
            None => std::env::current_exe().context("where this program is")?,
        };
        let text = binary.to_str().filter(|text| binary.is_absolute() && plain(text, "/"));
        let Some(text) = text else {
            let binary = binary.display();
            return Err(Failure::usage(format!("{binary}: systemd wants an absolute plain path")));
        };
        let mut names = self.tun.iter().chain(&self.dns).chain(&self.lan);
        if let Some(name) = names.find(|name| name.is_empty() || !plain(name, "")) {
            return Err(Failure::usage(format!("'{name}' is no name of a client's file")));
        }
        let Self { tun, dns, lan, pings, low_ports, .. } = self;
        let binary = text.to_owned();
        Ok(Choices { binary, tun, dns, lan, pings: *pings, low_ports: *low_ports })
    }
}

/// Whether the units see this program: they are shown neither homes nor folders for temporary files
/// (`ProtectHome`, `PrivateTmp`), and systemd would say no more than 203/EXEC.
fn can_be_seen(binary: &str) -> Result<(), Failure> {
    let hidden = ["/home", "/root", "/run/user", "/tmp", "/var/tmp"];
    let Some(folder) = hidden.into_iter().find(|folder| Path::new(binary).starts_with(folder))
    else {
        return Ok(());
    };
    Err(Failure::usage(format!(
        "{binary}: a service sees nothing of {folder}: sudo install \
         {binary} /usr/local/bin/tabane, then sudo /usr/local/bin/tabane service install"
    )))
}

/// Only what needs no quoting in a unit.
fn plain(text: &str, more: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c) || more.contains(c))
}

/// `server` or `client@NAME`, as systemd calls it.
fn unit_name(name: &str) -> Result<String, Failure> {
    let client = name.strip_prefix("client@").is_some_and(|n| !n.is_empty() && plain(n, ""));
    if name == "server" || client {
        return Ok(format!("tabane-{name}.service"));
    }
    Err(Failure::usage(format!("'{name}' is no unit of tabane: server, or client@NAME")))
}

fn install(units: &[Unit], root: Option<&Path>) -> Result<(), Failure> {
    for unit in units {
        let path = below(root, &unit.path);
        let folder = path.parent().expect("invariant: units are in folders");
        let cannot = || format!("{} cannot be written", path.display());
        fs::create_dir_all(folder).with_context(cannot)?;
        fs::write(&path, &unit.text).with_context(cannot)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).with_context(cannot)?;
        say::note(&format!("{} is written", path.display()));
    }
    Ok(())
}

fn uninstall(root: Option<&Path>) -> Result<(), Failure> {
    if root.is_none() {
        // One that does not run, or was never enabled, is no failure.
        for unit in ["tabane-server.service", "tabane-client@*.service"] {
            let _ = systemctl(&["stop", unit]);
        }
        for unit in enabled(Path::new(units::WANTED)) {
            systemctl(&["disable", &unit])?;
        }
    }
    let folder = below(root, units::FOLDER);
    let mut gone: Vec<PathBuf> = units::NAMES.iter().map(|name| folder.join(name)).collect();
    gone.push(below(root, units::SYSCTL));
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if let Some(name) = name.to_str().filter(|name| units::is_drop_in(name)) {
            gone.extend(units::DROP_INS.map(|file| folder.join(name).join(file)));
            gone.push(folder.join(name));
        }
    }
    for path in &gone {
        let folder = path.is_dir();
        match if folder { fs::remove_dir(path) } else { fs::remove_file(path) } {
            Ok(()) if !folder => say::note(&format!("{} is gone", path.display())),
            // A folder with files of the user's own stays.
            Ok(()) => {}
            Err(error) if folder && error.kind() == ErrorKind::DirectoryNotEmpty => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                let what = format!("{} cannot be removed", path.display());
                return Err(anyhow::Error::new(error).context(what).into());
            }
        }
    }
    if root.is_none() {
        systemctl(&["daemon-reload"])?;
    }
    Ok(())
}

/// Units of ours that start by themselves.
fn enabled(wanted: &Path) -> Vec<String> {
    let entries = fs::read_dir(wanted).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|n| n == "tabane-server.service" || n.starts_with("tabane-client@")).collect()
}

fn below(root: Option<&Path>, path: &str) -> PathBuf {
    match root {
        Some(root) => root.join(path.trim_start_matches('/')),
        None => PathBuf::from(path),
    }
}

fn systemctl(args: &[&str]) -> Result<(), Failure> {
    run_tool("systemctl", args)
}

fn run_tool(tool: &str, args: &[&str]) -> Result<(), Failure> {
    let said = Command::new(tool).args(args).output();
    let said = said.with_context(|| format!("{tool} cannot be run: is this a system with it?"))?;
    if said.status.success() {
        return Ok(());
    }
    let (words, error) = (args.join(" "), String::from_utf8_lossy(&said.stderr));
    Err(anyhow::anyhow!("{tool} {words}: {}", error.trim()).into())
}
