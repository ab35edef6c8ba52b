//! The page with whatever an address may hold, in a headless Chromium: each address gives a run, or
//! a word on why it does not and a way out. This process simulates (`page/site.rs`); that the
//! WebAssembly module gives the same bytes is for `tests/play.rs` of the binary.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // Helpers of tests; real clock.

#[path = "../../../tests/web/browser.rs"]
mod browser;
#[path = "page/site.rs"]
mod site;

use browser::Browser;
use site::Site;
use std::process::Command;
use tabane_sim::scenario::Scenario;

const TROUBLE: &str = "(document.getElementById('trouble').hidden ? '' \
    : document.getElementById('trouble').innerText)";
const RUNS: &str = "window.playground?.time() > 0 && \
    document.getElementById('said').textContent === 'running'";
const STANDS: &str = "document.getElementById('said').textContent === 'not running'";

fn click(browser: &mut Browser, what: &str) {
    browser.text(&format!("document.querySelector(\"{what}\").click()"));
}

/// Gives a field a value, as by hand.
fn fill(browser: &mut Browser, id: &str, value: &str) {
    browser.text(&format!(
        "(() => {{ const it = document.getElementById('{id}'); it.value = '{value}'; \
         it.dispatchEvent(new Event('change')); }})()"
    ));
}

fn slide(browser: &mut Browser, name: &str, place: u32) {
    browser.text(&format!(
        "(() => {{ const it = document.querySelector('input[name=\"{name}\"]'); \
         it.value = {place}; it.dispatchEvent(new Event('input', {{ bubbles: true }})); }})()"
    ));
}

fn key(browser: &mut Browser, key: &str) {
    browser.text(&format!(
        "document.body.dispatchEvent( \
         new KeyboardEvent('keydown', {{ key: '{key}', bubbles: true }}))"
    ));
}

/// Does what opens something, and waits until that is not what was there before.
fn anew(browser: &mut Browser, script: &str) {
    browser.text("document.getElementById('cli').textContent = 'before'");
    browser.text(script);
    browser.until("document.getElementById('cli').textContent !== 'before'", script);
}

/// What a promise for a text is kept with.
fn kept(browser: &mut Browser, promise: &str) -> String {
    browser.text(&format!("window.kept = null; {promise}.then((it) => window.kept = it); ''"));
    browser.until("window.kept !== null", promise);
    browser.text("window.kept")
}

#[test]
fn links_that_are_gone_take_what_was_set_with_them() {
    let Some(mut browser) = Browser::start() else { return };
    let site = Site::serve();
    for by_plug in [false, true] {
        browser.open(&site.at("lang=en", "p=free&n=4"), 1280, 900);
        browser.until(RUNS, "a run");
        if by_plug {
            click(&mut browser, "[data-link=sat] .plug");
        } else {
            slide(&mut browser, "sat.rate", 120);
        }
        slide(&mut browser, "wifi.rate", 120);
        browser.until("location.hash.includes('link.wifi.rate')", "the changes");
        fill(&mut browser, "count", "2");
        browser.until("document.querySelectorAll('#links .link').length === 2", "two links");
        browser.until(RUNS, "a run of two links");
        assert_eq!(browser.text(TROUBLE), "");
        let left = browser.text(
            "Object.keys(playground.state.sets) + ';' + playground.state.down + ';' \
             + location.hash.includes('sat')",
        );
        assert_eq!(left, "link.wifi.rate;;false");
    }
    assert_eq!(browser.errors(), [""; 0]);
}

