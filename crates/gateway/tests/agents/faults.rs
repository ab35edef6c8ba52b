//! Agents that are restarted, paths that die or move or swallow, keys that are wrong, junk, and
//! programs that do not behave.

use super::bed::{Agent, Keys, connect, echo, pair, pattern, serve, wired};
use super::wire::{Faults, Wire};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tabane_gateway::model::PathState;

fn roundtrip(listener: std::net::SocketAddr, far: std::net::SocketAddr) -> Result<(), u8> {
    let mut stream = connect(listener, far)?;
    stream.write_all(b"ping").unwrap();
    let mut back = [0; 4];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"ping");
    Ok(())
}

#[test]
fn a_client_recovers_by_itself_when_the_server_comes_back() {
    let (client, mut server, keys) = pair();
    let (far, at) = (echo(), server.at);
    roundtrip(client.at, far).unwrap();
    server.stop();
    thread::sleep(Duration::from_secs(3));
    let server = Agent::server(keys.server_config(at));
    let start = Instant::now();
    while roundtrip(client.at, far).is_err() {}
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    drop(server);
}

#[test]
fn a_client_that_is_started_again_is_let_in_again() {
    let (mut client, server, keys) = pair();
    let far = echo();
    roundtrip(client.at, far).unwrap();
    client.stop();
    let client = Agent::client(keys.client_config(&[server.at]));
    client.until_paths_work();
    roundtrip(client.at, far).unwrap();
}

#[test]
fn the_next_server_is_used_when_the_first_is_gone() {
    let keys = Keys::new();
    let gone = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = Agent::server(keys.server_config("127.0.0.1:0".parse().unwrap()));
    let client = Agent::client(keys.client_config(&[gone, server.at]));
    client.until_paths_work();
    roundtrip(client.at, echo()).unwrap();
}

#[test]
fn a_wrong_key_gets_no_answer_at_all() {
    let (_client, server, keys) = pair();
    let stranger = Keys { server: keys.server.clone(), secret: Keys::new().secret };
    let wire = Wire::to(server.at);
    let mut config = stranger.client_config(&[wire.near]);
    config.path.truncate(1);
    let client = Agent::client(config);
    thread::sleep(Duration::from_secs(2));
    let path = &client.status().paths[0];
    assert_eq!((path.state, path.rx_packets), (PathState::Connecting, 0), "{path:?}");
    assert_eq!(wire.answers(), 0, "datagrams came back");
    let strangers = server.status().counters;
    assert!(strangers.iter().any(|(name, count)| name == "strangers_unknown" && *count > 0));
}

