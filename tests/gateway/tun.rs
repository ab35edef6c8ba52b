//! TUN mode: programs of the host know nothing of the bundle.

use super::data::ready;
use super::namespace::Namespace;
use super::world::{SIZE, User, World};
use std::time::Duration;

#[test]
fn a_download_through_the_tun_device_outlives_a_link() {
    if !ready() {
        return;
    }
    let world = World::new(User::Root);
    let before = picture(&world.c);
    let server = world.server();
    let client = world.client("[tun]\nroutes = ['192.0.2.0/24']");
    assert!(picture(&world.c).contains("192.0.2.0/24 dev tabane0"), "nothing is routed");

    let mut curl = world.curl(world.c.command("curl"), &[]);
    world.wait_for_bytes(SIZE as u64 / 2);
    let carried = client.of_paths("rx_bytes");
    world.c.ip("link set c1 down");
    assert!(curl.is_running(), "the download was over before the link was");
    client.wait_for("the loss of a link", Duration::from_secs(3), |status| {
        status["paths"][0]["state"] != "up" && status["paths"][1]["state"] == "up"
    });
    world.complete(curl);
    println!("inner bytes when the first link went down: {carried:?}");
    assert!(carried.iter().all(|bytes| *bytes > SIZE as u64 / 20), "by one link: {carried:?}");

    world.c.ip("link set c1 up");
    client.wait_for_paths_up();
    let carried = client.of_paths("rx_bytes");
    world.complete(world.curl(world.c.command("curl"), &[]));
    let more = client.of_paths("rx_bytes");
    assert!(more[0] > carried[0] + SIZE as u64 / 10, "not used again: {carried:?} {more:?}");
    client.stop();
    assert_eq!(picture(&world.c), before, "routes and rules are not as before");
    server.stop();
}

/// Rules and routes of all tables; without link-local ones, which come in the kernel's own time.
fn picture(host: &Namespace) -> String {
    let asked = ["rule", "-6 rule", "route show table all", "-6 route show table all"];
    let lines = asked.map(|args| host.ip(args)).join("\n");
    let own = |line: &&str| !line.contains("fe80::") && !line.contains("ff00::");
    lines.lines().filter(own).map(|line| format!("{line}\n")).collect()
}
