//! What `cubicd` promises: losses at random do not count where it is alone, it takes what CUBIC
//! takes where it is not, and a longer path is no queue. Measured by `examples/judge`, over more.
use tabane_sim::observe::Silent;
use tabane_sim::run;
use tabane_sim::scenario::Scenario;

/// Goodput of the first flow of a scenario, bit/s.
fn goodput(text: &str) -> f64 {
    let plan = Scenario::parse("neighbours.toml", text).unwrap().compile().unwrap();
    run(&plan, &mut Silent).unwrap().flows[0].goodput_bps
}

/// A download over one link.
fn alone(rate: u64, delay_ms: u64, more: &str) -> f64 {
    goodput(&format!(
        "duration = \"20s\"
         [defaults]
         congestion = \"cubicd\"
         mptcp = false
         [link.l]
         rate = \"{rate}Mbps\"
         delay = \"{delay_ms}ms\"
         queue = \"350 packets\"
         {more}"
    ))
}

/// An upload beside five Reno flows at a bottleneck of 50 Mbit/s, which begin so long after each
/// other, and delays each packet by so much more or less.
fn beside_reno(congestion: &str, queue: &str, jitter_ms: u64, apart_ms: usize) -> f64 {
    let mut text = format!(
        "duration = \"40s\"
         [link.bottleneck]
         rate = \"50Mbps\"
         delay = \"10ms\"
         jitter = \"{jitter_ms}ms\"
         queue = \"{queue}\"\n"
    );
    for n in 0..6 {
        let congestion = if n == 0 { congestion } else { "reno" };
        text += &format!(
            "[link.a{n}]
             rate = \"1Gbps\"
             delay = \"{}us\"
             [path.p{n}]
             from = \"h{n}\"
             to = \"server\"
             links = [\"a{n}\", \"bottleneck\"]
             [host.h{n}]
             congestion = \"{congestion}\"
             mptcp = false
             [[flow]]
             from = \"h{n}\"
             bulk = \"unlimited\"
             direction = \"upload\"
             start = \"{}ms\"\n",
            50 + 10 * n,
            apart_ms * n
        );
    }
    goodput(&text)
}

const BULK: &str = "\n[[flow]]\nbulk = \"unlimited\"\n";

#[test]
fn bursts_of_loss_do_not_count_alone() {
    let share = alone(230, 10, &format!("loss = \"gilbert:p=0.0005,r=0.1\"{BULK}")) / 230e6;
    println!("{share:.3} of the rate");
    assert!(share > 0.81, "{share:.3}");
}

#[test]
fn beside_reno_at_an_aqm_it_takes_what_cubic_takes() {
    for queue in ["codel", "red:min=21,max=62,packets=166"] {
        let all = [90, 110, 130, 150, 170];
        let taken = |of| all.map(|apart| beside_reno(of, queue, 0, apart)).iter().sum::<f64>();
        let share = taken("cubicd") / taken("cubic");
        println!("{queue}: {share:.2} of what CUBIC takes");
        assert!((0.85..1.2).contains(&share), "{queue}: {share:.2}");
    }
}

/// Jitter hides the queue of others: by the queue alone it took 1.9 times what CUBIC takes.
#[test]
fn beside_reno_where_round_trips_jitter_others_are_seen_all_the_same() {
    for jitter in [1, 3] {
        let all = [90, 110, 130, 150, 170];
        let taken = |of| all.map(|apart| beside_reno(of, "pie", jitter, apart)).iter().sum::<f64>();
        let share = taken("cubicd") / taken("cubic");
        println!("{jitter} ms: {share:.2} of what CUBIC takes");
        assert!((0.85..1.3).contains(&share), "{jitter} ms: {share:.2}");
    }
}

#[test]
fn a_longer_path_is_no_queue() {
    let step = "[[at]]\ntime = \"4s\"\nlink = \"l\"\ndelay = \"50ms\"\n";
    let share = alone(150, 20, &format!("{BULK}{step}")) / 150e6;
    println!("{share:.3} of the rate");
    assert!(share > 0.85, "{share:.3}");
}
