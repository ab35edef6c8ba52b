//! The built binary's data plane verbs: the demo end to end, and what users without permission or
//! with wrong flags are told. Nothing here says how fast anything must be: the clock is real.

#![allow(clippy::unwrap_used)] // Helpers of tests fail the test.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

mod binary;

use binary::tabane;

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("not killed")
}

#[test]
fn the_bench_of_the_gateway_measures_and_judges() {
    let asked = ["bench", "gateway", "setup", "--quick", "--json"];
    let output = tabane().args(asked).output().unwrap();
    let (out, err) = (text_of(&output.stdout), text_of(&output.stderr));
    assert_eq!(code(&output), 0, "{err}");
    let document: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&document["quick"], document["figures"].as_array().unwrap().len()),
        (&true.into(), 1)
    );
    let figure = &document["figures"][0];
    let target = ["must", "aim"].map(|goal| figure[goal].as_f64().unwrap());
    assert_eq!(
        (&figure["row"], &figure["unit"], target),
        (&"setup".into(), &"seconds".into(), [2e-3, 1e-3])
    );
    // The clock is real, and the machine may be busy: any verdict will do that fits the figure.
    let value = figure["value"].as_f64().unwrap();
    let verdict = if value <= 1e-3 {
        "aim"
    } else if value <= 2e-3 {
        "must"
    } else {
        "missed"
    };
    assert_eq!(figure["verdict"], verdict, "{figure}");
    assert!(err.contains("beyond the path's round trip"), "progress: {err}");
}

#[test]
fn the_demo_delivers_and_says_so_in_json() {
    let output =
        tabane().args(["demo", "--json", "--size", "1500kB", "--duration", "50"]).output().unwrap();
    let (out, err) = (text_of(&output.stdout), text_of(&output.stderr));
    assert_eq!(code(&output), 0, "{err}");
    let document: serde_json::Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(document["sha256_ok"], true);
    let single = document["single"].as_array().unwrap();
    let names: Vec<&str> = single.iter().map(|s| s["link"].as_str().unwrap()).collect();
    assert_eq!(names, ["wifi", "lte"]);
    let alone: Vec<f64> = single.iter().map(|s| s["goodput_bps"].as_f64().unwrap()).collect();
    assert!(alone.iter().all(|goodput| *goodput > 0.0), "{out}");
    assert!(document["bond"]["goodput_bps"].as_f64().unwrap() > 0.0);
    let shares = document["bond"]["shares"].as_object().unwrap();
    let shares: Vec<f64> = ["wifi", "lte"].map(|link| shares[link].as_f64().unwrap()).to_vec();
    assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{out}");
    assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{out}");
    let sum = document["sum_bps"].as_f64().unwrap();
    assert!((sum - alone.iter().sum::<f64>()).abs() < 1.0, "{out}");
}

