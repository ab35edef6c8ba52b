//! What the playground does in a headless Chromium on this machine: time to the first paint and to
//! the first curve, packet-hops a second with the page drawing, and of the simulator alone.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // As in tests; real clock.
#![allow(dead_code)] // Of what tests use.

#[path = "../tests/binary/mod.rs"]
mod binary;
#[path = "../tests/web/browser.rs"]
mod browser;
#[path = "../tests/play/page.rs"]
mod page;

use browser::Browser;
use page::Page;
use std::time::{Duration, Instant};

/// Links, and for how long they are watched.
const CASES: &[(&str, &str)] = &[
    ("two links, 45 Mbit/s", "p=free&n=2"),
    ("two links, 450 Mbit/s", "p=free&n=2&link.wifi.rate=300Mbps&link.lte.rate=150Mbps"),
    ("four links", "p=free&n=4"),
    ("two WANs, 310 Mbit/s", "p=two_wans"),
];
const WATCHED: Duration = Duration::from_secs(5);

fn main() {
    let Some(mut browser) = Browser::start() else { return };
    let page = Page::serve();
    browser.open(&page.at("p=free"), 1280, 900);
    browser.until("window.playground?.history?.rows.length > 5", "curves");
    let paint = "String(Math.round(performance.getEntriesByName('first-contentful-paint')[0] \
        ?.startTime ?? NaN))";
    println!("first paint: {} ms", browser.text(paint));
    println!("first figures of the simulator: {} ms", browser.text("String(playground.first)"));
    for (name, state) in CASES {
        browser.open(&page.at(state), 1280, 900);
        browser.until("window.playground?.time() > 0", "a run");
        browser.text("playground.speed(10)");
        let counts = "JSON.stringify([playground.hops, playground.busy])";
        let read = |text: String| -> (f64, f64) { serde_json::from_str(&text).unwrap() };
        let (began, first) = (Instant::now(), read(browser.text(counts)));
        std::thread::sleep(WATCHED);
        let (last, took) = (read(browser.text(counts)), began.elapsed());
        let hops = last.0 - first.0;
        println!(
            "{name}: {:.2} M packet-hops/s, {:.2} M while the simulator computes",
            hops / took.as_secs_f64() / 1e6,
            hops / (last.1 - first.1) / 1e3
        );
    }
}
