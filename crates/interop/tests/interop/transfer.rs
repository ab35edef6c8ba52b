//! 64 MiB over two subflows, both ways and in both roles; and plain TCP in all four.

use super::data::ready;
use super::kernel::Speaks;
use super::world::{Family, TO_KERNEL, TO_TABANE, World, both_carried, on_both_families};

const FILE: usize = 64 << 20;
const PLAIN: usize = 16 << 20;

on_both_families!(
    the_kernel_downloads,
    the_kernel_uploads,
    tabane_gets,
    the_kernel_downloads_by_plain_tcp,
    the_kernel_uploads_by_plain_tcp,
    tabane_gets_by_plain_tcp,
);

fn the_kernel_downloads(family: Family) {
    if !ready() {
        return;
    }
    let world = World::new(family);
    world.joining("subflow").download(Speaks::Mptcp, FILE).complete();
    world.report("64 MiB, kernel downloads from serve");
    both_carried(world.payload(TO_KERNEL));
}

fn the_kernel_uploads(family: Family) {
    if !ready() {
        return;
    }
    let world = World::new(family);
    world.joining("subflow").upload(Speaks::Mptcp, FILE).complete();
    world.report("64 MiB, kernel uploads to serve");
    both_carried(world.payload(TO_TABANE));
}

fn tabane_gets(family: Family) {
    if !ready() {
        return;
    }
    let world = World::new(family);
    world.fetch(Speaks::Mptcp, FILE).complete();
    world.report("64 MiB, get from the kernel");
    both_carried(world.payload(TO_TABANE));
}

fn the_kernel_downloads_by_plain_tcp(family: Family) {
    if !ready() {
        return;
    }
    let world = World::new(family);
    world.download(Speaks::Tcp, PLAIN).complete();
    world.report("16 MiB, kernel downloads from serve by plain TCP");
    no_mptcp(&world);
}

fn the_kernel_uploads_by_plain_tcp(family: Family) {
    if !ready() {
        return;
    }
    let world = World::new(family);
    world.upload(Speaks::Tcp, PLAIN).complete();
    world.report("16 MiB, kernel uploads to serve by plain TCP");
    no_mptcp(&world);
}

/// The server speaks plain TCP: our MP_CAPABLE goes unanswered.
fn tabane_gets_by_plain_tcp(family: Family) {
    if !ready() {
        return;
    }
    let world = World::new(family);
    world.fetch(Speaks::Tcp, PLAIN).complete();
    world.report("16 MiB, get from a server of plain TCP");
    assert_eq!(world.links[1].options(1), 0, "MP_JOIN although the server has no MPTCP");
    assert_eq!(world.payload(TO_TABANE)[1], 0, "a second subflow of plain TCP");
}

fn no_mptcp(world: &World) {
    let options: u64 = (0..16).map(|s| world.links[0].options(s) + world.links[1].options(s)).sum();
    assert_eq!(options, 0, "MPTCP options towards a peer that asked for none");
}
