//! The client is a stock Linux: WireGuard interfaces and the kernel's MPTCP, nothing of tabane's.

use super::data::ready;
use super::pump::Pump;
use super::world::{SIZE, User, World};
use std::time::Duration;
use tabane_net::wireguard::StaticSecret;

#[test]
fn stock_linux_is_the_client() {
    if !ready() {
        return;
    }
    let world = World::new(User::Root);
    let server = world.server();
    // What `wg-quick` and `ip` are given in the manual: an interface a path with that path's
    // inner address, a table for each of those, and the second one as a subflow's.
    let tunnels = [1, 2].map(|n| {
        let inner = format!("10.81.0.{}", 15 + n);
        let outer = (format!("10.9.{n}.1"), format!("10.9.{n}.2:51820"));
        let keys = (&StaticSecret::from(&world.path_key(n - 1)), world.key.public());
        let device = format!("wg{n}={inner}/32,mtu=1420");
        let tunnel = Pump::start(&world.c, &device, (&outer.0, &outer.1), keys);
        for line in [
            format!("addr add {inner}/32 dev wg{n}"),
            format!("route add default dev wg{n} table {n}"),
            format!("rule add from {inner} lookup {n}"),
        ] {
            world.c.ip(&line);
        }
        tunnel
    });
    world.c.ip("route add 192.0.2.0/24 dev wg1 src 10.81.0.16");
    world.c.ip("mptcp limits set subflows 2");
    world.c.ip("mptcp endpoint add 10.81.0.17 dev wg2 id 2 subflow");

    // Asked once, a tunnel that was not heard asks again after five seconds.
    server.wait_for("two tunnels", Duration::from_secs(10), |status| {
        status["paths"].as_array().is_some_and(|paths| paths.len() == 2)
    });
    let mut curl = world.c.command("mptcpize");
    curl.args(["run", "curl"]);
    let curl = world.curl(curl, &[]);
    server.wait_for("two paths up with a subflow each", Duration::from_secs(5), |status| {
        let path = |path: usize| &status["paths"][path];
        (0..2).all(|n| path(n)["state"] == "up" && path(n)["subflows"] == 1)
    });
    world.complete(curl);

    let carried = tunnels.each_ref().map(Pump::bytes);
    println!("bytes sent and received by the two tunnels: {carried:?}");
    println!("bytes the server sent: {:?}", server.of_paths("tx_bytes"));
    let [first, second] = carried.map(|[_, received]| received);
    assert!(first + second > SIZE as u64, "not by the tunnels: {carried:?}");
    assert!(first.min(second) > (SIZE / 10) as u64, "one tunnel carried it all: {carried:?}");
    assert!(carried.iter().all(|[sent, _]| *sent > 0), "ACKs by one tunnel: {carried:?}");
    server.stop();
}
