//! WireGuard datagrams from anywhere: forged, old, repeated and spoilt ones, at a server and at a
//! client that have keys.

use crate::files::somewhere;
use arbitrary::{Arbitrary, Unstructured};
use tabane_net::wireguard::{
    FourTuple, Opened, PeerId, Peers, PeersConfig, PublicKey, Sealed, Session, StaticSecret,
    seal_space,
};

/// Datagrams of one input.
const DATAGRAMS_MAX: usize = 60;

/// Something that arrives.
#[derive(Arbitrary, Debug)]
enum Op {
    /// Bytes, at the server or at the client.
    Bytes { at_client: bool, bytes: Vec<u8> },
    /// Bytes that begin as a message of this kind does, for that session.
    Shaped { at_client: bool, kind: u8, index: u32, bytes: Vec<u8> },
    /// A packet of the client, which arrives so many times.
    Packet { len: u16, times: u8 },
    /// One with a bit flipped, or cut short.
    Spoilt { len: u16, at: u16, bit: u8, cut: bool },
    /// What the client sent first of all comes again.
    OldHandshake,
    /// Timers.
    Timer,
}

struct Both {
    client: Session,
    peers: Peers,
    four_tuple: FourTuple,
    initiation: Vec<u8>,
    out: Vec<u8>,
    delivered: u64,
}

/// The target.
pub(crate) fn tunnel(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let mut both = joined();
    for _ in 0..DATAGRAMS_MAX {
        if input.is_empty() {
            break;
        }
        let Ok(op) = Op::arbitrary(&mut input) else { break };
        both.apply(&op);
        assert_eq!(
            both.peers.four_tuple(PeerId(0)),
            Some(&both.four_tuple),
            "a stranger moved the peer"
        );
    }
    both.apply(&Op::Packet { len: 100, times: 1 });
}

fn secret(seed: u8) -> StaticSecret {
    StaticSecret::from([seed; 32])
}

/// A client and a server of it, with keys.
fn joined() -> Both {
    let mut client = Session::new(&secret(1), PublicKey::from(&secret(2)), None, 1, None);
    let mut peers = Peers::new(secret(2), PeersConfig::default());
    peers.add(PublicKey::from(&secret(1)), None).expect("invariant: the first peer");
    let four_tuple = FourTuple::to(somewhere(1, 1000));
    let (mut out, mut reply) = (vec![0; 65_536], vec![0; 65_536]);
    let len = client.handshake(&mut out, false).expect("invariant: no handshake yet");
    let initiation = out[..len].to_vec();
    let Opened::Reply(len) = peers.open(&four_tuple, &initiation, &mut reply).opened else {
        panic!("a handshake is answered");
    };
    let Opened::Reply(len) = client.open(None, &reply[..len], &mut out) else {
        panic!("an answer gives keys");
    };
    let opened = peers.open(&four_tuple, &out[..len], &mut reply).opened;
    assert_eq!(opened, Opened::Keepalive);
    Both { client, peers, four_tuple, initiation, out, delivered: 0 }
}

fn packet(len: u16) -> Vec<u8> {
    let len = len.clamp(20, 1500);
    let mut packet = vec![0x5a; usize::from(len)];
    let [high, low] = len.to_be_bytes();
    packet[..4].copy_from_slice(&[0x45, 0, high, low]);
    packet
}

impl Both {
    fn apply(&mut self, op: &Op) {
        match op {
            Op::Bytes { at_client, bytes } => self.forged(*at_client, bytes),
            Op::Shaped { at_client, kind, index, bytes } => {
                let mut datagram = vec![kind % 6, 0, 0, 0];
                datagram.extend(index.to_le_bytes());
                datagram.extend(index.to_le_bytes());
                datagram.extend(bytes);
                let whole = match kind % 6 {
                    1 => 148,
                    2 => 92,
                    3 => 64,
                    _ => datagram.len(),
                };
                datagram.resize(whole, 0);
                self.forged(*at_client, &datagram);
            }
            Op::Packet { len, times } => {
                let inside = packet(*len);
                let datagram = self.seal(&inside);
                for time in 0..1 + times % 3 {
                    let four_tuple = self.four_tuple;
                    let opened = self.peers.open(&four_tuple, &datagram, &mut self.out).opened;
                    if let (0, Opened::Packet { len, .. }) = (time, opened) {
                        assert_eq!(self.out[..len], inside[..]);
                        self.delivered += 1;
                    } else {
                        assert!(time > 0 && matches!(opened, Opened::Bad(_)), "{opened:?}");
                    }
                }
            }
            Op::Spoilt { len, at, bit, cut } => {
                let mut datagram = self.seal(&packet(*len));
                let at = usize::from(*at) % datagram.len();
                if *cut {
                    datagram.truncate(at);
                } else {
                    datagram[at] ^= 1 << (bit % 8);
                }
                self.forged(false, &datagram);
            }
            Op::OldHandshake => {
                let old = self.initiation.clone();
                self.forged(false, &old);
            }
            Op::Timer => {
                let _ = self.client.on_timer(&mut self.out);
            }
        }
    }

    fn seal(&mut self, packet: &[u8]) -> Vec<u8> {
        let mut out = vec![0; seal_space(packet.len())];
        let Sealed::Packet(len) = self.client.seal(packet, &mut out) else {
            panic!("the keys are gone");
        };
        out.truncate(len);
        out
    }

    /// Nobody but who has the keys is heard.
    fn forged(&mut self, at_client: bool, datagram: &[u8]) {
        let elsewhere = FourTuple::to(somewhere(9, 9));
        let opened = match at_client {
            true => self.client.open(Some(elsewhere.remote.ip()), datagram, &mut self.out),
            false => self.peers.open(&elsewhere, datagram, &mut self.out).opened,
        };
        assert!(matches!(opened, Opened::Bad(_)), "{opened:?} to {datagram:02x?}");
    }
}

/// Some of each.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let bytes = |from: u8, len: u8| (0..len).map(move |n| n.wrapping_mul(37).wrapping_add(from));
    vec![vec![0; 100], bytes(3, 200).collect(), bytes(200, 250).collect()]
}
