//! Scenario files: what is accepted, and what people are told about what is not.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use tabane_sim::Plan;
use tabane_sim::link::RateConfig;
use tabane_sim::observe::Silent;
use tabane_sim::scenario::{Document, Scenario, schema};

const GOOD: &str = r#"
seed = 7
duration = "30s"

[link.wifi]
rate = "50Mbps"
delay = "10ms"
up = { rate = "10Mbps" }

[link.lte]
rate = "20Mbps"
delay = "40ms"

[[flow]]
bulk = "20MB"
"#;

fn parse(text: &str) -> Result<Scenario, String> {
    Scenario::parse("test.toml", text).map_err(|e| e.to_string())
}

/// The message for a scenario that is `GOOD` with one thing changed.
#[track_caller]
fn refusal(find: &str, replace: &str) -> String {
    assert!(GOOD.contains(find), "the good scenario has no {find:?}");
    parse(&GOOD.replace(find, replace)).expect_err("refused")
}

/// What is replaced in the good scenario, by what, and what the message then says.
const REFUSALS: &[(&str, &str, &[&str])] = &[
    (
        "rate = \"50Mbps\"",
        "rat = \"50Mbps\"",
        &["test.toml:6:1", "unknown key 'rat'", "did you mean 'rate'?"],
    ),
    ("bulk = \"20MB\"", "onoff = { on = \"1ns\", off = \"1ns\" }", &[":15:", "at the soonest"]),
    ("bulk = \"20MB\"", "paced = { rate = \"100Gbps\", message = 1 }", &["larger", "100 ns"]),
    ("[[flow]]", "[output]\nsample = \"1ns\"\n[[flow]]", &[":15:10:", "after 100us"]),
    (
        "[[flow]]",
        "[[at]]\ntime = \"1s\"\nevery = \"1ns\"\nlink = \"wifi\"\nrate = \"1Mbps\"\n[[flow]]",
        &[":16:9:", "again after 1ns"],
    ),
    (
        "[[flow]]",
        "[[at]]\ntime = \"1s\"\nlink = \"wifi\"\nloss = \"gilbert:p=2\"\n[[flow]]",
        &[":17:8:", "'p' is 2", "allowed is 0 to 1"],
    ),
    (
        "[[flow]]",
        "[[at]]\ntime = \"1s\"\nlink = \"wifi\"\nqueue = \"codle\"\n[[flow]]",
        &[":17:9:", "unknown queue model 'codle'", "did you mean 'codel'?"],
    ),
    (
        "[[flow]]",
        "[[at]]\ntime = \"1s\"\nlink = \"wifi\"\nmtu = 100\n[[flow]]",
        &[":17:7:", "an MTU of less than 296 bytes"],
    ),
    ("[[flow]]", "[host.client]\ntcp = { keepalive = \"1ns\" }\n[[flow]]", &["after 1ns"]),
    (
        "[[flow]]",
        "[host.client]\ntcp = { receive_buffer = 9223372036854775807 }\n[[flow]]",
        &[":15:26:", "a buffer is too large", "at most 1024GiB"],
    ),
    ("[link.lte]", "[lte]", &["unknown key 'lte'", "write [link.lte]"]),
    ("[[flow]]", "[wan]\nx = 1\n[[flow]]", &["unknown key 'wan'", "known: name, about, seed"]),
    ("rate = \"50Mbps\"", "rate = \"-5Mbps\"", &[":6:8:", "cannot be negative"]),
    ("rate = \"50Mbps\"", "rate = \"0Mbps\"", &[":6:8:", "more than zero", "down"]),
    ("rate = \"50Mbps\"", "rate = 50", &[":6:8:", "no unit", "\"20Mbps\""]),
    ("rate = \"50Mbps\"", "", &[":5:7:", "link 'wifi' has no rate", "add rate"]),
    (
        "delay = \"10ms\"",
        "queue = \"codle\"",
        &[":7:9:", "unknown queue model 'codle'", "did you mean 'codel'?"],
    ),
    (
        "delay = \"10ms\"",
        "medium = \"wfi\"",
        &[":7:10:", "unknown medium 'wfi'", "did you mean 'wifi'?"],
    ),
    (
        "delay = \"10ms\"",
        "medium = \"wifi:stations=2,hidden=3\"",
        &[":7:10:", "'hidden' is 3, allowed is 0 to 2"],
    ),
    (
        "rate = \"50Mbps\"\ndelay = \"10ms\"",
        "rate = \"500kbps\"\nmedium = \"wifi\"",
        &[":7:10:", "constant rate of at least 1 Mbit/s", "add rate = \"54Mbps\""],
    ),
    (
        "delay = \"10ms\"",
        "conditions = \"leo\"\nmedium = \"wifi\"",
        &[":7:14:", "do not go with a medium", "leave conditions or medium out"],
    ),
    ("delay = \"10ms\"", "loss = \"120%\"", &[":7:8:", "between 0% and 100%"]),
    ("delay = \"10ms\"", "trace = \"nowhere.trace\"", &["rate and a trace"]),
    ("[link.lte]", "[link.wifi]", &[":10:7:", "duplicate"]),
    (
        "bulk = \"20MB\"",
        "bulk = \"20MB\"\nfrom = \"clinet\"",
        &[":16:8:", "no host 'clinet'", "did you mean 'client'?"],
    ),
    ("bulk = \"20MB\"", "", &["no application", "bulk"]),
    (
        "bulk = \"20MB\"",
        "bulk = \"20MB\"\npaced = { rate = \"1Mbps\" }",
        &["one application", "bulk and paced"],
    ),
    ("[[flow]]\nbulk = \"20MB\"", "", &["no flow", "[[flow]]"]),
    (
        "bulk = \"20MB\"",
        "bulk = \"20MB\"\n[[flow]]\nname = \"flow1\"\nbulk = \"1MB\"",
        &[":17:8:", "two flows 'flow1'"],
    ),
    (
        "bulk = \"20MB\"",
        "bulk = \"20MB\"\ncount = 2\n[[flow]]\nname = \"flow1.2\"\nbulk = \"1MB\"",
        &[":18:8:", "two flows 'flow1.2'", "flow 'flow1' is 2 of them"],
    ),
    ("duration = \"30s\"", "duration = \"0s\"", &[":3:12:", "needs a duration"]),
    (
        "[[flow]]",
        "[host.client]\nscheduler = \"minrt\"\n[[flow]]",
        &[":15:13:", "unknown scheduler 'minrt'", "did you mean 'minrtt'?"],
    ),
    (
        "[[flow]]",
        "[defaults.tcp]\nsend_buffer = \"0B\"\n[[flow]]",
        &[":15:15:", "a buffer of 0 bytes"],
    ),
    ("[[flow]]", "[host.client.tcp]\nmss = 40\n[[flow]]", &[":15:7:", "at least 88 bytes"]),
    (
        "[[flow]]",
        "[defaults.tcp]\ninitial_window = 0\n[[flow]]",
        &[":15:18:", "a window of 0 segments"],
    ),
    (
        "[[flow]]",
        "[defaults.tcp]\nrto_min = \"2s\"\n[host.client.tcp]\nrto_max = \"1s\"\n[[flow]]",
        &[":17:11:", "the least timeout, 2s, is above the most, 1s"],
    ),
    (
        "[[flow]]",
        "[defaults]\nmptcp = { max_subflows = 0 }\n[[flow]]",
        &[":15:26:", "at least one", "mptcp = false"],
    ),
    (
        "[[flow]]",
        "[defaults]\nmptcp = { max_subflows = 33 }\n[[flow]]",
        &[":15:26:", "32 subflows at most"],
    ),
    (
        "[[flow]]",
        "[[flow]]\nstart = \"5s\"\nstop = \"1s\"\nbulk = \"1MB\"\n[[flow]]",
        &["a flow that stops at 1s and starts at 5s"],
    ),
    (
        "[[flow]]",
        "[[flow]]\ncount = 4\nstagger = \"1s\"\nstop = \"2s\"\nbulk = \"1MB\"\n[[flow]]",
        &["a flow that stops at 2s and starts at 3s"],
    ),
    (
        "[[flow]]",
        "[host.client]\ncongestion = \"reno:x=1\"\n[[flow]]",
        &[":15:14:", "no parameter 'x'"],
    ),
    ("[[flow]]", "[host.phone]\nmptcp = false\n[[flow]]", &["no path to or from host 'phone'"]),
    ("[[flow]]", "[path]\na = [\"wifi\"]\n[[flow]]", &[":10:7:", "link 'lte' is on no path"]),
    (
        "[[flow]]",
        "[path]\na = [\"wifi\"]\nb = [\"let\"]\n[[flow]]",
        &["no link 'let'", "did you mean 'lte'?"],
    ),
    ("[[flow]]", "[path]\na = [\"wifi\", \"wifi\"]\nb = [\"lte\"]\n[[flow]]", &["twice"]),
    ("[[flow]]", "[[at]]\ntime = \"1s\"\ndown = \"wfi\"\n[[flow]]", &[":16:8:", "no link 'wfi'"]),
    ("[[flow]]", "[[at]]\ntime = \"1s\"\nlink = \"wifi\"\n[[flow]]", &["changes nothing"]),
    (
        "[[flow]]",
        "[[at]]\ntime = \"1s\"\ndown = \"wifi\"\nrate = \"1Mbps\"\n[[flow]]",
        &["'rate' does not go with 'down'"],
    ),
    (
        "[[flow]]",
        "[[at]]\ntime = \"1s\"\nup = \"wifi\"\nsilent = true\n[[flow]]",
        &["only what goes down"],
    ),
    (
        "[[flow]]",
        "[[at]]\ntime = \"1s\"\nhost = \"client\"\npath = \"wifi\"\nscheduler = \"minrtt\"\n\
         [[flow]]",
        &["'path' is for backup"],
    ),
    (
        "[[flow]]",
        "[[at]]\ntime = \"1s\"\nhost = \"client\"\nbackup = true\n[[flow]]",
        &["'path' is missing"],
    ),
    (
        "[[flow]]",
        "[output]\npcap = [\"wfi\"]\n[[flow]]",
        &["no host or link 'wfi'", "did you mean 'wifi'?"],
    ),
    (
        "rate = \"20Mbps\"",
        "rate = \"20Mbps\"\nbetween = [\"client\", \"server\"]",
        &["'wifi' does not say what it is between"],
    ),
    (
        "bulk = \"20MB\"",
        "bulk = \"20MB\"\nvia = [\"p1\"]",
        &[":16:8:", "no proxy 'p1'", "there is none"],
    ),
    (
        "[[flow]]",
        "[path]\na = { to = \"p1\", links = [\"wifi\"] }\nb = { links = [\"lte\"] }\n[proxy.p1]\n\
         [[flow]]\nvia = [\"p1\"]",
        &[":19:7:", "no path leads from 'p1' to 'server'", "[path]"],
    ),
    (
        "[[flow]]",
        "[path]\na = { to = \"p1\", links = [\"wifi\"] }\nb = { links = [\"lte\"] }\n\
         [[flow]]\nvia = [\"p1\"]",
        &["no proxy 'p1'", "'p1' relays nothing without [proxy.p1]"],
    ),
    (
        "[[flow]]",
        "[path]\na = { to = \"p1\", links = [\"wifi\"] }\nb = { links = [\"lte\"] }\n[proxy.p1]\n\
         [[flow]]\nto = \"p1\"",
        &["'p1' is a proxy", "via = [\"p1\"]"],
    ),
    ("[[flow]]", "[proxy.p1]\n[[flow]]", &["no path to or from proxy 'p1'"]),
    ("[[flow]]", "[host.server]\n[proxy.server]\n[[flow]]", &["'server' is a host and a proxy"]),
    (
        "[[flow]]",
        "[proxy.p1]\nlisten = { scheduler = \"minrt\" }\n[[flow]]",
        &[":15:24:", "unknown scheduler 'minrt'"],
    ),
    ("[[flow]]", "[proxy.p1]\nlisten = { mpctp = true }\n[[flow]]", &["unknown key 'mpctp'"]),
    (
        "[[flow]]",
        "[[at]]\ntime = \"1s\"\nhost = \"client\"\nside = \"listen\"\nabort = true\n[[flow]]",
        &["'client' is not a proxy"],
    ),
    (
        "[[flow]]",
        "[host.client.tcp]\nsend_buffer = \"1MB\"\nlinux = { so_sndbuf = \"64kB\" }\n[[flow]]",
        &[":15:15:", "'send_buffer' and 'linux' both"],
    ),
    (
        "[[flow]]",
        "[host.client.tcp.linux]\nrmem = \"87380\"\n[[flow]]",
        &[":15:8:", "three sizes in bytes"],
    ),
    (
        "[[flow]]",
        "[host.client.tcp.linux]\nadv_win_scale = 40\n[[flow]]",
        &[":15:17:", "between -31 and 31"],
    ),
    ("seed = 7", "seed = -7", &[":2:8:"]),
    ("seed = 7", "seed =", &["test.toml:2:"]),
];

