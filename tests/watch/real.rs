//! A real server and a real client, as built, on loopback: what the verbs say of them.

use crate::agent::Agent;
use std::fs::File;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};
use std::time::Duration;
use tabane_gateway::keys::{Key, encode};

/// Both agents; they end with this.
struct Pair {
    place: Agent,
    children: Vec<Child>,
}

impl Pair {
    /// What they say goes to that file.
    fn start(log: &str) -> Self {
        Self::start_as(log, false)
    }

    /// The server perhaps with a copy of its file and of its token, as a service has them.
    fn start_as(log: &str, copied: bool) -> Self {
        let place = Agent::nowhere();
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (server, secret) = (Key::random_private().unwrap(), Key::random().unwrap());
        let keys: Vec<String> =
            (0..2).map(|i| format!("\"{}\"", encode(&secret.of_path(i).public()))).collect();
        let server_file = place.write(
            "server.toml",
            &format!(
                "listen = [\"127.0.0.1:{port}\"]\nprivate_key = \"{server}\"\n\
                 [[client]]\nname = \"home\"\nnumber = 1\nkeys = [{}]\n",
                keys.join(", ")
            ),
        );
        let client_file = place.write(
            "client.toml",
            &format!(
                "name = \"home\"\nnumber = 1\nsecret = \"{secret}\"\n\
                 [[server]]\naddresses = [\"127.0.0.1:{port}\"]\npublic_key = \"{}\"\n\
                 [front]\nsocks5 = [\"127.0.0.1:0\"]\n\
                 [[path]]\nname = \"wan1\"\nsource = \"127.0.0.1\"\n\
                 [[path]]\nname = \"wan2\"\nsource = \"127.0.0.2\"\n",
                encode(&server.public())
            ),
        );
        let mut pair = Self { place, children: Vec::new() };
        let (mut server, mut credentials) = (vec!["server", "-c", &server_file], None);
        let copy = pair.place.path("credentials/server.toml");
        if copied {
            let folder = copy.parent().unwrap();
            std::fs::create_dir(folder).unwrap();
            std::fs::set_permissions(folder, PermissionsExt::from_mode(0o700)).unwrap();
            let text = std::fs::read_to_string(&server_file).unwrap();
            let page = "web = \"127.0.0.1:0\"\nweb_token_file = \"web.token\"\n";
            std::fs::write(&copy, format!("{page}{text}")).unwrap();
            std::fs::write(folder.join("web.token"), "0123456789abcdef\n").unwrap();
            server = vec!["server", "-c", copy.to_str().unwrap(), "--copy-of", &server_file];
            credentials = Some(folder);
        }
        for args in [server, vec!["client", "-c", &client_file]] {
            let mut command = pair.place.command(&args);
            command.env_remove("CREDENTIALS_DIRECTORY");
            if let Some(folder) = credentials {
                command.env("CREDENTIALS_DIRECTORY", folder);
            }
            let log = File::options().append(true).open(log).unwrap();
            let child = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
            pair.children.push(child);
        }
        pair
    }

