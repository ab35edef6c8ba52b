//! `tabane server invite NAME`: one more client, and the line that makes one.

use crate::cmd::lifetime;
use crate::cmd::running::tell_server;
use crate::exit::Failure;
use crate::say;
use anyhow::anyhow;
use qrcode::render::unicode::Dense1x2;
use qrcode::{EcLevel, QrCode};
use tabane_gateway::address::{CLIENTS_MAX, PATHS_MAX};
use tabane_gateway::invite::Invitation;
use tabane_gateway::invite::edit::{self, NewClient};

/// Add a client; print the line that `tabane client join` takes.
#[derive(clap::Args, Debug)]
#[command(after_help = "The line is good for one use until it expires: whoever uses it first \
becomes the client. The client makes its own keys; the line does not contain them. `--wireguard` \
and `--qr` instead print keys that are made here and stay valid until the client is removed: \
whoever has them is the client.

Examples:
  tabane server invite home | ssh me@home 'sudo tabane client join -'
  tabane server invite van --expires 7d
  tabane server invite home --replace            other keys, the same number and limits
  tabane server invite phone --qr                for the WireGuard app of a phone
  tabane server invite router --wireguard=2      for a stock Linux, without tabane")]
pub(crate) struct Args {
    /// A name for the client.
    name: String,
    #[command(flatten)]
    file: super::File,
    /// Address at which this client reaches the server, instead of the file's; can be repeated.
    #[arg(long, value_name = "HOST:PORT")]
    public: Vec<String>,
    /// Its number [default: the first free one].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=i64::from(CLIENTS_MAX)),
          conflicts_with = "replace")]
    number: Option<u16>,
    /// How long the line is valid, by the server's clock: 30min, 24h, 7d; at most 30 days.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = lifetime::some_seconds)]
    expires: u64,
    /// Invite an existing client again: its keys, or its previous invitation, are revoked; its
    /// number and limits stay.
    #[arg(long)]
    replace: bool,
    /// Nothing any more: there always is a preshared key.
    #[arg(long, hide = true)]
    psk: bool,
    /// Show a configuration of one path as a QR code for a phone's WireGuard app. No app reads the
    /// line of an invitation.
    #[arg(long)]
    qr: bool,
    /// Print configurations of stock WireGuard interfaces instead, one for each of PATHS paths.
    #[arg(long, value_name = "PATHS", num_args = 0..=1, require_equals = true,
          default_missing_value = "2",
          value_parser = clap::value_parser!(u8).range(1..=PATHS_MAX as i64))]
    wireguard: Option<u8>,
}

/// Adds the client, prints its line.
///
/// # Errors
/// When the file is wrong, or there is a client of that name.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    if args.qr && args.wireguard.is_some_and(|paths| paths > 1) {
        let text = "an app takes one path: leave out the number after --wireguard";
        return Err(Failure::usage(text));
    }
    let made_here = args.wireguard.is_some() || args.qr;
    let client = NewClient {
        name: &args.name,
        number: args.number,
        public: &args.public,
        replace: args.replace,
        expires: (!made_here).then(|| super::unix_s() + args.expires),
    };
    let invitation = edit::invite(&args.file.config, &client).map_err(super::failure)?;
    let shown = show(args, &invitation);
    let (name, number) = (&invitation.name, invitation.number);
    let file = args.file.config.display();
    tell_server(&args.file.config, &format!("client {number}, '{name}', is in {file}"))?;
    match shown {
        Err(Failure::ReaderGone) => {
            let again = format!("tabane server invite {name} --replace");
            Err(anyhow!("nobody has read what was printed, and it is not kept: {again}").into())
        }
        shown => shown,
    }
}

/// Prints what makes the client: whatever comes of the rest, it must not be lost.
fn show(args: &Args, invitation: &Invitation) -> Result<(), Failure> {
    if args.qr {
        let app = invitation.wireguard(None).unwrap_or_default();
        say::note(
            "for the WireGuard app: one path, without what tabane does; it holds the client's keys",
        );
        say::print(app.trim_end())?;
        return say::print(&snapshot(app.trim_end())?);
    }
    if let Some(paths) = args.wireguard {
        let text = invitation.wireguard(Some(usize::from(paths))).unwrap_or_default();
        return say::print(text.trim_end());
    }
    let time = lifetime::text(args.expires);
    say::note(&format!("the line is good for one client and for {time}, by this machine's clock"));
    say::print(&invitation.to_string())
}

/// A QR code in half blocks, dark on light whatever the terminal's colours are.
fn snapshot(text: &str) -> Result<String, Failure> {
    let code = QrCode::with_error_correction_level(text, EcLevel::L);
    let code = code.map_err(|error| anyhow!("no QR code can be made of it: {error}"))?;
    let mut render = code.render::<Dense1x2>();
    // Terminals are mostly dark: what is drawn are the light parts.
    Ok(render.dark_color(Dense1x2::Light).light_color(Dense1x2::Dark).quiet_zone(true).build())
}
