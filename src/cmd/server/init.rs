//! `tabane server init`: a configuration with a fresh key.

use crate::exit::Failure;
use crate::say;
use std::fmt::Display;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use tabane_gateway::address::special_kind;
use tabane_gateway::config::load::parse;
use tabane_gateway::config::server::ServerConfig;
use tabane_gateway::keys::{Key, encode, write_private};

/// Create a configuration with a new key.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  tabane server init --public vpn.example.org:51820
  tabane server init --config server.toml --listen '[::]:443' --public 192.0.2.1:443")]
pub(crate) struct Args {
    #[command(flatten)]
    file: super::File,
    /// Address at which clients reach it; can be repeated [default: the address of the default
    /// route, if it is public].
    #[arg(long, value_name = "HOST:PORT")]
    public: Vec<String>,
    /// UDP address to listen on; can be repeated.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "[::]:51820")]
    listen: Vec<SocketAddr>,
}

/// Writes the file.
///
/// # Errors
/// When it is there already, or cannot be written.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let key = Key::random_private().map_err(anyhow::Error::new)?;
    let port = args.listen.first().map_or(51_820, SocketAddr::port);
    let mut public = args.public.clone();
    if public.is_empty() {
        let Some(address) = own_address() else {
            let text = "no route leads out of here: say --public HOST:PORT";
            return Err(Failure::usage(text));
        };
        if let Some(kind) = special_kind(address) {
            return Err(Failure::usage(hidden(SocketAddr::new(address, port), kind)));
        }
        public.push(SocketAddr::new(address, port).to_string());
        say::note(&format!("clients will be told {}; --public says otherwise", public[0]));
    }
    let name = args.file.config.display().to_string();
    let text = file(&key, &public, &args.listen);
    parse::<ServerConfig>(&name, &text, &[]).map_err(super::super::config::refused)?;
    if let Err(error) = write_private(&args.file.config, &text, false) {
        let remedy = match error.kind() {
            ErrorKind::AlreadyExists => ": it holds the key that clients know; remove it yourself",
            ErrorKind::NotFound => "; its folder is not there",
            ErrorKind::PermissionDenied => "; --config FILE takes another",
            _ => "",
        };
        let message = format!("{name} cannot be written{remedy}");
        return Err(anyhow::Error::new(error).context(message).into());
    }
    say::note(&format!("{name} is written; next: tabane server invite NAME"));
    say::print(&encode(&key.public()))
}

/// Why an address of this machine's must not stand in invitations without being asked for.
fn hidden(address: SocketAddr, kind: impl Display) -> String {
    format!(
        "this machine's own address, {ip}, is {kind}: clients elsewhere do not reach it, and every \
         invitation would name it. Say how they do with --public HOST:PORT: the name or public \
         address that the provider or router shows for it (whose UDP port {port} must lead here), \
         or --public {address} if all clients are in the same network",
        ip = address.ip(),
        port = address.port(),
    )
}

fn file(key: &Key, public: &[String], listen: &[SocketAddr]) -> String {
    let list = |items: Vec<String>| toml::Value::from(items).to_string();
    format!(
        "# A server of tabane; `tabane config check FILE` after every change.\n\
         # UDP; one port is enough for all clients.\n\
         listen = {}\n\
         # Where invitations say that it is.\n\
         public = {}\n\
         # Who has this is this server.\n\
         private_key = \"{key}\"\n\n\
         # What clients may reach; private networks are not, unless it is said.\n\
         [access]\n\
         deny_ports = [\"25\"]\n",
        list(listen.iter().map(ToString::to_string).collect()),
        list(public.to_vec()),
    )
}

/// The address that packets to the outside world leave from. Nothing is sent.
fn own_address() -> Option<IpAddr> {
    let ask = |from: &str, to: &str| {
        let socket = UdpSocket::bind(from).ok()?;
        socket.connect(to).ok()?;
        let address = socket.local_addr().ok()?.ip();
        (!address.is_unspecified() && !address.is_loopback()).then_some(address)
    };
    // Addresses of documentation (RFC 5737, RFC 3849): no traffic ever goes there.
    ask("0.0.0.0:0", "192.0.2.1:9").or_else(|| ask("[::]:0", "[2001:db8::1]:9"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_address_is_refused_with_what_to_say() {
        let text = hidden("10.0.0.5:51820".parse().unwrap(), "private");
        for part in ["10.0.0.5, is private", "--public HOST:PORT", "--public 10.0.0.5:51820"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