    /// The client's status once a condition holds.
    fn until(&self, what: &str, holds: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
        let mut last = String::new();
        for _ in 0..150 {
            let said = self.place.run(&["status", "--agent", "home", "--json"]);
            last = said.out + &said.err;
            match serde_json::from_str(&last) {
                Ok(status) if holds(&status) => return status,
                _ => std::thread::sleep(Duration::from_millis(100)),
            }
        }
        panic!("never {what}: {last}");
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn both_up(status: &serde_json::Value) -> bool {
    let paths = status["paths"].as_array().unwrap();
    paths.len() == 2 && paths.iter().all(|path| path["state"] == "up")
}

#[test]
fn agents_whose_log_is_on_a_full_disk_go_on() {
    let mut pair = Pair::start("/dev/full");
    pair.until("both paths up", both_up);
    pair.place.ok(&["reload", "--agent", "home"]);
    pair.place.ok(&["path", "set", "wan2", "--role", "backup", "--agent", "home"]);
    pair.until("wan2 a backup", |status| status["paths"][1]["role"] == "backup");
    for child in &mut pair.children {
        assert_eq!(child.try_wait().unwrap(), None, "an agent has ended");
    }
}

#[test]
fn real_agents_are_seen_steered_and_found_well() {
    let pair = Pair::start("/dev/null");
    let status = pair.until("both paths up", both_up);
    assert!(status["paths"][0]["rtt_ms"].as_f64().is_some(), "{status}");

    let doctor = pair.place.run(&["doctor", "--agent", "home"]);
    assert_eq!(doctor.code, Some(0), "{}{}", doctor.out, doctor.err);
    assert!(doctor.out.contains("2 of 2 links work"), "{}", doctor.out);

    pair.place.ok(&["path", "set", "wan2", "--role", "backup", "--agent", "home"]);
    let idle = |status: &serde_json::Value| {
        let path = &status["paths"][1];
        path["role"] == "backup" && path["reason"] == "backup: wan1 works"
    };
    pair.until("wan2 idle, and why", idle);
    let events = pair.place.ok(&["monitor", "--agent", "home", "--end"]);
    assert!(events.contains("role"), "{events}");

    let server = pair.place.json(&["status", "--agent", "server", "--json"]);
    assert_eq!(server["clients"], 1, "{server}");
    let path = server["paths"][1]["name"].as_str().unwrap();
    let path = format!("home/{path}");
    pair.place.ok(&["path", "set", &path, "--role", "primary", "--agent", "server"]);
    pair.until("wan2 in use, as the server asked", |status| {
        status["paths"][1]["role"] == "primary"
            && status["paths"][1]["reason"] != "backup: wan1 works"
    });
    let events = pair.place.ok(&["monitor", "--agent", "home", "--end"]);
    assert!(events.contains("wan2 is primary now: the server asked for it"), "{events}");
    for (args, said) in [
        ([&path, "--cap", "5Mbps"], "rate caps are the client's"),
        (["away/1", "--role", "backup"], "there is no client 'away'"),
        (["wan2", "--role", "backup"], "write CLIENT/PATH"),
    ] {
        let refused = pair.place.run(&[&["path", "set", "--agent", "server"], &args[..]].concat());
        assert!(refused.code != Some(0) && refused.err.contains(said), "{}", refused.err);
    }
    let several = pair.place.run(&["status"]);
    assert_eq!(several.code, Some(2));
    assert!(several.err.contains("home, server"), "{}", several.err);
}

fn none_up(status: &serde_json::Value) -> bool {
    status["paths"].as_array().unwrap().iter().all(|path| path["state"] != "up")
}

#[test]
fn a_revocation_revokes_at_once_also_where_the_server_has_a_copy_of_its_file() {
    for copied in [false, true] {
        let pair = {
            let log = tempfile::NamedTempFile::new().unwrap();
            let pair = Pair::start_as(log.path().to_str().unwrap(), copied);
            pair.until("both paths up", both_up);
            let file = pair.place.path("server.toml");
            let server = |verb: &[&str]| {
                let file = ["-c", file.to_str().unwrap()];
                pair.place.run(&[&["server"], verb, &file[..]].concat())
            };
            let said = server(&["disable", "home"]);
            assert_eq!(said.code, Some(0), "{}", said.err);
            assert!(said.err.contains("in force at the running server"), "{}", said.err);
            assert!(said.err.contains("home is disabled: sessions and"), "{}", said.err);
            pair.until("out", none_up);
            assert_eq!(server(&["enable", "home"]).code, Some(0));
            pair.until("both paths up", both_up);
            let said = server(&["remove", "home"]);
            assert!(said.err.contains("home is removed: sessions and"), "{}", said.err);
            pair.until("out", none_up);

            // A signal has a copy read no second time: it still lists who was removed.
            let id = pair.children[0].id().to_string();
            assert!(
                std::process::Command::new("kill").args(["-HUP", &id]).status().unwrap().success()
            );
            let wanted =
                if copied { "reload-failed: this agent has a copy of" } else { "reload: nothing" };
            let mut said = String::new();
            for _ in 0..100 {
                said = std::fs::read_to_string(log.path()).unwrap();
                if said.contains(wanted) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(100));
            }
            assert!(said.contains(wanted), "{said}");
            assert!(said.contains("client-connected client=home"), "{said}");
            assert!(!said.contains("everybody"), "{said}");
            pair
        };
        assert!(none_up(&pair.until("an answer", |_| true)));
    }
}
