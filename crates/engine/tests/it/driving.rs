//! The rules of the run loop (head of `endpoint.rs`): debug builds refuse what breaks them.
use tabane_engine::config::{Config, PathConfig};
use tabane_engine::view::PathId;
use tabane_engine::{Endpoint, Event, Instant};

const NOW: Instant = Instant(1_000);
const LATER: Instant = Instant(2_000);

fn endpoint(host: u8) -> Endpoint {
    let path = PathConfig::new(PathId(0), vec![[10, 0, 0, host].into()], 1500);
    Endpoint::new(Config::default().with(|c| c.paths = vec![path]), [host; 32]).unwrap()
}

/// Everything that `from` wants to send arrives at `to`.
fn deliver(now: Instant, from: &mut Endpoint, to: &mut Endpoint) {
    while let Some(departure) = from.poll_segment(now) {
        to.handle_segment(now, PathId(0), &departure.segment);
    }
}

/// A client that knows that it is connected, but nobody has asked it.
fn connected() -> Endpoint {
    let (mut client, mut server) = (endpoint(1), endpoint(2));
    server.listen("10.0.0.2:80".parse().unwrap()).unwrap();
    client.connect(NOW, "10.0.0.1:0".parse().unwrap(), "10.0.0.2:80".parse().unwrap()).unwrap();
    deliver(NOW, &mut client, &mut server);
    assert!(client.poll_event().is_none());
    deliver(NOW, &mut server, &mut client);
    client
}

#[test]
fn inputs_may_come_in_batches() {
    let mut client = connected();
    for now in [NOW, LATER] {
        client.handle_timeout(now);
        client.handle_packet(now, PathId(0), b"nonsense");
    }
    assert!(matches!(client.poll_event(), Some((_, Event::Connected))));
}

#[test]
fn nobody_sleeps_while_an_event_waits() {
    let mut client = connected();
    while client.poll_segment(NOW).is_some() {}
    assert_eq!(client.poll_timeout(), Some(NOW));
    while client.poll_event().is_some() {}
    while client.poll_segment(NOW).is_some() {}
    assert!(client.poll_timeout().is_none_or(|due| due > NOW));
}

#[test]
fn segments_may_be_left_for_later_once_the_events_are_taken() {
    let mut client = connected();
    while client.poll_event().is_some() {}
    assert!(client.poll_segment(NOW).is_some());
    client.handle_timeout(LATER);
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "checked in debug builds")]
#[should_panic(expected = "an input before the events of the last ones were taken")]
fn events_may_not_be_left() {
    let mut client = connected();
    while client.poll_segment(NOW).is_some() {}
    client.handle_timeout(LATER);
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "checked in debug builds")]
#[should_panic(expected = "time goes back")]
fn time_does_not_go_back() {
    let mut client = connected();
    client.handle_timeout(LATER);
    client.handle_timeout(NOW);
}