#[test]
fn what_is_refused_does_not_run_and_leaves_a_way_out() {
    let Some(mut browser) = Browser::start() else { return };
    let site = Site::serve();
    // First of all, and after a run of another preset.
    for before in ["", "p=proxies"] {
        if !before.is_empty() {
            browser.open(&site.at("lang=en", before), 1280, 900);
            browser.until(RUNS, "a run");
            anew(&mut browser, "location.hash = '#p=ecf3&down=foo'");
        } else {
            browser.open(&site.at("lang=en", "p=ecf3&down=foo"), 1280, 900);
        }
        browser.until(&format!("{TROUBLE}.includes(\"'foo'\")"), "what is wrong");
        browser.until(STANDS, "that nothing runs");
        assert_eq!(browser.text("document.getElementById('run').innerText"), "Run");
        assert_eq!(browser.text("document.getElementById('result').innerText"), "not running");
        let shown = "String(document.getElementById('links').checkVisibility())";
        assert_eq!(browser.text(shown), "false", "cards of another run");
        for button in ["restart", "run"] {
            anew(&mut browser, &format!("document.getElementById('{button}').click()"));
            browser.until(&format!("{TROUBLE}.includes(\"'foo'\")"), "the same again");
            browser.until(STANDS, "that nothing runs");
        }
        key(&mut browser, "l");
        browser.until(&format!("{TROUBLE}.includes('実行できません')"), "it in Japanese");
        key(&mut browser, "l");
        // The file is there to be mended.
        key(&mut browser, "t");
        browser.until("document.getElementById('text').value.includes('foo')", "the file");
        click(&mut browser, "#fileClose");
        click(&mut browser, "[data-preset=ecf3]");
        browser.until(RUNS, "a run from afresh");
        browser.until(&format!("{TROUBLE} === ''"), "no trouble");
        assert_eq!(browser.text("location.hash"), "#p=ecf3");
        browser.until("document.querySelectorAll('#links .link').length === 3", "cards");
    }
    assert_eq!(browser.errors(), [""; 0]);
}

#[test]
fn a_file_that_does_not_open_leaves_the_run_as_it_is() {
    let Some(mut browser) = Browser::start() else { return };
    let site = Site::serve();
    browser.open(&site.at("lang=en", "p=free&n=3&traffic=file"), 1280, 900);
    browser.until(RUNS, "a run");
    browser.text("playground.speed(10)");
    browser.until("playground.result", "the end");
    let before = "[playground.result.length, location.hash, playground.time(), \
        document.getElementById('said').textContent, \
        document.getElementById('events').children.length, \
        document.getElementById('cli').textContent].join()";
    let was = browser.text(before);
    key(&mut browser, "t");
    browser.until("document.getElementById('text').value.includes('[link.wifi]')", "the file");
    browser.text("document.getElementById('text').value = 'seed = \"x\"'");
    click(&mut browser, "#fileOpen");
    browser.until("document.getElementById('fileTrouble').innerText.includes('seed')", "an error");
    assert_eq!(browser.text(before), was);
    assert_eq!(browser.errors(), [""; 0]);
}

