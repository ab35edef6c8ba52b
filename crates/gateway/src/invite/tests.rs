//! Invitations: there and back, damage, what becomes of files.

use super::edit::*;
use super::*;
use crate::config::ClientConfig;
use crate::config::load::parse;

fn server(more: &str) -> String {
    let key = Key::random_private().unwrap();
    format!("# mine\nprivate_key = \"{key}\" # keep\npublic = [\"vpn.example.org:51820\"]\n{more}")
}

fn invitation(more: &str, preshared: bool) -> (Invitation, ClientEntry) {
    let loaded = parse::<ServerConfig>("s.toml", &server(more), &[]).unwrap();
    Invitation::with_keys(&loaded.config, &loaded.key, ("home", 7), preshared).unwrap()
}

fn own(invitation: &Invitation) -> Own {
    match &invitation.grant {
        Grant::Keys(own) => own.clone(),
        Grant::Enrolment { .. } => panic!("it has no keys"),
    }
}

/// An invitation holds nothing that its client will be known by, and is the same when read back.
#[test]
fn a_client_that_is_invited_makes_its_own_keys() {
    for more in ["", "network = \"10.9.0.0\"\nnetwork6 = \"fd00:1:2:3::\"\n"] {
        let loaded = parse::<ServerConfig>("s.toml", &server(more), &[]).unwrap();
        let made = Invitation::new(&loaded.config, &loaded.key, ("home", 7), 1_796_083_199);
        let (invitation, entry) = made.unwrap();
        let line = invitation.to_string();
        assert!(line.starts_with("tabane:Ag"), "{line}");
        assert_eq!(line.parse(), Ok(invitation.clone()));
        let text = add_client(&server(more), &entry).unwrap();
        let read = parse::<ServerConfig>("s.toml", &text, &[]).unwrap();
        assert_eq!(read.config.client, std::slice::from_ref(&entry), "{text}");
        let inline = add_client(&format!("client = []\n{}", server(more)), &entry).unwrap();
        assert_eq!(parse::<ServerConfig>("s", &inline, &[]).unwrap().config.client, [entry]);

        let (own, other) = (invitation.own().unwrap(), invitation.own().unwrap());
        assert!(own.secret != other.secret && own.preshared_key != other.preshared_key);
        let Grant::Enrolment { secret, .. } = &invitation.grant else { panic!("no enrolment") };
        for pending in [true, false] {
            let file = invitation.client_file(&own, &["eth0".into()], pending);
            let client = parse::<ClientConfig>("c.toml", &file, &[]).unwrap();
            assert!(client.warnings.is_empty(), "{:?}", client.warnings);
            assert_eq!(client.key, own.secret);
            let entry = &client.config.server[0];
            assert_eq!(entry.key_version, Some(2));
            assert_eq!(entry.enrolment, pending.then(|| secret.to_string().into()));
            assert!(!text.contains(&own.secret.to_string()));
        }
        assert_eq!((invitation.wireguard(Some(1)), invitation.wireguard(None)), (None, None));
    }
}

#[test]
fn a_line_says_all_and_reads_back() {
    let network = "network = \"10.9.0.0\"\nnetwork6 = \"fd00:1:2:3::\"\n";
    for (more, preshared) in [("", false), ("", true), (network, true)] {
        let (invitation, entry) = invitation(more, preshared);
        let line = invitation.to_string();
        assert!(!line.contains(char::is_whitespace));
        assert_eq!(line.parse(), Ok(invitation.clone()));
        assert_eq!(format!(" {line}\n").parse(), Ok(invitation.clone()));
        let mine = own(&invitation);
        let own: Vec<_> = (0..8).map(|i| keys::encode(&mine.secret.of_path(i).public())).collect();
        assert_eq!(entry.keys, own);
        let file = invitation.client_file(&mine, &["eth0".into(), "wwan0".into()], false);
        let client = parse::<ClientConfig>("c.toml", &file, &[]).unwrap();
        let [warning] = client.warnings.as_slice() else { panic!("{:?}", client.warnings) };
        assert!(warning.to_string().contains("invite NAME --replace"), "{warning}");
        assert_eq!(client.key, mine.secret);
        assert_eq!(client.config.server[0].inner(), invitation.network);
        assert_eq!(client.config.path.len(), 2);
        let file = invitation.client_file(&mine, &[], false);
        assert_eq!(parse::<ClientConfig>("c.toml", &file, &[]).unwrap().config.path.len(), 1);
    }
}