#[test]
fn what_is_refused_names_line_column_and_remedy() {
    for (find, replace, parts) in REFUSALS {
        let message = refusal(find, replace);
        for part in *parts {
            assert!(
                message.contains(part),
                "{replace:?} should say {part:?}, but says:\n{message}"
            );
        }
    }
}

#[test]
fn graphs_refuse_paths_to_nowhere_and_unknown_nodes() {
    let graph = |flow: &str, more: &str| {
        parse(&format!(
            "routers = [\"r\"]\n[link.a]\nbetween = [\"client\", \"r\"]\nrate = \"1Mbps\"\n\
             [link.b]\nbetween = [\"r\", \"server\"]\nrate = \"1Mbps\"\n\
             [link.c]\nbetween = [\"x\", \"y\"]\nrate = \"1Mbps\"\n\
             [host.client]\n[host.x]\n[host.y]\n[[flow]]\nbulk = 1000\n{flow}\n{more}"
        ))
    };
    graph("", "").expect("a good graph");
    let nowhere = graph("from = \"x\"", "").expect_err("no way");
    assert!(nowhere.contains("no path leads from 'x' to 'server'"), "{nowhere}");
    let unknown = graph("", "[link.d]\nbetween = [\"rr\", \"x\"]\nrate = \"1Mbps\"").unwrap_err();
    assert!(
        unknown.contains("no host or router 'rr'") && unknown.contains("mean 'r'"),
        "{unknown}"
    );
}

