//! Sets of links that vary, with a download over all of them.

/// Two mobile links in a train.
pub(super) const TRAIN: &str = "[link.a]\nconditions = \"scenarios/links/train-a.csv\"\n\
     [link.b]\nconditions = \"scenarios/links/train-b.csv\"\n";
/// A link that becomes slow for ten seconds, beside one that does not.
pub(super) const STEPS: &str = "[link.wifi]\nrate = \"50Mbps\"\ndelay = \"10ms\"\n\
     queue = \"200kB\"\n\
     [link.dsl]\nrate = \"30Mbps\"\ndelay = \"25ms\"\nqueue = \"200kB\"\n\
     [[at]]\ntime = \"10s\"\nevery = \"20s\"\nlink = \"wifi\"\nrate = \"10Mbps\"\n\
     [[at]]\ntime = \"20s\"\nevery = \"20s\"\nlink = \"wifi\"\nrate = \"50Mbps\"\n";

/// Scheduler and congestion control of the recordings.
pub(super) const POLICIES: (&str, &str) = ("necf", "cubicd");

/// A scenario of these links.
pub(super) fn scenario(links: &str, seconds: u64) -> String {
    let (scheduler, congestion) = POLICIES;
    format!(
        "seed = 3\nduration = \"{seconds}s\"\n{links}\n[defaults]\n\
         tcp = {{ receive_buffer = \"256KiB\", receive_buffer_max = \"16MiB\", \
         send_buffer = \"8MiB\", nagle = false }}\n\
         scheduler = \"{scheduler}\"\ncongestion = \"{congestion}\"\n\
         [[flow]]\nname = \"download\"\nbulk = \"unlimited\"\n"
    )
}
