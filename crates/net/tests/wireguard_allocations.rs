//! The data path of tunnels does not allocate, whether packets come from peers or from strangers.
//! A binary of its own: it has an allocator of its own, that counts for each thread by itself.

#![allow(clippy::unwrap_used)]

use tabane_net::wireguard::{
    Batch, Bind, FourTuple, Opened, Peers, PeersConfig, PortConfig, PublicKey, Sealed, Session,
    StaticSecret, UdpPort, seal_space,
};

const BURST: usize = 64;

fn port() -> UdpPort {
    UdpPort::open(PortConfig::new(Bind::Listen(([127, 0, 0, 1], 0).into()))).unwrap()
}

#[test]
fn packets_cost_no_allocation() {
    let secret = |seed| StaticSecret::from([seed; 32]);
    let mut client = Session::new(&secret(1), PublicKey::from(&secret(2)), None, 1, None);
    let mut peers = Peers::new(secret(2), PeersConfig::default());
    let id = peers.add(PublicKey::from(&secret(1)), None).unwrap();
    let (mut up, mut down) = (port(), port());
    let four_tuple = FourTuple::to(down.local());
    let (mut out, mut reply, mut batch) = (vec![0; 65_536], vec![0; 65_536], Batch::new());
    let len = client.handshake(&mut out, false).unwrap();
    let opened = peers.open(&four_tuple, &out[..len], &mut reply).opened;
    assert_eq!(opened, Opened::Reply(92));
    let Opened::Reply(len) = client.open(None, &reply[..92], &mut out) else { panic!() };
    assert_eq!(peers.open(&four_tuple, &out[..len], &mut reply).opened, Opened::Keepalive);

    let mut packet = vec![0; 1400];
    packet[..4].copy_from_slice(&[0x45, 0, 5, 120]);
    let mut round = || {
        for i in 0..BURST {
            up.queue(&four_tuple, seal_space(1400), |out| match client.seal(&packet, out) {
                Sealed::Packet(len) if i % 8 != 7 => len,
                // A stranger's.
                Sealed::Packet(len) => {
                    out[5] ^= 1;
                    len
                }
                other => panic!("{other:?}"),
            });
        }
        assert!(up.flush().unwrap());
        let (mut good, mut bad) = (0, 0);
        while down.recv(&mut batch).unwrap() {
            for (four_tuple, datagram) in batch.datagrams() {
                match peers.open(four_tuple, datagram, &mut out).opened {
                    Opened::Packet { .. } => good += 1,
                    Opened::Bad(_) => bad += 1,
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!((good, bad), (BURST * 7 / 8, BURST / 8));
        let sealed = peers.seal(id, &packet, &mut out);
        assert!(matches!(sealed, Sealed::Packet(1432)), "{sealed:?}");
    };
    round();
    let cost = allocation_counter::measure(|| {
        for _ in 0..20 {
            round();
        }
    });
    assert_eq!(cost.count_total, 0, "{cost:?}");
}
