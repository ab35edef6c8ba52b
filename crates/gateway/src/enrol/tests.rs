//! What travels, and what a server takes for keys.

use super::store::{Former, Record, Store, StoreError};
use super::*;
use crate::config::{ClientEntry, InvitationEntry, ServerConfig};
use proptest::prelude::*;

fn credentials(server: &Key) -> Credentials {
    Credentials::of(&Key::random().unwrap(), &server.public(), &Key::random().unwrap())
}

fn config(invitations: &[&str]) -> ServerConfig {
    let entry = |(number, key): (usize, &&str)| ClientEntry {
        name: format!("c{number}"),
        number: number as u16 + 1,
        invitation: Some(InvitationEntry { key: (*key).into(), ..InvitationEntry::default() }),
        ..ClientEntry::default()
    };
    let client = invitations.iter().enumerate().map(entry).collect();
    ServerConfig { client, ..ServerConfig::default() }
}

#[test]
fn every_question_fits_one_datagram_and_reads_back() {
    let server = Key::random_private().unwrap();
    let new = credentials(&server);
    new.check(&server).unwrap();
    for ask in [Ask::Join(new.clone()), Ask::Rotate { new, keep_s: KEEP_MAX_S }, Ask::Resume] {
        let text = serde_json::to_vec(&ask).unwrap();
        assert!(text.len() <= LENGTH_MAX, "{}", text.len());
        assert_eq!(serde_json::from_slice::<Ask>(&text).unwrap(), ask);
    }
}

#[test]
fn keys_that_are_none_or_of_others_are_refused() {
    let server = Key::random_private().unwrap();
    let good = credentials(&server);
    let wrong = |change: &dyn Fn(&mut Credentials)| {
        let mut new = good.clone();
        change(&mut new);
        new.check(&server).unwrap_err()
    };
    assert!(wrong(&|c| c.keys.truncate(7)).contains("expected 8"));
    assert!(wrong(&|c| c.keys[3] = "x".into()).contains("no base64"));
    assert!(wrong(&|c| c.control.clone_from(&c.keys[0])).contains("twice"));
    assert!(wrong(&|c| c.keys[0] = keys::encode(&server.public())).contains("server's own"));
    assert!(wrong(&|c| c.keys[0] = keys::encode(&[0; 32].into())).contains("low order"));
    assert!(wrong(&|c| c.preshared_key = "AAAA".into()).contains("length"));
}

#[test]
fn the_preshared_key_is_not_shown() {
    let new = credentials(&Key::random_private().unwrap());
    assert!(!format!("{:?}", Ask::Join(new.clone())).contains(&*new.preshared_key));
}

#[test]
fn records_survive_and_go_with_their_clients() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clients.json");
    let server = Key::random_private().unwrap();
    let record = |former| Record { current: credentials(&server), since: 100, former };
    let mut store = Store::open(Some(&path)).unwrap();
    let former = Former { credentials: credentials(&server), until: 200 };
    let (one, two) = (record(Some(former)), record(None));
    store.put("one", one.clone()).unwrap();
    store.put("two", two.clone()).unwrap();
    assert!(!crate::keys::is_exposed(&path));

    let mut store = Store::open(Some(&path)).unwrap();
    let mut both = config(&["one", "two", "three"]);
    store.fill(&mut both);
    assert_eq!(both.client[0].keys, one.current.keys);
    assert_eq!(both.client[1].preshared_key.as_ref(), Some(&two.current.preshared_key));
    assert!(both.client[2].keys.is_empty() && both.client[2].enrolled.is_none());
    store.prune(&config(&["one", "two"]), 199).unwrap();
    assert_eq!(store.get("one"), Some(&one));
    store.prune(&config(&["one"]), 200).unwrap();
    let again = Store::open(Some(&path)).unwrap();
    assert_eq!(again.get("one"), Some(&Record { former: None, ..one }));
    assert_eq!(again.get("two"), None);
}

#[test]
fn what_cannot_be_written_does_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let server = Key::random_private().unwrap();
    let record = Record { current: credentials(&server), since: 0, former: None };
    let mut nowhere = Store::default();
    assert!(matches!(nowhere.put("a", record.clone()), Err(StoreError::Nowhere)));
    let gone = folder.path().join("gone/clients.json");
    let mut store = Store::open(Some(&gone)).unwrap();
    assert!(matches!(store.put("a", record), Err(StoreError::Write(..))));
    assert_eq!(store.get("a"), None);
    let path = folder.path().join("clients.json");
    std::fs::write(&path, "{").unwrap();
    assert!(matches!(Store::open(Some(&path)), Err(StoreError::Content(..))));
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_a_question_or_none(bytes: Vec<u8>) {
        let _ = serde_json::from_slice::<Ask>(&bytes);
        let _ = serde_json::from_slice::<Reply>(&bytes);
    }
}
