//! `tabane client join`: an invitation becomes a configuration, and its client known to the server.

use super::{links, secrets};
use crate::exit::Failure;
use crate::say;
use std::io::ErrorKind;
use std::path::PathBuf;
use tabane_gateway::address::PATHS_MAX;
use tabane_gateway::config::client::ClientConfig;
use tabane_gateway::config::load::{default_file, parse};
use tabane_gateway::enrol::{self, ExchangeError};
use tabane_gateway::invite::{Grant, Invitation, Own};
use tabane_gateway::keys::write_private;

/// Create a configuration from the line that `tabane server invite` prints.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "The line is read from standard input: paste it when asked, or pipe it. As \
an argument, it would stay in the shell's history, in the process list and in sudo's log.

The client makes its own keys and registers them at the server with the line, which cannot be \
used again. If the server cannot be reached now, the client registers when it starts.

Examples:
  sudo tabane client join --path eth0 --path wlan0       asks for the line
  ssh server sudo tabane server invite home | sudo tabane client join -
  tabane client join --file line --out client.toml"
)]
pub(crate) struct Args {
    /// `-`, or nothing: read it from standard input. The line itself is accepted too, with a
    /// warning.
    line: Option<String>,
    /// Read the line from this file.
    #[arg(long, value_name = "FILE", conflicts_with = "line")]
    file: Option<PathBuf>,
    /// File for the configuration; `-` prints it, and the client registers at the server later.
    #[arg(long, value_name = "FILE", default_value_os_t = default_file("client"))]
    out: PathBuf,
    /// An interface to use; can be repeated [default: all that have a default route].
    #[arg(long = "path", value_name = "IF")]
    paths: Vec<String>,
    /// Replace an existing file.
    #[arg(long)]
    force: bool,
    /// Do not contact the server now: the client registers when it starts.
    #[arg(long)]
    later: bool,
}

/// Writes the configuration, and tells the server.
///
/// # Errors
/// When the line is no invitation, the file cannot be written, or the server refuses.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let line = secrets::line(args.line.as_deref(), args.file.as_deref())?;
    let invitation: Invitation = line.parse().map_err(|e| Failure::usage(format!("{e}")))?;
    if args.line.as_deref().is_some_and(|line| line != "-") {
        warn_of_argument(&invitation);
    }
    let mut interfaces = args.paths.clone();
    if interfaces.is_empty() {
        interfaces = links::with_default_route();
        interfaces.truncate(PATHS_MAX);
    }
    let own = invitation.own().map_err(anyhow::Error::new)?;
    let name = args.out.display().to_string();
    let file = |pending| invitation.client_file(&own, &interfaces, pending);
    parse::<ClientConfig>(&name, &file(true), &[]).map_err(super::super::config::refused)?;
    if args.out.as_os_str() == "-" {
        return say::print(file(true).trim_end());
    }
    let before = secrets::read_if_there(&args.out, args.force)?;
    // The keys are on disk before the server knows them.
    write(args, &file(true))?;
    let joined = match &invitation.grant {
        Grant::Enrolment { .. } if !args.later => tell(&invitation, &own),
        _ => Ok(false),
    };
    let joined = match joined {
        Ok(joined) => joined,
        Err(error) => {
            // As if nothing had been tried.
            match before {
                Some(text) => write_private(&args.out, &text, true)?,
                None => std::fs::remove_file(&args.out)?,
            }
            return Err(error);
        }
    };
    if joined {
        write_private(&args.out, &file(false), true)?;
    }
    let paths = match interfaces.as_slice() {
        [] => "no interface has a default route: one path, by the host's routes".to_owned(),
        some => format!("paths: {}", some.join(", ")),
    };
    say::note(&format!("{name} is written ({paths})"));
    if let (Grant::Enrolment { .. }, false) = (&invitation.grant, joined) {
        say::note(
            "the server does not know this client yet: it is told when the client first starts, \
             which must be before the invitation expires",
        );
    }
    say::note(&format!("next: tabane client -c {name}"));
    Ok(())
}

/// The line was an argument.
fn warn_of_argument(invitation: &Invitation) {
    say::note(match &invitation.grant {
        Grant::Enrolment { .. } => {
            "warning: the line is in the shell's history now, and with sudo in its log; it is good \
             for one use only, which this is. Next time: `tabane client join`, and paste it"
        }
        Grant::Keys(_) => {
            "warning: this line holds the client's keys, for good, and is in the shell's history \
             now, and with sudo in its log: remove it there. Better: `tabane server invite NAME \
             --replace` with a new tabane at the server, and `tabane client join` with that line"
        }
    });
}

/// Tells the server the client's keys; `false` if it does not answer.
fn tell(invitation: &Invitation, own: &Own) -> Result<bool, Failure> {
    say::detail("telling the server this client's keys");
    match enrol::join(invitation, own) {
        None => Ok(false),
        Some(Ok(())) => {
            say::note("the server knows this client now; the invitation cannot be used again");
            Ok(true)
        }
        Some(Err(error @ ExchangeError::Refused(_))) => Err(anyhow::Error::new(error).into()),
        Some(Err(error @ ExchangeError::Silent(_))) => {
            say::note(&format!(
                "{error}: is it running, has it read its file since the invitation (`tabane \
                 reload` there), and is its UDP port open?"
            ));
            Ok(false)
        }
    }
}

fn write(args: &Args, text: &str) -> Result<(), Failure> {
    let Err(error) = write_private(&args.out, text, args.force) else { return Ok(()) };
    let remedy = match error.kind() {
        ErrorKind::AlreadyExists => "; --force replaces it, --out FILE takes another",
        ErrorKind::NotFound => "; its folder is not there",
        ErrorKind::PermissionDenied => "; --out FILE takes another",
        _ => "",
    };
    let name = args.out.display();
    Err(anyhow::anyhow!("{name} cannot be written: {error}{remedy}").into())
}