/// Addresses, and what the page says to them: nothing where it is a run as any other.
const ODD: &[(&str, &str)] = &[
    ("", ""),
    ("links", "links="),
    ("%", "%="),
    ("p=__proto__", "p=__proto__"),
    ("p=free&n=1", "n=1"),
    ("p=free&n=3.7", "n=3.7"),
    ("p=free&n=Infinity", "n=Infinity"),
    ("p=free&traffic=constructor", "traffic=constructor"),
    ("p=free&traffic=__proto__", "traffic=__proto__"),
    ("p=ecf3&v=constructor", "v=constructor"),
    ("p=free&down=foo", "down=foo"),
    ("p=free&down=lte,", ""),
    ("p=free&n=2&down=sat,lte", "down=sat"),
    ("p=free&n=2&link.sat.rate=10Mbps", "link.sat.rate=10Mbps"),
    ("p=free&link.__proto__.rate=1Mbps", "link.__proto__.rate"),
    ("p=free&down=%22%0A%5Blink.evil%5D%0Arate=%221Mbps", "down="),
    ("p=two_wans&down=ftth%22 %23", "does not run"),
    ("p=free&seed=abc", "seed=abc"),
    ("p=free&seed=-1", "seed=-1"),
    ("p=free&seed=1e30", "seed=1e30"),
    ("p=free&seed=", "seed="),
    ("p=free&seed=9223372036854775808", "seed=9223372036854775808"),
    ("p=free&seed=9223372036854775807", ""),
    ("p=ecf3&seed=1';touch pwned;'", "seed=1';touch pwned;'"),
    ("p=ecf3&flow.0.name=a';touch pwned;'", ""),
    ("p=ecf3&flow.0.name=$(touch pwned)`touch pwned`", ""),
    ("p=ecf3&flow.0.name=\\';touch pwned;'", "flow.0.name="),
    ("p=ecf3&flow.0.name=a%03%0Atouch pwned%0A", "flow.0.name=a"),
    ("p=ecf3&flow.0.name=%E2%80%AEa", "flow.0.name="),
    ("p=ecf3&-o.pwned=1", "-o.pwned=1"),
    ("p=ecf3&a%3Db.c=1", "a=b.c=1"),
    ("p=ecf3&__proto__.x=1", "__proto__"),
    ("p=ecf3&..=1", "does not run"),
    ("p=ecf3&flow.0.bulk=", "does not run"),
    ("p=ecf3&flow.0.bulk=[\"1MB\",\"2MB\"]", "2 runs"),
    ("p=ecf3&flow.0.bulk=%3Cimg src=x onerror=evil=1%3E", "<img"),
    ("p=ecf3&flow.0.name=%3Cimg src=x onerror=evil=1%3E", ""),
    ("p=%3Cimg src=x onerror=evil=1%3E", "<img"),
    ("p=bicast&link.wifi.down.loss=0.01", ""),
    ("p=bicast&link.wifi.down.loss=x", "does not run"),
    ("p=hayack&link.link1.delay=1s", ""),
    ("p=free&link.wifi.rate=0bps", "does not run"),
    ("p=free&link.wifi.delay=1e9s", "does not run"),
    ("p=free&defaults.scheduler=nope", "does not run"),
    ("toml=!!!", "toml=!!!"),
    ("toml=AAAA", "toml=AAAA"),
    ("toml=AwA", "does not run"),
];

#[test]
fn whatever_an_address_holds_it_runs_or_it_is_said_why() {
    let Some(mut browser) = Browser::start() else { return };
    let site = Site::serve();
    browser.open(&site.at("lang=en", "p=free"), 1280, 900);
    browser.until(RUNS, "a run");
    let place = tempfile::tempdir().unwrap();
    for (address, said) in ODD {
        anew(&mut browser, "location.hash = '#p=hayack&v=stated'");
        let hash = serde_json::json!(format!("#{address}"));
        anew(&mut browser, &format!("location.hash = {hash}"));
        browser.until(&format!("({RUNS}) || ({STANDS})"), address);
        let trouble = browser.text(TROUBLE);
        assert_eq!(trouble.is_empty(), said.is_empty(), "{address}: {trouble}");
        assert!(trouble.contains(said), "{address}: {trouble}");
        let foreign = "String(document.querySelectorAll('[onerror]').length) + window.evil";
        assert_eq!(browser.text(foreign), "0undefined", "{address}");
        check_command(&browser.text("document.getElementById('cli').textContent"), place.path());
        if browser.text(&format!("String({STANDS})")) == "false" {
            let toml = kept(&mut browser, "playground.toml()");
            let scenario = Scenario::parse("page.toml", &toml).unwrap();
            assert!(scenario.compile().is_ok(), "{address}: {toml}");
            assert!(!toml.contains("evil]") && !toml.contains("function"), "{address}: {toml}");
        } else {
            anew(&mut browser, "document.querySelector('[data-preset=free]').click()");
            browser.until(RUNS, &format!("a run after {address}"));
        }
    }
    assert_eq!(browser.errors(), [""; 0]);
}

