//! Programs that know nothing of the device.

use super::far::{self, Far, Handle, byte_of_file, destination};
use super::namespace::{Namespace, ready};
use crate::tun::device::DeviceCounters;
use crate::tun::packets::Counts;
use crate::tun::{Host, HostConfig};
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// Runs `work` in a namespace whose default route is the device.
fn world(
    tools: &[&str],
    work: impl FnOnce(&Namespace, &Handle) + Send,
) -> Option<(Counts, DeviceCounters)> {
    world_routed(tools, &["0.0.0.0/0", "::/0"], work)
}

/// As `world`, with these prefixes routed as TUN mode does it.
fn world_routed(
    tools: &[&str],
    routes: &[&str],
    work: impl FnOnce(&Namespace, &Handle) + Send,
) -> Option<(Counts, DeviceCounters)> {
    if !ready(tools) {
        return None;
    }
    let namespace = Namespace::new();
    let folder = tempfile::tempdir().unwrap();
    let handle = Handle::default();
    let counts = namespace.inside(|| {
        let far = Far::new(&handle);
        let config = HostConfig {
            routes: routes.iter().map(|text| text.parse().unwrap()).collect(),
            state: folder.path().join("host.json"),
            ..HostConfig::default()
        };
        let host = Host::apply(&config).unwrap_or_else(|e| panic!("{e}"));
        let counts = thread::scope(|scope| {
            let running = scope.spawn(|| far.run());
            let stop = StopWhenDropped(&handle);
            work(&namespace, &handle);
            drop(stop);
            running.join().expect("the far end does not panic")
        });
        host.restore().unwrap();
        counts
    });
    Some(counts)
}

/// Also when a test fails, or it would wait for ever.
struct StopWhenDropped<'a>(&'a Handle);

impl Drop for StopWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn connect(v4: bool, port: u16) -> std::io::Result<TcpStream> {
    let socket = TcpStream::connect_timeout(&destination(v4, port), Duration::from_secs(5))?;
    socket.set_read_timeout(Some(Duration::from_secs(20)))?;
    Ok(socket)
}

#[test]
fn curl_downloads_through_the_device() {
    let folder = tempfile::tempdir().unwrap();
    let counts = world(&["curl"], |namespace, _| {
        for url in ["http://192.0.2.80/", "http://[2001:db8::80]/"] {
            let file = folder.path().join("file");
            let status = namespace
                .command("curl")
                .args(["-sS", "-m", "60", "-o"])
                .arg(&file)
                .arg(url)
                .env_remove("http_proxy")
                .env_remove("ALL_PROXY")
                .status()
                .unwrap();
            assert!(status.success(), "{url}: {status}");
            let content = std::fs::read(&file).unwrap();
            assert_eq!(content.len() as u64, far::FILE);
            let wrong = content.iter().zip(0..).find(|(byte, at)| **byte != byte_of_file(*at));
            assert_eq!(wrong, None, "{url}: (byte, position)");
        }
    });
    if let Some((_, device)) = counts {
        let mean = device.tx_bytes / device.tx_packets;
        println!("mean packet to the kernel: {mean} bytes; {device:?}");
        assert!(mean > 10_000, "packets of {mean} bytes: offload is not used");
        assert_eq!(device.tx_dropped, 0);
    }
}

#[test]
fn segments_are_put_together_for_a_kernel_that_wants_small_ones() {
    // Routed by hand: the kernel asks for segments of the device's MTU, as one behind it would.
    let counts = world_routed(&[], &[], |namespace, _| {
        namespace.ip("route add default dev tabane0");
        namespace.ip("-6 route add default dev tabane0");
        for v4 in [true, false] {
            let mut socket = connect(v4, far::HTTP).unwrap();
            socket.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
            socket.shutdown(Shutdown::Write).unwrap();
            let mut content = Vec::new();
            socket.read_to_end(&mut content).unwrap();
            let head = content.len() as u64 - far::FILE;
            let file = &content[head as usize..];
            let wrong = file.iter().zip(0..).find(|(byte, at)| **byte != byte_of_file(*at));
            assert_eq!(wrong, None, "(byte, position)");
        }
    });
    if let Some((_, device)) = counts {
        let mean = device.tx_bytes / device.tx_packets;
        println!("mean packet to the kernel: {mean} bytes; {device:?}");
        assert!(device.tx_segments > 3 * device.tx_packets, "{device:?}");
        assert_eq!(device.tx_dropped, 0);
    }
}