#[test]
fn whatever_is_damaged_is_refused() {
    let line = invitation("", true).0.to_string();
    for at in PREFIX.len()..line.len() {
        let mut bytes = line.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        let damaged = String::from_utf8(bytes).unwrap();
        assert_eq!(damaged.parse::<Invitation>(), Err(InviteError::Damaged), "{at}");
        assert_eq!(line[..at].parse::<Invitation>(), Err(InviteError::Damaged), "{at}");
    }
    assert_eq!("http://x".parse::<Invitation>(), Err(InviteError::Prefix));
    let mut later = invitation("", false).0.bytes();
    later.truncate(later.len() - CHECKSUM);
    later[0] = 3;
    let sum = Sha256::digest(&later);
    later.extend(&sum[..CHECKSUM]);
    let line = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(later));
    assert_eq!(line.parse::<Invitation>(), Err(InviteError::Version(3)));
}

#[test]
fn clients_come_and_go_and_comments_stay() {
    let (_, entry) = invitation("", true);
    let before = server("[access] # who may go where\nprivate = true\n");
    let with = add_client(&before, &entry).unwrap();
    assert!(with.starts_with(&before), "{with}");
    let config = parse::<ServerConfig>("s", &with, &[]).unwrap().config;
    assert_eq!(config.client, std::slice::from_ref(&entry));
    let second = ClientEntry { name: "b".into(), number: 8, ..invitation("", false).1 };
    let both = add_client(&with, &second).unwrap();
    assert_eq!(parse::<ServerConfig>("s", &both, &[]).unwrap().config.client.len(), 2);
    let without = remove_client(&both, "b").unwrap();
    assert_eq!(without, with);
    assert_eq!(remove_client(&with, "home").unwrap().trim(), before.trim());
    assert!(remove_client(&with, "nobody").is_err());
    let inline = format!("client = []\n{}", server(""));
    let with = add_client(&inline, &entry).unwrap();
    assert_eq!(parse::<ServerConfig>("s", &with, &[]).unwrap().config.client, [entry]);
    assert_eq!(remove_client(&with, "home").unwrap(), inline);
}

#[test]
fn a_change_is_written_only_if_it_is_sound() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.toml");
    let text = server("");
    std::fs::write(&path, &text).unwrap();
    let (_, entry) = invitation("", false);
    change(&path, |text, _| Ok((add_client(text, &entry)?, ()))).unwrap();
    let once = std::fs::read_to_string(&path).unwrap();
    let twice = change(&path, |text, _| Ok((add_client(text, &entry)?, ())));
    assert!(twice.unwrap_err().to_string().contains("has the name 'home' too"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), once);
    let gone = change(&folder.path().join("none"), |text, _| Ok((text.to_owned(), ())));
    assert!(gone.unwrap_err().to_string().contains("tabane server init"));
}

/// What a stock Linux is given: the keys that the server knows, in the shape that wg-quick reads.
#[test]
fn stock_wireguard_has_the_same_keys_and_addresses() {
    let (invitation, entry) = invitation("", true);
    let text = invitation.wireguard(Some(2)).unwrap();
    let values = |key: &str| -> Vec<&str> {
        text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix(" = ")).collect()
    };
    let public: Vec<_> = values("PrivateKey")
        .into_iter()
        .map(|key| keys::encode(&key.parse::<Key>().unwrap().public()))
        .collect();
    assert_eq!(public, entry.keys[..2]);
    assert_eq!(values("Address")[1], "10.81.0.113/32, fd74:6162:616e:6500::71/128");
    assert_eq!(values("Endpoint"), ["vpn.example.org:51820"; 2]);
    assert_eq!(values("PresharedKey").len(), 2);
    // What one line adds, another takes away.
    let added = |line: &str| text.contains(&format!("\n{line}\n"));
    assert!(added("PostUp = ip mptcp endpoint add 10.81.0.112 dev %i id 101 subflow"), "{text}");
    assert!(added("PreDown = ip mptcp endpoint delete id 101"), "{text}");
    let lines = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!(lines("PostUp"), lines("PreDown"), "{text}");
}

/// The WireGuard app refuses keys that it does not know.
#[test]
fn what_a_phone_is_given_has_nothing_of_linux() {
    let (invitation, entry) = invitation("", true);
    let text = invitation.wireguard(None).unwrap();
    let known = ["PrivateKey", "Address", "DNS", "MTU", "PublicKey", "PresharedKey", "Endpoint"];
    let known = known.into_iter().chain(["AllowedIPs", "PersistentKeepalive"]);
    let known: Vec<&str> = known.collect();
    let keys = text.lines().filter_map(|line| line.split_once(" = "));
    assert!(keys.clone().all(|(key, _)| known.contains(&key)), "{text}");
    assert_eq!(keys.clone().count(), known.len(), "{text}");
    let key = keys.clone().find(|(key, _)| *key == "PrivateKey").unwrap().1;
    assert_eq!(keys::encode(&key.parse::<Key>().unwrap().public()), entry.keys[0]);
}
