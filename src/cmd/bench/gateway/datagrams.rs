//! Row `datagrams`: how many datagrams of 1400 bytes go through the TUN device of a client agent,
//! each way, before any are lost. The same two namespaces as in [`super::tun`], joined by links of
//! 1500 bytes without limits; the program sends them one by one, or some by one call as programs
//! that speak QUIC do (`UDP_SEGMENT`), and takes them as they come (`UDP_GRO`). Rates are offered
//! from low to high; what is lost is lost between agents, kernel and programs that share the cores
//! of this machine.

use super::figure::{Figure, Target, Unit};
use super::program::wait;
use super::tell;
use super::tun::{FAR, World, missing};
use anyhow::{Context, anyhow, bail};
use socket2::{Domain, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use tabane_net::Clock;
use tabane_net::clock::sharpen_timers;
use tabane_net::datagrams::DatagramSocket;
use tabane_net::wireguard::Batch;

const ROW: &str = "datagrams";
const RATE: Target = Target::new(1e9, 2e9);

/// Payload of a datagram.
const SIZE: usize = 1400;
/// Of a program that sends more than one by a call.
const RUN: usize = 16;
/// Offered, Mbit/s of payload.
const RATES: [u32; 8] = [250, 500, 750, 1000, 1500, 2000, 2500, 3000];
/// How long each is.
const LENGTH_S: f64 = 2.0;
const QUICK_S: f64 = 0.7;
/// Of those offered, so many may be lost: what a machine that does something else for a moment
/// costs.
const LOST: f64 = 0.001;
/// Datagrams are sent in bursts of so long, as by programs with a timer of a millisecond.
const BURST_S: f64 = 0.001;
/// Until what is under way has come.
const GRACE: Duration = Duration::from_millis(300);
/// Asked of the kernel for the receiver.
const BUFFER: usize = 8 << 20;

/// One rate.
struct Step {
    /// Sent, bits per second of payload.
    rate: f64,
    lost: f64,
}

/// From where, to where, and its address as the sender sees it.
type Ends<'a> = (&'a DatagramSocket, &'a DatagramSocket, SocketAddr);

/// Offers rates, each way, until something is lost.
///
/// # Errors
/// Nothing comes at all.
pub(super) fn measure(quick: bool) -> anyhow::Result<Vec<Figure>> {
    let what = |way, run| format!("{SIZE}-byte datagrams, {way}, {run} a call, at most 0.1 % lost");
    if let Some(why) = missing() {
        let skip = |way| Figure::skipped(ROW, what(way, RUN), Unit::Bps, RATE, &why);
        let figures = ["up", "down"].map(skip);
        figures.iter().for_each(tell);
        return Ok(figures.to_vec());
    }
    let seconds = if quick { QUICK_S } else { LENGTH_S };
    let world = World::new()?;
    let far = world.outside(|| socket(FAR))?;
    let near = world.inside(|| socket(Ipv4Addr::UNSPECIFIED))?;
    let far_at = address(&far)?;
    let mapped = mapped(&near, far_at, &far)?;
    let mut figures = Vec::new();
    for (way, from, to, at) in [("up", &near, &far, far_at), ("down", &far, &near, mapped)] {
        for run in [RUN, 1] {
            let before = world.cpu()?;
            let steps = steps((from, to, at), run, seconds)?;
            let cpu = world.cpu()? - before;
            let figure = figure(what(way, run), &steps, cpu, seconds);
            tell(&figure);
            figures.push(figure);
        }
    }
    Ok(figures)
}

/// One rate after the other, until one loses something, or is more than the program can send.
fn steps(ends: Ends<'_>, run: usize, seconds: f64) -> anyhow::Result<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::new();
    for rate in RATES {
        let bps = f64::from(rate) * 1e6;
        let step = offer(ends, (bps, run), seconds)?;
        let over = step.lost > LOST || step.rate < bps * 0.95;
        steps.push(step);
        if over {
            break;
        }
    }
    Ok(steps)
}

fn figure(what: String, steps: &[Step], cpu: f64, seconds: f64) -> Figure {
    let held = steps.iter().filter(|step| step.lost <= LOST).map(|step| step.rate);
    let bytes: f64 = steps.iter().map(|step| step.rate * seconds / 8.0).sum();
    let words = steps
        .iter()
        .map(|step| format!("{} of {}", Unit::Share.text(step.lost), Unit::Bps.text(step.rate)));
    let note = format!(
        "lost {}; agents {:.2} s/GB",
        words.collect::<Vec<_>>().join(", "),
        cpu / bytes * 1e9
    );
    Figure::new(ROW, what, (held.fold(0.0, f64::max), Unit::Bps), RATE).note(note)
}

fn socket(at: Ipv4Addr) -> anyhow::Result<DatagramSocket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    socket.bind(&SocketAddr::from((at, 0)).into())?;
    nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::RcvBufForce, &BUFFER)?;
    DatagramSocket::new(socket).context("no socket")
}

