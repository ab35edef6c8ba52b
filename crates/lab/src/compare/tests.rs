//! Differences, rows, verdicts and the page, on figures made by hand.

use super::*;

fn outcome(goodput_mbits: f64, wifi: f64) -> Outcome {
    let shares = [("wifi".to_owned(), wifi), ("lte".to_owned(), 1.0 - wifi)];
    Outcome {
        goodput_bps: goodput_mbits * 1e6,
        completed_s: Some(80.0 / goodput_mbits),
        shares: shares.into(),
        retransmitted_ratio: 0.01,
        srtt_p50_s: Some(0.05),
        ..Outcome::default()
    }
}

fn compared(name: &str, multipath: bool, kernel: [f64; 3]) -> Compared {
    let runs = |goodputs: [f64; 3]| goodputs.map(|g| outcome(g, 0.75)).to_vec();
    Compared {
        scenario: name.into(),
        about: "made by hand".into(),
        toml: String::new(),
        multipath,
        lossy: false,
        version: "0".into(),
        runs: BTreeMap::from([
            (Runner::Sim, runs([10.0, 10.0, 10.0])),
            (Runner::Tabane, runs([9.8, 9.8, 9.8])),
            (Runner::Kernel, runs(kernel)),
        ]),
    }
}

#[test]
fn differences_are_against_the_simulator_and_say_how_sure_they_are() {
    let compared = compared("a", true, [8.0, 9.0, 10.0]);
    let goodput: Value = |o| Some(o.goodput_bps);
    let tabane = compared.difference(Runner::Tabane, goodput).unwrap();
    assert!((tabane.mean + 0.02).abs() < 1e-9 && tabane.half_width == 0.0, "{tabane:?}");
    let kernel = compared.difference(Runner::Kernel, goodput).unwrap();
    // Deviation 1, of three: 4.303 / sqrt(3) Mbit/s of 10.
    assert!((kernel.mean + 0.1).abs() < 1e-9);
    assert!((kernel.half_width - 0.2484).abs() < 1e-3, "{kernel:?}");
}

#[test]
fn rows_name_what_there_is() {
    let rows = rows(&compared("a", true, [10.0; 3]));
    let head: Vec<&str> = rows[0].iter().map(String::as_str).collect();
    assert_eq!(head, ["", "sim", "tabane", "against sim", "kernel", "against sim"]);
    assert!(rows.iter().all(|row| row.len() == 6), "{rows:?}");
    let row = |name: &str| rows.iter().find(|row| row[0] == name).unwrap().clone();
    assert_eq!(row("goodput")[1..4], ["10.00 Mbit/s", "9.80 Mbit/s", "-2.0 %"]);
    assert_eq!(row("share of wifi")[1], "75.00 %");
    assert!(!rows.iter().any(|row| row[0].starts_with("latency") || row[0] == "Jain"));
}

#[test]
fn targets_are_judged_by_median_and_worst() {
    let one = |name, kernel| compared(name, false, kernel);
    let all = [one("a", [9.5; 3]), one("b", [9.3; 3]), one("c", [6.0; 3])];
    let verdicts = verdicts(&all);
    let kernel = verdicts.iter().find(|v| v.what == "the kernel, one path").unwrap();
    assert!((kernel.median.0 - 0.07).abs() < 1e-9 && kernel.worst.2 == "c", "{kernel:?}");
    assert!(!kernel.is_met());
    assert!(verdicts[0].is_met(), "{:?}", verdicts[0]);
    assert!(!verdicts.iter().any(|v| ["two paths", "lose"].iter().any(|n| v.what.contains(n))));
}

