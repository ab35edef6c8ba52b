//! `tabane client join LINE`: an invitation becomes a configuration.

use super::links;
use crate::exit::Failure;
use crate::say;
use anyhow::Context;
use std::io::{ErrorKind, Read};
use std::path::PathBuf;
use tabane_gateway::address::PATHS_MAX;
use tabane_gateway::config::{ClientConfig, default_file, parse};
use tabane_gateway::invite::Invitation;
use tabane_gateway::keys::write_private;

/// Make a configuration from the line that `tabane server invite` prints.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  tabane client join tabane:AQAAB... --out client.toml --path eth0 --path wlan0
  tabane client join - --out - < line")]
pub(crate) struct Args {
    /// The line, `tabane:...`; `-` reads it from standard input, so that no shell remembers it.
    line: String,
    /// Where the configuration goes; `-` is standard output.
    #[arg(long, value_name = "FILE", default_value_os_t = default_file("client"))]
    out: PathBuf,
    /// An interface to use, once for each; by default all that have a default route.
    #[arg(long = "path", value_name = "IF")]
    paths: Vec<String>,
    /// Replace a file that is there.
    #[arg(long)]
    force: bool,
}

/// Writes the configuration.
///
/// # Errors
/// When the line is no invitation, or the file cannot be written.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let mut line = args.line.clone();
    if line == "-" {
        line.clear();
        std::io::stdin().take(65_536).read_to_string(&mut line).context("standard input")?;
    }
    let invitation: Invitation = line.parse().map_err(|e| Failure::usage(format!("{e}")))?;
    let mut interfaces = args.paths.clone();
    if interfaces.is_empty() {
        interfaces = links::with_default_route();
        interfaces.truncate(PATHS_MAX);
    }
    let text = invitation.client_file(&interfaces);
    let name = args.out.display().to_string();
    parse::<ClientConfig>(&name, &text, &[]).map_err(super::super::config::refused)?;
    if args.out.as_os_str() == "-" {
        return say::print(text.trim_end());
    }
    if let Err(error) = write_private(&args.out, &text, args.force) {
        let remedy = match error.kind() {
            ErrorKind::AlreadyExists => "; --force replaces it, --out FILE takes another",
            ErrorKind::NotFound => "; its folder is not there",
            ErrorKind::PermissionDenied => "; --out FILE takes another",
            _ => "",
        };
        return Err(anyhow::anyhow!("{name} cannot be written: {error}{remedy}").into());
    }
    let paths = match interfaces.as_slice() {
        [] => "no interface has a default route: one path, by the host's routes".to_owned(),
        some => format!("paths: {}", some.join(", ")),
    };
    say::note(&format!("{name} is written ({paths})\nnext: tabane client -c {name}"));
    Ok(())
}