#[test]
fn what_is_written_reads_back() {
    let scenario = parse(GOOD).unwrap();
    let text = scenario.to_toml();
    assert_eq!(parse(&text).unwrap(), scenario, "{text}");
}

#[test]
fn overrides_come_before_the_checks() {
    let sets = |sets: &[&str]| {
        let sets: Vec<String> = sets.iter().map(|s| (*s).to_owned()).collect();
        let document = Document::parse("test.toml", GOOD, &sets).map_err(|e| e.to_string())?;
        let mut variants = document.variants().map_err(|e| e.to_string())?;
        Ok::<_, String>(variants.remove(0).plan.scenario)
    };
    let changed = sets(&[
        "link.wifi.rate=20Mbps",
        "seed=3",
        "flow.bulk=1MB",
        "host.client.tcp.mss=1000",
        "link.lte.loss=gilbert:p=0.1,r=0.5",
    ]);
    let changed = changed.unwrap();
    assert_eq!(changed.seed, 3);
    assert_eq!(changed.link.get("wifi").unwrap().rate.unwrap().0, 20_000_000);
    assert_eq!(changed.host.get("client").unwrap().tcp.mss, Some(1000));
    assert_eq!(changed.link.get("lte").unwrap().loss.as_ref().unwrap().0.name, "gilbert");

    let error = sets(&["seed=3", "link.wifi.rat=20Mbps"]).unwrap_err();
    assert!(error.contains("--set link.wifi.rat=20Mbps"), "{error}");
    assert!(error.contains("did you mean 'rate'?"), "{error}");
    let error = sets(&["link.wifi.rate=20"]).unwrap_err();
    assert!(error.contains("--set link.wifi.rate=20") && error.contains("no unit"), "{error}");
    assert!(sets(&["seed"]).unwrap_err().contains("no '='"));
    assert!(sets(&["seed.x=1"]).unwrap_err().contains("not a table"));
    assert!(sets(&["flow.3.bulk=1"]).unwrap_err().contains("only 1"));
}

