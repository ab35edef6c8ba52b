//! One endpoint over UDP sockets, with the standard library alone: every packet of the engine is
//! the payload of a datagram. Both ends run here, each in a thread of its own; two ports of
//! 127.0.0.1 are two paths.
//!
//! `cargo run --release -p tabane-engine --example udp`

use bytes::Bytes;
use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::mpsc;
use std::thread;
use tabane_engine::config::{Config, PathConfig};
use tabane_engine::view::PathId;
use tabane_engine::{ConnId, Endpoint, Event, Instant};

/// The largest packet, bytes.
const MTU: u16 = 1400;
const LENGTH: usize = 10_000_000;

/// An endpoint and its sockets: path n is `sockets[n]`, connected to the peer's.
struct Driver {
    endpoint: Endpoint,
    sockets: Vec<UdpSocket>,
    /// Not yet looked at.
    events: VecDeque<(ConnId, Event)>,
    started: std::time::Instant,
}

impl Driver {
    fn new(host: u8, sockets: Vec<UdpSocket>) -> Result<Self, Box<dyn std::error::Error>> {
        for socket in &sockets {
            socket.set_nonblocking(true)?;
        }
        let path =
            |n: u8| PathConfig::new(PathId(n), vec![Ipv4Addr::new(10, n, 0, host).into()], MTU);
        let paths = (0..sockets.len() as u8).map(path).collect();
        let endpoint = Endpoint::new(Config::default().with(|c| c.paths = paths), [host; 32])?;
        #[expect(clippy::disallowed_methods, reason = "a driver is where the clock is")]
        let started = std::time::Instant::now();
        Ok(Self { endpoint, sockets, events: VecDeque::new(), started })
    }

    /// The engine's time: since the start of the driver.
    fn now(&self) -> Instant {
        Instant(self.started.elapsed().as_nanos() as u64)
    }

    /// One turn of the run loop: what has arrived goes in, what is due runs, and what is to leave
    /// leaves. Afterwards events are to be looked at.
    fn turn(&mut self) -> io::Result<()> {
        let mut buffer = [0; MTU as usize];
        let mut idle = true;
        for n in 0..self.sockets.len() {
            loop {
                match self.sockets[n].recv(&mut buffer) {
                    Ok(len) => {
                        let now = self.now();
                        self.endpoint.handle_packet(now, PathId(n as u8), &buffer[..len]);
                        // What it answers goes out before the next packet comes in.
                        self.drain(&mut [0; MTU as usize])?;
                        idle = false;
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    // The peer's port is closed (an ICMP error): nobody is there yet, or any more.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => break,
                    Err(error) => return Err(error),
                }
            }
        }
        let now = self.now();
        if self.endpoint.poll_timeout().is_some_and(|at| at <= now) {
            self.endpoint.handle_timeout(now);
        }
        self.drain(&mut buffer)?;
        if idle {
            // A driver for more than an example waits for its sockets or `poll_timeout`.
            thread::sleep(std::time::Duration::from_micros(200));
        }
        Ok(())
    }

    /// Takes what there is: packets to the sockets, events to the queue.
    fn drain(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        while let Some(transmit) = self.endpoint.poll_transmit(self.now(), buffer) {
            for path in transmit.paths.iter() {
                match self.sockets[usize::from(path.0)].send(&buffer[..transmit.len]) {
                    // A full socket loses the packet, as a full queue does.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                    sent => drop(sent?),
                }
            }
        }
        self.events.extend(std::iter::from_fn(|| self.endpoint.poll_event()));
        Ok(())
    }
}

/// Sends everything and waits until the peer has acknowledged it; how much each path carried.
fn client(sockets: Vec<UdpSocket>) -> Result<Vec<u64>, Box<dyn std::error::Error + Send + Sync>> {
    let mut driver = Driver::new(1, sockets).map_err(|error| error.to_string())?;
    let (local, remote) = ("10.0.0.1:0".parse()?, "10.0.0.2:80".parse()?);
    let id = driver.endpoint.connect(driver.now(), local, remote)?;
    let (mut data, mut sent) = (Bytes::from(vec![7; LENGTH]), Vec::new());
    loop {
        let now = driver.now();
        if let Some(connection) = driver.endpoint.connection(id) {
            while connection.write(&mut data) > 0 {}
            if data.is_empty() {
                connection.close(now);
            }
            let info = connection.info(now);
            sent = info.subflows.iter().map(|subflow| subflow.stats.bytes_sent).collect();
        }
        driver.turn()?;
        while let Some((_, event)) = driver.events.pop_front() {
            match event {
                Event::Flushed => return Ok(sent),
                Event::Closed(reason) => return Err(format!("{reason:?}").into()),
                _ => {}
            }
        }
    }
}

/// Receives until the client says that it is all, and closes; how many bytes came.
fn server(
    sockets: Vec<UdpSocket>,
    over: &mpsc::Receiver<()>,
) -> Result<usize, Box<dyn std::error::Error + Send + Sync>> {
    let mut driver = Driver::new(2, sockets).map_err(|error| error.to_string())?;
    driver.endpoint.listen("0.0.0.0:80".parse()?)?;
    let mut received = 0;
    while over.try_recv().is_err() {
        driver.turn()?;
        while let Some((id, event)) = driver.events.pop_front() {
            match event {
                Event::Readable => received += read(&mut driver, id),
                Event::PeerFinished => close(&mut driver, id),
                _ => {}
            }
        }
    }
    Ok(received)
}

fn read(driver: &mut Driver, id: ConnId) -> usize {
    let Some(connection) = driver.endpoint.connection(id) else { return 0 };
    std::iter::from_fn(|| connection.read(usize::MAX)).map(|data| data.len()).sum()
}

fn close(driver: &mut Driver, id: ConnId) {
    let now = driver.now();
    if let Some(connection) = driver.endpoint.connection(id) {
        connection.close(now);
    }
}

/// Two sockets that are connected to each other.
fn pair() -> io::Result<[UdpSocket; 2]> {
    let any: SocketAddr = ([127, 0, 0, 1], 0).into();
    let pair = [UdpSocket::bind(any)?, UdpSocket::bind(any)?];
    pair[0].connect(pair[1].local_addr()?)?;
    pair[1].connect(pair[0].local_addr()?)?;
    Ok(pair)
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let ([a, b], [c, d]) = (pair()?, pair()?);
    let (tell, over) = mpsc::channel();
    let serving = thread::spawn(move || server(vec![b, d], &over));
    let sent = client(vec![a, c])?;
    tell.send(())?;
    let received = serving.join().map_err(|_| "the server panicked")??;
    println!("{received} bytes arrived; sent by subflow: {sent:?}");
    if received == LENGTH { Ok(()) } else { Err("not all of them".into()) }
}
