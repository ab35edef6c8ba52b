//! The place of every test: a client's host C and a server's host S, joined by two links.
//!
//! ```text
//!   C: c1 10.9.1.1 ==== 100 Mbit/s ==== 10.9.1.2 s1 :S    S also has 192.0.2.1, where its
//!      c2 10.9.2.1 ==== 100 Mbit/s ==== 10.9.2.2 s2       HTTP server listens
//! ```
//! C has no route to 192.0.2.1: what gets there went through the tunnels.

use super::data::{Digest32, Folder};
use super::namespace::{Namespace, Process, run, wait_until};
use crate::binary;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tabane_gateway::control::client::Client as Control;
use tabane_gateway::keys::{self, Key};

/// What is downloaded, and its size.
pub(crate) const URL: &str = "http://192.0.2.1:8000/file";
pub(crate) const SIZE: usize = 32 << 20;
/// Nobody, who has no privilege.
const NOBODY: u32 = 65_534;

/// Who runs the agents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum User {
    Root,
    Nobody,
}

/// What the two links are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Links {
    /// veth pairs with a rate.
    Plain,
    /// The test makes `c1`, `c2`, `s1` and `s2`, and then calls [`World::address`].
    Later,
}

/// Two hosts, two links, keys, and a folder for files.
pub(crate) struct World {
    pub(crate) folder: Folder,
    pub(crate) c: Namespace,
    pub(crate) s: Namespace,
    /// The server's private key.
    pub(crate) key: Key,
    /// The client's secret.
    pub(crate) secret: Key,
    digest: Digest32,
    user: User,
    /// The binary where its user may run it.
    public: Option<PathBuf>,
    _http: Process,
}

impl World {
    pub(crate) fn new(user: User) -> Self {
        Self::with_links(user, Links::Plain)
    }

    pub(crate) fn with_links(user: User, links: Links) -> Self {
        let folder = Folder::new();
        let (c, s) = (Namespace::new('c'), Namespace::new('s'));
        for n in (1..=2).filter(|_| links == Links::Plain) {
            c.ip(&format!("link add c{n} type veth peer name s{n} netns {}", s.name()));
            address(&c, &s, n);
            let rate = format!("qdisc add dev s{n} root tbf rate 100mbit burst 64kb latency 50ms");
            run(s.command("tc").args(rate.split(' ')));
        }
        c.sysctl("net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0");
        s.ip("addr add 192.0.2.1/32 dev lo");
        s.ip("-6 addr add 2001:db8::1/128 dev lo");
        let digest = folder.make("www/file", SIZE, 7);
        let mut http = s.command("python3");
        http.args(["-u", "-m", "http.server", "8000", "--bind", "192.0.2.1", "--directory"]);
        let mut http = Process::start(http.arg(folder.file("www")), folder.path(), "http");
        http.wait_for("Serving");
        let random = || Key::random_private().expect("the system gives random bytes");
        let public = (user == User::Nobody).then(|| public_copy(&folder));
        let (key, secret) = (random(), random());
        Self { folder, c, s, key, secret, digest, user, public, _http: http }
    }

    /// Gives the devices of links that the test has made their addresses.
    pub(crate) fn address(&self) {
        (1..=2).for_each(|n| address(&self.c, &self.s, n));
    }

    /// C's rules and routes of all tables; without link-local ones, which come in the kernel's own
    /// time.
    pub(crate) fn snapshot(&self) -> String {
        let asked = ["rule", "-6 rule", "route show table all", "-6 route show table all"];
        let lines = asked.map(|args| self.c.ip(args)).join("\n");
        let own = |line: &&str| !line.contains("fe80::") && !line.contains("ff00::");
        lines.lines().filter(own).map(|line| format!("{line}\n")).collect()
    }

    /// The private key of the client's path.
    pub(crate) fn path_key(&self, path: usize) -> Key {
        self.secret.of_path(path)
    }

    /// `tabane server` at S, which answers by now.
    pub(crate) fn server(&self) -> Agent {
        self.server_at("0.0.0.0:51820")
    }

    /// As `server`, listening there.
    pub(crate) fn server_at(&self, listen: &str) -> Agent {
        let keys = [0, 1].map(|path| keys::encode(&self.path_key(path).public()));
        let config = format!(
            "listen = ['{listen}']\nprivate_key = '{}'\n\
             [access]\nallow = ['192.0.2.1', '2001:db8::1']\n\
             [[client]]\nname = 'test'\nnumber = 1\nkeys = {keys:?}\n",
            self.key,
        );
        let agent = self.agent(&self.s, "server", &config);
        wait_until("the server", Duration::from_secs(5), || agent.status().is_some());
        agent
    }