#[test]
fn a_name_with_a_dot_has_quotes() {
    let text = GOOD.replace("[link.lte]", "[link.\"client-a.b\"]");
    let sets = |set: &str| {
        let document = Document::parse("test.toml", &text, &[set.to_owned()]);
        document.and_then(|document| Ok((document.axes(), document.variants()?)))
    };
    for set in [
        "link.\"client-a.b\".rate=7Mbps",
        " link . 'client-a.b' . rate = 7Mbps",
        "\"link\".\"client-a\\u002eb\".\"rate\"=7Mbps",
    ] {
        let scenario = sets(set).unwrap().1.remove(0).plan.scenario;
        assert_eq!(scenario.link.get("client-a.b").unwrap().rate.unwrap().0, 7_000_000, "{set}");
    }
    // An axis has a key that is one again.
    let (axes, _) = sets("link.'client-a.b'.rate=[\"7Mbps\", \"8Mbps\"]").unwrap();
    assert_eq!(axes[0].key, "link.\"client-a.b\".rate");
    for (set, said) in [
        ("link.client-a.b.rate=7Mbps", "has quotes: link.\"client-a.b\""),
        ("link.\"client-a.c\".rate=7Mbps", "did you mean '\"client-a.b\"'?"),
        ("link.\"client-a.b.rate=7Mbps", "a quote that does not end"),
        ("link.\"client-a.b\"rate=7Mbps", "comes '.' or '='"),
        ("link.\"a=b\"", "no '='"),
        ("link.\"\\q\".rate=1", "no name in these quotes"),
        ("link.\"\".rate=1", "an empty key"),
        ("link..rate=1", "an empty key"),
        ("link.=1", "an empty key"),
        ("link.", "no '='"),
    ] {
        let error = sets(set).unwrap_err().to_string();
        assert!(error.contains(said), "{set}: {error}");
    }
}

