//! The host's interfaces as netlink tells them, in a network namespace of its own. Needs root and
//! `ip`; without them it says SKIPPED, and fails where `CI=true`.
#![allow(clippy::disallowed_methods)] // the kernel's own clock

#[allow(dead_code)] // Shared with the interoperation tests.
#[path = "../../../../../tests/interop/namespace.rs"]
mod namespace;

use crate::path::{Absence, Binding, Found, Links};
use namespace::Namespace;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

/// Whether namespaces can be made here.
fn possible() -> bool {
    let root = rustix::process::geteuid().is_root();
    let tool = Command::new("ip").arg("-V").output().is_ok();
    if root && tool {
        return true;
    }
    println!("SKIPPED: namespaces need root and ip");
    assert!(std::env::var("CI").as_deref() != Ok("true"), "must not be skipped in CI");
    false
}

const WAN: Binding<'_> = Binding { interface: Some("wan0"), source: None, ipv6: false };

/// Waits until `binding` is found as wanted; the time from `since`.
fn until(
    (links, woken): (&mut Links, &Receiver<()>),
    binding: &Binding<'_>,
    wanted: impl Fn(&Result<Option<Found>, Absence>) -> bool,
) -> Duration {
    let start = Instant::now();
    loop {
        links.poll();
        let found = links.find(binding);
        if wanted(&found) {
            return start.elapsed();
        }
        let left = Duration::from_secs(5).saturating_sub(start.elapsed());
        assert!(woken.recv_timeout(left).is_ok(), "woken in time; now {found:?}");
    }
}

#[test]
fn interfaces_are_followed() {
    if !possible() {
        return;
    }
    let namespace = Namespace::new('l');
    namespace.ip("link add lan0 type veth peer name lan1");
    namespace.ip("link set lan1 up");
    namespace.ip("addr add 192.0.2.1/24 dev lan0");
    namespace.ip("link set lan0 up mtu 1400");
    // The kernel says so a moment after the command has ended.
    let from = Instant::now();
    while !namespace.ip("link show dev lan0").contains("state UP") {
        assert!(from.elapsed() < Duration::from_secs(5), "lan0 has a carrier");
    }
    let (wake, woken) = channel();
    let mut links = namespace.inside(|| {
        Links::start(move || {
            let _ = wake.send(());
        })
        .unwrap()
    });
    let lan = Binding { interface: Some("lan0"), ..WAN };
    let found = links.find(&lan).unwrap().unwrap();
    let address: IpAddr = "192.0.2.1".parse().unwrap();
    assert_eq!((found.mtu, found.addresses), (1400, vec![address]), "known from the start");
    assert_eq!(links.find(&WAN), Err(Absence::NoInterface("wan0".into())));

    let mut at = (&mut links, &woken);
    namespace.ip("link add wan0 type veth peer name far0");
    until((at.0, at.1), &WAN, |f| *f == Err(Absence::Disabled("wan0".into())));
    namespace.ip("link set wan0 up");
    until((at.0, at.1), &WAN, |f| *f == Err(Absence::NoCarrier("wan0".into())));
    namespace.ip("link set far0 up");
    until((at.0, at.1), &WAN, |f| *f == Err(Absence::NoAddress("wan0".into())));
    namespace.ip("addr add 198.51.100.7/24 dev wan0");
    let took = until((at.0, at.1), &WAN, |f| f.is_ok());
    println!("an address is known {took:?} after `ip` has ended");
    // Another address, as a new lease brings it.
    namespace.ip("addr add 203.0.113.9/24 dev wan0");
    namespace.ip("addr del 198.51.100.7/24 dev wan0");
    let new: IpAddr = "203.0.113.9".parse().unwrap();
    until((at.0, at.1), &WAN, |f| {
        f.as_ref().is_ok_and(|f| f.as_ref().is_some_and(|f| f.addresses == [new]))
    });
    let source = Binding { interface: None, source: Some(new), ipv6: false };
    assert_eq!(at.0.find(&source).unwrap().unwrap().interface, "wan0");
    // The cable, the interface, the interface under another name.
    namespace.ip("link set far0 down");
    until((at.0, at.1), &source, |f| *f == Err(Absence::NoCarrier("wan0".into())));
    namespace.ip("link set wan0 down");
    namespace.ip("link set wan0 name usb0");
    until((at.0, at.1), &WAN, |f| *f == Err(Absence::NoInterface("wan0".into())));
    namespace.ip("link del usb0");
    at = (&mut links, &woken);
    until((at.0, at.1), &source, |f| *f == Err(Absence::NoSource(new)));
    drop(links);
    while woken.try_recv().is_ok() {}
    assert_eq!(woken.try_recv(), Err(TryRecvError::Disconnected), "its thread has ended");
}

/// More than the socket holds, so that changes are lost and all is listed anew while it goes on
/// changing. Which of the ways to be wrong a flood meets is luck; one in twenty was, once.
#[test]
fn floods_of_changes_end_in_the_truth() {
    if !possible() {
        return;
    }
    let namespace = Namespace::new('l');
    let (wake, woken) = channel();
    let mut links = namespace.inside(|| {
        Links::start(move || {
            let _ = wake.send(());
        })
        .unwrap()
    });
    namespace.ip("link add wan0 type veth peer name far0");
    namespace.ip("link set far0 up");
    namespace.ip("link set wan0 up");
    for count in (400..1300).step_by(37).chain([2000]) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), namespace_batch(count)).unwrap();
        let mut ip = namespace.command("ip");
        namespace::run(ip.args(["-batch", file.path().to_str().unwrap()]));
        let last = address(count - 1);
        until(
            (&mut links, &woken),
            &WAN,
            |found| matches!(found, Ok(Some(found)) if found.addresses == [IpAddr::from(last)]),
        );
        namespace.ip(&format!("addr del {last}/32 dev wan0"));
    }
}

fn address(i: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 0).to_bits() + i)
}

/// Adds that many addresses and removes all but the last.
fn namespace_batch(count: u32) -> String {
    let add = (0..count).map(|i| format!("addr add {}/32 dev wan0\n", address(i)));
    let remove = (0..count - 1).map(|i| format!("addr del {}/32 dev wan0\n", address(i)));
    add.chain(remove).collect()
}
