//! The same with QUIC: one connection of a client behind the gateway to a server beyond it, each
//! on a thread of its own.

use super::super::figure::{Figure, Unit};
use super::super::link::{Link, bed};
use super::super::program::{Program, wait};
use super::super::tell;
use super::{BEST, ORDER, SUM};
use anyhow::{Context, Error, anyhow};
use end::{Configs, End};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tabane_gateway::config::rule::{Policies, UdpMode};
use tabane_net::clock::sharpen_timers;

#[path = "../../../../../crates/gateway/tests/quic/mod.rs"]
mod end;

/// As far apart as a cable and a satellite in low orbit.
const LINKS: [Link; 2] = [Link::new(100, 10), Link::new(60, 60)];
/// Time in which QUIC finds its window, and the time that is measured.
const WARM_UP: f64 = 8.0;
const MEASURED: f64 = 15.0;
/// A socket's buffer: some milliseconds of both links.
const BUFFER: usize = 4 << 20;
/// Datagrams taken from a socket before others are sent.
const TURN: usize = 64;
const PATIENCE: Duration = Duration::from_millis(5);

/// Speed of a download by QUIC.
///
/// # Errors
/// A gateway that does not start, or a download that does not.
pub(in super::super) fn measure(quick: bool) -> anyhow::Result<Vec<Figure>> {
    let scale = if quick { 0.5 } else { 1.0 };
    let mut alone = Vec::new();
    for link in LINKS {
        alone.push(download(&[link], scale)?);
    }
    let both = download(&LINKS, scale)?;
    let rates = alone.iter().map(|download| download.rate);
    let (sum, best) = (rates.clone().sum::<f64>(), rates.fold(0.0, f64::max));
    let [a, b] = LINKS;
    let rates = [both.rate, alone[0].rate, alone[1].rate].map(|rate| Unit::Bps.text(rate));
    let note = format!("{} over {a} + {b}; alone {} and {}", rates[0], rates[1], rates[2]);
    let figure =
        |what: &str, value, target| Figure::new("quic", what, value, target).note(note.clone());
    let figures = vec![
        figure("of the sum of the links", (both.rate / sum, Unit::Share), SUM),
        figure("of the better link", (both.rate / best, Unit::Share), BEST),
        figure("datagrams out of order", (both.reordered as f64, Unit::Count), ORDER),
    ];
    figures.iter().for_each(tell);
    Ok(figures)
}

/// What a download has had.
struct Download {
    /// Bits of payload per second.
    rate: f64,
    /// Datagrams that came after later ones, in all its time.
    reordered: u64,
}

#[expect(clippy::disallowed_methods, reason = "quinn counts in the system's time")]
fn download(links: &[Link], scale: f64) -> anyhow::Result<Download> {
    let policies = Policies { udp: Some(UdpMode::Bond), ..Policies::default() };
    let bed = bed(links, policies, |_| {})?;
    let configs = Configs::new().map_err(Error::from_boxed)?;
    let far = socket()?;
    let stop = Arc::new(AtomicBool::new(false));
    let (at, stopped) = (far.local_addr()?, stop.clone());
    let server = End::server(&configs, None);
    let thread =
        thread::Builder::new().name("quic".into()).spawn(move || serve(server, &far, &stopped))?;
    let program = Program::new(bed.socks, at)?;
    program.receives(BUFFER)?;
    sharpen_timers();
    let start = Instant::now();
    let mut client = End::client(&configs, (start, at), None).map_err(Error::from_boxed)?;
    let mut send = |payload: &[u8]| program.send_bytes(payload);
    let [warm, end] = [WARM_UP * scale, (WARM_UP + MEASURED) * scale].map(Duration::from_secs_f64);
    let (mut before, mut buffer) = (None, vec![0; 1 << 16]);
    let (mut newest, mut reordered) = (0, 0);
    while start.elapsed() < end {
        if before.is_none() && start.elapsed() >= warm {
            before = Some((client.read, Instant::now()));
        }
        client.run(Instant::now(), &mut send);
        let mut patience = patience(&mut client);
        for _ in 0..TURN {
            let Some(datagram) = program.recv(patience, &mut buffer)? else { break };
            let Some((payload, count)) = datagram.split_last_chunk() else { continue };
            let count = u64::from_be_bytes(*count);
            reordered += u64::from(count < newest);
            newest = newest.max(count);
            client.handle((Instant::now(), at), payload, &mut send);
            patience = Duration::ZERO;
        }
    }
    let (read, since) = before.context("it has not begun")?;
    let rate = (client.read - read) as f64 * 8.0 / since.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    thread.join().map_err(|_| anyhow!("the far end panicked"))??;
    bed.end()?;
    anyhow::ensure!(rate > 0.0, "QUIC carries nothing");
    Ok(Download { rate, reordered })
}

/// Behind QUIC's own bytes, which mean nothing to a gateway but for the first few, each datagram
/// says the how-many-th it is.
#[expect(clippy::disallowed_methods, reason = "quinn counts in the system's time")]
fn serve(mut end: End, socket: &UdpSocket, stop: &AtomicBool) -> anyhow::Result<()> {
    let (mut buffer, mut program) = (vec![0; 1 << 16], None::<SocketAddr>);
    let mut count = 0_u64;
    sharpen_timers();
    while !stop.load(Ordering::Relaxed) {
        let mut send = |payload: &[u8]| {
            if let Some(program) = program {
                count += 1;
                let _ = socket.send_to(&[payload, &count.to_be_bytes()].concat(), program);
            }
        };
        end.run(Instant::now(), &mut send);
        let mut patience = patience(&mut end);
        for _ in 0..TURN {
            if !patience.is_zero() {
                wait(socket, patience)?;
            }
            let Ok((len, from)) = socket.recv_from(&mut buffer) else { break };
            program = Some(from);
            end.handle((Instant::now(), from), &buffer[..len], &mut |answer| {
                count += 1;
                let _ = socket.send_to(&[answer, &count.to_be_bytes()].concat(), from);
            });
            patience = Duration::ZERO;
        }
    }
    Ok(())
}

/// Until it has something to do.
#[expect(clippy::disallowed_methods, reason = "quinn counts in the system's time")]
fn patience(end: &mut End) -> Duration {
    let wait = end.poll_timeout().map(|due| due.saturating_duration_since(Instant::now()));
    wait.map_or(PATIENCE, |wait| wait.min(PATIENCE))
}

fn socket() -> anyhow::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("no socket")?;
    socket.set_nonblocking(true)?;
    let options = socket2::SockRef::from(&socket);
    options.set_recv_buffer_size(BUFFER)?;
    Ok(socket)
}
