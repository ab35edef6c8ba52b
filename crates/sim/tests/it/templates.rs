//! Backbones, groups and arrivals: what they stand for, that the same seed gives the same, and what
//! people are told about what cannot be.

use tabane_sim::Plan;
use tabane_sim::observe::Silent;
use tabane_sim::scenario::{Amount, Document, Scenario};

/// A village: fibre for all, LTE for all, one site.
const VILLAGE: &str = r#"
duration = "3s"
seed = 5

[backbone.metro]
shape = "star:edges=3"
rate = "1Gbps"
delay = "uniform 1ms 2ms"

[[group]]
name = "home"
count = 7

[[group.access]]
name = "fibre"
to = "metro"
rate = "lognormal 50Mbps 2"
delay = "2ms"
up = { rate = "exponential 20Mbps" }

[[group.access]]
name = "lte"
to = "tower"
rate = "sizes.csv"
loss = "uniform 0% 1%"

[link.site]
between = ["site", "metro-hub"]
rate = "1Gbps"

[link.tower]
between = ["tower", "metro-hub"]
rate = "200Mbps"

[[arrivals]]
name = "web"
from = "home"
to = "site"
rate = "20/s"
size = "pareto 2kB 1.2 1MB"
"#;

const RATES: &str = "rate_mbps,weight\n10,1\n30,3\n";

fn village() -> String {
    let routers = "routers = [\"tower\"]\n";
    format!("{routers}{}", VILLAGE.replace("sizes.csv", "rates.csv"))
}

fn document(text: &str, sets: &[&str]) -> Result<Plan, String> {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    let document = Document::parse("village.toml", text, &sets).map_err(|e| e.to_string())?;
    let document = document.with_files(&[
        ("rates.csv", RATES),
        ("ring.csv", "from,to,delay_ms\na,b,1\nb,c,2\nc,a,\n"),
        ("split.csv", "from,to\na,b\nc,d\n"),
        ("loop.csv", "from,to\na,b\nb,b\n"),
        ("nan.csv", "size_kb,weight\n1,1\nNaN,1\n"),
        ("flows.csv", "time_s,size_kb,from,to\n0.1,5,home-2,\n0.2,6,,site\n9,7,,\n"),
        ("strangers.csv", "time_s,size_kb,from\n0.1,5,nobody\n"),
    ]);
    let mut variants = document.variants().map_err(|e| e.to_string())?;
    assert_eq!(variants.len(), 1);
    Ok(variants.remove(0).plan)
}

#[track_caller]
fn refused(find: &str, replace: &str) -> String {
    let text = village();
    assert!(text.contains(find), "{find}");
    document(&text.replacen(find, replace, 1), &[]).expect_err("refused")
}

#[test]
fn a_village_is_what_its_templates_say() {
    let plan = document(&village(), &[]).unwrap();
    let scenario = &plan.scenario;
    let home = plan.topology.host("home-7").expect("the last home");
    let paths: Vec<&str> =
        plan.topology.hosts[home].paths.iter().map(|path| path.name.as_str()).collect();
    assert_eq!(paths, ["home-7-fibre", "home-7-lte"]);
    assert_eq!(scenario.link.0.len(), 2 + 3 + 2 * 7);
    // The seventh of three edge routers in turn is the first.
    let fibre = scenario.link.get("home-7-fibre").unwrap();
    assert_eq!(fibre.between, Some(["home-7".into(), "metro-1".into()]));
    let (up, down) = (fibre.direction(true), fibre.direction(false));
    assert!(up.rate != down.rate && up.delay == down.delay, "{up:?} {down:?}");
    let lte: Vec<u64> = (1..=7)
        .map(|n| scenario.link.get(&format!("home-{n}-lte")).unwrap().rate.unwrap().0)
        .collect();
    assert!(lte.iter().all(|rate| [10_000_000, 30_000_000].contains(rate)), "{lte:?}");
    assert!(lte.iter().any(|rate| *rate != lte[0]), "all drew the same: {lte:?}");
    // Sixty are expected.
    assert!((30..=100).contains(&scenario.flow.len()), "{} flows", scenario.flow.len());
    let starts = scenario.flow.windows(2).all(|pair| pair[0].start <= pair[1].start);
    assert!(starts && scenario.flow.iter().all(|flow| flow.start < scenario.duration));
    let result = tabane_sim::run(&plan, &mut Silent).unwrap();
    let done = result.flows.iter().filter(|flow| flow.completed_s.is_some()).count();
    assert!(done * 10 > result.flows.len() * 8, "{done} of {}", result.flows.len());
}

