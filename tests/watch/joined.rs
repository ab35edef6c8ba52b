//! From an invitation to other keys, with agents as built on loopback: nobody edits a file.

use crate::place::Place;
use std::net::UdpSocket;
use std::time::Duration;

#[test]
fn an_invitation_a_client_other_keys() {
    let mut place = Place::new();
    let (server, client) = (place.file("s.toml"), place.file("c.toml"));
    place.invite();
    let said = place.join(&[]);
    assert!(said.contains("the server knows this client now"), "{said}");
    assert!(!place.read("c.toml").contains("enrolment"), "nothing is left of the line");
    place.works("the client that has joined");
    assert!(place.ok(&["server", "list", "-c", &server]).contains("has joined"));

    let line = place.file("line");
    let again = ["client", "join", "--file", &line, "--out", &place.file("d.toml")];
    let (code, said) = place.run(&again);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("has been used") && !place.path("d.toml").exists(), "{said}");

    let before = place.read("c.toml");
    let said = place.ok(&["client", "rotate", "-c", &client, "--keep", "1h"]);
    assert!(said.contains("1 h") && !place.path("c.toml.next").exists(), "{said}");
    let after = place.read("c.toml");
    let secret = |text: &str| text.lines().find(|l| l.starts_with("secret = ")).unwrap().to_owned();
    assert_ne!(secret(&before), secret(&after));
    place.stop_last();
    place.works("the new keys");

    // The keys before may not change keys any more, and end at once if that is said.
    place.write("old.toml", &before);
    let (code, said) = place.run(&["client", "rotate", "-c", &place.file("old.toml")]);
    assert!(code == Some(1) && said.contains("has been replaced"), "{said}");
    std::thread::sleep(Duration::from_secs(11));
    place.ok(&["client", "rotate", "-c", &client, "--keep", "0s"]);
    place.stop_last();
    place.works("keys without any before them");
    place.ok(&["server", "remove", "home", "-c", &server]);
    place.until_paths("it is revoked", "down");
}

/// The file keeps the invitation, the agent uses it, and the next change of keys takes it away.
#[test]
fn who_could_not_tell_the_server_does_so_later() {
    let mut place = Place::new();
    let client = place.file("c.toml");
    place.invite();
    place.join(&["--later"]);
    assert!(place.read("c.toml").contains("enrolment = "));
    place.works("a client that joins when it starts");
    place.ok(&["client", "rotate", "-c", &client]);
    assert!(!place.read("c.toml").contains("enrolment"));
    place.stop_last();
    place.works("the new keys");
}

/// One of two servers is silent, so the client keeps its old keys: the other must not end them.
#[test]
fn no_server_ends_old_keys_before_all_have_the_new_ones() {
    let mut place = Place::new();
    let client = place.file("c.toml");
    place.invite();
    place.join(&[]);
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = format!(
        "[[server]]\naddresses = [\"{}\"]\npublic_key = \"{}\"\npreshared_key = \"{}\"\n\
         key_version = 2\n\n",
        silent.local_addr().unwrap(),
        "NxnQA0hqfApj0k0dwYbC1QU0micYsvHUtNxymSbWS2Y=",
        "l+sRSRK00ReS88tfV01ykWPL3dXx1ftctNyHMfiOktM=",
    );
    let alone = place.read("c.toml");
    place.edit("c.toml", |text| text.replace("[[path]]", &format!("{server}[[path]]")));
    let both = place.read("c.toml");
    let (code, said) = place.run(&["client", "rotate", "-c", &client, "--keep", "0s"]);
    assert!(code == Some(1) && said.contains("stays as it is"), "{said}");
    assert_eq!(place.read("c.toml"), both);
    place.works("the keys that the client has");
    place.stop_last();

    // The silent one is given up; then the old keys end as was said.
    place.write("c.toml", &alone);
    place.write("old.toml", &alone);
    place.ok(&["client", "rotate", "-c", &client, "--keep", "0s"]);
    assert!(!place.path("c.toml.next").exists());
    let (code, said) = place.run(&["client", "rotate", "-c", &place.file("old.toml")]);
    assert!(code == Some(1) && said.contains("no answer"), "{said}");
    place.works("the new keys");
}