#[test]
fn an_upload_ends_by_itself_and_its_answer_comes_after() {
    let counts = world(&[], |_, _| {
        for v4 in [true, false] {
            let mut socket = connect(v4, far::COUNT).unwrap();
            let chunk = vec![7; 1 << 20];
            (0..32).for_each(|_| socket.write_all(&chunk).unwrap());
            socket.shutdown(Shutdown::Write).unwrap();
            let mut answer = String::new();
            socket.read_to_string(&mut answer).unwrap();
            assert_eq!(answer, (32 << 20).to_string());
        }
    });
    if let Some((_, device)) = counts {
        let mean = device.rx_bytes / device.rx_packets;
        println!("mean packet from the kernel: {mean} bytes; {device:?}");
        assert!(mean > 10_000, "packets of {mean} bytes: offload is not used");
    }
}

#[test]
fn refusals_reach_the_program_as_what_they_are() {
    world(&[], |_, _| {
        for v4 in [true, false] {
            let kind = |port| connect(v4, port).unwrap_err().kind();
            let before = Instant::now();
            assert_eq!(kind(far::REFUSED), ErrorKind::ConnectionRefused);
            assert_eq!(kind(far::UNREACHABLE), ErrorKind::NetworkUnreachable);
            // EHOSTUNREACH over IPv4 (RFC 1122 section 4.2.3.9), EACCES over IPv6.
            let forbidden = kind(far::FORBIDDEN);
            let expected =
                if v4 { ErrorKind::HostUnreachable } else { ErrorKind::PermissionDenied };
            assert_eq!(forbidden, expected);
            assert!(before.elapsed() < Duration::from_secs(1), "at once, not after repeats");
        }
    });
}

#[test]
fn a_reset_reaches_the_program() {
    world(&[], |_, _| {
        let mut socket = connect(true, far::RESET).unwrap();
        socket.write_all(b"anything").unwrap();
        let error = socket.read(&mut [0; 10]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn what_is_not_read_stays_with_the_program() {
    world(&[], |_, handle| {
        let socket = connect(true, far::SLOW).unwrap();
        socket.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        let chunk = vec![7; 64 << 10];
        let mut written = 0_u64;
        while let Ok(len) = (&socket).write(&chunk) {
            written += len as u64;
            assert!(written < 64 << 20, "there is no end to it");
        }
        println!("{written} bytes went in before the program was held");
        assert_eq!(handle.read.load(Ordering::Relaxed), 0);
        handle.reading.store(true, Ordering::Relaxed);
        (&socket).write_all(&chunk).unwrap();
        socket.shutdown(Shutdown::Write).unwrap();
        let all = written + chunk.len() as u64;
        let before = Instant::now();
        while handle.read.load(Ordering::Relaxed) < all {
            assert!(before.elapsed() < Duration::from_secs(10), "it does not go on");
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(handle.read.load(Ordering::Relaxed), all);
    });
}

#[test]
fn datagrams_sent_with_one_call_come_apart() {
    let counts = world(&[], |_, _| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        setsockopt(&socket, sockopt::UdpGsoSegment, &1000).unwrap();
        let payload: Vec<u8> = (0..2500).map(|i| (i / 1000) as u8).collect();
        socket.send_to(&payload, destination(true, 5000)).unwrap();
        let mut buffer = [0; 2000];
        for (at, len) in [1000, 1000, 500].into_iter().enumerate() {
            let (got, from) = socket.recv_from(&mut buffer).unwrap();
            assert_eq!((got, from), (len + 4, destination(true, 5000)));
            assert_eq!(buffer[..4], *b"udp ");
            assert!(buffer[4..got].iter().all(|byte| usize::from(*byte) == at));
        }
        socket.send_to(b"name?", "10.81.0.1:53").unwrap();
        let (got, _) = socket.recv_from(&mut buffer).unwrap();
        assert_eq!(buffer[..got], *b"dns name?");
    });
    if let Some((counts, device)) = counts {
        assert_eq!((counts.udp, counts.dns), (3, 1));
        println!("{device:?}");
    }
}

#[test]
fn a_ping_is_answered() {
    world(&[], |_, _| {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let to = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 80), 0));
        let mut ping = [8, 0, 0, 0, 0x12, 0x34, 0, 1, 5, 5, 5, 5];
        let sum = tabane_wire::Checksum::of(&ping).finish();
        ping[2..4].copy_from_slice(&sum.to_be_bytes());
        socket.send_to(&ping, &to.into()).unwrap();
        let mut buffer = [0; 200];
        let len = (&socket).read(&mut buffer).unwrap();
        assert_eq!(buffer[20..22], [0, 0]);
        assert_eq!(buffer[24..len], ping[4..]);
    });
}

#[test]
fn the_bench_moves_what_it_says() {
    use super::throughput::{Flow, run};
    if !ready(&[]) {
        return;
    }
    for flow in [Flow::Up, Flow::Down] {
        let result = run(flow, 100 << 20, 1400).unwrap_or_else(|e| panic!("{e}"));
        println!("{flow:?}: {result:?}");
        assert!(result.bits_per_second > 1e8 && result.cpu_seconds_per_gb > 0.0);
        assert!(result.packet_bytes > 10_000.0, "offload is not used: {result:?}");
    }
}