#[test]
fn lists_are_axes_and_the_last_varies_fastest() {
    let text = GOOD
        .replace("rate = \"50Mbps\"", "rate = [\"50Mbps\", \"5Mbps\"]")
        .replace("bulk = \"20MB\"", "bulk = [\"1MB\", \"2MB\", \"3MB\"]");
    let document = Document::parse("test.toml", &text, &["seed=[1,2]".into()]).unwrap();
    let keys: Vec<_> = document.axes().into_iter().map(|axis| axis.key).collect();
    assert_eq!(keys, ["seed", "link.wifi.rate", "flow.0.bulk"]);
    let variants = document.variants().unwrap();
    assert_eq!(variants.len(), 12);
    let values: Vec<_> = variants[1].params.iter().map(|(_, value)| value.as_str()).collect();
    assert_eq!(values, ["1", "50Mbps", "2MB"]);
    let error = parse(&text).unwrap_err();
    assert!(error.contains("sweep of 6 runs"), "{error}");

    // Paths are lists by themselves; a list of lists is an axis.
    let paths = GOOD
        .replace("[[flow]]", "[path]\na = [[\"wifi\", \"lte\"], [\"lte\", \"wifi\"]]\n[[flow]]");
    let document = Document::parse("test.toml", &paths, &[]).unwrap();
    assert_eq!(document.axes()[0].values, ["wifi+lte", "lte+wifi"]);
    assert_eq!(document.variants().unwrap().len(), 2);
    // A value that is wrong is found in its place in the list.
    let wrong = GOOD.replace("seed = 7", "seed = [7, \"x\"]");
    let error = Document::parse("test.toml", &wrong, &[]).unwrap().variants().unwrap_err();
    assert_eq!(error.position, Some((2, 12)), "{error}");
}

