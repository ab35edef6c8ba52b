//! Transfers in both directions at once through TUN mode, over shaped links that lose packets:
//! programs of plain TCP and of MPTCP, over IPv4 and IPv6. None may hang.
//!
//! `TABANE_BOTH_TRANSFERS` says how many (8 unless told), `TABANE_BOTH_BYTES` how many bytes each
//! way, `TABANE_BOTH_LOSS` which share of packets is lost.

use super::data::ready;
use super::link::{Conditions, Link};
use super::namespace::Process;
use super::world::{Links, User, World};
use serde_json::Value;
use std::str::FromStr;
use std::time::Duration;

/// What the environment says, or else.
fn setting<T: FromStr>(name: &str, otherwise: T) -> T {
    std::env::var(name).map_or(otherwise, |text| {
        text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number"))
    })
}

/// Both links, at their two ends' hosts.
fn shaped(world: &World, loss: f64) -> [Link; 2] {
    [(1, 100, 10), (2, 50, 20)].map(|(n, mbits, delay)| {
        let mut conditions = Conditions::new(mbits, delay, mbits * 1_000_000 / 8 / 10);
        conditions.loss = loss;
        let (near, far) = (format!("c{n}"), format!("s{n}"));
        Link::new((&world.c, &near), (&world.s, &far), 1500, &conditions, n)
    })
}

#[test]
fn transfers_in_both_directions_at_once_end() {
    if !ready() {
        return;
    }
    let transfers: usize = setting("TABANE_BOTH_TRANSFERS", 8);
    let bytes: usize = setting("TABANE_BOTH_BYTES", 400_000);
    let loss: f64 = setting("TABANE_BOTH_LOSS", 0.01);
    let world = World::with_links(User::Root, Links::Later);
    let _links = shaped(&world, loss);
    world.address();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/gateway/peers/both.py");
    let mut served = world.s.command("python3");
    served.args([script, "serve", "192.0.2.1", "2001:db8::1"]);
    let mut served = Process::start(&mut served, world.folder.path(), "both-serve");
    served.wait_for("Serving");
    let server = world.server();
    let client = world.client("[tun]\nroutes = ['192.0.2.0/24', '2001:db8::/32']");
    let kinds = [("192.0.2.1", false), ("192.0.2.1", true), ("2001:db8::1", false)];
    let kinds = kinds.into_iter().chain([("2001:db8::1", true)]);
    let each = transfers.div_ceil(4);
    let runs: Vec<_> = kinds
        .map(|(address, mptcp)| {
            let mut command = world.c.command("python3");
            command.args([script, "run", address, &bytes.to_string(), &each.to_string()]);
            command.args(["--parallel", "2", "--stall", "30"]);
            command.args(mptcp.then_some("--mptcp"));
            let name = format!("{address} {}", if mptcp { "MPTCP" } else { "TCP" });
            (Process::start(&mut command, world.folder.path(), &name.replace(' ', "-")), name)
        })
        .collect();
    for (mut run, name) in runs {
        let status = run.finish(Duration::from_secs(40 + 30 * each as u64));
        println!("{name}, {bytes} bytes each way: {}", run.said().trim());
        assert!(status.success(), "{name}: {}", run.said());
    }
    for agent in [&client, &server] {
        let status = agent.status().expect("the agent answers");
        let paths = status["paths"].as_array().expect("paths are a list");
        let too_big = |path: &Value| path["too_big"].as_u64().expect("it is a number");
        println!("too big: {:?}", paths.iter().map(too_big).collect::<Vec<_>>());
        assert!(paths.iter().all(|path| too_big(path) == 0), "{paths:#?}");
    }
    let carried = client.of_paths("rx_bytes");
    assert!(carried.iter().all(|n| *n > (bytes * transfers) as u64 / 20), "{carried:?}");
    client.stop();
    server.stop();
}