#[test]
fn the_same_seed_gives_the_same_and_another_does_not() {
    let plan = document(&village(), &[]).unwrap();
    let again = document(&village(), &[]).unwrap();
    assert_eq!(plan.scenario, again.scenario);
    let other = plan.with_seed(6).unwrap();
    assert_ne!(plan.scenario.flow, other.scenario.flow);
    assert_eq!(other.scenario, document(&village(), &["seed=6"]).unwrap().scenario);
    assert_eq!(plan.scenario, other.with_seed(5).unwrap().scenario);
    let results = [&plan, &again].map(|plan| tabane_sim::run(plan, &mut Silent).unwrap());
    assert_eq!(results[0], results[1]);
    // More homes leave those that were there as they are.
    let more = document(&village(), &["group.home.count=9"]).unwrap();
    for name in ["home-1-fibre", "home-7-lte"] {
        assert_eq!(plan.scenario.link.get(name), more.scenario.link.get(name));
    }
}

#[test]
fn what_was_written_is_kept_and_reads_back() {
    let plan = document(&village(), &[]).unwrap();
    assert!(plan.scenario.group.is_empty() && plan.source.group.len() == 1);
    let text = plan.source.to_toml();
    assert_eq!(document(&text, &[]).unwrap().source, plan.source);
    assert_eq!(plan.source.traces(), ["rates.csv"]);
    // A sweep over a template, and over seeds.
    let sets = ["group.home.count=[2,3]".to_owned(), "seed=[1,2]".to_owned()];
    let document = Document::parse("v.toml", &village(), &sets).unwrap();
    let variants = document.with_files(&[("rates.csv", RATES)]).variants().unwrap();
    let flows: Vec<_> = variants.iter().map(|variant| &variant.plan.scenario.flow).collect();
    assert_eq!(flows.len(), 4);
    assert!(flows[0] != flows[1] && flows[0] != flows[2], "seeds and counts make a difference");
}

#[test]
fn backbones_have_their_shapes() {
    let shape = |shape: &str| {
        let text = village().replace("star:edges=3", shape).replace("metro-hub", "metro-1");
        let plan = document(&text, &[]).unwrap_or_else(|e| panic!("{shape}: {e}"));
        let metro = plan.scenario.routers.iter().filter(|name| name.starts_with("metro-"));
        let links = plan.scenario.link.names().filter(|name| name.starts_with("metro-"));
        (metro.count(), links.count())
    };
    assert_eq!(shape("dumbbell"), (2, 1));
    // 4 pods of 2 and 2, and 4 cores: 16 links below, 16 above.
    assert_eq!(shape("fat-tree:k=4"), (20, 32));
    let text = village().replace("star:edges=3", "ring.csv").replace("metro-hub", "metro-b");
    let plan = document(&text, &[]).unwrap();
    let link = |name: &str| plan.scenario.link.get(name).unwrap().delay.unwrap().to_string();
    assert_eq!(link("metro-b--metro-c"), "2ms");
    assert_ne!(link("metro-c--metro-a"), "2ms", "drawn where the file says nothing");
}

#[test]
fn flows_of_a_group_are_one_for_each_host() {
    let flow = "[[flow]]\nname = \"call\"\nfrom = \"home\"\nto = \"site\"\nbulk = \"1kB\"\n\
                [[at]]\ntime = \"1s\"\nhost = \"home-3\"\nflow = \"call\"\nabort = true\n";
    let plan = document(&format!("{}{flow}", village()), &[]).unwrap();
    let calls: Vec<_> = plan.scenario.flow.iter().take(8).collect();
    assert_eq!((calls[0].from.as_str(), calls[6].from.as_str()), ("home-1", "home-7"));
    assert_eq!(calls[6].name.as_deref(), Some("call.7"));
    assert_eq!(calls[7].name.as_deref(), Some("web.1"));
}

