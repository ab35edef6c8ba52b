//! The resolver in virtual time, against answers made by the service's own code.

use super::*;
use crate::dns::message::{Query, answer, parse_query};
use proptest::prelude::*;
use simple_dns::RCODE;

struct World {
    client: Client,
    now: Instant,
}

impl World {
    fn new() -> Self {
        Self { client: Client::new([7; 32]), now: Instant::ZERO }
    }

    fn wait(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
        self.client.handle_timeout(self.now);
    }

    fn queries(&mut self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.client.poll_query()).collect()
    }

    /// Answers a query with those addresses that are of its family.
    fn answer(&mut self, query: &[u8], addresses: &[&str], code: RCODE) {
        let addresses: Vec<IpAddr> = addresses.iter().map(|text| text.parse().unwrap()).collect();
        let bytes = answer(query, &addresses, 60, code).unwrap();
        self.client.handle_answer(self.now, &bytes);
    }

    fn results(&mut self) -> Vec<(LookupId, String)> {
        let show = |result: Result<Vec<IpAddr>, ConnectError>| match result {
            Ok(addresses) => {
                addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
            }
            Err(why) => format!("{why:?}"),
        };
        std::iter::from_fn(|| self.client.poll_result()).map(|(id, r)| (id, show(r))).collect()
    }
}

const NAME: &str = "www.example.org";
const BOTH: [&str; 3] = ["192.0.2.1", "2001:db8::1", "192.0.2.2"];

#[test]
fn both_families_are_asked_and_come_in_order() {
    let mut world = World::new();
    let id = world.client.resolve(world.now, NAME).unwrap();
    let queries = world.queries();
    let states: Vec<_> = queries.iter().map(|query| parse_query(query)).collect();
    let expected =
        [Family::V4, Family::V6].map(|family| Some(Query::Addresses(NAME.into(), family)));
    assert_eq!(states, expected);
    assert_ne!(queries[0][..2], queries[1][..2], "ids");
    world.answer(&queries[1], &BOTH, RCODE::NoError);
    assert!(world.results().is_empty());
    world.answer(&queries[0], &BOTH, RCODE::NoError);
    assert_eq!(world.results(), [(id, "2001:db8::1 192.0.2.1 192.0.2.2".into())]);
    assert_eq!(world.client.poll_timeout(), None);
    // And it is remembered for a minute.
    let again = world.client.resolve(world.now, NAME).unwrap();
    assert_eq!(world.results(), [(again, "2001:db8::1 192.0.2.1 192.0.2.2".into())]);
    world.wait(60_000);
    world.client.resolve(world.now, NAME).unwrap();
    assert_eq!((world.results().len(), world.queries().len()), (0, 2));
}

#[test]
fn one_family_waits_little_for_the_other() {
    let mut world = World::new();
    let id = world.client.resolve(world.now, NAME).unwrap();
    let queries = world.queries();
    world.wait(20);
    world.answer(&queries[0], &BOTH, RCODE::NoError);
    assert_eq!(world.client.poll_timeout(), Some(world.now + OTHER_FAMILY));
    world.wait(49);
    assert!(world.results().is_empty());
    world.wait(1);
    assert_eq!(world.results(), [(id, "192.0.2.1 192.0.2.2".into())]);
    // Half an answer is not remembered.
    world.client.resolve(world.now, NAME).unwrap();
    assert_eq!(world.queries().len(), 2);
}

#[test]
fn queries_are_repeated_then_given_up() {
    let mut world = World::new();
    let id = world.client.resolve(world.now, NAME).unwrap();
    let first = world.queries();
    let mut times = Vec::new();
    while let Some(at) = world.client.poll_timeout() {
        world.now = at;
        world.client.handle_timeout(at);
        let again = world.queries();
        if !again.is_empty() {
            assert_eq!(again, first, "the same ids");
            times.push(at.as_millis());
        }
    }
    assert_eq!(times, [300, 900, 2100, 4500]);
    assert_eq!((world.now.as_millis(), world.results()), (10_000, vec![(id, "NameFailed".into())]));
    // An answer that comes now is nobody's.
    world.answer(&first[0], &BOTH, RCODE::NoError);
    assert!(world.results().is_empty() && world.client.ids.is_empty());
}

#[test]
fn failures_are_told_apart() {
    for (v4, v6, result, remembered) in [
        (RCODE::NameError, RCODE::NameError, "NameNotFound", true),
        (RCODE::NoError, RCODE::NoError, "NameNotFound", true),
        (RCODE::ServerFailure, RCODE::NoError, "NameFailed", false),
        (RCODE::ServerFailure, RCODE::Refused, "NameFailed", false),
    ] {
        let mut world = World::new();
        let id = world.client.resolve(world.now, NAME).unwrap();
        let queries = world.queries();
        world.answer(&queries[0], &[], v4);
        world.answer(&queries[1], &[], v6);
        assert_eq!(world.results(), [(id, result.into())]);
        world.client.resolve(world.now, NAME).unwrap();
        assert_eq!(world.queries().is_empty(), remembered);
    }
}

