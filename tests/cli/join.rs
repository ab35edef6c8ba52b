//! From a server's file to a client's: init, invite, join, check.

use crate::program::{Place, has, tabane};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

/// An invitation of version 1, as they were made before there was a version 2.
const OLD: &str = "tabane:AQAAAQABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4fNYBy1jZYgNGu6jK\
    a35EhODhR7SGijjt16WXQ0s0WYlQEaG9tZQEVdnBuLmV4YW1wbGUub3JnOjUxODIwPd-Rtw";

/// A server in `s.toml` with a client `home`, and its line.
fn invited(place: &Place, more: &[&str]) -> String {
    place.ok(&["server", "init", "-c", "s.toml", "--public", "vpn.example.org:51820"]);
    let invite = ["server", "invite", "home", "-c", "s.toml"];
    place.ok(&[&invite[..], more].concat())
}

fn mode(place: &Place, name: &str) -> u32 {
    std::fs::metadata(place.path(name)).unwrap().permissions().mode() & 0o777
}

#[test]
fn an_invitation_becomes_a_configuration_that_the_server_knows() {
    let place = Place::new();
    let line = invited(&place, &[]);
    assert!(line.starts_with("tabane:") && line.trim().lines().count() == 1, "{line}");
    assert_eq!(mode(&place, "s.toml"), 0o600);
    let server = place.read("s.toml");
    assert!(server.starts_with("# A server of tabane"), "comments stay: {server}");
    assert!(place.ok(&["config", "check", "s.toml"]).contains("a server (1 client)"));

    let join =
        ["client", "join", "--file", "line", "--out", "c.toml", "--path", "eth0", "--path", "lte"];
    let join = [&join[..], &["--later"]].concat();
    place.write("line", &line);
    place.ok(&join);
    assert_eq!(mode(&place, "c.toml"), 0o600);
    let checked = place.tabane(&["config", "check", "c.toml"]);
    assert_eq!(checked.code, Some(0), "{}", checked.err);
    assert!(checked.out.contains("a client (2 paths, 1 server)"), "{}", checked.out);
    assert_eq!(checked.err, "");
    let client = place.read("c.toml");
    let value = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("{key} = "))).unwrap();
        line.split('"').nth(1).unwrap().to_owned()
    };
    let (secret, own) = (value(&client, "secret"), value(&client, "preshared_key"));
    assert!(!server.contains(&secret) && !server.contains(&own), "the client makes its own keys");
    assert!(server.contains("invitation = { key = ") && !server.contains("\nkeys = "), "{server}");
    assert!(client.contains("number = 1") && client.contains("vpn.example.org:51820"), "{client}");

    let again = place.tabane(&join);
    assert_eq!(again.code, Some(1));
    assert!(again.err.contains("--force"), "{}", again.err);
    place.ok(&[&join[..], &["--force"]].concat());
    assert_ne!(value(&place.read("c.toml"), "secret"), secret);
    let guessed = place.ok(&["client", "join", "--file", "line", "--out", "-"]);
    assert!(guessed.contains("[[path]]"), "{guessed}");
}

/// Lines of before version 2 still make clients, and what is wrong with them is said.
#[test]
fn an_old_invitation_still_works_and_says_what_to_do() {
    let place = Place::new();
    let said = place.tabane(&["client", "join", OLD, "--out", "c.toml", "--path", "eth0"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("invite NAME --replace"), "{}", said.err);
    let client = place.read("c.toml");
    assert!(!client.contains("key_version") && client.contains("secret = "), "{client}");
    place.ok(&["config", "check", "c.toml"]);
    let rotate = place.tabane(&["client", "rotate", "-c", "c.toml"]);
    assert_eq!(rotate.code, Some(2));
    assert!(rotate.err.contains("--replace"), "{}", rotate.err);
}

/// As an argument the line stays in many places.
#[test]
fn a_line_that_is_an_argument_is_warned_about() {
    let place = Place::new();
    let line = invited(&place, &[]);
    let out = ["--out", "c.toml", "--path", "eth0", "--later"];
    let said = place.tabane(&[&["client", "join", line.trim()][..], &out[..]].concat());
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("history") && said.err.contains("one use only"), "{}", said.err);
}

