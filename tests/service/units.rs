//! What the owner of a service does, and what comes of it.

use super::machine::Machine;

/// A server and a client on one host, both as services, with everything that needs a file.
fn pair() -> Option<Machine> {
    let machine = Machine::boot()?;
    machine.ok("tabane server init --public 127.0.0.1:51820 --listen 127.0.0.1:51820");
    let server = machine.ok("cat /etc/tabane/server.toml");
    let page = "web = \"127.0.0.1:8080\"\nweb_token_file = \"web.token\"\n";
    machine.write("/etc/tabane/server.toml", &format!("{page}{server}"));
    machine.write("/etc/tabane/web.token", "0123456789abcdef0123\n");
    machine.ok("tabane server invite laptop | tabane client join - --out /etc/tabane/home.toml");
    let client = machine.ok("cat /etc/tabane/home.toml");
    let dns = "\n[tun]\ndns = true\n";
    machine.write("/etc/tabane/home.toml", &format!("{client}{dns}"));
    machine.ok("tabane service install --binary /usr/bin/tabane --dns home \
                --start server --start client@home");
    Some(machine)
}

fn works(machine: &Machine) -> bool {
    let status = machine.run("tabane status --agent home --json").out;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap_or_default();
    status["paths"][0]["state"] == "up"
}

fn active(machine: &Machine) {
    machine.ok("systemctl is-active tabane-server tabane-client@home");
    let restarts = machine.ok("systemctl show -p NRestarts tabane-server tabane-client@home");
    assert!(restarts.split_whitespace().all(|line| line == "NRestarts=0"), "{restarts}");
}

#[test]
fn a_revocation_revokes_at_once_whatever_runs_the_server() {
    let Some(machine) = pair() else { return };
    machine.until("the client is connected", works);
    // Both are found by name: their sockets are in the services' own folders.
    for name in ["server", "home", "client@home", "laptop"] {
        machine.ok(&format!("tabane status --agent {name}"));
    }

    let said = machine.run("tabane server disable laptop");
    assert!(said.err.contains("in force at the running server"), "{said:?}");
    assert!(said.err.contains("laptop is disabled: sessions and "), "{said:?}");
    machine.until("it is out", |machine| !works(machine));
    machine.ok("tabane server enable laptop");
    machine.until("it is in again", works);

    // By hand, and by systemd.
    let enabled = machine.ok("cat /etc/tabane/server.toml");
    machine.ok("sed -i 's/^name = \"laptop\"/disabled = true\\n&/' /etc/tabane/server.toml");
    machine.ok("systemctl reload tabane-server");
    machine.until("it is out", |machine| !works(machine));
    machine.write("/etc/tabane/server.toml", &enabled);
    let said = machine.run("tabane reload --agent server");
    assert!(said.err.contains("laptop may connect; clients"), "{said:?}");
    machine.until("it is in again", works);

    // A file that is wrong, also one with a fault further out than a width of `format!` can be,
    // changes nothing, and stops nothing.
    for wrong in ["x = \n".to_owned(), format!("{}!", " ".repeat(70_000))] {
        machine.write("/etc/tabane/server.toml", &format!("{wrong}{enabled}"));
        assert_ne!(machine.run("systemctl reload tabane-server").code, Some(0));
        assert_eq!(machine.run("tabane reload --agent server").code, Some(1));
    }
    assert!(works(&machine));
    machine.write("/etc/tabane/server.toml", &enabled);

    // A change that needs a restart beside it does not keep what can be taken from being taken.
    machine.ok("sed -i 's/^listen = .*/listen = [\"127.0.0.1:51821\"]/' /etc/tabane/server.toml");
    let said = machine.run("tabane server remove laptop");
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.err.contains("laptop is removed"), "{said:?}");
    machine.until("it is out", |machine| !works(machine));
    machine.until("it is refused", |machine| {
        machine.journal("tabane-server").contains("no client has such a key")
    });
    // The copy with which the server began still lists it.
    machine.ok("systemctl kill -s HUP tabane-server");
    machine.until("the copy is not read", |machine| {
        machine
            .journal("tabane-server")
            .contains("this agent has a copy of /etc/tabane/server.toml")
    });
    assert!(!works(&machine));
    active(&machine);
    machine.ok("sed -i 's/127.0.0.1:51821/127.0.0.1:51820/' /etc/tabane/server.toml");
    machine.ok("systemctl restart tabane-server");
    let said = machine.ok("tabane status --agent server --json");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&said).unwrap()["clients"], 0);
}

#[test]
fn services_have_what_they_need_and_no_more() {
    let Some(machine) = pair() else { return };
    machine.until("the client is connected", works);
    let [server, client] = ["tabane-server", "tabane-client@home"];
    for unit in [server, client] {
        let pid = machine.ok(&format!("systemctl show -p MainPID --value {unit}"));
        let limits = machine.ok(&format!("grep 'core file' /proc/{pid}/limits"));
        assert_eq!(limits.split_whitespace().nth(4), Some("0"), "{limits}");
        let user = machine.ok(&format!("stat -c %u /proc/{pid}"));
        assert_ne!(user, "0", "{unit} runs as root");
        let max = machine.ok(&format!("systemctl show -p MemoryMax --value {unit}"));
        assert!(max.parse::<u64>().is_ok(), "no limit of memory: {max}");
        let said = machine.journal(unit);
        assert!(!said.contains("warning"), "{said}");
        // Nobody else can read the copies.
        let mode = machine.ok(&format!("stat -c %a /run/credentials/{unit}.service"));
        assert!(mode == "500" || mode == "550", "{mode}");
    }
    // The journal tells who came, by which path, and is quiet otherwise.
    let said = machine.journal(server);
    assert!(said.contains("client-connected client=laptop: laptop is connected"), "{said}");
    assert!(said.contains("path-up client=laptop path=laptop/0: "), "{said}");
    assert!(machine.journal(client).contains("path-up path="), "{said}");
    assert!(said.lines().count() < 20, "{said}");
    let page = machine.ok("curl -s -o /dev/null -w %{http_code} http://127.0.0.1:8080/");
    assert_eq!(page, "200", "the page, whose token is a copy");

    // The resolver is the client's while it runs.
    machine.until("names go through the tunnel", |machine| {
        machine.ok("cat /etc/resolv.conf").starts_with("# Written by tabane")
    });
    active(&machine);
    machine.ok(&format!("systemctl stop {client}"));
    assert_eq!(machine.ok("cat /etc/resolv.conf"), "nameserver 192.0.2.53");
    assert_eq!(machine.ok("stat -c %U:%a /etc/resolv.conf"), "root:644");

    // By systemd's own measure, of 100. What it finds wrong with units is tested beside the verb.
    for (unit, most) in [(server, 20), (client, 30)] {
        let line = format!("systemd-analyze security --no-pager --threshold={most} {unit}.service");
        let line = machine.run(&line);
        assert_eq!(line.code, Some(0), "exposed by more than {most}/100: {}", line.out);
    }
}