#[test]
fn a_name_is_asked_once_for_all() {
    let mut world = World::new();
    let ids: Vec<_> = (0..5).map(|_| world.client.resolve(world.now, NAME).unwrap()).collect();
    let queries = world.queries();
    assert_eq!(queries.len(), 2);
    for query in &queries {
        world.answer(query, &BOTH, RCODE::NoError);
    }
    let got: Vec<_> = world.results().into_iter().map(|(id, _)| id).collect();
    assert_eq!(got, ids);
}

#[test]
fn only_the_answer_to_the_question_counts() {
    let mut world = World::new();
    world.client.resolve(world.now, NAME).unwrap();
    world.client.resolve(world.now, "other.example").unwrap();
    let queries = world.queries();
    // Another name's answer, or another family's, under this id.
    for wrong in [2, 1] {
        let mut bytes = answer(&queries[wrong], &[], 60, RCODE::NameError).unwrap();
        bytes[..2].copy_from_slice(&queries[0][..2]);
        world.client.handle_answer(world.now, &bytes);
    }
    let mut unknown = answer(&queries[0], &[], 60, RCODE::NameError).unwrap();
    unknown[0] ^= 1;
    world.client.handle_answer(world.now, &unknown);
    assert_eq!(world.client.ids.len(), 4);
    world.answer(&queries[0], &BOTH, RCODE::NoError);
    assert_eq!(world.client.ids.len(), 3);
}

#[test]
fn memory_is_bounded() {
    let mut world = World::new();
    for i in 0..LOOKUPS_MAX {
        world.client.resolve(world.now, &format!("{i}.example")).unwrap();
    }
    assert_eq!(world.client.resolve(world.now, "one.more"), Err(ConnectError::Busy));
    let same = |world: &mut World| world.client.resolve(world.now, "1.example");
    let mut accepted = 0;
    while same(&mut world).is_ok() {
        accepted += 1;
    }
    assert_eq!(accepted, WAITERS_MAX - LOOKUPS_MAX);
    // A loop that takes no queries does not make them pile up.
    for _ in 0..20 {
        world.wait(600);
    }
    assert!(world.client.queries.len() <= 2 * LOOKUPS_MAX + 2);
    assert_eq!(world.results().len(), WAITERS_MAX);
    assert!(world.client.lookups.is_empty() && world.client.timers.is_empty());
    assert!(world.client.waiting.is_empty() && world.client.names.is_empty());
}

#[derive(Clone, Debug)]
enum Op {
    Resolve(u8),
    Wait(u16),
    /// Answer a query asked so far: which, how.
    Answer(prop::sample::Index, u8),
    Junk(Vec<u8>),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (0..5u8).prop_map(Op::Resolve),
        (0..3000u16).prop_map(Op::Wait),
        (any::<prop::sample::Index>(), 0..4u8).prop_map(|(at, how)| Op::Answer(at, how)),
        any::<Vec<u8>>().prop_map(Op::Junk),
    ]
}

proptest! {
    /// Every call gets exactly one result, within the patience.
    #[test]
    fn every_call_is_answered_once(ops in prop::collection::vec(op(), 0..60)) {
        let mut world = World::new();
        let (mut open, mut queries) = (BTreeMap::new(), Vec::new());
        let take = |world: &mut World, open: &mut BTreeMap<LookupId, Instant>| {
            while let Some((id, _)) = world.client.poll_result() {
                let since = open.remove(&id).expect("asked, and not answered before");
                assert!(world.now.saturating_since(since) <= PATIENCE + Duration::from_secs(3));
            }
        };
        for op in ops {
            match op {
                Op::Resolve(n) => {
                    let id = world.client.resolve(world.now, &format!("{n}.example")).unwrap();
                    open.insert(id, world.now);
                }
                Op::Wait(ms) => world.wait(u64::from(ms)),
                Op::Answer(_, _) if queries.is_empty() => {}
                Op::Answer(at, how) => {
                    let query: &Vec<u8> = &queries[at.index(queries.len())];
                    let code = [RCODE::NoError, RCODE::NameError, RCODE::ServerFailure];
                    let code = code[usize::from(how).min(2)];
                    world.answer(&query.clone(), if how == 0 { &BOTH } else { &[] }, code);
                }
                Op::Junk(bytes) => world.client.handle_answer(world.now, &bytes),
            }
            queries.extend(world.queries());
            take(&mut world, &mut open);
        }
        for _ in 0..4 {
            world.wait(2500);
            take(&mut world, &mut open);
        }
        prop_assert!(open.is_empty());
        prop_assert!(world.client.ids.is_empty() && world.client.lookups.is_empty());
    }
}