#[test]
fn clients_are_renamed_and_invited_anew() {
    let place = Place::new();
    invited(&place, &["--expires", "30min"]);
    place.ok(&["server", "rename", "home", "boat", "-c", "s.toml"]);
    let before = place.json(&["server", "list", "-c", "s.toml", "--json"]);
    assert_eq!(before[0]["name"], "boat");
    assert_eq!(before[0]["keys"], "invited");
    for (args, word) in [
        (&["rename", "home", "van"][..], "no client 'home'"),
        (&["invite", "home", "--replace"][..], "no client 'home'"),
        (&["invite", "x", "--expires", "31d"][..], "30 days"),
    ] {
        let said = place.tabane(&[&["server"][..], args, &["-c", "s.toml"][..]].concat());
        assert_eq!(said.code, Some(2), "{}", said.err);
        assert!(said.err.contains(word), "{}", said.err);
    }
    place.ok(&["server", "invite", "van", "-c", "s.toml"]);
    let taken = place.tabane(&["server", "rename", "van", "boat", "-c", "s.toml"]);
    assert_eq!(taken.code, Some(2), "{}", taken.err);
    place.ok(&["server", "invite", "boat", "--replace", "-c", "s.toml"]);
    let after = place.json(&["server", "list", "-c", "s.toml", "--json"]);
    assert_eq!(after[0]["number"], before[0]["number"]);
    assert!(after[0]["expires"].as_u64() > before[0]["expires"].as_u64());
    let text = place.read("s.toml");
    assert_eq!(text.matches("invitation = ").count(), 2, "{text}");
}

#[test]
fn the_line_can_come_from_a_pipe() {
    let place = Place::new();
    let line = invited(&place, &[]);
    place.write("line", &line);
    let file = std::fs::File::open(place.path("line")).unwrap();
    let mut command = tabane();
    command
        .args(["client", "join", "-", "--out", "c.toml", "--later"])
        .current_dir(place.path("."));
    assert!(command.stdin(file).stderr(Stdio::null()).status().unwrap().success());
    place.ok(&["config", "check", "c.toml"]);
    let damaged = line.trim().replace("tabane:Ag", "tabane:Ah");
    for (line, word) in [("hello", "tabane:"), (damaged.as_str(), "damaged")] {
        let said = place.tabane(&["client", "join", line, "--out", "d.toml"]);
        assert_eq!(said.code, Some(2), "{}", said.err);
        assert!(said.err.contains(word), "{}", said.err);
    }
    assert!(!place.path("d.toml").exists());
}

#[test]
fn clients_are_listed_removed_and_their_numbers_used_again() {
    let place = Place::new();
    invited(&place, &[]);
    let twice = place.tabane(&["server", "invite", "home", "-c", "s.toml"]);
    assert_eq!(twice.code, Some(2));
    assert!(twice.err.contains("'home' already"), "{}", twice.err);
    place.ok(&["server", "invite", "van", "-c", "s.toml"]);
    let list = place.json(&["server", "list", "-c", "s.toml", "--json"]);
    assert_eq!(list[1]["name"], "van");
    assert_eq!(list[1]["address"], "10.81.0.32");
    place.ok(&["server", "remove", "home", "-c", "s.toml"]);
    let none = place.tabane(&["server", "remove", "home", "-c", "s.toml"]);
    assert_eq!(none.code, Some(2));
    place.ok(&["server", "invite", "boat", "-c", "s.toml"]);
    let list = place.json(&["server", "list", "-c", "s.toml", "--json"]);
    let numbers: Vec<_> = list.as_array().unwrap().iter().map(|c| c["number"].as_u64()).collect();
    assert_eq!(numbers, [Some(2), Some(1)]);
    let said = place.tabane(&["server", "init", "-c", "s.toml", "--public", "a.example:1"]);
    assert_eq!(said.code, Some(1), "a key that clients know is not replaced");
}