/// The same run twice would be two samples of a mean.
#[test]
fn a_value_that_is_on_an_axis_twice_is_refused_with_the_axis() {
    for (set, said) in [
        ("seed=[1,2,1]", "'seed' has the value 1 2 times"),
        ("link.wifi.rate=[\"5Mbps\",\"5Mbps\"]", "'link.wifi.rate' has the value 5Mbps 2 times"),
        ("flow.0.bulk=[\"1MB\",\"2MB\",\"2MB\",\"2MB\"]", "'flow.0.bulk' has the value 2MB 3"),
    ] {
        let document = Document::parse("test.toml", GOOD, &[set.to_owned()]).unwrap();
        let error = document.variants().unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("each value once"), "{set}: {error}");
    }
}

#[test]
fn every_committed_scenario_is_valid_and_says_what_it_is() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut found = 0;
    // Notes and pages are about scenarios.
    let about = |file: &PathBuf| file.ends_with("notes.toml") || file.ends_with("page.toml");
    let scenarios = toml_files(&root).into_iter().filter(|file| !about(file));
    for file in scenarios {
        let document = Document::read(&file, &[]).unwrap_or_else(|e| panic!("{e}"));
        for variant in document.variants().unwrap_or_else(|e| panic!("{e}")) {
            assert!(!variant.plan.scenario.about.is_empty(), "{} has no `about`", file.display());
        }
        found += 1;
    }
    assert!(found >= 10, "only {found} scenarios");
}

fn toml_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(toml_files(&path));
        } else if path.extension().is_some_and(|e| e == "toml") {
            files.push(path);
        }
    }
    files.sort();
    files
}

#[test]
fn the_schema_describes_every_key() {
    let schema = serde_json::to_value(schema()).unwrap();
    let more = ["group", "backbone", "arrivals", "ecmp"];
    for key in ["link", "flow", "at", "host", "path", "seed", "duration"].into_iter().chain(more) {
        let described = &schema["properties"][key]["description"];
        assert!(described.is_string(), "{key}: {described}");
    }
    assert_eq!(schema["additionalProperties"], false);
    let rate = &schema["$defs"]["Link"]["properties"]["rate"]["anyOf"];
    assert_eq!(rate[1]["type"], "array", "a list of rates is an axis: {rate}");
    let flows = &schema["properties"]["flow"];
    assert_eq!(flows["type"], "array", "flows are a list by themselves: {flows}");
}

