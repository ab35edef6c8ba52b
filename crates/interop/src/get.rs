//! `tabane-interop get`.

use crate::attach;
use anyhow::{Context, bail};
use sha2::Sha256;
use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use tabane_engine::Duration;
use tabane_interop::http::{Fetch, FetchRequest};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    attach: attach::DeviceArgs,
    /// File for the body; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    /// http://ADDRESS:PORT/PATH; an IPv6 address in brackets.
    url: String,
}

/// Without progress for so long, it gives up.
const IDLE: Duration = Duration::from_secs(60);

/// Downloads.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let rest = args.url.strip_prefix("http://").context("a URL begins with http://")?;
    let (host, path) = rest.split_once('/').context("a URL has a path")?;
    let remote: SocketAddr = host.parse().with_context(|| format!("'{host}' is no address"))?;
    let mut attached = args.attach.attach()?;
    let own = attached.config.paths.iter().flat_map(|path| &path.addresses);
    let Some(local) = own.copied().find(|own| own.is_ipv4() == remote.is_ipv4()) else {
        bail!("no path has an address of the family of {remote}");
    };
    let sink: Box<dyn Write + Send> = match args.output.as_os_str().to_str() {
        Some("-") => Box::new(io::stdout()),
        _ => Box::new(
            File::create(&args.output)
                .with_context(|| format!("cannot write {}", args.output.display()))?,
        ),
    };
    let request = FetchRequest {
        host: host.to_owned(),
        target: format!("/{path}"),
        resume: 0,
        hashed: Sha256::default(),
        upload: None,
        sink,
        idle_timeout: IDLE,
    };
    let now = attached.driver.clock().now();
    let conn = attached.driver.endpoint().connect(now, SocketAddr::new(local, 0), remote)?;
    let (mut driver, mut app, _control) = attached.with(Fetch::new(now, conn, request));
    app.add(conn);
    driver.run(&mut app)?;
    if driver.waker().is_stopped() {
        bail!("interrupted");
    }
    let report = app.app.into_outcome()?;
    eprintln!("{} bytes, sha256 {}", report.received, report.sha256);
    Ok(())
}
