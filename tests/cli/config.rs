//! Keys and configurations as a person meets them.

use crate::program::{Place, tabane};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

/// A client that is sound.
fn client(place: &Place) -> String {
    let key = place.ok(&["genpsk"]);
    let public = public(&place.ok(&["genkey"]));
    format!(
        "secret = \"{}\"\n[[server]]\naddresses = [\"192.0.2.1:51820\"]\n\
         public_key = \"{public}\"\n\
         [[path]]\ninterface = \"eth0\"\n",
        key.trim()
    )
}

/// What `tabane pubkey` makes of a private key.
fn public(private: &str) -> String {
    let mut child = tabane()
        .arg("pubkey")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(private.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn mode(place: &Place, name: &str) -> u32 {
    std::fs::metadata(place.path(name)).unwrap().permissions().mode() & 0o777
}

#[test]
fn keys_are_those_of_wireguard() {
    let place = Place::new();
    // The private and public key of the first path of the secret 00 01 .. 1f (`keys/tests.rs`).
    let known = public("CFu+Eeas+UACtBUlvLw6uFpDKdQVccOWjnA6rC59nUU=\n");
    assert_eq!(known, "uRHCGeFjN+8uoyl4sLbve9ZB2C1z4GgBscZP+y2rknk=");
    assert_ne!(place.ok(&["genkey"]), place.ok(&["genkey"]));
    place.ok(&["genkey", "--out", "k"]);
    assert_eq!(mode(&place, "k"), 0o600);
    assert_eq!(place.read("k").trim().len(), 44);
    let again = place.tabane(&["genkey", "--out", "k"]);
    assert_eq!(again.code, Some(1));
    assert!(again.err.contains("k cannot be written: File exists"), "{}", again.err);
    let nothing = place.tabane(&["pubkey"]);
    assert_eq!(nothing.code, Some(2));
    assert!(nothing.err.contains("44 characters"), "{}", nothing.err);
}

#[test]
fn check_says_what_is_wrong_where_and_what_to_do() {
    let place = Place::new();
    let good = client(&place);
    place.write("c.toml", &good);
    std::fs::set_permissions(place.path("c.toml"), PermissionsExt::from_mode(0o600)).unwrap();
    assert!(place.ok(&["config", "check", "c.toml"]).contains("sound, a client (1 path,"));
    let cases = [
        (good.replace("interface", "interfcae"), ":6:1: ", "'interface'"),
        (good.replace("secret =", "secret_file ="), ":1:15: ", "No such file"),
        (good.replace("secret = \"", "secret = \"A"), ":1:10: ", "44 characters"),
        (good.replace(":51820", ""), ":3:14: ", "host:port"),
        (format!("{good}role = \"never\"\n[up]\nscheduler = \"x\"\n"), ":9:13: ", "All of them"),
    ];
    for (text, position, remedy) in cases {
        place.write("bad.toml", &text);
        for verb in ["check", "dump"] {
            let said = place.tabane(&["config", verb, "bad.toml"]);
            assert_eq!(said.code, Some(2), "{}", said.err);
            assert!(said.err.contains(&format!("bad.toml{position}")), "{}", said.err);
            assert!(said.err.contains(remedy), "{remedy} in {}", said.err);
        }
    }
}

#[test]
fn a_configuration_that_cannot_be_read_is_exit_1() {
    let place = Place::new();
    for args in [
        vec!["config", "check", "nowhere.toml"],
        vec!["client", "-c", "nowhere.toml"],
        vec!["server", "-c", "nowhere.toml"],
        vec!["server", "list", "-c", "nowhere.toml"],
        vec!["server", "invite", "x", "-c", "nowhere.toml"],
    ] {
        let said = place.tabane(&args);
        assert_eq!(said.code, Some(1), "{args:?}: {}", said.err);
        assert!(said.err.contains("nowhere.toml"), "{args:?}: {}", said.err);
    }
    std::fs::create_dir(place.path("folder")).unwrap();
    let said = place.tabane(&["config", "check", "folder"]);
    assert_eq!(said.code, Some(1), "{}", said.err);
}

#[test]
fn exposed_keys_are_warned_about_and_dumps_leave_them_out() {
    let place = Place::new();
    let text = client(&place);
    place.write("c.toml", &text);
    std::fs::set_permissions(place.path("."), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::set_permissions(place.path("c.toml"), PermissionsExt::from_mode(0o644)).unwrap();
    let said = place.tabane(&["config", "dump", "c.toml"]);
    assert!(said.err.contains("chmod 600"), "{}", said.err);
    let key = text.split('"').nth(1).unwrap();
    assert!(!said.out.contains(key), "{}", said.out);
    assert!(said.out.contains("socks5 = [\"127.0.0.1:1080\"]"), "defaults: {}", said.out);
    let whole = place.ok(&["config", "dump", "--show-keys", "c.toml"]);
    place.write("again.toml", &whole);
    place.ok(&["config", "check", "--role", "client", "again.toml"]);
    assert_eq!(place.ok(&["config", "dump", "--show-keys", "again.toml"]), whole);
}

#[test]
fn the_environment_is_laid_over_it() {
    let place = Place::new();
    place.write("c.toml", &client(&place));
    let run = |name: &str, value: &str| {
        let mut command = tabane();
        command.current_dir(place.path(".")).args(["config", "dump", "c.toml"]);
        let output = command.env(name, value).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, out, err) = run("TABANE_CLIENT_FRONT__SOCKS5", "127.0.0.1:9050");
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("127.0.0.1:9050"), "{out}");
    let (code, _, err) = run("TABANE_CLIENT_FRONT__SOKCS5", "127.0.0.1:9050");
    assert_eq!(code, Some(2));
    assert!(err.contains("TABANE_CLIENT_FRONT__SOKCS5") && err.contains("'socks5'"), "{err}");
}