#[test]
fn two_invitations_at_once_are_both_kept() {
    let place = Place::new();
    invited(&place, &[]);
    let invite = |n: usize| {
        let mut command = tabane();
        let name = format!("c{n}");
        command.args(["server", "invite", &name, "-c", "s.toml"]).current_dir(place.path("."));
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let children: Vec<_> = (0..8).map(invite).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert!(place.ok(&["config", "check", "s.toml"]).contains("(9 clients)"));
}

/// Version, size, and the three corners of ISO/IEC 18004 section 6.3.3, read back from the half
/// blocks of the terminal.
#[test]
fn the_image_is_a_qr_code() {
    let place = Place::new();
    let out = invited(&place, &["--qr"]);
    assert!(out.starts_with("[Interface]") && !out.contains("PostUp"), "the app takes it: {out}");
    let lines: Vec<&str> = out.lines().skip_while(|line| !line.starts_with('█')).collect();
    let dark: Vec<Vec<bool>> = lines
        .iter()
        .flat_map(|line| {
            let upper = line.chars().map(|c| !matches!(c, '█' | '▀')).collect();
            let lower = line.chars().map(|c| !matches!(c, '█' | '▄')).collect();
            [upper, lower]
        })
        .collect();
    // Four light modules around it.
    let size = dark[0].len() - 8;
    assert_eq!((size - 17) % 4, 0, "no version has {size} modules");
    assert!((0..4).all(|row| dark[row].iter().all(|dark| !dark)), "the quiet zone is light");
    for (top, left) in [(4, 4), (4, 4 + size - 7), (4 + size - 7, 4)] {
        for (row, column) in (0..7).flat_map(|r: usize| (0..7).map(move |c: usize| (r, c))) {
            let ring = row.min(6 - row).min(column.min(6 - column));
            assert_eq!(dark[top + row][left + column], ring != 1, "{row} {column}");
        }
    }
    let timing = (8..size - 8).map(|i| dark[4 + 6][4 + i]);
    assert!(timing.enumerate().all(|(i, dark)| dark == (i % 2 == 0)), "timing pattern");
}

#[test]
fn a_stock_linux_is_told_what_to_do() {
    let place = Place::new();
    let text = invited(&place, &["--wireguard=3"]);
    for words in ["tabane2.conf", "[Interface]", "[Peer]", "ip mptcp endpoint add 10.81.0.18"] {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert!(!text.contains("tabane:"), "{text}");
}

#[test]
fn completions_parse_and_the_manual_renders() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = place.ok(&["completions", shell]);
        assert!(script.contains("invite") && script.contains("genkey"), "{shell}");
        place.write(shell, &script);
        if shell == "bash" && has("bash") {
            let file = place.path(shell);
            assert!(Command::new("bash").arg("-n").arg(file).status().unwrap().success());
        }
    }
    let page = place.ok(&["man"]);
    assert!(page.contains(".TH tabane 1") || page.contains(".TH TABANE 1"), "{page}");
    place.ok(&["man", "--out", "pages"]);
    assert!(place.read("pages/tabane-server-invite.1").contains("wireguard"));
    place.write("tabane.1", &page);
    if has("man") {
        let output = Command::new("man")
            .args(["--warnings", "-l"])
            .arg(place.path("tabane.1"))
            .env("MANPAGER", "cat")
            .env("LC_ALL", "C.UTF-8")
            .output()
            .unwrap();
        let (out, err) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{err}");
        assert!(out.contains("genkey"), "{out}{err}");
    }
}

#[test]
fn clients_are_switched_off_and_on() {
    let place = Place::new();
    invited(&place, &[]);
    let disabled = || {
        let list = place.json(&["server", "list", "-c", "s.toml", "--json"]);
        list[0]["disabled"].as_bool().unwrap()
    };
    let before = place.read("s.toml");
    let said = place.tabane(&["server", "disable", "home", "-c", "s.toml"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("no server runs from this file here"), "{}", said.err);
    assert!(disabled());
    let again = place.tabane(&["server", "disable", "home", "-c", "s.toml"]);
    assert!(again.code == Some(2) && again.err.contains("disabled already"), "{}", again.err);
    place.ok(&["server", "enable", "home", "-c", "s.toml"]);
    assert!(!disabled());
    assert_eq!(place.read("s.toml"), before, "nothing else has changed");
    let none = place.tabane(&["server", "enable", "nobody", "-c", "s.toml"]);
    assert_eq!(none.code, Some(2));
}
