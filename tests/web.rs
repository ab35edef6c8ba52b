//! The page of an agent in a real browser: a headless Chromium, steered by the DevTools protocol.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // Helpers of tests; real clock.

#[path = "web/browser.rs"]
mod browser;
#[path = "../crates/gateway/tests/fake/mod.rs"]
mod fake;

use browser::Browser;
use fake::Fake;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use tabane_gateway::agent::{Endpoints, OpenEndpoints};
use tabane_gateway::model::{PathState, Role};
use tabane_gateway::request_channel::Request;
use tempfile::TempDir;

const TOKEN: &str = "0123456789abcdef";
/// All that a card says.
const LTE: &str = "document.querySelector('[data-path=lte]')?.innerText ?? ''";

fn start(fake: &Fake) -> ((OpenEndpoints, TempDir), SocketAddr) {
    let place = tempfile::tempdir().unwrap();
    let token = place.path().join("token");
    std::fs::write(&token, TOKEN).unwrap();
    std::fs::set_permissions(&token, PermissionsExt::from_mode(0o600)).unwrap();
    let endpoints = Endpoints {
        control: Some(place.path().join("home.sock")),
        web: "127.0.0.1:0".parse().ok(),
        web_token_file: Some(token),
        ..Endpoints::default()
    };
    let open = endpoints.open(&fake.request_channel).unwrap();
    let at = open.page.unwrap();
    ((open, place), at)
}

#[test]
fn the_page_shows_the_links_and_follows_them() {
    let Some(mut browser) = Browser::start() else { return };
    let fake = Fake::start();
    let (_pages, at) = start(&fake);
    browser.open(&format!("http://{at}/"), 1280, 900);

    browser.until("document.querySelectorAll('.link').length === 3", "three links");
    browser.until("document.getElementById('collecting').hidden", "a graph with two figures");
    assert_eq!(browser.text("String(document.querySelectorAll('.wait').length)"), "0");
    browser.until(&format!("({LTE}).includes('idle: backup, and fibre works')"), "why lte idles");
    let fibre = browser.text("document.querySelector('[data-path=fibre]').innerText");
    for part in ["93.4\u{a0}Mbit/s", "12.4\u{a0}ms", "up", "enp3s0", "198.51.100.7:40001"] {
        assert!(fibre.contains(part), "no '{part}' in {fibre}");
    }
    assert_eq!(browser.text("document.getElementById('down').innerText"), "93.4\u{a0}Mbit/s");
    browser.until("document.querySelectorAll('#events li').length === 4", "events");
    browser.until("document.querySelectorAll('#connections tr').length === 2", "connections");
    browser.until(DRAWN, "a graph that is not empty");

    // The world moves, and the page with it.
    {
        let mut world = fake.world();
        world.path("fibre").state = PathState::Down;
        world.path("fibre").reason = "3 probes without an answer".into();
        world.path("lte").rx_bps = 18e6;
        world.path("lte").reason = "carries 2 subflows".into();
        world.happened("path-down", Some("fibre"), "fibre is down");
        world.connections.clear();
    }
    browser.until(&format!("({LTE}).includes('18.0\u{a0}Mbit/s')"), "lte's new rate");
    let state = "document.querySelector('[data-path=fibre]').dataset.state";
    browser.until(&format!("{state} === 'down'"), "fibre's new state");
    browser
        .until("document.querySelector('#events li').innerText.includes('is down')", "the event");
    browser.until("document.querySelectorAll('#connections tr').length === 0", "no connections");
    assert_eq!(browser.errors(), [""; 0]);
}

/// Before an agent has answered, the page says what it waits for, and has the graph's lines.
#[test]
fn the_first_paint_says_what_is_to_come() {
    let Some(mut browser) = Browser::start() else { return };
    let mut fake = Fake::start();
    let (_pages, at) = start(&fake);
    fake.end();
    browser.open(&format!("http://{at}/"), 1280, 900);
    browser.until(DRAWN, "an empty graph");
    let page = browser.text("document.querySelector('main').innerText");
    assert!(page.contains("collecting") && page.contains("asking the agent"), "{page}");
}

#[test]
fn a_role_switch_reaches_the_agent_with_the_right_token_only() {
    let Some(mut browser) = Browser::start() else { return };
    let fake = Fake::start();
    let (_pages, at) = start(&fake);
    browser.open(&format!("http://{at}/"), 1280, 900);
    let click = "document.querySelector('[data-path=lte] [data-role=primary]').click()";
    browser.until("document.querySelector('[data-path=lte] [data-role=primary]')", "buttons");

    browser.text(click);
    browser.until("document.getElementById('ask').open", "the question for the token");
    let give = |token: &str| {
        format!(
            "document.getElementById('given').value = '{token}'; \
             document.querySelector('#ask [value=yes]').click()"
        )
    };
    browser.text(&give("not-the-token-at-all"));
    browser.until("document.getElementById('wrong').innerText.includes('not the token')", "a no");
    assert_eq!(fake.world().orders, []);
    browser.text(&give(TOKEN));
    let pressed = "document.querySelector('[data-path=lte] [aria-pressed=true]')?.dataset.role";
    browser.until(&format!("{pressed} === 'primary'"), "the new role");
    let order = Request::SetPath { path: "lte".into(), role: Some(Role::Primary), cap_bps: None };
    assert_eq!(fake.world().orders, [order]);
    browser.until("document.getElementById('token').innerText === 'unlocked'", "unlocked");
    // The wrong token was answered with 401, which browsers log; nothing else is wrong.
    assert!(browser.errors().iter().all(|error| error.contains("401")), "{:?}", browser.errors());
}

#[test]
fn the_page_fits_a_phone_and_says_when_the_agent_ends() {
    let Some(mut browser) = Browser::start() else { return };
    let mut fake = Fake::start();
    // Text of the agent is never taken for markup.
    fake.world().path("train").reason = "<img src=x onerror=alert(1)>".into();
    let (_pages, at) = start(&fake);
    browser.open(&format!("http://{at}/#token={TOKEN}"), 390, 844);
    browser.until("document.querySelectorAll('.link').length === 3", "three links");
    let wide = "document.documentElement.scrollWidth <= 390";
    browser.until(wide, "nothing that sticks out");
    assert_eq!(browser.text("location.hash"), "", "the token stays in no history");
    assert_eq!(browser.text("String(document.querySelectorAll('main img').length)"), "0");
    let dark = "document.getElementById('theme').click(); document.documentElement.dataset.theme";
    assert_eq!(browser.text(dark), "dark");
    fake.end();
    browser.until("document.body.classList.contains('stale')", "that the agent has ended");
    assert!(browser.text("document.getElementById('trouble').innerText").contains("has ended"));
}

/// Whether some pixel of the large graph is painted.
const DRAWN: &str = "(() => { const c = document.getElementById('stack'); \
    if (!c.width) return false; \
    return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(n => n !== 0); })()";
