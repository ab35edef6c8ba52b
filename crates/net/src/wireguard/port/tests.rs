//! Ports on loopback.

use super::*;

fn loopback(offload: bool) -> UdpPort {
    let mut config = PortConfig::new(Bind::Listen((Ipv4Addr::LOCALHOST, 0).into()));
    config.offload = offload;
    UdpPort::open(config).unwrap()
}

fn put(port: &mut UdpPort, to: SocketAddr, datagram: &[u8]) -> bool {
    port.queue(&FourTuple::to(to), datagram.len(), |out| {
        out[..datagram.len()].copy_from_slice(datagram);
        datagram.len()
    })
}

/// Everything that arrives within a while of the last arrival.
fn drain(port: &mut UdpPort) -> Vec<(FourTuple, Vec<u8>)> {
    let mut batch = Batch::new();
    let mut got = Vec::new();
    for _ in 0..3 {
        while port.recv(&mut batch).unwrap() {
            got.extend(
                batch.datagrams().map(|(four_tuple, datagram)| (*four_tuple, datagram.to_vec())),
            );
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    got
}

fn numbered(i: u32, len: usize) -> Vec<u8> {
    let mut datagram = vec![i as u8; len.max(4)];
    datagram[..4].copy_from_slice(&i.to_be_bytes());
    datagram
}

/// Readiness may have been told between the two calls, and is not told again.
#[test]
fn what_comes_after_a_batch_that_took_all_is_found() {
    let (mut tx, mut rx) = (loopback(false), loopback(false));
    let to = rx.local();
    let mut batch = Batch::new();
    for round in 0..3_u8 {
        assert!(put(&mut tx, to, &[round; 8]));
        assert!(tx.flush().unwrap());
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(rx.recv(&mut batch).unwrap(), "round {round}");
        assert!(batch.took_all());
        assert_eq!(batch.datagrams().map(|(_, it)| it[0]).collect::<Vec<_>>(), [round]);
    }
}

#[test]
fn datagrams_arrive_whole_and_in_order_with_offload_and_without() {
    for (sends, receives) in [(true, true), (true, false), (false, true), (false, false)] {
        let (mut a, mut b) = (loopback(sends), loopback(receives));
        let to = b.local();
        let mut sent = Vec::new();
        let sizes = [1432, 1432, 1432, 80, 1432, 9000, 200, 200, 199, 4, 1432, 16_000, 1];
        for i in 0..40 {
            let datagram = numbered(i, sizes[i as usize % sizes.len()]);
            assert!(put(&mut a, to, &datagram));
            sent.push(datagram);
        }
        assert!(a.flush().unwrap() && !a.has_queued());
        let got = drain(&mut b);
        assert!(
            got.iter().all(|(four_tuple, _)| *four_tuple == FourTuple::to(a.local())),
            "{:?}",
            got[0].0
        );
        let got: Vec<_> = got.into_iter().map(|(_, datagram)| datagram).collect();
        assert_eq!(got, sent, "offload {sends} {receives}");
        let bytes = sent.iter().map(|d| d.len() as u64).sum();
        assert_eq!((a.counters().tx_datagrams, a.counters().tx_bytes), (40, bytes));
        assert_eq!((b.counters().rx_datagrams, b.counters().rx_bytes), (40, bytes));
        assert_eq!(a.counters().dropped(), 0);
        assert!(a.counters().tx_calls <= if a.offload().0 { 25 } else { 40 });
    }
}

#[test]
fn a_run_takes_one_system_call() {
    let (mut a, mut b) = (loopback(true), loopback(true));
    if a.offload() != (true, true) {
        println!("SKIPPED: this kernel has no UDP segmentation offload");
        assert!(std::env::var_os("CI").is_none());
        return;
    }
    let to = b.local();
    for i in 0..44 {
        assert!(put(&mut a, to, &numbered(i, 1432)));
    }
    assert!(put(&mut a, to, &numbered(44, 100)));
    assert_eq!(a.counters().tx_calls, 0);
    assert!(a.flush().unwrap());
    assert_eq!((a.counters().tx_calls, a.counters().tx_datagrams), (1, 45));
    assert_eq!(drain(&mut b).len(), 45);
    assert!(b.counters().rx_calls <= 2, "{:?}", b.counters());
}

#[test]
fn interleaved_far_ends_still_make_runs() {
    let mut a = loopback(true);
    let mut far: Vec<_> = (0..20).map(|_| loopback(true)).collect();
    for i in 0..200 {
        let to = far[i as usize % far.len()].local();
        assert!(put(&mut a, to, &numbered(i, 300)));
    }
    assert!(a.flush().unwrap());
    for (n, port) in far.iter_mut().enumerate() {
        let got: Vec<_> = drain(port).into_iter().map(|(_, datagram)| datagram).collect();
        let sent: Vec<_> = (0..10).map(|i| numbered(i * 20 + n as u32, 300)).collect();
        assert_eq!(got, sent);
    }
    assert_eq!(a.gso_batches.len(), 16, "a limit, and the oldest run goes first");
}

#[test]
fn nothing_written_is_nothing_sent() {
    let (mut a, mut b) = (loopback(true), loopback(true));
    assert!(a.queue(&FourTuple::to(b.local()), 100, |_| 0));
    assert!(!a.has_queued() && a.flush().unwrap());
    assert!(drain(&mut b).is_empty());
}

#[test]
fn one_socket_serves_both_families() {
    let mut config = PortConfig::new(Bind::Listen((Ipv6Addr::UNSPECIFIED, 0).into()));
    config.id = 3;
    let mut server = match UdpPort::open(config) {
        Ok(port) => port,
        Err(error) => {
            println!("SKIPPED: no IPv6 here: {error}");
            assert!(std::env::var_os("CI").is_none());
            return;
        }
    };
    let port = server.local().port();
    for host in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
        let mut client = UdpPort::open(PortConfig::new(Bind::Source(host))).unwrap();
        assert!(put(&mut client, (host, port).into(), b"up"));
        assert!(client.flush().unwrap());
        let [(four_tuple, datagram)] = &drain(&mut server)[..] else { panic!("not one datagram") };
        assert_eq!(datagram, b"up");
        assert_eq!(
            (four_tuple.remote, four_tuple.local, four_tuple.port),
            (client.local(), Some(host), 3)
        );
        for _ in 0..2 {
            assert!(server.queue(four_tuple, 4, |out| {
                out[..4].copy_from_slice(b"down");
                4
            }));
        }
        assert!(server.flush().unwrap());
        let got = drain(&mut client);
        assert_eq!(got.len(), 2);
        assert_eq!(got[0].0, FourTuple::to((host, port).into()));
        assert_eq!(server.counters().dropped(), 0);
    }
}

#[test]
fn answers_leave_from_the_address_that_was_asked() {
    let any = PortConfig::new(Bind::Listen((Ipv4Addr::UNSPECIFIED, 0).into()));
    let mut server = UdpPort::open(any).unwrap();
    let mut client = loopback(true);
    let asked = Ipv4Addr::new(127, 0, 0, 77);
    assert!(put(&mut client, (asked, server.local().port()).into(), b"x"));
    assert!(client.flush().unwrap());
    let (four_tuple, _) = drain(&mut server)[0];
    assert_eq!(four_tuple.local, Some(asked.into()));
    assert!(server.queue(&four_tuple, 1, |out| out.len()));
    assert!(server.flush().unwrap());
    assert_eq!(drain(&mut client)[0].0.remote.ip(), IpAddr::from(asked));
}

#[test]
fn a_datagram_that_udp_cannot_carry_is_dropped_and_counted() {
    let mut port = loopback(true);
    let to = FourTuple::to(port.local());
    for space in [65_507, 65_508, 70_000] {
        let taken = port.queue(&to, space, |out| out.len());
        assert_eq!(taken, space <= 65_507, "{space}");
    }
    assert_eq!(port.counters().dropped_full, 2);
}

#[test]
fn a_refused_datagram_is_dropped_and_counted() {
    let mut a = loopback(true);
    let nowhere: SocketAddr = "255.255.255.255:9".parse().unwrap();
    assert!(put(&mut a, nowhere, b"x") && put(&mut a, nowhere, b"x"));
    assert!(a.flush().unwrap(), "a refusal is no error of the port");
    assert_eq!(a.counters().dropped_forbidden, 2, "{:?}", a.counters());
    assert_eq!(a.offload(), loopback(true).offload(), "offload survives it");
}

#[test]
fn a_far_end_that_is_gone_is_no_error() {
    let mut a = loopback(true);
    let gone = loopback(true).local();
    for _ in 0..10 {
        assert!(put(&mut a, gone, b"x"));
        assert!(a.flush().unwrap());
    }
    assert!(drain(&mut a).is_empty());
}

#[test]
fn fragments_are_never_made() {
    let port = loopback(true);
    let mut value = 0i32;
    let mut len = size_of::<i32>() as libc::socklen_t;
    #[expect(unsafe_code, reason = "a system call that no crate of ours has")]
    // SAFETY: the pointers are to values of the sizes that are passed.
    let done = unsafe {
        let (fd, to) = (port.as_raw_fd(), (&raw mut value).cast());
        libc::getsockopt(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, to, &raw mut len)
    };
    assert_eq!((done, value), (0, libc::IP_PMTUDISC_PROBE));
}

#[test]
fn what_is_not_there_is_told_as_such() {
    let missing = Bind::Interface { name: "no-such-if".into(), ipv6: false };
    for bind in [missing, Bind::Source("198.51.100.7".parse().unwrap())] {
        let error = UdpPort::open(PortConfig::new(bind)).unwrap_err();
        assert!(matches!(error, PortError::Absent { .. }), "{error}");
    }
}

#[test]
fn an_interface_binds_without_its_address() {
    let bind = Bind::Interface { name: "lo".into(), ipv6: false };
    let mut a = UdpPort::open(PortConfig::new(bind)).unwrap();
    let mut b = loopback(true);
    assert!(put(&mut a, b.local(), b"hello"));
    assert!(a.flush().unwrap());
    let (four_tuple, datagram) = &drain(&mut b)[0];
    assert_eq!((datagram.as_slice(), four_tuple.remote.port()), (&b"hello"[..], a.local().port()));
    // What is not on that interface's way is unreachable, and no reason to give the port up.
    assert!(put(&mut a, "192.0.2.1:9".parse().unwrap(), b"x"));
    assert!(a.flush().unwrap());
}

#[test]
fn a_full_socket_blocks_and_bounds_the_queue() {
    let mut config = PortConfig::new(Bind::Listen((Ipv4Addr::LOCALHOST, 0).into()));
    config.send_buffer = 0;
    let mut a = UdpPort::open(config).unwrap();
    a.blocked = true;
    let to = loopback(true).local();
    let taken = (0..200).filter(|&i| put(&mut a, to, &numbered(i, 1432))).count();
    assert!(taken < 64 && a.has_queued());
    assert_eq!(a.counters().dropped_full, 200 - taken as u64);
    assert!(a.flush().unwrap(), "loopback takes it at once");
    assert!(!a.has_queued());
    assert_eq!(a.counters().tx_datagrams, taken as u64);
}

/// The kernel keeps a queue for data and one for everything else.
#[test]
fn handshakes_have_a_queue_of_their_own() {
    let mut config = PortConfig::new(Bind::Listen((Ipv4Addr::LOCALHOST, 0).into()));
    config.receive_buffer = 1 << 20;
    let mut data = UdpPort::open(config).unwrap();
    let mut handshakes = data.open_handshakes().unwrap();
    assert_eq!(handshakes.local(), data.local());
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    // Far more than both queues hold together, and then one packet of data.
    for i in 0..20_000_u32 {
        let mut flood = [0; 148];
        (flood[0], flood[1]) = ((i % 3) as u8 + 1, 0);
        stranger.send_to(&flood, data.local()).unwrap();
    }
    stranger.send_to(&[4; 60], data.local()).unwrap();
    let got = drain(&mut data);
    assert_eq!(got.iter().map(|(_, datagram)| datagram[0]).collect::<Vec<_>>(), [4]);
    let got = drain(&mut handshakes);
    // A short one: an answer that comes after a second is of no use.
    assert!((16..200).contains(&got.len()), "{}", got.len());
    assert!(got.iter().all(|(_, datagram)| datagram[0] < 4));
    // Answers leave by the first, from the same address.
    assert!(data.queue(&got[0].0, 2, |out| out.len()) && data.flush().unwrap());
    assert_eq!(stranger.recv_from(&mut [0; 9]).unwrap(), (2, data.local()));
    let taken = UdpPort::open(PortConfig::new(Bind::Listen(data.local()))).map(drop);
    assert!(matches!(taken, Err(PortError::Open { .. })), "somebody else got the address too");
}