/// To a shell it is one command, with a scenario and values.
fn check_command(line: &str, place: &std::path::Path) {
    let script = format!("tabane() {{ printf '%s\\0' \"$@\"; }}\n{line}\n");
    let output = Command::new("sh").args(["-c", &script]).current_dir(place).output().unwrap();
    assert!(output.stderr.is_empty(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    let words = String::from_utf8(output.stdout).unwrap();
    let words: Vec<&str> = words.trim_end_matches('\0').split('\0').collect();
    assert!(words.len() >= 3 && words[..2] == ["sim", "run"], "{line}: {words:?}");
    for pair in words[3..].chunks(2) {
        assert!(pair[0] == "--set" && !pair[1].starts_with('-'), "{line}: {words:?}");
        assert!(pair[1].contains('='), "{line}: {words:?}");
    }
    assert_eq!(std::fs::read_dir(place).unwrap().count(), 0, "{line}");
}

#[test]
fn files_in_an_address_name_links_as_they_like_and_have_an_end() {
    let Some(mut browser) = Browser::start() else { return };
    let site = Site::serve();
    browser.open(&site.at("lang=en", "p=free"), 1280, 900);
    browser.until(RUNS, "a run");
    let hash = |text: &str| {
        format!(
            "import('./state.js').then((it) => it.pack({text})).then((it) => \
             (location.hash = '#toml=' + it, 'done'))"
        )
    };
    for name in ["constructor", "__proto__", "toString"] {
        let text = format!(
            "duration = \"60s\"\nabout = \"<img src=x onerror=evil=1>\"\n[link.{name}]\n\
             rate = \"9Mbps\"\ndelay = \"5ms\"\n[[flow]]\nname = \"<b>\"\nbulk = \"unlimited\"\n"
        );
        kept(&mut browser, &hash(&serde_json::json!(text).to_string()));
        browser.until(&format!("document.querySelector('[data-link={name}]')"), name);
        browser.until(RUNS, name);
        let foreign = "String(document.querySelectorAll('[onerror]').length) + window.evil";
        assert_eq!(browser.text(foreign), "0undefined", "{name}");
    }
    // Some letters that would be a file of 64 MB.
    kept(&mut browser, &hash("'#'.repeat(64 << 20)"));
    browser.until(&format!("{TROUBLE}.includes('toml=')"), "that it is too long");
    browser.until(RUNS, "the bench instead");
    assert_eq!(browser.errors(), [""; 0]);
}

/// Directions that differ have sliders of their own, and what is moved is what it says.
#[test]
fn sliders_set_what_they_stand_for() {
    let Some(mut browser) = Browser::start() else { return };
    let site = Site::serve();
    browser.open(&site.at("lang=en", "p=free"), 1280, 900);
    browser.until(RUNS, "a run");
    let text = "duration = \"60s\"\n[link.\"a.b=1\"]\nrate = \"20Mbps\"\ndelay = \"5ms\"\n\
                up = { rate = \"5Mbps\" }\n[[flow]]\nbulk = \"unlimited\"\n";
    let text = serde_json::json!(text);
    kept(
        &mut browser,
        &format!(
            "import('./state.js').then((it) => it.pack({text})).then((it) => \
             (location.hash = '#toml=' + it, 'done'))"
        ),
    );
    browser.until("document.querySelector('input[name=\"a.b=1.up.rate\"]')", "the file's link");
    browser.until(RUNS, "a run of the file");
    let names = "[...document.querySelectorAll('#links input')].map((it) => it.name).join()";
    assert_eq!(
        browser.text(names),
        "a.b=1.up.rate,a.b=1.down.rate,a.b=1.delay,a.b=1.loss,a.b=1.queue"
    );
    slide(&mut browser, "a.b=1.up.rate", 120);
    slide(&mut browser, "a.b=1.delay", 100);
    browser.until("Object.keys(playground.state.sets).length === 2", "the changes");
    let set = browser.text("Object.keys(playground.state.sets).sort().join()");
    assert_eq!(set, "link.\"a.b=1\".delay,link.\"a.b=1\".up.rate");
    assert_eq!(browser.text(TROUBLE), "");
    // The address says it, too, and is read back; nothing of it is left out.
    browser.until("decodeURIComponent(location.hash).includes('.up.rate=')", "the address");
    let address = browser.text("location.hash");
    anew(&mut browser, "location.hash = '#p=free'");
    browser.until(RUNS, "another run");
    anew(&mut browser, &format!("location.hash = {}", serde_json::json!(address)));
    browser.until(RUNS, "the same again");
    assert_eq!(browser.text("Object.keys(playground.state.sets).sort().join()"), set);
    assert_eq!(browser.text(TROUBLE), "");
    assert_eq!(browser.errors(), [""; 0]);
}

#[test]
fn a_seed_that_is_none_is_put_back() {
    let Some(mut browser) = Browser::start() else { return };
    let site = Site::serve();
    browser.open(&site.at("lang=en", "p=free&seed=5"), 1280, 900);
    browser.until(RUNS, "a run");
    for odd in ["", "-3", "1.5", "1e25", "99999999999999999999"] {
        fill(&mut browser, "seed", odd);
        browser.until(&format!("{TROUBLE}.includes('whole number')"), odd);
        assert_eq!(browser.text("document.getElementById('seed').value"), "5");
        assert_eq!(browser.text("playground.state.sets.seed"), "5");
    }
    fill(&mut browser, "seed", "6");
    browser.until(&format!("{TROUBLE} === '' && location.hash.includes('seed=6')"), "6");
    browser.until(RUNS, "a run");
    assert_eq!(browser.errors(), [""; 0]);
}

#[test]
fn languages_variants_and_cards_follow_what_was_chosen() {
    let Some(mut browser) = Browser::start() else { return };
    let site = Site::serve();
    browser.open(&site.at("lang=constructor", "p=free"), 1280, 900);
    browser.until(RUNS, "a run");
    assert_eq!(browser.text("document.documentElement.lang"), "en");
    // A card that is made anew stands where its slider was moved to.
    slide(&mut browser, "wifi.rate", 40);
    browser.until("playground.state.sets['link.wifi.rate']", "the slider's value");
    key(&mut browser, "l");
    browser.until("document.documentElement.lang === 'ja'", "Japanese");
    assert_eq!(browser.text("document.querySelector('input[name=\"wifi.rate\"]').value"), "40");
    key(&mut browser, "l");
    // To go past the head is not to leave the state.
    click(&mut browser, ".skip");
    assert_eq!(browser.text("document.activeElement.id"), "links");
    assert!(browser.text("location.hash").contains("link.wifi.rate"));
    // A variant that is chosen is what runs.
    anew(&mut browser, "location.hash = '#p=ecf3&flow.0.bulk=5MB'");
    browser.until("document.getElementById('variant').value === '10MB'", "variants");
    fill(&mut browser, "variant", "20MB");
    browser.until("location.hash === '#p=ecf3&v=20MB'", "the variant");
    browser.until(RUNS, "a run");
    let toml = kept(&mut browser, "playground.toml()");
    assert!(toml.contains("bulk = \"20MB\""), "{toml}");
    assert_eq!(browser.errors(), [""; 0]);
}

#[test]
fn links_show_as_full_as_they_are_whatever_the_unit() {
    let Some(mut browser) = Browser::start() else { return };
    let site = Site::serve();
    for rate in ["0.01Gbps", "10Mbit/s", "10000 kbps"] {
        let state = format!("p=free&n=2&link.wifi.rate={rate}&link.wifi.queue=64 KiB");
        browser.open(&site.at("lang=en", &state), 1280, 900);
        browser.until("window.playground?.time() > 2", "a run");
        // Up and down of the first link.
        let share = "playground.loads()[1].rate > 0.5 && playground.loads()[1].rate < 1.1";
        browser.until(share, &format!("a link of {rate} that is full"));
    }
    assert_eq!(browser.errors(), [""; 0]);
}
