//! Data both ways: acknowledgements wait behind it, which is no queue of the data that they
//! acknowledge.
use tabane_sim::observe::Silent;
use tabane_sim::result::RunResult;
use tabane_sim::run;
use tabane_sim::scenario::Scenario;

fn result(text: &str) -> RunResult {
    let scenario = Scenario::parse("both-ways.toml", text).unwrap();
    run(&scenario.compile().unwrap(), &mut Silent).unwrap()
}

/// Down to 0.71 of a link's rate, one way, before timestamps told the queues apart.
#[test]
fn a_connection_fills_both_ways_of_its_links() {
    let links = [("fast", 50.0, "10ms", "128KiB"), ("far", 20.0, "35ms", "256KiB")];
    let mut text = String::from("duration = \"60s\"\n");
    for (name, rate, delay, queue) in links {
        text += &format!(
            "[link.{name}]\nrate = \"{rate}Mbps\"\ndelay = \"{delay}\"\nqueue = \"{queue}\"\n"
        );
    }
    text += "[[flow]]\nbulk = \"unlimited\"\ndirection = \"both\"\n";
    for link in result(&text).links {
        let rate = links.iter().find(|(name, ..)| *name == link.link).unwrap().1 * 1e6;
        let share = link.bytes as f64 * 8.0 / 60.0 / rate;
        assert!(share >= 0.9, "{} to {}: {share}", link.link, link.to);
    }
}

/// A household: somebody else sends all that the way up carries, with CUBIC and a queue of 105 ms
/// there. (34.7 Mbit/s while the wait of acknowledgements was taken for a queue of the download;
/// CUBIC carries 15, BBR 39.)
#[test]
fn a_download_goes_on_beside_somebody_elses_upload() {
    let flow = &result(
        r#"duration = "60s"
        routers = ["home"]
        [link.lan]
        between = ["client", "home"]
        rate = "1Gbps"
        delay = "200us"
        [link.other]
        between = ["other", "home"]
        rate = "1Gbps"
        delay = "200us"
        [link.dsl]
        between = ["home", "server"]
        rate = "50Mbps"
        delay = "10ms"
        queue = "128KiB"
        up = { rate = "10Mbps", queue = "128KiB" }
        [host.other]
        congestion = "cubic"
        mptcp = false
        [[flow]]
        bulk = "unlimited"
        [[flow]]
        from = "other"
        bulk = "unlimited"
        direction = "upload"
        start = "5s""#,
    )
    .flows[0];
    assert!(flow.goodput_bps >= 38.5e6, "{}", flow.goodput_bps);
}