/// A download goes on when its path dies, within a second, and uses it again when it is back.
#[test]
fn a_download_survives_a_dead_path() {
    let (client, _server, wires) = wired("127.0.0.1");
    // 4 MB/s for 8 s, so that no queue of the test is ever full.
    let far = serve(|mut stream| {
        for _ in 0..800 {
            if stream.write_all(&[7; 40_000]).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    });
    let mut stream = connect(client.at, far).unwrap();
    let (start, mut last, mut gap, mut got) = (Instant::now(), Instant::now(), Duration::ZERO, 0);
    let (mut block, mut stage) = (vec![0; 65_536], 0);
    loop {
        let len = stream.read(&mut block).unwrap();
        if len == 0 {
            break;
        }
        gap = gap.max(last.elapsed());
        (last, got) = (Instant::now(), got + len);
        match (stage, start.elapsed().as_millis()) {
            (0, 1500..) => wires[0].cut(true),
            (1, 4000..) => {
                assert_eq!(client.status().paths[0].state, PathState::Down);
                wires[0].cut(false);
            }
            (2, 6500..) => {
                assert_eq!(client.status().paths[0].state, PathState::Up);
                // Now the other one dies: everything comes by the one that is back.
                wires[1].cut(true);
            }
            _ => continue,
        }
        stage += 1;
    }
    assert_eq!((got, stage), (32_000_000, 3));
    assert!(gap < Duration::from_secs(1), "{gap:?}");
}

/// A NAT forgets a path: the server sees another address, and follows it.
#[test]
fn a_path_goes_on_from_another_address() {
    let (client, _server, wires) = wired("127.0.0.1");
    let data = pattern(20_000_000, 3);
    let far = serve({
        let data = data.clone();
        move |mut stream| {
            for part in data.chunks(100_000) {
                if stream.write_all(part).is_err() {
                    return;
                }
                thread::sleep(Duration::from_millis(10));
            }
        }
    });
    let mut stream = connect(client.at, far).unwrap();
    let (mut back, mut block, mut rebound) = (Vec::new(), vec![0; 65_536], 0);
    loop {
        let len = stream.read(&mut block).unwrap();
        if len == 0 {
            break;
        }
        back.extend_from_slice(&block[..len]);
        if back.len() / 4_000_000 > rebound {
            wires[rebound % 2].rebind();
            rebound += 1;
        }
    }
    assert!(back == data, "{} of {} bytes", back.len(), data.len());
    assert!(rebound >= 4);
    assert!(client.status().paths.iter().all(|path| path.state == PathState::Up));
}

/// Datagrams above a size vanish without a word on one path: it is used with smaller ones.
#[test]
fn a_path_that_swallows_large_packets_carries_smaller_ones() {
    let (client, _server, wires) = wired("127.0.0.1");
    let largest = 1100;
    wires.iter().for_each(|wire| wire.set(Faults { largest, ..Faults::default() }));
    // The first search for the MTU has ended; this one finds less.
    let far = echo();
    let data = pattern(3_000_000, 5);
    let mut stream = connect(client.at, far).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let sent = data.clone();
    let writing = thread::spawn(move || {
        writer.write_all(&sent).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut back = Vec::new();
    stream.read_to_end(&mut back).unwrap();
    writing.join().unwrap();
    assert!(back == data, "{} of {} bytes", back.len(), data.len());
    client.until("smaller", |s| {
        s.paths.iter().all(|path| path.mtu > 0 && usize::from(path.mtu) < largest)
    });
}

/// Links that have IPv6 alone.
#[test]
fn paths_over_ipv6_alone_carry_programs() {
    if UdpSocket::bind("[::1]:0").is_err() {
        assert!(std::env::var_os("CI").is_none(), "no IPv6 on loopback");
        eprintln!("skipped: this machine has no IPv6 on loopback");
        return;
    }
    let (client, _server, wires) = wired("::1");
    assert!(wires.iter().all(|wire| wire.near.is_ipv6()));
    roundtrip(client.at, echo()).unwrap();
}

/// Junk as fast as this machine makes it, of every kind that a stranger can send.
#[test]
fn junk_does_not_keep_a_client_from_its_work() {
    let (client, server, _wires) = wired("127.0.0.1");
    let over = Arc::new(AtomicBool::new(false));
    let flood = thread::spawn({
        let (over, at) = (over.clone(), server.at);
        move || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let mut noise = pattern(1500, 1);
            let mut sent = 0u64;
            while !over.load(Ordering::Relaxed) {
                // Handshakes, cookies, data of unknown sessions, and others, by the first byte.
                noise[..4].copy_from_slice(&[(sent % 6) as u8, 0, 0, 0]);
                let len = match sent % 6 {
                    1 => 148,
                    2 => 92,
                    3 => 64,
                    _ => 32 + (sent * 37 % 1400) as usize,
                };
                sent += u64::from(socket.send_to(&noise[..len], at).is_ok());
            }
            sent
        }
    });
    let (far, start) = (echo(), Instant::now());
    while start.elapsed() < Duration::from_secs(2) {
        roundtrip(client.at, far).unwrap();
    }
    over.store(true, Ordering::Relaxed);
    let sent = flood.join().unwrap();
    let counters = server.status().counters;
    let refused: u64 =
        counters.iter().filter(|(name, _)| name.starts_with("strangers")).map(|(_, n)| n).sum();
    println!("{sent} datagrams of junk sent, {refused} counted as strangers'");
    assert!(refused > 10_000, "{counters:?}");
    assert!(client.status().paths.iter().all(|path| path.state == PathState::Up));
}

/// Programs that say nothing, ask for half of something, or do not read what they asked for.
#[test]
fn idle_and_slow_programs_do_not_hinder_others() {
    let (client, _server, _wires) = wired("127.0.0.1");
    let endless = serve(|mut stream| while stream.write_all(&[1; 65_536]).is_ok() {});
    let silent: Vec<_> = (0..200).map(|_| TcpStream::connect(client.at).unwrap()).collect();
    let half: Vec<_> = (0..100)
        .map(|_| {
            let mut stream = TcpStream::connect(client.at).unwrap();
            stream.write_all(&[5, 1, 0, 5, 1]).unwrap();
            stream
        })
        .collect();
    let slow: Vec<_> = (0..40).map(|_| connect(client.at, endless).unwrap()).collect();
    thread::sleep(Duration::from_secs(1));
    let far = echo();
    for _ in 0..20 {
        roundtrip(client.at, far).unwrap();
    }
    drop((silent, half, slow));
    client.until("all over", |status| status.connections == 0);
}

/// Connection after connection: nothing is left of them.
#[test]
fn ten_thousand_connections_leave_nothing_behind() {
    let (client, server, _wires) = wired("127.0.0.1");
    let (at, far) = (client.at, echo());
    let programs: Vec<_> = (0..20)
        .map(|_| thread::spawn(move || (0..500).for_each(|_| roundtrip(at, far).unwrap())))
        .collect();
    programs.into_iter().for_each(|program| program.join().unwrap());
    for agent in [&client, &server] {
        agent.until("all over", |status| status.connections == 0);
        assert!(agent.status().connections_total >= 10_000);
    }
}
