//! Without any privilege: programs that can use a proxy.

use super::data::ready;
use super::world::{Agent, SIZE, User, World};
use std::time::Duration;

#[test]
fn nobody_may_run_both_agents_and_a_reload_keeps_a_download() {
    if !ready() {
        return;
    }
    let world = World::new(User::Nobody);
    let server = world.server();
    let front = "[front]\nsocks5 = ['127.0.0.1:1080']";
    let client = world.client(front);

    let curl = world.c.command("curl");
    let mut curl = world.curl(curl, &["--socks5-hostname", "127.0.0.1:1080"]);
    world.wait_for_bytes(SIZE as u64 / 4);
    let carried = client.of_paths("rx_bytes");
    assert!(carried.iter().all(|bytes| *bytes > 1 << 20), "by one path: {carried:?}");
    client.configure(&world.client_config("backup", front));
    client.signal(libc::SIGHUP);
    server.signal(libc::SIGHUP);
    assert!(curl.is_running(), "the download was over before the signals");
    client.wait_for("the new role", Duration::from_secs(3), |status| {
        status["paths"][1]["role"] == "backup"
    });
    world.complete(curl);
    let total = |agent: &Agent| agent.status().map(|s| s["connections_total"].clone());
    assert_eq!(total(&client), Some(1.into()), "another connection");
    assert_eq!(total(&server), Some(1.into()), "another connection");
    client.stop();
    server.stop();
}
