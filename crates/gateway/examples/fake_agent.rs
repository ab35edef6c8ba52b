//! An invented agent to look at: its page, its metrics and a control socket, with links that sway
//! and fail: `cargo run -p tabane-gateway --example fake_agent -- 127.0.0.1:9080`
#![allow(clippy::unwrap_used)] // A helper of tests is at work.

#[path = "../tests/fake/mod.rs"]
mod fake;

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use tabane_gateway::agent::Endpoints;

const TOKEN: &str = "fake-token-0123456789";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address: SocketAddr =
        std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9080".into()).parse()?;
    let mut world = fake::World::home();
    world.step = Some(fake::live);
    let fake = fake::Fake::with(world);
    let token = tempfile::NamedTempFile::new()?;
    std::fs::write(&token, TOKEN)?;
    std::fs::set_permissions(&token, PermissionsExt::from_mode(0o600))?;
    let endpoints = Endpoints {
        name: "home".into(),
        metrics: Some(SocketAddr::new(address.ip(), address.port() + 1)),
        web: Some(address),
        web_token_file: Some(token.path().to_owned()),
        ..Endpoints::default()
    };
    let open = endpoints.open(&fake.request_channel)?;
    println!("page    http://{address}/#token={TOKEN}");
    println!("metrics http://{}/metrics", open.metrics.unwrap_or(address));
    println!("control {}", open.control.display());
    loop {
        std::thread::park();
    }
}
