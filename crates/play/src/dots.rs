//! Packets under way, as dots: five numbers each.
//!
//! Link direction; place (0 to 1 is the share of the way that lies behind it, a negative number
//! says how many are before it in the queue, beginning with -1); the series whose subflow it
//! belongs to, or -1; payload bytes; 1 if it acknowledges without carrying data, else 0. A link
//! with more packets than are asked for gives every other one, or every third, and so on.

use crate::watch::Watch;
use std::collections::BTreeMap;
use std::net::IpAddr;
use tabane_sim::World;
use tabane_sim::link::Place;
use tabane_sim::observe::LinkIdx;
use tabane_wire::{Flags, Segment};

/// Numbers of a dot.
const WIDTH: usize = 5;

/// At most `most` of the packets in the world.
pub(crate) fn dots(world: &World<'_>, watch: &Watch, most: usize) -> Vec<f32> {
    let mut count = 0_usize;
    let links = watch.layout.links.len() as u32;
    (0..links).for_each(|link| world.packets(LinkIdx(link), |_, _| count += 1));
    let step = count.div_ceil(most.max(1)).max(1);
    let owners = Owners::new(watch);
    let mut dots = Vec::with_capacity(count / step * WIDTH);
    for link in 0..links {
        let mut n = 0;
        world.packets(LinkIdx(link), |place, segment| {
            n += 1;
            if n % step == 0 {
                let place = match place {
                    Place::Travelling(share) => share,
                    Place::Queued(before) => -1.0 - before as f64,
                };
                let payload = segment.payload.len();
                let bare = payload == 0
                    && !segment.flags.contains(Flags::SYN)
                    && !segment.flags.contains(Flags::FIN);
                let row = [
                    f64::from(link),
                    place,
                    owners.series(segment),
                    payload as f64,
                    f64::from(u8::from(bare)),
                ];
                dots.extend(row.map(|number| number as f32));
            }
        });
    }
    dots
}

/// Series by the two addresses of a subflow.
struct Owners(BTreeMap<[IpAddr; 2], usize>);

impl Owners {
    fn new(watch: &Watch) -> Self {
        let subflows = watch.ends.values().flat_map(|end| end.subflows.values());
        Self(
            subflows
                .map(|sub| (sorted(sub.info.local.ip(), sub.info.remote.ip()), sub.series))
                .collect(),
        )
    }

    fn series(&self, segment: &Segment) -> f64 {
        let ends = sorted(segment.src.ip(), segment.dst.ip());
        self.0.get(&ends).map_or(-1.0, |series| *series as f64)
    }
}

fn sorted(a: IpAddr, b: IpAddr) -> [IpAddr; 2] {
    if a <= b { [a, b] } else { [b, a] }
}