#[test]
fn arrivals_may_be_a_file() {
    let text = village()
        .replace("rate = \"20/s\"\nsize = \"pareto 2kB 1.2 1MB\"", "trace = \"flows.csv\"");
    let plan = document(&text, &[]).unwrap();
    let flows = &plan.scenario.flow;
    // The third comes after the end of the run.
    assert_eq!(flows.len(), 2);
    assert_eq!((flows[0].from.as_str(), flows[0].to.as_str()), ("home-2", "site"));
    assert!(flows[1].from.starts_with("home-"));
    let Some(Amount::Bytes(size)) = flows[1].bulk else { panic!("{:?}", flows[1]) };
    assert_eq!((size.0, flows[1].start.to_string()), (6_000, "200ms".to_owned()));
    let wrong = document(&text.replace("flows.csv", "strangers.csv"), &[]).unwrap_err();
    assert!(wrong.contains("no host 'nobody'") && wrong.contains(":38:8"), "{wrong}");
}

/// What is replaced, by what, and what the message says.
const REFUSALS: &[(&str, &str, &[&str])] = &[
    ("count = 7", "count = 0", &[":13:9:", "has no host"]),
    ("count = 7", "count = 1_000_000_000", &[":13:9:", "1000000000 hosts, the most is 65000"]),
    ("count = 7", "count = -1", &[":13:9:"]),
    ("to = \"tower\"", "to = \"towr\"", &[":24:6:", "backbone or router 'towr'", "'tower'?"]),
    ("star:edges=3", "ster", &[":7:9:", "no backbone 'ster'", "star:edges=20"]),
    ("star:edges=3", "star:edges=0.5", &[":7:9:", "edges is a whole number from 1 to 10000"]),
    ("star:edges=3", "fat-tree:k=3", &[":7:9:", "k is even"]),
    ("star:edges=3", "missing.csv", &[":7:9:", "missing.csv", "No such file"]),
    ("star:edges=3", "split.csv", &[":7:9:", "not connected", "'a' to 'c'"]),
    ("star:edges=3", "loop.csv", &[":7:9:", "line 3: a link from a node to itself"]),
    ("pareto 2kB 1.2 1MB", "nan.csv", &[":41:8:", "line 3: size_kb is 'NaN'"]),
    ("pareto 2kB 1.2 1MB", "rates.csv", &[":41:8:", "unknown column 'rate_mbps'"]),
    ("pareto 2kB 1.2 1MB", "pareto 2kB 1.2", &[":41:8:", "pareto LEAST EXPONENT MOST"]),
    ("pareto 2kB 1.2 1MB", "uniform 2kB 1kB", &[":41:8:", "least", "more than the most"]),
    ("pareto 2kB 1.2 1MB", "0B", &[":41:8:", "'0B' is not between 1B and"]),
    ("lognormal 50Mbps 2", "5bps", &[":18:8:", "'5bps' is not between 1kbps and 1000Gbps"]),
    ("lognormal 50Mbps 2", "uniform 100bps 5Mbps", &[":18:8:", "100bps in 'uniform", "1kbps and"]),
    ("lognormal 50Mbps 2", "uniform 1Mbps 2000Gbps", &[":18:8:", "2000Gbps in", "1000Gbps"]),
    ("lognormal 50Mbps 2", "normal 10bps 1Mbps", &[":18:8:", "10bps in 'normal", "1kbps"]),
    ("lognormal 50Mbps 2", "lognormal 10bps 2", &[":18:8:", "10bps in", "1kbps"]),
    ("lognormal 50Mbps 2", "exponential 10bps", &[":18:8:", "10bps in", "1kbps"]),
    ("lognormal 50Mbps 2", "pareto 10bps 1 1Mbps", &[":18:8:", "10bps in", "1kbps"]),
    ("lognormal 50Mbps 2", "lognormal 50Mbps NaN", &[":18:8:", "'NaN'", "not a number"]),
    ("lognormal 50Mbps 2", "normal 50Mbps -3Mbps", &[":18:8:", "cannot be negative"]),
    ("rate = \"20/s\"", "rate = \"20\"", &[":40:8:", "write \"200/s\""]),
    ("rate = \"20/s\"", "rate = \"9e8/s\"", &[":40:8:", "flows, the most is 1000000"]),
    ("rate = \"20/s\"\n", "", &[":36:1:", "how many flows"]),
    ("rate = \"20/s\"", "rate = \"1/h\"", &[":36:1:", "no flow arrives"]),
    ("from = \"home\"", "from = \"hom\"", &[":38:8:", "no host 'hom'"]),
    ("to = \"site\"", "to = \"home\"\nstop = \"0s\"", &[":36:1:", "no flow arrives"]),
    ("name = \"home\"\n", "", &[":11:1:", "a group has a name"]),
    ("name = \"lte\"", "name = \"fibre\"", &[":22:1:", "two access links 'fibre'"]),
    ("name = \"lte\"", "name = \"lte\"\nlink.rate = \"1Mbps\"", &["beside 'link'"]),
    ("rate = \"1Gbps\"\ndelay = \"uniform 1ms 2ms\"\n", "", &[":6:", "has no rate"]),
];

