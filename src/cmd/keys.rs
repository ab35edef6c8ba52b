//! `tabane genkey`, `pubkey`, `genpsk`: keys as `wg` makes them.

use crate::exit::Failure;
use crate::say;
use anyhow::Context;
use std::io::Read;
use std::path::PathBuf;
use tabane_gateway::keys::{self, Key};

/// Make a private key.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  tabane genkey --out key; tabane pubkey < key
  tabane genkey | tee key | tabane pubkey        (after `umask 077`)")]
pub(crate) struct MakeArgs {
    /// Write it to a new file that only its owner can read, instead of printing it.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Prints a private key.
///
/// # Errors
/// When there are no random bytes, or the file cannot be written.
pub(crate) fn genkey(args: &MakeArgs) -> Result<(), Failure> {
    give(&Key::random_private().map_err(anyhow::Error::new)?, args)
}

/// Prints a preshared key.
///
/// # Errors
/// As [`genkey`].
pub(crate) fn genpsk(args: &MakeArgs) -> Result<(), Failure> {
    give(&Key::random().map_err(anyhow::Error::new)?, args)
}

/// Prints the public key of the private key on standard input.
///
/// # Errors
/// When there is none.
pub(crate) fn pubkey() -> Result<(), Failure> {
    let mut text = String::new();
    std::io::stdin().take(4096).read_to_string(&mut text).context("standard input")?;
    let key: Key = text.trim().parse().map_err(|error| Failure::usage(format!("{error}")))?;
    say::print(&keys::encode(&key.public()))
}

fn give(key: &Key, args: &MakeArgs) -> Result<(), Failure> {
    let Some(out) = &args.out else { return say::print(&key.to_string()) };
    let done = keys::write_private(out, &format!("{key}\n"), false);
    Ok(done.with_context(|| format!("{} cannot be written", out.display()))?)
}
