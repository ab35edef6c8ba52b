//! `tabane server invite NAME`: one more client, and the line that makes one.

use crate::cmd::running::tell_server;
use crate::exit::Failure;
use crate::say;
use qrcode::render::unicode::Dense1x2;
use qrcode::{EcLevel, QrCode};
use tabane_gateway::address::{CLIENTS_MAX, PATHS_MAX};
use tabane_gateway::config::{Loaded, ServerConfig};
use tabane_gateway::invite::{EditError, Invitation, add_client, change};

/// Add a client; prints the line that `tabane client join` takes.
#[derive(clap::Args, Debug)]
#[command(after_help = "The line holds the client's keys: who has it is the client.

Examples:
  tabane server invite home | ssh me@home 'sudo tabane client join -'
  tabane server invite phone --qr
  tabane server invite router --wireguard        for a stock Linux, without tabane")]
pub(crate) struct Args {
    /// A name for the client.
    name: String,
    #[command(flatten)]
    file: super::File,
    /// Where this client finds the server, if not where the file says; once for each.
    #[arg(long, value_name = "HOST:PORT")]
    public: Vec<String>,
    /// Its number; by default the first that is free.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=i64::from(CLIENTS_MAX)))]
    number: Option<u16>,
    /// Give it a preshared key, too.
    #[arg(long)]
    psk: bool,
    /// Show the line as a QR code.
    #[arg(long)]
    qr: bool,
    /// Print configurations of stock WireGuard interfaces instead, for that many paths.
    #[arg(long, value_name = "PATHS", num_args = 0..=1, require_equals = true,
          default_missing_value = "2", conflicts_with = "qr",
          value_parser = clap::value_parser!(u8).range(1..=PATHS_MAX as i64))]
    wireguard: Option<u8>,
}

/// Adds the client, prints its line.
///
/// # Errors
/// When the file is wrong, or there is a client of that name.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let edit = |text: &str, loaded: &Loaded<ServerConfig>| {
        let mut config = loaded.config.clone();
        if !args.public.is_empty() {
            config.public.clone_from(&args.public);
        }
        if config.public.is_empty() {
            let message = "where is the server? add public = [\"host:port\"], or say --public";
            return Err(EditError::Client(message.into()));
        }
        if config.client.iter().any(|client| client.name == args.name) {
            let message = format!("there is a client '{}' already", args.name);
            return Err(EditError::Client(message));
        }
        let number = match args.number {
            Some(number) => number,
            None => free(&config).ok_or_else(|| EditError::Client("no number is free".into()))?,
        };
        let of = (args.name.as_str(), number);
        let (invitation, entry) = Invitation::new(&config, &loaded.key, of, args.psk)
            .map_err(|error| EditError::Other(error.to_string()))?;
        Ok((add_client(text, &entry)?, invitation))
    };
    let invitation = change(&args.file.config, edit).map_err(super::failure)?;
    show(args, &invitation)?;
    let (name, number) = (&invitation.name, invitation.number.0);
    let file = args.file.config.display();
    tell_server(&args.file.config, &format!("client {number}, '{name}', is in {file}"))
}

/// Prints what makes the client: whatever comes of the rest, it must not be lost.
fn show(args: &Args, invitation: &Invitation) -> Result<(), Failure> {
    if let Some(paths) = args.wireguard {
        return say::print(invitation.wireguard(usize::from(paths)).trim_end());
    }
    let line = invitation.to_string();
    say::print(&line)?;
    if args.qr {
        return say::print(&picture(&line)?);
    }
    Ok(())
}

/// The first number that no client has.
fn free(config: &ServerConfig) -> Option<u16> {
    (1..=CLIENTS_MAX).find(|number| config.client.iter().all(|client| client.number != *number))
}

/// A QR code in half blocks, dark on light whatever the terminal's colours are.
fn picture(line: &str) -> Result<String, Failure> {
    let code = QrCode::with_error_correction_level(line, EcLevel::L);
    let code = code.map_err(|error| anyhow::anyhow!("no QR code can be made of it: {error}"))?;
    let mut render = code.render::<Dense1x2>();
    // Terminals are mostly dark: what is drawn are the light parts.
    Ok(render.dark_color(Dense1x2::Light).light_color(Dense1x2::Dark).quiet_zone(true).build())
}
