//! From an invitation to other keys, with agents as built on loopback: nobody edits a file.

use crate::agent::Agent;
use std::net::UdpSocket;
use std::process::{Child, Stdio};
use std::time::Duration;

/// A server from `s.toml`, and the client `home` with `c.toml`; agents end with this.
struct Place {
    agent: Agent,
    children: Vec<Child>,
}

impl Place {
    /// A server that runs.
    fn new() -> Self {
        let agent = Agent::nowhere();
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let public = format!("127.0.0.1:{port}");
        std::fs::create_dir(agent.path("state")).unwrap();
        let mut place = Self { agent, children: Vec::new() };
        let server = place.file("s.toml");
        place.ok(&["server", "init", "-c", &server, "--public", &public, "--listen", &public]);
        place.start(&["server", "-c", &server]);
        place.until("the server runs", &["status", "--agent", "server"], "server");
        place
    }

    fn file(&self, name: &str) -> String {
        self.agent.path(name).display().to_string()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.agent.path(name)).unwrap()
    }

    fn start(&mut self, args: &[&str]) {
        let mut command = self.agent.command(args);
        command.env("STATE_DIRECTORY", self.agent.path("state"));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.children.push(command.spawn().unwrap());
    }

    fn stop_last(&mut self) {
        let mut child = self.children.pop().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// What it says on both outputs.
    fn run(&self, args: &[&str]) -> (Option<i32>, String) {
        let mut command = self.agent.command(args);
        let output = command.env("STATE_DIRECTORY", self.agent.path("state")).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    }

    #[track_caller]
    fn ok(&self, args: &[&str]) -> String {
        let (code, said) = self.run(args);
        assert_eq!(code, Some(0), "tabane {}: {said}", args.join(" "));
        said
    }

    #[track_caller]
    fn until(&self, what: &str, args: &[&str], sign: &str) {
        let mut last = (None, String::new());
        for _ in 0..150 {
            last = self.run(args);
            if last.0 == Some(0) && last.1.contains(sign) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("{what}: {last:?}");
    }

    /// Invites `home`; the line goes to the file `line`.
    fn invite(&self) {
        let said = self.ok(&["server", "invite", "home", "-c", &self.file("s.toml")]);
        let line = said.lines().find(|line| line.starts_with("tabane:")).unwrap();
        self.agent.write("line", line);
    }

    fn join(&self, more: &[&str]) -> String {
        let (line, out) = (self.file("line"), self.file("c.toml"));
        let join = ["client", "join", "--file", &line, "--out", &out, "--path", "lo"];
        let said = self.ok(&[&join[..], more].concat());
        // Programs connect to a port of the system's choice.
        let text = self.read("c.toml").replace("127.0.0.1:1080", "127.0.0.1:0");
        self.agent.write("c.toml", &text);
        said
    }

    /// Runs the client until its path works.
    #[track_caller]
    fn works(&mut self, what: &str) {
        let file = self.file("c.toml");
        self.start(&["client", "-c", &file]);
        self.until(what, &["path", "list", "--agent", "home"], " up ");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

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
    assert!(said.contains("has been used") && !place.agent.path("d.toml").exists(), "{said}");

    let before = place.read("c.toml");
    let said = place.ok(&["client", "rotate", "-c", &client, "--keep", "1h"]);
    assert!(said.contains("1 h") && !place.agent.path("c.toml.next").exists(), "{said}");
    let after = place.read("c.toml");
    let secret = |text: &str| text.lines().find(|l| l.starts_with("secret = ")).unwrap().to_owned();
    assert_ne!(secret(&before), secret(&after));
    place.stop_last();
    place.works("the new keys");

    // The keys before may not change keys any more, and end at once if that is said.
    place.agent.write("old.toml", &before);
    let (code, said) = place.run(&["client", "rotate", "-c", &place.file("old.toml")]);
    assert!(code == Some(1) && said.contains("has been replaced"), "{said}");
    std::thread::sleep(Duration::from_secs(11));
    place.ok(&["client", "rotate", "-c", &client, "--keep", "0s"]);
    place.stop_last();
    place.works("keys without any before them");
    place.ok(&["server", "remove", "home", "-c", &server]);
    place.until("it is revoked", &["path", "list", "--agent", "home"], " down ");
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
