//! Sets of links that vary, with a download over all of them.

/// Name and links.
pub(super) const SETS: &[(&str, &str)] = &[
    (
        "leo+dsl",
        "[link.leo]\nrate = \"150Mbps\"\ndelay = \"20ms\"\nqueue = \"1875kB\"\n\
         conditions = \"leo\"\nup = { rate = \"20Mbps\" }\n\
         [link.dsl]\nrate = \"50Mbps\"\ndelay = \"15ms\"\nqueue = \"312kB\"\n",
    ),
    (
        "train",
        "[link.a]\nconditions = \"scenarios/links/train-a.csv\"\n\
         [link.b]\nconditions = \"scenarios/links/train-b.csv\"\n",
    ),
    (
        "cellular",
        "[link.lte]\nrate = \"40Mbps\"\ndelay = \"25ms\"\nconditions = \"cellular\"\n\
         [link.other]\nrate = \"20Mbps\"\ndelay = \"30ms\"\nconditions = \"cellular:queue_s=1\"\n",
    ),
    (
        "cellular+dsl",
        "[link.lte]\nrate = \"60Mbps\"\ndelay = \"30ms\"\nconditions = \"cellular:queue_s=0.5\"\n\
         [link.dsl]\nrate = \"30Mbps\"\ndelay = \"10ms\"\nqueue = \"150kB\"\n",
    ),
    (
        "fading+cellular",
        "[link.wifi]\nrate = \"60Mbps\"\ndelay = \"5ms\"\nqueue = \"200kB\"\n\
         conditions = \"bursts:share=0.01,burst_ms=20\"\n\
         [link.lte]\nrate = \"30Mbps\"\ndelay = \"30ms\"\nconditions = \"cellular\"\n",
    ),
    (
        "steps",
        "[link.wifi]\nrate = \"50Mbps\"\ndelay = \"10ms\"\nqueue = \"200kB\"\n\
         [link.dsl]\nrate = \"30Mbps\"\ndelay = \"25ms\"\nqueue = \"200kB\"\n\
         [[at]]\ntime = \"10s\"\nevery = \"20s\"\nlink = \"wifi\"\nrate = \"10Mbps\"\n\
         [[at]]\ntime = \"20s\"\nevery = \"20s\"\nlink = \"wifi\"\nrate = \"50Mbps\"\n",
    ),
    (
        "leo+cellular",
        "[link.leo]\nrate = \"100Mbps\"\ndelay = \"20ms\"\nqueue = \"1250kB\"\n\
         conditions = \"leo\"\n\
         [link.lte]\nrate = \"40Mbps\"\ndelay = \"30ms\"\nconditions = \"cellular:queue_s=1\"\n",
    ),
    (
        "bloated",
        "[link.lte]\nrate = \"40Mbps\"\ndelay = \"25ms\"\nqueue = \"10000kB\"\n\
         conditions = \"cellular:queue_s=2\"\n\
         [link.other]\nrate = \"20Mbps\"\ndelay = \"30ms\"\nqueue = \"5000kB\"\n",
    ),
    (
        "lossy",
        "[link.wifi]\nrate = \"40Mbps\"\ndelay = \"10ms\"\nqueue = \"200kB\"\nloss = \"0.5%\"\n\
         [link.lte]\nrate = \"30Mbps\"\ndelay = \"30ms\"\nconditions = \"cellular:queue_s=0.5\"\n",
    ),
    (
        "bursts+train",
        "[link.fibre]\nrate = \"50Mbps\"\ndelay = \"10ms\"\nqueue = \"300kB\"\n\
         loss = \"gilbert:p=0.0005,r=0.1\"\n\
         [link.a]\nconditions = \"scenarios/links/train-a.csv\"\n",
    ),
];

/// Scheduler and congestion control: what is recorded, then six others.
pub(super) const POLICIES: [(&str, &str); 7] = [
    ("necf", "cubicd"),
    ("necf", "cubic"),
    ("necf", "cubicq"),
    ("necf", "bbr"),
    ("minrtt", "cubicd"),
    ("roundrobin", "cubicd"),
    ("roundrobin", "reno"),
];

/// A scenario of a set.
pub(super) fn scenario(links: &str, seconds: u64, (scheduler, congestion): (&str, &str)) -> String {
    format!(
        "seed = 3\nduration = \"{seconds}s\"\n{links}\n[defaults]\n\
         tcp = {{ receive_buffer = \"256KiB\", receive_buffer_max = \"16MiB\", \
         send_buffer = \"8MiB\", nagle = false }}\n\
         scheduler = \"{scheduler}\"\ncongestion = \"{congestion}\"\n\
         [[flow]]\nname = \"download\"\nbulk = \"unlimited\"\n"
    )
}
