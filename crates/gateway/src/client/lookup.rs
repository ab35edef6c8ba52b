//! Where the names of servers lead, asked beside the tunnel: on a thread of its own, since the
//! system's resolver lets whoever asks wait.
//!
//! In TUN mode the system's resolver is of no use: its list may name the one behind the tunnel,
//! which this client, or one that crashed, has put there, and what it asks is routed into the
//! tunnel. So the resolvers that the host had before are asked here, by sockets whose packets
//! carry the mark of the paths' own.

use crate::dns;
use socket2::{Domain, Socket, Type};
use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::Duration as StdDuration;
use tabane_engine::{Duration, Instant};
use tabane_net::Clock;

/// Names as they are configured, `host:port`, with what was found; empty if nothing was.
pub(super) type Answers = Vec<(String, Vec<SocketAddr>)>;

/// How to ask beside a TUN device.
#[derive(Clone, Debug)]
pub(super) struct Beside {
    /// `SO_MARK` of what is to leave beside it.
    pub(super) mark: u32,
    /// The host's own resolvers.
    pub(super) resolvers: Vec<IpAddr>,
    /// If these do not answer, the system's resolver may: its list is not ours.
    pub(super) system: bool,
}

/// For one resolver; then the next is asked.
const PATIENCE: Duration = Duration::from_secs(2);
/// Names and addresses of this host's own knowledge.
const HOSTS: &str = "/etc/hosts";
/// That file is read no further than this.
const HOSTS_MAX: u64 = 1 << 20;

/// Asks for all names, one after the other.
pub(super) fn addresses(names: &[String], beside: Option<&Beside>) -> Answers {
    let all = names.iter().map(|name| {
        let found = match beside {
            None => system(name),
            Some(beside) => ask_beside(name, beside),
        };
        (name.clone(), found)
    });
    all.collect()
}

fn system(name: &str) -> Vec<SocketAddr> {
    name.to_socket_addrs().map(Iterator::collect).unwrap_or_default()
}

fn ask_beside(name: &str, beside: &Beside) -> Vec<SocketAddr> {
    if let Ok(address) = name.parse() {
        return vec![address];
    }
    let Some((host, port)) = name.rsplit_once(':') else { return Vec::new() };
    let Ok(port) = port.parse::<u16>() else { return Vec::new() };
    let with_port = |ip: IpAddr| SocketAddr::new(ip, port);
    if let Ok(text) = read_hosts() {
        let known = in_hosts(&text, host);
        if !known.is_empty() {
            return known.into_iter().map(with_port).collect();
        }
    }
    for resolver in &beside.resolvers {
        let at = SocketAddr::new(*resolver, dns::PORT);
        // One that cannot be asked is as one that does not answer.
        if let Ok(found) = ask(host, at, beside.mark)
            && !found.is_empty()
        {
            return found.into_iter().map(with_port).collect();
        }
    }
    if beside.system { system(name) } else { Vec::new() }
}

fn read_hosts() -> io::Result<String> {
    let mut text = String::new();
    File::open(HOSTS)?.take(HOSTS_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// Addresses that `hosts(5)` has for a name.
fn in_hosts(text: &str, name: &str) -> Vec<IpAddr> {
    let line = |line: &str| -> Option<IpAddr> {
        let line = line.split('#').next()?;
        let mut words = line.split_whitespace();
        let address = words.next()?.parse().ok()?;
        words.any(|word| word.eq_ignore_ascii_case(name)).then_some(address)
    };
    text.lines().filter_map(line).collect()
}

/// Asks one resolver, as long as [`PATIENCE`] lasts.
fn ask(host: &str, resolver: SocketAddr, mark: u32) -> io::Result<Vec<IpAddr>> {
    let socket = Socket::new(Domain::for_address(resolver), Type::DGRAM, None)?;
    socket.set_mark(mark)?;
    let any: IpAddr = match resolver {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    socket.bind(&SocketAddr::new(any, 0).into())?;
    // Only its answers are taken.
    socket.connect(&resolver.into())?;
    let socket = UdpSocket::from(socket);
    let clock = Clock::start();
    let seed = crate::seed()?;
    let mut client = dns::Client::new(seed);
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    if client.resolve(clock.now(), &host).is_err() {
        return Ok(Vec::new());
    }
    let end = clock.now() + PATIENCE;
    let mut buffer = [0; 4096];
    loop {
        let now = clock.now();
        if client.poll_timeout().is_some_and(|due| due <= now) {
            client.handle_timeout(now);
        }
        while let Some(query) = client.poll_query() {
            socket.send(&query)?;
        }
        if let Some((_, result)) = client.poll_result() {
            return Ok(result.unwrap_or_default());
        }
        if now >= end {
            return Ok(Vec::new());
        }
        let due: Instant = client.poll_timeout().map_or(end, |due| due.min(end));
        let wait = StdDuration::from(due.saturating_since(now)).max(StdDuration::from_millis(1));
        socket.set_read_timeout(Some(wait))?;
        match socket.recv(&mut buffer) {
            Ok(len) => client.handle_answer(clock.now(), &buffer[..len]),
            Err(error) if is_late(&error) => {}
            Err(error) => return Err(error),
        }
    }
}

fn is_late(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_hosts_is_read_as_the_system_does() {
        let text = "127.0.0.1 localhost\n# 192.0.2.9 vpn.example\n\
                    192.0.2.1\tvpn.example VPN # own\n\
                    2001:db8::1 other vpn.example\nnonsense vpn.example\n";
        let found = |name| -> Vec<String> {
            in_hosts(text, name).iter().map(ToString::to_string).collect()
        };
        assert_eq!(found("vpn.example"), ["192.0.2.1", "2001:db8::1"]);
        assert_eq!(found("vpn"), ["192.0.2.1"]);
        assert_eq!(found("own"), [""; 0]);
    }

    #[test]
    fn addresses_need_nobody_to_be_asked() {
        let beside = Beside { mark: 1, resolvers: Vec::new(), system: false };
        let names = ["192.0.2.1:51820", "[2001:db8::1]:7", "no.such.name.invalid:7", "x"];
        let found = addresses(&names.map(str::to_owned), Some(&beside));
        let counts: Vec<usize> = found.iter().map(|(_, found)| found.len()).collect();
        assert_eq!(counts, [1, 1, 0, 0]);
    }
}
