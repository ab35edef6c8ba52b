//! What a packet costs in the tunnel layer, and what junk costs.
//!
//! Times are CPU times of the thread, in user and kernel, so that other load on the machine
//! matters little. A burst has 45 packets of 1400 bytes inside: CPU seconds per GB are
//! microseconds per burst x 0.0159.

#![allow(clippy::unwrap_used)]

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use nix::time::ClockId;
use std::hint::black_box;
use std::time::Duration;
use tabane_net::wireguard::{
    Batch, Bind, FourTuple, Opened, Peers, PeersConfig, PortConfig, PublicKey, Sealed, Session,
    StaticSecret, UdpPort, seal_space,
};

/// CPU time of this thread.
struct CpuTime;

impl Measurement for CpuTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        ClockId::CLOCK_THREAD_CPUTIME_ID.now().expect("the clock of every thread").into()
    }

    fn end(&self, start: Duration) -> Duration {
        self.start() - start
    }

    fn add(&self, a: &Duration, b: &Duration) -> Duration {
        *a + *b
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        WallTime.to_f64(value)
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

const PACKET: usize = 1400;
const SEALED: usize = PACKET + 32;
/// What a server sends in one go to one client.
const BURST: usize = 45;

fn secret(seed: u8) -> StaticSecret {
    StaticSecret::from([seed; 32])
}

fn session(own: u8, peer: u8) -> Session {
    Session::new(&secret(own), PublicKey::from(&secret(peer)), None, own.into(), None)
}

fn pair() -> (Session, Session) {
    let (mut a, mut b) = (session(1, 2), session(2, 1));
    let (mut one, mut two) = (vec![0; 65_536], vec![0; 65_536]);
    let len = a.handshake(&mut one, false).unwrap();
    let Opened::Reply(len) = b.open(None, &one[..len], &mut two) else { panic!() };
    let Opened::Reply(len) = a.open(None, &two[..len], &mut one) else { panic!() };
    assert_eq!(b.open(None, &one[..len], &mut two), Opened::Keepalive);
    (a, b)
}

fn packet() -> Vec<u8> {
    let mut packet = vec![0x5a; PACKET];
    packet[..4].copy_from_slice(&[0x45, 0, (PACKET >> 8) as u8, PACKET as u8]);
    packet
}

fn port(offload: bool) -> UdpPort {
    let mut config = PortConfig::new(Bind::Listen(([127, 0, 0, 1], 0).into()));
    config.offload = offload;
    UdpPort::open(config).unwrap()
}

fn seal(session: &mut Session, packet: &[u8], out: &mut [u8]) -> usize {
    match session.seal(packet, out) {
        Sealed::Packet(len) => len,
        other => panic!("{other:?}"),
    }
}

fn crypto(c: &mut Criterion<CpuTime>) {
    let mut group = c.benchmark_group("session");
    group.throughput(Throughput::Bytes(PACKET as u64));
    let (mut a, mut b) = pair();
    let (packet, mut sealed, mut opened) = (packet(), vec![0; SEALED], vec![0; 65_536]);
    group.bench_function("seal", |bench| {
        bench.iter(|| seal(&mut a, black_box(&packet), &mut sealed));
    });
    group.bench_function("seal+open", |bench| {
        bench.iter(|| {
            let len = seal(&mut a, black_box(&packet), &mut sealed);
            let got = b.open(None, &sealed[..len], &mut opened);
            assert!(matches!(got, Opened::Packet { len: PACKET, .. }));
        });
    });
    group.finish();
}

fn loopback(c: &mut Criterion<CpuTime>) {
    let mut group = c.benchmark_group("udp");
    group.throughput(Throughput::Elements(BURST as u64));
    for offload in [true, false] {
        let (mut tx, mut rx, mut batch) = (port(offload), port(offload), Batch::new());
        let (four_tuple, payload) = (FourTuple::to(rx.local()), [7; SEALED]);
        group.bench_function(BenchmarkId::new("send+receive", name(offload)), |bench| {
            bench.iter(|| {
                for _ in 0..BURST {
                    tx.queue(&four_tuple, SEALED, |out| {
                        out.copy_from_slice(&payload);
                        SEALED
                    });
                }
                assert!(tx.flush().unwrap());
                assert_eq!(drain(&mut rx, &mut batch, |_, _| {}), BURST);
            });
        });
    }
    group.finish();
}

fn tunnel(c: &mut Criterion<CpuTime>) {
    let mut group = c.benchmark_group("tunnel");
    group.throughput(Throughput::Elements(BURST as u64));
    for offload in [true, false] {
        let (mut tx, mut rx, mut batch) = (port(offload), port(offload), Batch::new());
        let (mut a, mut b) = pair();
        let (four_tuple, packet, mut opened) =
            (FourTuple::to(rx.local()), packet(), vec![0; 65_536]);
        group.bench_function(BenchmarkId::new("whole way", name(offload)), |bench| {
            bench.iter(|| {
                for _ in 0..BURST {
                    tx.queue(&four_tuple, seal_space(PACKET), |out| seal(&mut a, &packet, out));
                }
                assert!(tx.flush().unwrap());
                let mut packets = 0;
                let got = drain(&mut rx, &mut batch, |_, datagram| {
                    let got = b.open(None, datagram, &mut opened);
                    packets += usize::from(matches!(got, Opened::Packet { .. }));
                });
                assert_eq!((got, packets), (BURST, BURST));
            });
        });
    }
    group.finish();
}

fn junk(c: &mut Criterion<CpuTime>) {
    let mut group = c.benchmark_group("junk");
    let mut peers = Peers::new(secret(2), PeersConfig { handshakes: u64::MAX / 4 });
    peers.add(PublicKey::from(&secret(1)), None).unwrap();
    let (mut out, four_tuple) = (vec![0; 65_536], FourTuple::to(([192, 0, 2, 1], 9).into()));
    let mut hello = |own: u8, peer: u8| {
        let len = session(own, peer).handshake(&mut out, true).unwrap();
        out[..len].to_vec()
    };
    let mut kinds = vec![
        ("random bytes", vec![0xa5; SEALED]),
        ("data, no such session", {
            let mut data = vec![4, 0, 0, 0];
            data.resize(SEALED, 1);
            data
        }),
        ("handshake, wrong MAC", hello(3, 4)),
        ("handshake, right MAC, unknown key", hello(3, 2)),
    ];
    let mut peer = session(1, 2);
    let mut first = vec![0; 256];
    let len = peer.handshake(&mut first, false).unwrap();
    let mut out = vec![0; 65_536];
    let answer = peers.open(&four_tuple, &first[..len], &mut out);
    assert_eq!(answer.opened, Opened::Reply(92));
    kinds.push(("handshake, replayed", first[..len].to_vec()));
    let mut response = vec![0; 65_536];
    let _ = peer.open(None, &out[..92], &mut response);
    let mut data = vec![0; SEALED];
    seal(&mut peer, &packet(), &mut data);
    data[700] ^= 1;
    kinds.push(("data of a session, forged", data));
    for (name, datagram) in &kinds {
        group.bench_function(*name, |bench| {
            bench.iter(|| {
                let received = peers.open(&four_tuple, black_box(datagram), &mut out);
                assert!(matches!(received.opened, Opened::Bad(_)), "{received:?}");
            });
        });
    }
    let mut loaded = Peers::new(secret(2), PeersConfig { handshakes: 0 });
    group.bench_function("handshake, right MAC, under load: a cookie", |bench| {
        bench.iter(|| {
            let received = loaded.open(&four_tuple, black_box(&kinds[3].1), &mut out);
            assert_eq!(received.opened, Opened::Reply(64));
        });
    });
    group.finish();
}

fn drain(rx: &mut UdpPort, batch: &mut Batch, mut each: impl FnMut(&FourTuple, &[u8])) -> usize {
    let mut count = 0;
    while rx.recv(batch).unwrap() {
        for (four_tuple, datagram) in batch.datagrams() {
            each(four_tuple, datagram);
            count += 1;
        }
    }
    count
}

fn name(offload: bool) -> &'static str {
    if offload { "offload" } else { "one by one" }
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(CpuTime);
    targets = crypto, loopback, tunnel, junk
}
criterion_main!(benches);