#[test]
fn links_that_lose_are_judged_by_themselves_and_by_their_worst() {
    let mut all = [0.95, 0.88, 0.5].map(|g| compared("a", false, [10.0 * g; 3]));
    all[..2].iter_mut().for_each(|compared| compared.lossy = true);
    let lossy = |all| verdicts(all).into_iter().find(|v| v.what.contains("lose")).unwrap();
    let verdict = lossy(&all);
    assert_eq!(verdict.scenarios, 2);
    assert!((verdict.worst.0 - 0.12).abs() < 1e-9 && !verdict.is_met(), "{verdict:?}");
    assert!(lossy(&all[..1]).is_met());
}

#[test]
fn the_page_has_a_row_a_scenario_and_the_notes() {
    let mut all = [compared("a", false, [10.0; 3]), compared("b", true, [20.0; 3])];
    all[0].runs.get_mut(&Runner::Tabane).unwrap()[1].poor = Some("late".into());
    let notes = Notes::from([("b".to_owned(), "the kernel has a better link".to_owned())]);
    let page = markdown(&all, &notes, "Measured by hand.");
    assert!(page.contains("| `a` | 10.00 | 9.80 (poor accuracy) | -2.0 % | 10.00 |"), "{page}");
    assert!(page.contains("| `b` | 10.00 | 9.80 | -2.0 % | 20.00 | +100.0 % |"), "{page}");
    assert!(page.contains("- `b`: the kernel has a better link"));
    assert!(page.contains("| the kernel, two paths (no target) | 1 | 100.0 % | 100.0 %, `b` |"));
    assert!(page.contains("wifi: 75 % / 75 % / 75 %"));
}

#[test]
fn quantiles_are_nearest_ranks() {
    let quantiles = |share| quantile(&[1.0, 2.0, 3.0, 4.0], share);
    assert_eq!((quantiles(0.5), quantiles(0.95), quantile(&[], 0.5)), (Some(2.0), Some(4.0), None));
}

const PAGE: &str = r#"
head = "Head."
tail = "The end."
[[table]]
title = "Seconds"
figure = "completed"
published = { "10% / bicast" = 6.13 }
[[table]]
title = "Share"
figure = "b/one over a/shared"
"#;

#[test]
fn a_folder_with_a_text_of_its_own_has_tables_of_its_figures() {
    let mut one = compared("cells [up=10%, egress=bicast]", true, [10.0; 3]);
    for outcome in one.runs.values_mut().flatten() {
        let subflow = |mbits: f64| SubflowOutcome { goodput_bps: mbits * 1e6, srtt_p50_s: None };
        let names = [("a/shared", 2.0), ("b/one", 3.0)];
        outcome.subflows = names.map(|(name, mbits)| (name.to_owned(), subflow(mbits))).into();
    }
    one.runs.get_mut(&Runner::Kernel).unwrap()[2].poor = Some("late".into());
    let write = |text: &str| {
        let page: Page = toml_of(text);
        page.write(std::slice::from_ref(&one), "By hand.")
    };
    let page = write(PAGE).unwrap();
    assert!(page.starts_with("Head.\n\nBy hand. 3 runs of each.\n"), "{page}");
    assert!(page.contains("|  | paper | sim | tabane | kernel |\n"), "{page}");
    assert!(page.contains("| 10% / bicast | 6.13 s | 8.00 s | 8.16 s | 8.00 s |"), "{page}");
    assert!(page.contains("| 10% / bicast | 1.500 | 1.500 | 1.500 |"), "{page}");
    assert!(page.contains("| 10% / bicast | 0 us | 0 us, 1 of 3 poor |"), "{page}");
    assert!(page.ends_with("The end.\n"));
    let wrong = write(&PAGE.replace("completed", "complete")).unwrap_err();
    assert!(wrong.contains("no figure 'complete'"), "{wrong}");
    let wrong = write(&PAGE.replace("10% / b", "9% / b")).unwrap_err();
    assert!(wrong.contains("'9% / bicast' is published"), "{wrong}");
}

/// As `tabane compare` reads it.
fn toml_of(text: &str) -> Page {
    toml::from_str(text).unwrap()
}