/// A sweep over seeds and rates: one reading of the file, one topology where only the seed differs,
/// and runs that need the file no more.
#[test]
fn a_trace_is_read_once() {
    let name = format!("tabane-trace-{}", std::process::id());
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, "1\n3\n3\n5\n8\n").unwrap();
    let text = format!(
        "[link.a]\ntrace = \"{}\"\n[link.b]\nrate = \"1Mbps\"\nup = {{ trace = \"{}\" }}\n\
         [[flow]]\nbulk = [\"1kB\", \"2kB\"]\n",
        file.display(),
        file.display()
    );
    let document = Document::parse("test.toml", &text, &[]).unwrap();
    let variants = document.variants().unwrap();
    let seeds: Vec<Plan> = (1..4).map(|seed| variants[0].plan.with_seed(seed).unwrap()).collect();
    std::fs::remove_file(&file).unwrap();

    let plans = seeds.iter().chain(variants.iter().map(|variant| &variant.plan));
    let links = plans.clone().flat_map(|plan| plan.links.iter());
    let traces: Vec<_> = links
        .filter_map(|link| match &link.config.rate {
            RateConfig::Trace(trace) => Some(trace),
            _ => None,
        })
        .collect();
    assert_eq!(traces.len(), 5 * 3);
    assert!(traces.iter().all(|trace| Arc::ptr_eq(trace, traces[0])));
    assert!(seeds.iter().all(|plan| Arc::ptr_eq(&plan.topology, &seeds[0].topology)));
    for plan in plans {
        let result = tabane_sim::run(plan, &mut Silent).unwrap();
        assert!(result.flows[0].completed_s.is_some());
    }
}

/// Repetitions that a file asks for are compiled once too.
#[test]
fn seeds_share_what_was_compiled() {
    let document = Document::parse("test.toml", GOOD, &["seed=[1,2,3]".into()]).unwrap();
    let variants = document.variants().unwrap();
    let topology = |n: usize| &variants[n].plan.topology;
    assert!(Arc::ptr_eq(topology(0), topology(1)) && Arc::ptr_eq(topology(0), topology(2)));
    let seeds: Vec<u64> = variants.iter().map(|variant| variant.plan.scenario.seed).collect();
    assert_eq!(seeds, [1, 2, 3]);
}

/// Conditions from a file or a model, and what is wrong with them, with its place.
#[test]
fn conditions_are_read_with_the_scenario() {
    let file = std::env::temp_dir().join(format!("tabane-series-{}.csv", std::process::id()));
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    let plan = |link: &str| {
        let text = format!("[link.a]\n{link}\n[[flow]]\nbulk = \"1MB\"\n");
        let document = Document::parse("test.toml", &text, &[]).unwrap();
        document.variants().map(|mut variants| variants.remove(0).plan).map_err(|e| e.to_string())
    };
    let series = format!("conditions = \"{}\"", file.display());
    write("time_s,rate_mbps,delay_ms\n0,8,10\n1,2,30\n2,,\n");
    let both = plan(&series).unwrap();
    let seconds = tabane_engine::Duration::from_secs(60);
    assert_eq!(both.links[1].mean_rate(1, seconds).unwrap(), 5e6);
    let result = tabane_sim::run(&both, &mut Silent).unwrap();
    // 8.4 Mbit of packets: 8 in the first second, but for the beginning, 2 in the next.
    let completed = result.flows[0].completed_s.expect("completed");
    assert!((1.0..2.3).contains(&completed), "{completed}");
    let read = Scenario::parse("again.toml", &both.scenario.to_toml()).unwrap();
    assert_eq!(read, *both.scenario);

    let wrong = |link: &str| plan(link).unwrap_err();
    assert!(wrong(&format!("rate = \"1Mbps\"\n{series}")).contains("a rate beside that of its"));
    write("time_s,delay_ms\n0,10\n1,x\n");
    assert!(wrong(&series).contains("line 3: 'x' is not a number"), "{}", wrong(&series));
    write("time_s,delay_ms\n0,10\n1,20\n");
    assert!(wrong(&series).contains("link 'a' has no rate"));
    std::fs::remove_file(&file).unwrap();
    assert!(wrong(&series).contains("No such file"));
    let model = |model: &str| format!("rate = \"9Mbps\"\nconditions = \"{model}\"");
    assert!(plan(&model("leo:slot_s=10")).is_ok());
    assert!(wrong(&model("geo")).contains("unknown link model 'geo'"), "{}", wrong(&model("geo")));
    let error = wrong(&model("leo:slots=10"));
    assert!(error.contains("has no parameter 'slots'") && error.contains("conditions"), "{error}");
}