    /// `tabane client` at C with `extra` in its configuration, its two paths up by now.
    pub(crate) fn client(&self, extra: &str) -> Agent {
        let agent = self.agent(&self.c, "client", &self.client_config("primary", extra));
        agent.wait_for_paths_up();
        agent
    }

    /// As `client`, just started.
    pub(crate) fn start_client(&self, extra: &str) -> Agent {
        self.agent(&self.c, "client", &self.client_config("primary", extra))
    }

    /// `tabane client` at C, just started, with the server at these addresses (`'HOST:PORT', ...`)
    /// and these paths by their interfaces; its `/etc` is `folder/etc` if that is there.
    pub(crate) fn client_of(&self, addresses: &str, paths: &[&str], extra: &str) -> Agent {
        let paths: String =
            paths.iter().map(|path| format!("[[path]]\ninterface = '{path}'\n")).collect();
        let config = format!(
            "name = 'test'\nnumber = 1\nsecret = '{}'\n[[server]]\naddresses = [{addresses}]\n\
             public_key = '{}'\n{paths}{extra}\n",
            self.secret,
            keys::encode(&self.key.public()),
        );
        self.agent(&self.c, "client", &config)
    }

    /// `tabane ARGS` at C about an agent, to its end: whether it succeeded, and what it said.
    pub(crate) fn ask(&self, args: &[&str], agent: &Agent) -> (bool, String) {
        let mut command = binary::by(|tabane| self.c.command(tabane));
        let output = command.args(args).arg("--socket").arg(&agent.socket).output();
        let output = output.expect("the binary can be run");
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), said(&output.stdout) + &said(&output.stderr))
    }

    /// Its configuration, with a role for the second path.
    pub(crate) fn client_config(&self, role: &str, extra: &str) -> String {
        format!(
            "name = 'test'\nnumber = 1\nsecret = '{}'\n\
             [[server]]\naddresses = ['10.9.1.2:51820']\npublic_key = '{}'\n\
             [[path]]\ninterface = 'c1'\nremote = '10.9.1.2:51820'\n\
             [[path]]\ninterface = 'c2'\nremote = '10.9.2.2:51820'\nrole = '{role}'\n{extra}\n",
            self.secret,
            keys::encode(&self.key.public()),
        )
    }

    fn agent(&self, host: &Namespace, verb: &str, config: &str) -> Agent {
        // A folder of its own, since an agent makes its socket there.
        let home = self.folder.file(verb);
        fs::create_dir_all(&home).expect("the temporary folder can be written");
        let etc = self.folder.file("etc");
        let mut command = binary::by(|tabane| match &self.public {
            None if verb == "client" && etc.exists() => {
                // `ip netns exec` has made a mount namespace of its own already.
                let mount = format!("mount --bind {} /etc", etc.display());
                let mut command = host.command("sh");
                command.args(["-c", &format!("{mount} && exec \"$0\" \"$@\"")]).arg(tabane);
                command
            }
            None => host.command(tabane),
            Some(tabane) => {
                let id = NOBODY.to_string();
                let mut command = host.command("setpriv");
                command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]);
                command.args(["--inh-caps=-all", "--bounding-set=-all", "--"]).arg(tabane);
                command
            }
        });
        let (file, socket) = (home.join("config.toml"), home.join("socket"));
        command.args([verb, "-c"]).arg(&file).env("STATE_DIRECTORY", &home);
        if self.user == User::Nobody {
            chown(&home, Some(NOBODY), Some(NOBODY)).expect("root may give folders away");
        }
        let mut agent = Agent { process: None, file, socket, user: self.user };
        agent.configure(config);
        agent.process = Some(Process::start(&mut command, self.folder.path(), verb));
        agent
    }

    /// curl at C, saving to `folder/got`.
    pub(crate) fn curl(&self, mut command: Command, arguments: &[&str]) -> Process {
        command.args(["--silent", "--show-error", "--fail", "--max-time", "20", "--output"]);
        command.arg(self.folder.file("got")).args(arguments).arg(URL);
        Process::start(&mut command, self.folder.path(), "curl")
    }

    /// Waits until curl has saved as many bytes as that.
    pub(crate) fn wait_for_bytes(&self, bytes: u64) {
        wait_until(&format!("{bytes} bytes"), Duration::from_secs(10), || {
            fs::metadata(self.folder.file("got")).is_ok_and(|file| file.len() >= bytes)
        });
    }

    /// The download ends well, and gives the file.
    pub(crate) fn complete(&self, mut curl: Process) {
        curl.succeed(Duration::from_secs(20));
        assert!(self.folder.digest("got") == self.digest, "the file is another");
    }
}

