//! Strangers and clients that send a server as much as they can.

use super::bed::{Agent, Keys, connect, echo, exchange, serve, wired_by};
use super::wire::Wire;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tabane_config::quantity::Size;
use tabane_gateway::keys;
use tabane_net::wireguard::{Bind, FourTuple, PortConfig, Session, StaticSecret, UdpPort};

/// What a flood of one replayed handshake did to a client's download and to the control socket.
#[derive(Debug)]
struct Outcome {
    /// Bytes a second before, and beside the flood.
    calm: f64,
    flooded: f64,
    /// Messages of the flood a second.
    flood: f64,
    /// The longest that the server took to say how it is.
    slowest: Duration,
}

/// The first message of a handshake of the test's client: valid, and soon a replay.
fn initiation(keys: &Keys) -> Vec<u8> {
    let own = StaticSecret::from(&keys.secret.of_path(0));
    let server = keys::public(&keys::encode(&keys.server.public())).unwrap();
    let mut out = [0; 256];
    let len = Session::new(&own, server, None, 7, None).handshake(&mut out, false).unwrap();
    out[..len].to_vec()
}

/// Sends `message` from one socket as fast as this machine can; how often.
fn flood(to: SocketAddr, message: &[u8], over: &AtomicBool) -> u64 {
    let mut port =
        UdpPort::open(PortConfig::new(Bind::Source(Ipv4Addr::LOCALHOST.into()))).unwrap();
    while !over.load(Ordering::Relaxed) {
        for _ in 0..256 {
            port.queue(&FourTuple::to(to), message.len(), |out| {
                out.copy_from_slice(message);
                message.len()
            });
        }
        port.flush().unwrap();
    }
    port.counters().tx_datagrams
}

fn bytes_a_second(stream: &mut impl Read, time: Duration) -> f64 {
    let (start, mut got, mut block) = (Instant::now(), 0, vec![0; 1 << 16]);
    while start.elapsed() < time {
        got += stream.read(&mut block).unwrap();
    }
    got as f64 / start.elapsed().as_secs_f64()
}

fn replayed(time: Duration) -> Outcome {
    let keys = Keys::new();
    let message = initiation(&keys);
    let server = Agent::server(keys.server_config("127.0.0.1:0".parse().unwrap()));
    let client = Agent::client(keys.client_config(&[server.at]));
    client.until_paths_work();
    let endless = serve(|mut stream| while stream.write_all(&[1; 65_536]).is_ok() {});
    let mut stream = connect(client.at, endless).unwrap();
    bytes_a_second(&mut stream, Duration::from_millis(500));
    let calm = bytes_a_second(&mut stream, time);
    let over = Arc::new(AtomicBool::new(false));
    let (to, start) = (server.at, Instant::now());
    let flooding = thread::spawn({
        let over = over.clone();
        move || flood(to, &message, &over)
    });
    let asking = thread::spawn({
        let over = over.clone();
        move || {
            let mut slowest = Duration::ZERO;
            while !over.load(Ordering::Relaxed) {
                let asked = Instant::now();
                server.status();
                slowest = slowest.max(asked.elapsed());
                thread::sleep(Duration::from_millis(20));
            }
            slowest
        }
    });
    let flooded = bytes_a_second(&mut stream, time);
    over.store(true, Ordering::Relaxed);
    let (sent, slowest) = (flooding.join().unwrap(), asking.join().unwrap());
    let flood = sent as f64 / start.elapsed().as_secs_f64();
    Outcome { calm, flooded, flood, slowest }
}

/// Debug builds and a busy machine: what is asserted is that there is no standstill.
#[test]
fn a_replayed_handshake_stops_neither_a_download_nor_the_control_socket() {
    let outcome = replayed(Duration::from_secs(2));
    println!("{outcome:?}");
    assert!(outcome.flooded > outcome.calm / 10.0, "{outcome:?}");
    assert!(outcome.slowest < Duration::from_secs(1), "{outcome:?}");
}

/// The figures that docs/tunnel.md promises.
#[test]
#[ignore = "a measurement: release build, and nothing else on the machine"]
fn at_600_000_replayed_handshakes_a_second_half_of_a_download_is_left() {
    let outcome = replayed(Duration::from_secs(10));
    println!("{outcome:?}");
    assert!(outcome.flood >= 600_000.0, "{outcome:?}");
    assert!(outcome.flooded >= outcome.calm / 2.0, "{outcome:?}");
    assert!(outcome.slowest <= Duration::from_millis(100), "{outcome:?}");
}

/// Programs write more and more to destinations that do not read.
#[test]
fn uploads_that_go_nowhere_hold_no_more_than_the_limit_in_the_client() {
    const LIMIT: u64 = 16 << 20;
    let keys = Keys::new();
    let server = Agent::server(keys.server_config("127.0.0.1:0".parse().unwrap()));
    let mut config = keys.client_config(&[server.at]);
    config.buffer = Some(Size(LIMIT));
    let client = Agent::client(config);
    client.until_paths_work();
    static OVER: AtomicBool = AtomicBool::new(false);
    let stalled = serve(|stream| {
        while !OVER.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(50));
        }
        drop(stream);
    });
    let (mut open, mut most, mut written) = (Vec::new(), 0, 0);
    for _ in 0..150 {
        let stream = connect(client.at, stalled).unwrap();
        stream.set_nonblocking(true).unwrap();
        open.push(stream);
    }
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(4) {
        for stream in &mut open {
            written += stream.write(&[1; 65_536]).unwrap_or(0);
        }
        most = most.max(client.status().held_bytes);
        thread::sleep(Duration::from_millis(2));
    }
    let last = client.status().held_bytes;
    println!("{written} bytes written, at most {most} held, {last} in the end");
    assert!(most > LIMIT / 4, "nothing was filled");
    assert!(most <= LIMIT, "{most}");
    exchange(client.at, echo(), 100_000, 3);
    OVER.store(true, Ordering::Relaxed);
    client.until("free", |status| status.held_bytes < 1 << 20);
    exchange(client.at, echo(), 1_000_000, 3);
}

