//! Units of systemd: put below a folder, taken away without a trace.

use crate::binary;
use crate::program::{Place, has};
use std::path::{Path, PathBuf};
use std::process::Command;

const FOLDER: &str = "r/etc/systemd/system";

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn what_is_installed_is_uninstalled() {
    let place = Place::new();
    let install = ["service", "install", "--root", "r", "--binary", "/usr/bin/tabane"];
    place.ok(&[&install[..], &["--tun", "home"]].concat());
    assert_eq!(files(&place.path("r")).len(), 3);
    let server = place.read(&format!("{FOLDER}/tabane-server.service"));
    let client = place.read(&format!("{FOLDER}/tabane-client@.service"));
    let tun = place.read(&format!("{FOLDER}/tabane-client@home.service.d/tun.conf"));
    for unit in [&server, &client] {
        assert!(unit.contains("\nMemoryMax=") && unit.contains("\nLoadCredential="), "{unit}");
        for line in [
            "LimitCORE=0",
            "Type=notify",
            "DynamicUser=yes",
            "NoNewPrivileges=yes",
            "WatchdogSec=30",
            // Whatever keeps it from starting at boot may come later.
            "StartLimitIntervalSec=0",
        ] {
            assert!(unit.lines().any(|l| l == line), "{line} in {unit}");
        }
        assert!(unit.contains("ExecStart=/usr/bin/tabane "), "{unit}");
        assert!(!unit.contains("AmbientCapabilities"), "no privilege: {unit}");
    }
    assert!(tun.contains("AmbientCapabilities=CAP_NET_ADMIN\n"), "{tun}");
    place.ok(&[&install[..], &["--dns", "office", "--lan", "office", "--pings"]].concat());
    for file in ["tun.conf", "dns.conf", "lan.conf"] {
        place.read(&format!("{FOLDER}/tabane-client@office.service.d/{file}"));
    }
    assert!(place.read("r/etc/sysctl.d/60-tabane.conf").contains("ping_group_range"));
    // What an administrator added stays.
    place.write(&format!("{FOLDER}/tabane-client@home.service.d/mine.conf"), "[Unit]\n");
    place.write(&format!("{FOLDER}/other.service"), "[Unit]\n");
    place.ok(&["service", "uninstall", "--root", "r"]);
    let mut left = files(&place.path("r"));
    left.sort();
    let mine = place.path(FOLDER).join("tabane-client@home.service.d/mine.conf");
    assert_eq!(left, [place.path(FOLDER).join("other.service"), mine]);
    place.ok(&["service", "uninstall", "--root", "r"]);
    let printed = place.ok(&["service", "print", "--binary", "/usr/bin/tabane", "--low-ports"]);
    assert!(printed.contains("AmbientCapabilities=CAP_NET_BIND_SERVICE"), "{printed}");
}

#[test]
fn what_systemd_could_misread_is_refused() {
    let place = Place::new();
    for args in [
        ["install", "--binary", "tabane"],
        ["install", "--binary", "/usr/bin/a b"],
        ["install", "--binary", "/tmp/tabane"],
        ["install", "--tun", "../x"],
        ["install", "--start", "client@"],
        ["install", "--start", "sshd"],
    ] {
        let said = place.tabane(&[&["service"], &args[..]].concat());
        assert_eq!(said.code, Some(2), "{args:?}: {}", said.err);
    }
}

#[test]
fn systemd_finds_nothing_wrong_with_them() {
    if !has("systemd-analyze") {
        return;
    }
    let place = Place::new();
    let binary = place.path("tabane");
    binary::copy(&binary);
    let binary = binary.to_str().unwrap();
    let tun = ["--dns", "home", "--low-ports"];
    place.ok(&[&["service", "install", "--root", "r", "--binary", binary], &tun[..]].concat());
    let unit = |name: &str| place.path(FOLDER).join(name);
    // An instance is a link to its template.
    std::os::unix::fs::symlink(unit("tabane-client@.service"), unit("tabane-client@home.service"))
        .unwrap();
    let output = Command::new("systemd-analyze")
        .args(["verify", "--man=no", "--recursive-errors=no"])
        .args(["tabane-server.service", "tabane-client@home.service"].map(unit))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let ours: Vec<_> = said.lines().filter(|line| line.contains("tabane")).collect();
    assert_eq!(ours, [""; 0], "{said}");
}
