//! Rows `setup` and `udp`: what the gateway adds to a path's own time. The path alone is the same
//! emulated link between a program and the far end, with no gateway, measured in turn with it.

use super::figure::{Figure, Target, Unit};
use super::link::{Link, bed};
use super::program::echo;
use super::{quantile, tell};
use crate::bed::source::Source;
use crate::bed::{associate, connect, status};
use anyhow::{Context, anyhow, bail};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tabane_engine::Instant;
use tabane_gateway::config::rule::{Policies, UdpMode};
use tabane_gateway::request_channel::RequestSender;
use tabane_lab::LabError;
use tabane_lab::loopback::{Loopback, Report};
use tabane_net::Clock;
use tabane_net::clock::sharpen_timers;
use tabane_sim::seed::Seed;

const SETUP: Target = Target::new(2e-3, 1e-3);
const ADDED: Target = Target::new(1e-3, 0.3e-3);

/// A connection begins by the first, and a doubled datagram comes by it.
const LINKS: [Link; 2] = [Link::new(100, 20), Link::new(50, 40)];

const CONNECTS: usize = 60;
const DATAGRAMS: usize = 1500;
/// Runs that are this much shorter are quick.
const QUICK: usize = 4;
/// Between datagrams.
const PAUSE: Duration = Duration::from_millis(3);
/// Payload: two times, and what makes it a packet of a game.
const SIZE: usize = 200;
/// Without anything for so long, nothing more comes.
const PATIENCE: Duration = Duration::from_millis(500);

/// A link alone, to a far end that sends datagrams back.
struct Bare {
    socket: UdpSocket,
    network: JoinHandle<Result<Report, LabError>>,
    stop: UnixStream,
}

/// One way's times, seconds.
#[derive(Default)]
struct Times(Vec<f64>);

/// Time to connect, beside the path's round trip.
///
/// # Errors
/// A connection that fails.
pub(super) fn measure_setup(quick: bool) -> anyhow::Result<Vec<Figure>> {
    let count = if quick { CONNECTS / QUICK } else { CONNECTS };
    let (clock, source) = (Clock::start(), Source::start()?);
    let bare = Bare::start(clock, echo(clock)?)?;
    let bed = bed(&LINKS, Policies::default(), |_| {})?;
    let (mut connects, mut trips) = (Times::default(), Times::default());
    for _ in 0..count {
        trips.0.push(bare.round_trip(clock)?);
        let before = clock.now();
        drop(connect(bed.socks, source.address())?);
        connects.0.push(clock.now().saturating_since(before).as_secs_f64());
    }
    bed.end()?;
    bare.end()?;
    let [connect, trip] = [connects.at(0.5)?, trips.at(0.5)?];
    let note = format!(
        "medians of {count}: {} to connect, {} the path's round trip; 95 %: {} more",
        Unit::Seconds.text(connect),
        Unit::Seconds.text(trip),
        Unit::Seconds.text(connects.at(0.95)? - trips.at(0.95)?),
    );
    let value = (connect - trip, Unit::Seconds);
    let figure = Figure::new("setup", "beyond the path's round trip", value, SETUP).note(note);
    tell(&figure);
    Ok(vec![figure])
}

/// Time that a doubled datagram takes one way, beside the path alone.
///
/// # Errors
/// Datagrams that do not come.
pub(super) fn measure_udp(quick: bool) -> anyhow::Result<Vec<Figure>> {
    let count = if quick { DATAGRAMS / QUICK } else { DATAGRAMS };
    let clock = Clock::start();
    let far = echo(clock)?;
    let bare = Bare::start(clock, far)?;
    let policies = Policies { udp: Some(UdpMode::Duplicate), ..Policies::default() };
    let bed = bed(&LINKS, policies, |_| {})?;
    let (_control, relay) = associate(bed.socks)?;
    let program = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("no socket")?;
    program.connect(relay)?;
    let head = head(far)?;
    until_doubled(&program, &head, [&bed.client, &bed.server])?;
    let four_tuples = [(&bare.socket, &[][..]), (&program, &head[..])];
    let [alone, doubled] = in_turn(clock, four_tuples, count)?;
    bed.end()?;
    bare.end()?;
    let mut figures = Vec::new();
    for (name, share) in [("half", 0.5), ("99 %", 0.99)] {
        let [alone, doubled] = [alone.at(share)?, doubled.at(share)?];
        let [here, there] = [doubled, alone].map(|time| Unit::Seconds.text(time));
        let note = format!("one way: {here} beside {there}, {count} each way");
        let what = format!("added one way, doubled: {name} within");
        let value = (doubled - alone, Unit::Seconds);
        figures.push(Figure::new("udp", what, value, ADDED).note(note));
    }
    figures.iter().for_each(tell);
    Ok(figures)
}

