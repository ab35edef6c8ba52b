//! `tabane serve`: an HTTP/1.1 file server on the engine behind TUN devices.

use super::attach;
use crate::exit::Failure;
use crate::say;
use anyhow::Context;
use std::net::SocketAddr;
use std::path::PathBuf;
use tabane_net::http::{Access, FileServer, ServerConfig};
use tabane_trace::plural::count;

/// Serve a directory over HTTP, from the engine behind TUN devices (root or CAP_NET_ADMIN).
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The host's kernel is the first router of every path: packets for an engine address go into its TUN
device. A client in another network needs a route to these addresses, and this host
net.ipv4.ip_forward=1.

Uploads (PUT, POST) are answered with their length and SHA-256; without --uploads nothing is kept.

Examples:
  sudo tabane serve --tun tab0=10.99.1.2/24 files
  sudo tabane serve --tun tab0=10.99.1.2/24 --tun tab1=10.99.2.2/24,backup --announce all files
  mptcpize run curl -T big http://10.99.1.2:8080/big")]
pub(crate) struct Args {
    #[command(flatten)]
    attach: attach::DeviceArgs,
    /// TCP port.
    #[arg(long, default_value_t = 8080, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Accept uploads, and store them in this directory.
    #[arg(long, value_name = "DIR")]
    uploads: Option<PathBuf>,
    /// Directory to serve.
    dir: PathBuf,
}

/// Serves until it is stopped.
///
/// # Errors
/// When devices, directories or files cannot be had.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut attached = args.attach.attach()?;
    let wall_origin = attached.driver.clock().wall_origin();
    let mut config = ServerConfig::new(&args.dir, wall_origin)
        .with_context(|| format!("cannot serve {}", args.dir.display()))?;
    if let Some(uploads) = &args.uploads {
        std::fs::read_dir(uploads)
            .with_context(|| format!("cannot keep uploads in {}", uploads.display()))?;
        config.uploads = Some(uploads.clone());
    }
    config.announce = args.attach.announced();
    config.log = Some(Box::new(log));
    let mut urls = Vec::new();
    for (label, addresses) in attached.addresses() {
        for address in addresses {
            urls.push((label.to_owned(), SocketAddr::new(*address, args.port)));
        }
    }
    for (label, address) in &urls {
        attached.driver.endpoint().listen(*address).map_err(anyhow::Error::new)?;
        say::note(&format!("serving {} at http://{address}/ ({label})", args.dir.display()));
    }
    let (mut driver, mut app, _control) = attached.with(FileServer::new(config));
    driver.run(&mut app).map_err(anyhow::Error::new)?;
    say::note(&format!("stopped after {}", count(app.app.served(), "request")));
    Ok(())
}

fn log(access: &Access) {
    let Access { remote, request, status, bytes } = access;
    say::note(&format!("{remote} \"{request}\" {status} {bytes}"));
}