#[test]
fn the_demo_sends_a_file_of_the_users_and_shows_a_table() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a file, with % and ü");
    std::fs::write(&file, vec![42; 300_000]).unwrap();
    let output = tabane().arg("demo").arg("--file").arg(&file).output().unwrap();
    let (out, err) = (text_of(&output.stdout), text_of(&output.stderr));
    assert_eq!(code(&output), 0, "{err}");
    for word in ["Wi-Fi alone", "LTE alone", "Wi-Fi and LTE together", "SHA-256"] {
        assert!(out.contains(word), "{out}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), vec![42; 300_000], "the file is as it was");
}

#[test]
fn the_demo_takes_the_links_of_a_scenario_and_leaves_a_report() {
    let directory = tempfile::tempdir().unwrap();
    let (file, page) = (directory.path().join("three.toml"), directory.path().join("r.html"));
    let link = |name: &str, rate: u32| format!("[link.{name}]\nrate = \"{rate}Mbps\"\n");
    let text = link("a<b", 20).replace("a<b", "\"a<b\"") + &link("fibre", 40) + &link("dsl", 8);
    std::fs::write(&file, text + "[[flow]]\nbulk = \"1MB\"\n").unwrap();
    let mut command = tabane();
    command.args(["demo", "--json", "--size", "1MB", "--scenario"]).arg(&file);
    let output = command.arg("--html").arg(&page).output().unwrap();
    let (out, err) = (text_of(&output.stdout), text_of(&output.stderr));
    assert_eq!(code(&output), 0, "{err}");
    let document: serde_json::Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    let shares = document["bond"]["shares"].as_object().unwrap();
    assert_eq!(shares.keys().collect::<Vec<_>>(), ["a<b", "dsl", "fibre"]);
    assert_eq!(document["failure"]["link"], "a<b");
    let page = std::fs::read_to_string(&page).unwrap();
    for word in ["40 Mbit/s", "fibre alone", "while the first dies", "path-up", "a&lt;b", "</html>"]
    {
        assert!(page.contains(word), "{word}");
    }
    assert_eq!(page.matches("<svg").count(), 5, "a plot for each run");
    // It is all there: nothing is loaded, nothing runs.
    for outside in ["<script", "src=", "href=", "url(", "@import", "<link"] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn scenarios_that_are_no_demo_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("s.toml");
    let two = "[link.a]\nrate = \"9Mbps\"\n[link.b]\nrate = \"9Mbps\"\n[[flow]]\nbulk = \"1MB\"\n";
    for (text, named) in [
        (two.replace("rate =", "rat ="), "s.toml:2:1"),
        (two.replace("[link.b]", "[link.a.down]"), "it has 1 links"),
        (format!("{two}[path]\nx = [\"a\", \"b\"]\n"), "goes over 2 links"),
    ] {
        std::fs::write(&file, text).unwrap();
        let output = tabane().args(["demo", "--scenario"]).arg(&file).output().unwrap();
        let err = text_of(&output.stderr);
        assert_eq!(code(&output), 2, "{named}: {err}");
        assert!(err.contains(named), "{named}: {err}");
    }
    let output = tabane().args(["demo", "--scenario", "/nowhere.toml"]).output().unwrap();
    assert_eq!(code(&output), 1);
    assert!(text_of(&output.stderr).contains("/nowhere.toml"));
    let unwritable = ["demo", "--size", "1kB", "--html", "/nowhere/report.html"];
    let output = tabane().args(unwritable).output().unwrap();
    assert_eq!(code(&output), 1);
    assert!(text_of(&output.stderr).contains("/nowhere/report.html cannot be written"));
}

#[test]
fn a_demo_that_takes_too_long_fails_and_says_why() {
    let output = tabane()
        .args(["demo", "--size", "50MB", "--wifi", "rate=1", "--duration", "1"])
        .output()
        .unwrap();
    let err = text_of(&output.stderr);
    assert_eq!(code(&output), 1, "{err}");
    assert!(err.contains("not done after 1 s"), "{err}");
    assert!(output.stdout.is_empty());
}

#[test]
fn wrong_usage_is_2_and_says_what_to_do() {
    for (arguments, named) in [
        (vec!["demo", "--wifi", "speed=5"], "keys are rate"),
        (vec!["demo", "--size", "5X"], "not a unit"),
        (vec!["demo", "--scheduler", "minrt"], "minrtt"),
        (vec!["demo", "--congestion", "cubik"], "cubic"),
        (vec!["demo", "--file", "/dev/null"], "not a file with bytes"),
    ] {
        let output = tabane().args(&arguments).output().unwrap();
        let err = text_of(&output.stderr);
        assert_eq!(code(&output), 2, "{arguments:?}: {err}");
        assert!(err.contains(named), "{arguments:?}: {err}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

/// A copy of the binary that everybody may run: the build directory may be closed to others.
fn public_copy(directory: &tempfile::TempDir) -> PathBuf {
    let copy = directory.path().join("tabane");
    binary::copy(&copy);
    for path in [directory.path(), &copy] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    copy
}

#[test]
fn without_permission_the_user_is_told_what_to_run_instead() {
    let directory = tempfile::tempdir().unwrap();
    let copy = public_copy(&directory);
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|m| {
        use std::os::unix::fs::MetadataExt;
        m.uid() == 0
    });
    let mut command = if is_root {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(&copy);
        command
    } else {
        Command::new(&copy)
    };
    binary::close(&mut command);
    let key = "uRHCGeFjN+8uoyl4sLbve9ZB2C1z4GgBscZP+y2rknk=";
    let config = format!(
        "secret = '{key}'\n[[server]]\naddresses = ['192.0.2.1:1']\npublic_key = '{key}'\n\
         [[path]]\nsource = '127.0.0.1'\n[tun]\nname = 'tabx'\nroutes = ['192.0.2.0/24']\n"
    );
    let file = directory.path().join("client.toml");
    std::fs::write(&file, config).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let output = command.args(["client", "-c"]).arg(&file).current_dir("/").output().unwrap();
    let err = text_of(&output.stderr);
    assert_eq!(code(&output), 1, "{err}");
    if err.contains("/dev/net/tun is missing") {
        assert!(err.contains("tabane demo"), "{err}");
        return;
    }
    for remedy in ["permission", "tabane demo", "sudo", "setcap cap_net_admin", "ip tuntap add"] {
        assert!(err.contains(remedy), "{remedy}: {err}");
    }
}