impl Bare {
    fn start(clock: Clock, far: SocketAddr) -> anyhow::Result<Self> {
        let (emulator, ends) = Loopback::new(clock, Seed(1), far, &[LINKS[0].config()?])?;
        let network = thread::Builder::new().name("bare".into()).spawn(move || emulator.run())?;
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("no socket")?;
        socket.connect(ends.near[0])?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { socket, network, stop: ends.stop })
    }

    fn round_trip(&self, clock: Clock) -> anyhow::Result<f64> {
        let before = clock.now();
        self.socket.send(&[0; SIZE])?;
        self.socket.recv(&mut [0; SIZE]).context("the path alone carries nothing")?;
        Ok(clock.now().saturating_since(before).as_secs_f64())
    }

    fn end(self) -> anyhow::Result<()> {
        drop(self.stop);
        self.network.join().map_err(|_| anyhow!("the emulated network panicked"))??;
        Ok(())
    }
}

impl Times {
    fn at(&self, share: f64) -> anyhow::Result<f64> {
        quantile(&mut self.0.clone(), share).context("nothing came")
    }
}

/// Sends by both ways in turn, and collects how long each datagram took there, and back.
fn in_turn(
    clock: Clock,
    four_tuples: [(&UdpSocket, &[u8]); 2],
    count: usize,
) -> anyhow::Result<[Times; 2]> {
    thread::scope(|scope| {
        let collect = |(socket, head): (&UdpSocket, &[u8])| collect(clock, socket, head.len());
        let [a, b] = four_tuples.map(|four_tuple| scope.spawn(move || collect(four_tuple)));
        sharpen_timers();
        for _ in 0..count {
            for (socket, head) in four_tuples {
                let mut datagram = head.to_vec();
                datagram.extend_from_slice(&clock.now().0.to_be_bytes());
                datagram.resize(head.len() + SIZE, 0);
                // One that is not taken is one that does not come.
                let _ = socket.send(&datagram);
                thread::sleep(PAUSE / 2);
            }
        }
        let mut all = Vec::new();
        for thread in [a, b] {
            all.push(thread.join().map_err(|_| anyhow!("a collector panicked"))??);
        }
        for times in &all {
            // Both ways of each, but for what the machine loses at its worst.
            if times.0.len() < count * 2 * 9 / 10 {
                bail!("only {} of {} datagrams came", times.0.len() / 2, count);
            }
        }
        let [a, b] = <[Times; 2]>::try_from(all).map_err(|_| anyhow!("not two ways"))?;
        Ok([a, b])
    })
}

fn collect(clock: Clock, socket: &UdpSocket, head: usize) -> anyhow::Result<Times> {
    socket.set_read_timeout(Some(PATIENCE))?;
    let (mut times, mut buffer) = (Times::default(), [0; 2048]);
    while let Ok(len) = socket.recv(&mut buffer) {
        let now = clock.now();
        let time = |at: usize| {
            let bytes = buffer[..len].get(head + at..head + at + 8)?.try_into().ok()?;
            Some(Instant(u64::from_be_bytes(bytes)))
        };
        let (Some(sent), Some(turned)) = (time(0), time(8)) else { continue };
        times.0.push(turned.saturating_since(sent).as_secs_f64());
        times.0.push(now.saturating_since(turned).as_secs_f64());
    }
    Ok(times)
}

/// Sends until both ends have removed copies: the server has the client's request, and each
/// knows that the other numbers.
fn until_doubled(
    socket: &UdpSocket,
    head: &[u8],
    agents: [&RequestSender; 2],
) -> anyhow::Result<()> {
    socket.set_read_timeout(Some(Duration::from_millis(20)))?;
    let clock = Clock::start();
    loop {
        let mut doubled = true;
        for agent in agents {
            let counters = status(agent)?.counters;
            doubled &= counters.iter().any(|(name, n)| name == "datagram_copies_removed" && *n > 0);
        }
        if doubled {
            break;
        }
        if clock.now().as_secs_f64() > 10.0 {
            bail!("datagrams are not doubled");
        }
        socket.send(&[head, &[0; SIZE]].concat())?;
        let _ = socket.recv(&mut [0; 2048]);
    }
    // What is still under way is not measured.
    socket.set_read_timeout(Some(PATIENCE))?;
    while socket.recv(&mut [0; 2048]).is_ok() {}
    Ok(())
}

/// What SOCKS5 puts before a datagram (RFC 1928 section 7).
fn head(to: SocketAddr) -> anyhow::Result<Vec<u8>> {
    let SocketAddr::V4(to) = to else { bail!("{to} is not IPv4") };
    Ok([&[0, 0, 0, 1][..], &to.ip().octets(), &to.port().to_be_bytes()].concat())
}