/// A running `tabane server` or `tabane client`.
pub(crate) struct Agent {
    /// There but at the very start.
    process: Option<Process>,
    file: PathBuf,
    socket: PathBuf,
    user: User,
}

impl Agent {
    /// Writes its configuration.
    pub(crate) fn configure(&self, config: &str) {
        let text = format!("control = '{}'\n{config}", self.socket.display());
        fs::write(&self.file, text).expect("the temporary folder can be written");
        let own = fs::Permissions::from_mode(0o600);
        fs::set_permissions(&self.file, own).expect("root may change permissions");
        if self.user == User::Nobody {
            chown(&self.file, Some(NOBODY), Some(NOBODY)).expect("root may give files away");
        }
    }

    /// `tabane status --json`; `None` while it does not answer.
    pub(crate) fn status(&self) -> Option<Value> {
        let mut command = binary::tabane();
        let output = command.args(["status", "--json", "--socket"]).arg(&self.socket).output();
        let output = output.expect("the binary can be run");
        output
            .status
            .success()
            .then(|| serde_json::from_slice(&output.stdout).expect("status --json is one document"))
    }

    /// A number that `tabane status` tells of each of its paths.
    pub(crate) fn of_paths(&self, what: &str) -> Vec<u64> {
        let status = self.status().expect("the agent answers");
        let paths = status["paths"].as_array().expect("paths are a list");
        paths.iter().map(|path| path[what].as_u64().expect("it is a number")).collect()
    }

    /// Waits until both of its paths are up.
    pub(crate) fn wait_for_paths_up(&self) {
        self.wait_for("two paths up", Duration::from_secs(5), |status| {
            (0..2).all(|path| status["paths"][path]["state"] == "up")
        });
    }

    /// Waits until its status is as `wanted`.
    pub(crate) fn wait_for(&self, what: &str, limit: Duration, wanted: impl Fn(&Value) -> bool) {
        let end = Instant::now() + limit;
        loop {
            let status = self.status();
            if status.as_ref().is_some_and(&wanted) {
                return;
            }
            assert!(Instant::now() < end, "waited {limit:?} for {what}: {status:#?}");
            // Often enough, and leaves the machine to the download.
            sleep(Duration::from_millis(20));
        }
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: i32) {
        self.process.as_ref().expect("invariant: it was started").signal(signal);
    }

    /// Its end, which is waited for.
    pub(crate) fn finish(&mut self) -> ExitStatus {
        let process = self.process.as_mut().expect("invariant: it was started");
        process.finish(Duration::from_secs(10))
    }

    /// It ends by itself, and reports success.
    pub(crate) fn ended(mut self) {
        assert!(self.finish().success(), "it did not end well");
    }

    /// Ends it as a crash does.
    pub(crate) fn kill(mut self) {
        self.signal(libc::SIGKILL);
        self.finish();
    }

    /// What has happened to it, as `tabane monitor` tells it.
    pub(crate) fn happened(&self) -> String {
        let mut client = Control::connect(&self.socket).expect("the agent answers");
        let all = client.events(0).expect("the agent answers");
        all.iter().map(|one| format!("{} {}\n", one.kind, one.text)).collect()
    }

    /// Asks it to end, as an init does; it must do so and report success.
    pub(crate) fn stop(mut self) {
        self.signal(libc::SIGTERM);
        let process = self.process.as_mut().expect("invariant: it was started");
        process.succeed(Duration::from_secs(5));
    }
}

/// Addresses of link `n` at both ends.
fn address(c: &Namespace, s: &Namespace, n: u8) {
    for (host, device, last) in [(c, "c", 1), (s, "s", 2)] {
        host.ip(&format!("addr add 10.9.{n}.{last}/24 dev {device}{n}"));
        host.ip(&format!("link set {device}{n} up"));
    }
}

/// A copy of the binary that everybody may run: the build directory may be closed to others.
fn public_copy(folder: &Folder) -> PathBuf {
    let copy = folder.file("tabane");
    binary::copy(&copy);
    for path in [folder.path(), &copy] {
        let all = fs::Permissions::from_mode(0o755);
        fs::set_permissions(path, all).expect("root may change permissions");
    }
    copy
}
