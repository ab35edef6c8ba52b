//! Under which send buffer, congestion controller and queue the paper's relations hold: it states
//! none of them.

use super::{CASES, ECF, HOMOGENEOUS, MIN_RTT, PROPOSAL, SCHEMES, SINGLE, Scheme, Times};
use crate::PaperError;
use crate::context::Context;
use crate::report::{Report, Table};

/// What a send buffer holds, and so what counts as backlog.
#[derive(Clone, Copy)]
struct Buffer {
    name: &'static str,
    /// What may be under way and waiting.
    size: &'static str,
    /// Whether the backlog is limited to 131072 bytes.
    limited: bool,
}

const BUFFERS: [Buffer; 3] = [
    Buffer { name: "131072 bytes not yet sent", size: "64MB", limited: true },
    Buffer { name: "131072 bytes not acknowledged", size: "131072B", limited: false },
    Buffer { name: "64 MB not acknowledged", size: "64MB", limited: false },
];
const CONTROLLERS: [&str; 3] = ["lia", "reno", "cubic"];
const QUEUES: [u32; 4] = [20, 30, 50, 100];

/// The queues, as `--set` names them.
const LINKS: [&str; 3] = ["link.first.queue", "link.second.queue", "link.third.queue"];

impl Buffer {
    fn sets<'v>(self, scheme: &Scheme) -> Vec<(&'v str, &'v str)> {
        let plain = |value: &'static str| value.split(':').next().unwrap_or(value);
        let set = |&(key, value)| (key, if self.limited { value } else { plain(value) });
        let mut sets: Vec<(&str, &str)> = scheme.sets.iter().map(set).collect();
        sets.push(("defaults.tcp.send_buffer", self.size));
        sets
    }
}

pub(super) fn run(context: &Context<'_>, report: &mut Report) -> Result<(), PaperError> {
    let sizes = [10, 30, 60];
    let queues: Vec<String> =
        context.pick(&[100][..], &QUEUES).iter().map(|n| format!("{n} packets")).collect();
    let buffers = context.pick(&BUFFERS[..1], &BUFFERS);
    let (mut names, mut rows) = (Vec::new(), Vec::new());
    for case in &CASES {
        for buffer in buffers {
            for controller in CONTROLLERS {
                for queue in &queues {
                    names.push((case.name, [buffer.name, controller, queue]));
                    rows.extend(SCHEMES.iter().map(|scheme| {
                        let mut sets = buffer.sets(scheme);
                        sets.push(("defaults.congestion", controller));
                        sets.extend(LINKS.map(|key| (key, queue.as_str())));
                        (case, sets)
                    }));
                }
            }
        }
    }
    let seeds = &report.seeds[..1];
    let seconds = super::seconds(context, "other regimes", &rows, &sizes, seeds)?;
    let rows = names.iter().zip(seconds.chunks(SCHEMES.len())).map(|((case, name), schemes)| {
        let mean = |of: &Vec<Vec<f64>>| of.iter().map(|by_seed| super::mean(by_seed)).collect();
        let rows = SCHEMES.iter().zip(schemes).map(|(s, of)| (*case, s.name, mean(of)));
        let times = Times { sizes: sizes.to_vec(), rows: rows.collect() };
        let mut row: Vec<String> = [case].into_iter().chain(name).map(|&s| s.to_owned()).collect();
        let more = |other| format!("{:+.1} %", times.more_in_all(case, PROPOSAL, other));
        row.extend([MIN_RTT, SINGLE, ECF].map(more));
        row
    });
    report.tables.push(Table {
        title: "Send buffer, controller and queue: the proposal's time against the others'"
            .to_owned(),
        head: ["case", "send buffer", "controller", "queue", "minRTT", "single path", "ECF-2"]
            .map(str::to_owned)
            .to_vec(),
        rows: rows.collect(),
        caption: format!(
            "Times of 10, 30 and 60 MB together, one run each. The paper has -9, 0 and 0 % in the \
             heterogeneous case, 0 % against minRTT and -33 % against ECF in the {HOMOGENEOUS} one."
        ),
    });
    Ok(())
}