fn address(socket: &DatagramSocket) -> anyhow::Result<SocketAddr> {
    socket.inner().local_addr()?.as_socket().context("no address")
}

/// Where the far end finds the program: as its first datagram comes from there.
fn mapped(
    near: &DatagramSocket,
    at: SocketAddr,
    far: &DatagramSocket,
) -> anyhow::Result<SocketAddr> {
    let mut batch = Batch::new();
    for _ in 0..50 {
        // One that is not taken is sent again.
        let _ = near.send(at, &[0; SIZE], SIZE);
        wait(far.inner(), Duration::from_millis(100))?;
        if far.recv(&mut batch).is_err() {
            continue;
        }
        let from = batch.datagrams().next().map(|(from, _)| from.remote);
        if let Some(from) = from {
            thread::sleep(GRACE);
            while far.recv(&mut batch).is_ok() {}
            return Ok(from);
        }
    }
    bail!("no datagram comes through the device")
}

/// Sends at a rate and counts what comes.
fn offer((from, to, at): Ends<'_>, rate: (f64, usize), seconds: f64) -> anyhow::Result<Step> {
    let (ended, came) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let sink = scope.spawn(|| receive(to, &ended, &came));
        let (sent, took) = send(from, at, rate, seconds);
        thread::sleep(GRACE);
        ended.store(true, Ordering::Relaxed);
        sink.join().map_err(|_| anyhow!("a receiver panicked"))??;
        let lost = 1.0 - came.load(Ordering::Relaxed) as f64 / sent as f64;
        Ok(Step { rate: sent as f64 * SIZE as f64 * 8.0 / took, lost })
    })
}

fn receive(from: &DatagramSocket, ended: &AtomicBool, came: &AtomicU64) -> anyhow::Result<()> {
    let mut batch = Batch::new();
    while !ended.load(Ordering::Relaxed) {
        while from.recv(&mut batch).is_ok() {
            came.fetch_add(batch.datagrams().count() as u64, Ordering::Relaxed);
        }
        wait(from.inner(), Duration::from_millis(50))?;
    }
    Ok(())
}

/// Datagrams sent, and seconds that took.
fn send(
    socket: &DatagramSocket,
    to: SocketAddr,
    (bps, run): (f64, usize),
    seconds: f64,
) -> (u64, f64) {
    sharpen_timers();
    let (clock, bytes, mut sent) = (Clock::start(), vec![0x5a; SIZE * run], 0);
    let each = SIZE as f64 * 8.0 / bps;
    let mut at = 0.0;
    while at < seconds {
        let due = (at / each) as u64;
        while sent < due {
            // One that the system does not take is lost, too.
            let _ = socket.send(to, &bytes, SIZE);
            sent += run as u64;
        }
        let next = at + BURST_S;
        let now = clock.now().as_secs_f64();
        if now < next {
            thread::sleep(Duration::from_secs_f64(next - now));
        }
        at = clock.now().as_secs_f64();
    }
    (sent, clock.now().as_secs_f64())
}