#[test]
fn what_cannot_be_is_refused_where_it_stands() {
    for (find, replace, words) in REFUSALS {
        let message = refused(find, replace);
        for word in *words {
            assert!(message.contains(word), "{replace:?} gives {message}, without {word:?}");
        }
    }
}

#[test]
fn the_stated_limits_can_be_reached() {
    let flows = |count: u32| {
        format!("link.a.rate = \"1Gbps\"\n[[flow]]\nbulk = \"1kB\"\ncount = {count}\n")
    };
    assert!(Scenario::parse("a.toml", &flows(60_535)).is_ok());
    let refused = Scenario::parse("a.toml", &flows(60_536)).unwrap_err().to_string();
    assert!(refused.contains("a.toml:4:9") && refused.contains("the most is 60535"), "{refused}");
    let refused = Scenario::parse("a.toml", &flows(4_000_000_000)).unwrap_err().to_string();
    assert!(refused.contains("4000000000 flows, the most is 1000000"), "{refused}");
    // Hosts with more paths than there are path ids.
    let links = |count: usize| {
        let links: Vec<String> =
            (0..count).map(|n| format!("link.l{n} = {{ rate = \"1Mbps\" }}\n")).collect();
        format!("{}[[flow]]\nbulk = \"1kB\"\n", links.concat())
    };
    assert!(Scenario::parse("a.toml", &links(64)).is_ok());
    let refused = Scenario::parse("a.toml", &links(65)).unwrap_err().to_string();
    assert!(refused.contains("has 65 paths, the most is 64"), "{refused}");
}

/// Seventy thousand flows to one host, of two: more than it has ports.
#[test]
fn a_host_serves_more_flows_than_it_has_ports() {
    let text = "duration = \"1s\"\n\
        path.a = { from = \"a\", links = [\"a\"] }\npath.b = { from = \"b\", links = [\"b\"] }\n\
        link.a.rate = \"1Gbps\"\nlink.b.rate = \"1Gbps\"\n\
        [[flow]]\nfrom = \"a\"\nbulk = \"1kB\"\ncount = 40_000\nstart = \"10s\"\n\
        [[flow]]\nfrom = \"b\"\nbulk = \"1kB\"\ncount = 30_000\nstart = \"10s\"\n\
        [[flow]]\nname = \"last\"\nfrom = \"b\"\nbulk = \"1kB\"\n";
    let plan = Scenario::parse("a.toml", text).unwrap().compile().unwrap();
    let result = tabane_sim::run(&plan, &mut Silent).unwrap();
    let last = result.flows.last().unwrap();
    assert_eq!((last.name.as_str(), last.bytes), ("last", 1_000));
}

/// The city of `scenarios/city.toml` with a hundredth of its homes and flows.
#[test]
fn a_small_city_runs() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/city.toml");
    let sets = ["group.home.count=100", "arrivals.web.rate=120/s", "arrivals.web.count=500"];
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    let document = Document::read(std::path::Path::new(file), &sets).unwrap();
    let plan = document.variants().unwrap().remove(0).plan;
    assert_eq!(plan.topology.hosts.len(), 101);
    let result = tabane_sim::run(&plan, &mut Silent).unwrap();
    assert_eq!(result.flows.len(), 500);
    let done = result.flows.iter().filter(|flow| flow.completed_s.is_some()).count();
    assert!(done >= 480, "{done} of 500 finished");
    let both = result.flows.iter().filter(|flow| flow.subflows.len() == 2).count();
    assert!(both > 0, "no flow had two subflows");
}
