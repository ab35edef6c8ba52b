//! Middleboxes: options stripped at various points, checksums required, payload changed.

use super::data::ready;
use super::kernel::Speaks;
use super::link::Strip;
use super::transfers::{Transfer, wait_for_growth};
use super::world::{Family, TO_KERNEL, TO_TABANE, World, both_carried, on_both_families};
use std::time::Duration;

const FILE: usize = 16 << 20;

on_both_families!(
    stripped_everywhere_the_kernel_downloads,
    stripped_everywhere_tabane_gets,
    stripped_from_the_answer_the_kernel_uploads,
    stripped_from_the_answer_tabane_gets,
    stripped_after_the_handshake_the_kernel_downloads,
    stripped_after_the_handshake_tabane_gets,
    checksums_when_the_kernel_downloads,
    checksums_when_the_kernel_uploads,
    checksums_when_tabane_gets,
    a_changed_payload_is_found_by_the_kernel,
    a_changed_payload_is_found_by_tabane,
);

fn stripped_everywhere_the_kernel_downloads(family: Family) {
    stripped(family, Strip::All, |world| world.joining("subflow").download(Speaks::Mptcp, FILE));
}

fn stripped_everywhere_tabane_gets(family: Family) {
    stripped(family, Strip::All, |world| world.fetch(Speaks::Mptcp, FILE));
}

fn stripped_from_the_answer_the_kernel_uploads(family: Family) {
    stripped(family, Strip::SynAck, |world| world.joining("subflow").upload(Speaks::Mptcp, FILE));
}

fn stripped_from_the_answer_tabane_gets(family: Family) {
    stripped(family, Strip::SynAck, |world| world.fetch(Speaks::Mptcp, FILE));
}

fn stripped_after_the_handshake_the_kernel_downloads(family: Family) {
    stripped(family, Strip::AfterSyn, |world| {
        world.joining("subflow").download(Speaks::Mptcp, FILE)
    });
}

fn stripped_after_the_handshake_tabane_gets(family: Family) {
    stripped(family, Strip::AfterSyn, |world| world.fetch(Speaks::Mptcp, FILE));
}

/// The file arrives whole, over one subflow.
fn stripped(family: Family, strip: Strip, transfer: impl Fn(&World) -> Transfer<'_>) {
    if !ready() {
        return;
    }
    let world = World::new(family);
    world.links.iter().for_each(|link| link.set(|conditions| conditions.strip = strip));
    transfer(&world).complete();
    world.report(&format!("16 MiB, options stripped: {strip:?}"));
    let seen = |way| world.links[0].counters(way).stripped;
    assert!(seen(TO_KERNEL) + seen(TO_TABANE) > 0, "there was nothing to strip");
    let second = world.payload(TO_KERNEL)[1] + world.payload(TO_TABANE)[1];
    assert_eq!(second, 0, "a second subflow although the options are gone");
}

fn checksums_when_the_kernel_downloads(family: Family) {
    checked(family, |world| world.joining("subflow").download(Speaks::Mptcp, FILE));
}

fn checksums_when_the_kernel_uploads(family: Family) {
    checked(family, |world| world.joining("subflow").upload(Speaks::Mptcp, FILE));
}

fn checksums_when_tabane_gets(family: Family) {
    checked(family, |world| world.fetch(Speaks::Mptcp, FILE));
}

/// Only the kernel asks for checksums; both must then send them, and all of them are right.
fn checked(family: Family, transfer: impl Fn(&World) -> Transfer<'_>) {
    if !ready() {
        return;
    }
    let world = checking(family);
    transfer(&world).complete();
    world.report("16 MiB, the kernel requires checksums");
    assert_eq!(world.kernel_counter("MPTcpExtDataCsumErr"), 0, "the kernel found wrong checksums");
    let unchecked = [0, 1].map(|n| world.links[n].counters(TO_KERNEL).unchecked_mappings);
    assert_eq!(unchecked, [0, 0], "mappings without a checksum");
    let [down, up] = [world.payload(TO_KERNEL), world.payload(TO_TABANE)];
    both_carried(if down[0] > up[0] { down } else { up });
}

/// The subflow is reset with MP_FAIL, its data comes by the other one.
fn a_changed_payload_is_found_by_the_kernel(family: Family) {
    if !ready() {
        return;
    }
    let world = checking(family);
    let transfer = world.joining("subflow").download(Speaks::Mptcp, FILE);
    damage_once(&world, TO_KERNEL);
    transfer.complete();
    world.report("16 MiB, a payload on the way to the kernel changed");
    assert_eq!(world.kernel_counter("MPTcpExtDataCsumErr"), 1, "damage unnoticed by the kernel");
}

fn a_changed_payload_is_found_by_tabane(family: Family) {
    if !ready() {
        return;
    }
    let world = checking(family);
    let transfer = world.joining("subflow").upload(Speaks::Mptcp, FILE);
    damage_once(&world, TO_TABANE);
    transfer.complete();
    world.report("16 MiB, a payload on the way to tabane changed");
    assert!(world.kernel_counter("MPTcpExtMPFailRx") > 0, "the kernel was not told by MP_FAIL");
}

fn checking(family: Family) -> World {
    let world = World::new(family);
    world.k.sysctl("net.mptcp.checksum_enabled=1");
    world
}

/// Changes one payload on link 2, once both links are in use.
fn damage_once(world: &World, way: super::link::Way) {
    let limit = Duration::from_secs(10);
    wait_for_growth("on link 2", 200_000, limit, || world.payload(way)[1]);
    world.links[1].set_way(way, |conditions| conditions.damage_next = true);
}
