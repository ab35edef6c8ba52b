//! Manual pages: what every one has, those of files, and that no reader complains.

use crate::program::{Place, has};
use std::process::Command;

#[test]
fn pages_say_how_a_verb_ends_which_files_it_reads_and_how_it_is_used() {
    let place = Place::new();
    place.ok(&["man", "--out", "share/man1"]);
    let page = |name: &str| place.read(&format!("share/{name}"));
    for (name, parts) in [
        ("man1/tabane.1", vec!["EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES", "SUBCOMMANDS"]),
        ("man1/tabane-client.1", vec!["EXIT STATUS", "ENVIRONMENT", "/etc/tabane/client.toml"]),
        ("man1/tabane-sim-run.1", vec!["EXIT STATUS", "EXAMPLES", "scenarios/wifi\\-lte.toml"]),
        ("man1/tabane-server-invite.1", vec!["wireguard", ".BR tabane-server (1)"]),
        ("man5/tabane.toml.5", vec!["TABANE_CLIENT_", "interface", "TP", "[[rule]]"]),
        ("man5/tabane-server.toml.5", vec![".so man5/tabane.toml.5"]),
        ("man5/tabane-scenario.5", vec!["[[flow]]", "onoff", "gilbert"]),
    ] {
        let text = page(name);
        for part in parts {
            assert!(text.contains(part), "no {part} in {name}:\n{text}");
        }
    }
    // Only agents have their files.
    assert!(!page("man1/tabane-sim-run.1").contains("/etc/tabane/client.toml"));
    assert!(place.ok(&["man", "tabane.toml"]).contains(".TH tabane.toml 5"));
    let wrong = place.tabane(&["man", "tabane-sim-rum"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.err.contains("did you mean 'tabane-sim-run'?"), "{}", wrong.err);
}

#[test]
fn no_reader_complains_about_a_page() {
    if !has("groff") {
        return;
    }
    let place = Place::new();
    place.ok(&["man", "--out", "pages"]);
    let mut count = 0;
    for entry in std::fs::read_dir(place.path("pages")).unwrap() {
        let file = entry.unwrap().path();
        let mut groff = Command::new("groff");
        groff.args(["-man", "-Tutf8", "-ww"]).arg(&file).env("LC_ALL", "C.UTF-8");
        let output = groff.current_dir(place.path("pages")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // One page is another's name, and lies in a folder that is not here.
        let is_alias = file.file_name().is_some_and(|name| name == "tabane-server.toml.5");
        assert!(is_alias || said.is_empty(), "{}: {said}", file.display());
        count += 1;
    }
    assert!(count > 40, "{count} pages");
}