/// A client opens more and more downloads and reads none.
#[test]
fn connections_that_nobody_reads_hold_no_more_than_the_limit() {
    const LIMIT: u64 = 16 << 20;
    let keys = Keys::new();
    let mut config = keys.server_config("127.0.0.1:0".parse().unwrap());
    config.limits.buffer = Size(LIMIT);
    let server = Agent::server(config);
    let client = Agent::client(keys.client_config(&[server.at]));
    client.until_paths_work();
    let endless = serve(|mut stream| while stream.write_all(&[1; 65_536]).is_ok() {});
    let (mut open, mut most) = (Vec::new(), 0);
    for _ in 0..300 {
        match connect(client.at, endless) {
            Ok(stream) => open.push(stream),
            Err(code) => assert_eq!(code, 2, "not allowed"),
        }
        most = most.max(server.status().held_bytes);
    }
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(2) {
        most = most.max(server.status().held_bytes);
        thread::sleep(Duration::from_millis(50));
    }
    println!("{} connections, at most {most} bytes", open.len());
    assert!(most > LIMIT / 4, "nothing was filled");
    assert!(most <= 2 * LIMIT, "{most}: what comes in a quarter of a second may come on top");
    server.until("within the limit", |status| status.held_bytes <= LIMIT);
    drop(open);
    server.until("free", |status| status.held_bytes < 1 << 20);
    exchange(client.at, echo(), 1_000_000, 3);
}

/// Far ends that say much and close, for programs that have nothing more to say, while no path
/// works: the server has passed all on, and still holds it.
#[test]
fn what_waits_for_its_client_counts_when_both_ends_have_closed() {
    const LIMIT: u64 = 16 << 20;
    static NOW: AtomicBool = AtomicBool::new(false);
    let keys = Keys::new();
    let mut config = keys.server_config("127.0.0.1:0".parse().unwrap());
    config.limits.buffer = Size(LIMIT);
    let server = Agent::server(config);
    let wires = [Wire::to(server.at), Wire::to(server.at)];
    let mut config = keys.client_config(&[server.at]);
    for (path, wire) in config.path.iter_mut().zip(&wires) {
        path.remote = Some(wire.near);
    }
    let client = Agent::client(config);
    client.until_paths_work();
    let much = serve(|mut stream| {
        while !NOW.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(10));
        }
        let _ = stream.write_all(&[1; 400 << 10]);
    });
    let open: Vec<_> = (0..150).map(|_| connect(client.at, much).unwrap()).collect();
    open.iter().for_each(|stream| stream.shutdown(Shutdown::Write).unwrap());
    thread::sleep(Duration::from_millis(500));
    wires.iter().for_each(|wire| wire.cut(true));
    NOW.store(true, Ordering::Relaxed);
    let (start, mut most) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_secs(2) {
        most = most.max(server.status().held_bytes);
        thread::sleep(Duration::from_millis(20));
    }
    println!("at most {most} bytes");
    assert!(most > LIMIT / 2, "{most}: not all is counted");
    server.until("within the limit", |status| status.held_bytes <= LIMIT);
    wires.iter().for_each(|wire| wire.cut(false));
    drop(open);
    server.until("free", |status| status.held_bytes < 1 << 20);
    client.until_paths_work();
    exchange(client.at, echo(), 1_000_000, 3);
}

/// Short connections to one destination, as fast as four programs can open them: every one works,
/// or the agent says what is exhausted, and the next one after them works at once.
#[test]
#[ignore = "a measurement: release build, and nothing else on the machine"]
fn new_connections_to_one_destination_as_fast_as_programs_open_them() {
    let (client, _server, _wires) = wired_by(&Keys::new(), "127.0.0.1");
    let (listener, to) = (client.at, echo());
    let start = Instant::now();
    let open = move || {
        let (mut worked, mut refused) = (0_u32, [0_u32; 256]);
        while start.elapsed() < Duration::from_secs(40) {
            let done = connect(listener, to).map(|mut stream| {
                stream.write_all(b"x").and_then(|()| stream.read_exact(&mut [0])).unwrap();
            });
            match done {
                Ok(()) => worked += 1,
                Err(code) => refused[usize::from(code)] += 1,
            }
        }
        (worked, refused)
    };
    let programs: Vec<_> = (0..4).map(|_| thread::spawn(open)).collect();
    let (mut worked, mut refused) = (0, 0);
    for program in programs {
        let (well, badly) = program.join().unwrap();
        worked += well;
        refused += badly.iter().sum::<u32>();
    }
    let after = Instant::now();
    exchange(listener, to, 1000, 1);
    println!("{} a second, {refused} refused; after it {:?}", worked / 40, after.elapsed());
    assert!(refused * 1000 <= worked && after.elapsed() < Duration::from_secs(1));
}
