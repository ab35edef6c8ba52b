//! An invented agent to look at: its page, its metrics and a control socket, with links that sway
//! and fail: `cargo run -p tabane-gateway --example fake_agent -- 127.0.0.1:9080`
#![allow(clippy::unwrap_used)] // A helper of tests is at work.

#[path = "../tests/fake/mod.rs"]
mod fake;

use std::net::SocketAddr;
use tabane_gateway::control::{ControlSocket, Places};
use tabane_gateway::web::{Pages, Settings, Token};

const TOKEN: &str = "fake-token-0123456789";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address: SocketAddr =
        std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9080".into()).parse()?;
    let mut world = fake::World::home();
    world.step = Some(fake::live);
    let fake = fake::Fake::with(world);
    let token = Some(Token::new(TOKEN)?);
    let metrics = Some(SocketAddr::new(address.ip(), address.port() + 1));
    let settings = Settings { page: Some(address), token, metrics };
    let pages = Pages::start(settings, fake.request_channel.clone())?;
    let socket = Places::from_env().socket_for("home")?;
    let control = ControlSocket::start(&socket, fake.request_channel.clone())?;
    println!("page    http://{address}/#token={TOKEN}");
    println!("metrics http://{}/metrics", pages.metrics().unwrap_or(address));
    println!("control {}", control.path().display());
    loop {
        std::thread::park();
    }
}
