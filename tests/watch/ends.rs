//! What watches an agent ends with its terminal, its reader or a signal, and leaves nothing
//! running.

use crate::agent::Agent;
use crate::binary;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A verb in a terminal of `script`'s, whose end is closed when that is killed.
struct Shown {
    script: Child,
    /// The verb's own process.
    pid: i32,
    keys: std::process::ChildStdin,
    out: std::process::ChildStdout,
}

const PATIENCE: Duration = Duration::from_secs(10);

impl Shown {
    /// Starts it, and waits until it shows `sign`.
    fn start(agent: &Agent, verb: &str, sign: &str) -> Self {
        let mut script = binary::by(|tabane| {
            let line = format!("stty cols 80 rows 24; echo \"pid=$$ \"; exec {tabane} {verb}");
            let mut script = Command::new("script");
            script.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
            script
        });
        let mut script = script
            .env("TERM", "xterm-256color")
            .env("TABANE_CONTROL", agent.socket())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let keys = script.stdin.take().unwrap();
        let mut out = script.stdout.take().unwrap();
        let (mut seen, mut buffer) = (String::new(), [0; 4096]);
        while !seen.contains(sign) {
            let len = out.read(&mut buffer).unwrap();
            assert!(len > 0, "it has ended: {seen}");
            seen += &String::from_utf8_lossy(&buffer[..len]);
        }
        let pid = seen.split("pid=").nth(1).and_then(|rest| rest.split(' ').next());
        let pid = pid.unwrap().trim().parse().unwrap();
        Self { script, pid, keys, out }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.pid.to_string()]).status();
        assert!(sent.unwrap().success());
    }

    fn is_there(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    }

    /// It ends soon.
    #[track_caller]
    fn ends(self, why: &str) {
        let start = Instant::now();
        while self.is_there() {
            if start.elapsed() > PATIENCE {
                self.signal("KILL");
                panic!("{why}: it is still there");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

/// What `tabane top` shows of the drawn agent.
const TOP: &str = "wlan0 is not there";

#[test]
fn top_ends_with_its_terminal() {
    let agent = Agent::start();
    // Also while it waits for the rest of what might be a key.
    for keys in ["", "\u{1b}["] {
        let mut top = Shown::start(&agent, "top", TOP);
        top.keys.write_all(keys.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        top.script.kill().unwrap();
        top.ends("its terminal is closed");
    }
}

#[test]
fn signals_end_top_and_restore_its_terminal() {
    let agent = Agent::start();
    for (signal, keys) in [("HUP", ""), ("INT", ""), ("TERM", ""), ("TERM", "\u{1b}[")] {
        let mut top = Shown::start(&agent, "top", TOP);
        top.keys.write_all(keys.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        top.signal(signal);
        // `script` ends with it.
        let mut rest = String::new();
        top.out.read_to_string(&mut rest).unwrap();
        assert!(rest.contains("\u{1b}[?1049l"), "{signal}: the screen is not given back: {rest:?}");
        top.ends(signal);
    }
}

/// HUP makes an agent read its configuration again, but for one whose terminal is closed.
#[test]
fn an_agent_in_a_terminal_ends_with_it() {
    let agent = Agent::nowhere();
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let key = crate::KEY;
    let config = format!(
        "name = \"home\"\nsecret = \"{key}\"\ncontrol = \"{}\"\n[[server]]\n\
         addresses = [\"{}\"]\npublic_key = \"{key}\"\n[front]\nsocks5 = [\"127.0.0.1:0\"]\n\
         [[path]]\nname = \"here\"\nsource = \"127.0.0.1\"\n",
        agent.socket().display(),
        silent.local_addr().unwrap()
    );
    let file = agent.write("client.toml", &config);
    let mut client = Shown::start(&agent, &format!("client -c {file}"), "SOCKS5 and HTTP");
    while !agent.socket().exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(300));
    client.signal("HUP");
    std::thread::sleep(Duration::from_millis(300));
    assert!(client.is_there(), "its terminal is open");
    client.script.kill().unwrap();
    client.ends("its terminal is closed");
}

#[test]
fn monitor_ends_with_its_terminal_and_its_reader() {
    let agent = Agent::start();
    let mut monitor = Shown::start(&agent, "monitor --since 0", TOP);
    monitor.script.kill().unwrap();
    monitor.ends("its terminal is closed");
    // As `tabane monitor | head -1`: nothing more happens that it could write.
    let mut command = agent.command(&["monitor", "--since", "0"]);
    let mut monitor = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(monitor.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let start = Instant::now();
    let code = loop {
        if let Some(status) = monitor.try_wait().unwrap() {
            break status.code();
        }
        if start.elapsed() > PATIENCE {
            monitor.kill().unwrap();
            panic!("nobody reads, and it is still there");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(code, Some(0));
}
