//! `tabane-interop serve`.

use crate::attach;
use anyhow::Context;
use std::net::SocketAddr;
use std::path::PathBuf;
use tabane_interop::http::{Access, FileServer, ServerConfig};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    attach: attach::DeviceArgs,
    /// Accept uploads, and store them in this directory.
    #[arg(long, value_name = "DIR")]
    uploads: Option<PathBuf>,
    /// Directory to serve.
    dir: PathBuf,
}

const PORT: u16 = 8080;

/// Serves until it is stopped.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut attached = args.attach.attach()?;
    let wall_origin = attached.driver.clock().wall_origin();
    let mut config = ServerConfig::new(&args.dir, wall_origin)
        .with_context(|| format!("cannot serve {}", args.dir.display()))?;
    config.uploads = args.uploads.clone();
    config.log = Some(Box::new(|access: &Access| {
        let Access { remote, request, status, bytes } = access;
        eprintln!("{remote} \"{request}\" {status} {bytes}");
    }));
    let own = attached.config.paths.iter().flat_map(|path| path.addresses.clone());
    for address in own.collect::<Vec<_>>() {
        let address = SocketAddr::new(address, PORT);
        attached.driver.endpoint().listen(address)?;
        eprintln!("serving {} at http://{address}/", args.dir.display());
    }
    let (mut driver, mut app, _control) = attached.with(FileServer::new(config));
    driver.run(&mut app)?;
    Ok(())
}
