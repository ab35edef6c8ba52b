//! Addresses that come and go, priorities, and paths that die and return.

use super::data::ready;
use super::far::Paths;
use super::kernel::Speaks;
use super::link::Way;
use super::transfers::{Transfer, growth_in, wait_for_growth};
use super::world::{Family, TO_KERNEL, TO_TABANE, World, on_both_families};
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);
const MIB: u64 = 1 << 20;

on_both_families!(
    the_kernel_announces_an_address,
    tabane_announces_an_address,
    the_kernel_withdraws_an_address,
    tabane_withdraws_an_address,
    the_kernel_changes_a_priority,
    tabane_changes_a_priority,
    a_backup_of_the_kernels_serves_while_the_active_path_is_dead,
    a_backup_of_tabanes_serves_while_the_active_path_is_dead,
    a_path_black_holed_for_15_s_while_the_kernel_downloads,
    a_path_black_holed_for_15_s_while_the_kernel_uploads,
);

/// Slower links, so that there is time to watch: `mbits` each.
fn slow(family: Family, mbits: u64) -> World {
    let world = World::new(family);
    for link in &world.links {
        link.set(|conditions| conditions.rate = mbits * 1_000_000);
    }
    world
}

/// Waits until both links carry data.
fn until_both_carry(world: &World, way: Way) {
    for n in [0, 1] {
        let what = format!("on link {}", n + 1);
        wait_for_growth(&what, MIB, 10 * SECOND, || world.payload(way)[n]);
    }
}

/// T's second address is announced once the connection is up, and joined; its id.
fn announce(world: &World, way: Way) -> u64 {
    wait_for_growth("on link 1", 1 << 18, 10 * SECOND, || world.payload(way)[0]);
    let id = world.announce_second_address();
    until_both_carry(world, way);
    id
}

/// ADD_ADDR to a client that has a single path: it joins the second address.
fn the_kernel_announces_an_address(family: Family) {
    if !ready() {
        return;
    }
    let world = World::new(family);
    world.joining("signal");
    let get = |source: &str| world.get(Paths::First, source);
    let transfer = world.fetch_with(Speaks::Mptcp, 32 << 20, &[], get);
    until_both_carry(&world, TO_TABANE);
    transfer.complete();
    world.report("32 MiB, the kernel announces an address, get joins it");
    assert!(world.kernel_counter("MPTcpExtAddAddrTx") > 0, "not announced");
    assert!(world.kernel_counter("MPTcpExtEchoAdd") > 0, "the kernel saw no echo");
    assert!(world.kernel_counter("MPTcpExtMPJoinAckRx") > 0, "not joined");
}

/// The kernel has no second endpoint of its own: it joins because we announce one.
fn tabane_announces_an_address(family: Family) {
    if !ready() {
        return;
    }
    let world = World::new(family);
    let transfer = world.download(Speaks::Mptcp, 32 << 20);
    announce(&world, TO_KERNEL);
    transfer.complete();
    world.report("32 MiB, serve announces an address, the kernel joins it");
    assert!(world.kernel_counter("MPTcpExtAddAddr") > 0, "the kernel heard no announcement");
    assert!(world.kernel_counter("MPTcpExtEchoAddTx") > 0, "the kernel did not accept it");
    assert_eq!(world.kernel_counter("MPTcpExtPortAdd"), 0, "the usual port needs no mention");
}

fn the_kernel_withdraws_an_address(family: Family) {
    if !ready() {
        return;
    }
    let world = slow(family, 50);
    let transfer = world.joining("subflow").download(Speaks::Mptcp, 32 << 20);
    until_both_carry(&world, TO_KERNEL);
    world.k.ip("mptcp endpoint del id 2");
    std::thread::sleep(SECOND / 2);
    let second = growth_in(SECOND, || world.payload(TO_KERNEL)[1]);
    transfer.complete();
    world.report("32 MiB, the kernel withdraws its second address");
    assert!(world.links[0].options(4) + world.links[1].options(4) > 0, "no REMOVE_ADDR seen");
    assert_eq!(second, 0, "data still goes to an address that is gone");
}

fn tabane_withdraws_an_address(family: Family) {
    if !ready() {
        return;
    }
    let world = slow(family, 50);
    let transfer = world.download(Speaks::Mptcp, 32 << 20);
    let id = announce(&world, TO_KERNEL);
    world.withdraw_address(id);
    std::thread::sleep(SECOND / 2);
    let second = growth_in(SECOND, || world.payload(TO_KERNEL)[1]);
    transfer.complete();
    world.report("32 MiB, serve withdraws its second address");
    assert!(world.kernel_counter("MPTcpExtRmAddr") > 0, "the kernel heard no REMOVE_ADDR");
    assert_eq!(second, 0, "data still goes from an address that is gone");
}

/// MP_PRIO makes the second subflow a backup, and back: we must obey.
fn the_kernel_changes_a_priority(family: Family) {
    if !ready() {
        return;
    }
    let world = slow(family, 40);
    let transfer = world.joining("subflow").download(Speaks::Mptcp, 48 << 20);
    until_both_carry(&world, TO_KERNEL);
    world.k.ip("mptcp endpoint change id 2 backup");
    idle_then_busy(&world, TO_KERNEL, || {
        world.k.ip("mptcp endpoint change id 2 nobackup");
    });
    transfer.complete();
    world.report("48 MiB, the kernel makes link 2 a backup, and back");
    assert!(world.kernel_counter("MPTcpExtMPPrioTx") > 1, "no MP_PRIO from the kernel");
}

/// The kernel sends; we ask it by MP_PRIO not to use the second subflow.
fn tabane_changes_a_priority(family: Family) {
    if !ready() {
        return;
    }
    let world = slow(family, 40);
    let transfer = world.upload(Speaks::Mptcp, 48 << 20);
    announce(&world, TO_TABANE);
    world.set_backup(true);
    idle_then_busy(&world, TO_TABANE, || world.set_backup(false));
    transfer.complete();
    world.report("48 MiB, serve makes link 2 a backup, and back");
    assert!(world.kernel_counter("MPTcpExtMPPrioRx") > 1, "the kernel heard no MP_PRIO");
}

/// Link 2 falls silent while link 1 goes on; after `change` it carries data again.
fn idle_then_busy(world: &World, way: Way, change: impl FnOnce()) {
    std::thread::sleep(SECOND / 2);
    let before = world.payload(way);
    std::thread::sleep(SECOND);
    let after = world.payload(way);
    let (first, second) = (after[0] - before[0], after[1] - before[1]);
    println!("  in a second as backup: link 1 {first} bytes, link 2 {second} bytes");
    assert!(first > 2 * MIB, "link 1 carried only {first} bytes in a second");
    assert!(second < 64 << 10, "the backup carried {second} bytes in a second");
    change();
    let time = wait_for_growth("on link 2", MIB, 5 * SECOND, || world.payload(way)[1]);
    println!("  no backup any more: a MiB after {time:?}");
}

fn a_backup_of_the_kernels_serves_while_the_active_path_is_dead(family: Family) {
    if !ready() {
        return;
    }
    let world = slow(family, 30);
    let transfer = world.joining("subflow backup").download(Speaks::Mptcp, 32 << 20);
    backup_takes_over(&world, transfer, TO_KERNEL);
    world.report("32 MiB, kernel downloads, its second address is a backup, link 1 dies for 4 s");
}

fn a_backup_of_tabanes_serves_while_the_active_path_is_dead(family: Family) {
    if !ready() {
        return;
    }
    let world = slow(family, 30);
    let get = |source: &str| world.get(Paths::SecondIsBackup, source);
    let transfer = world.fetch_with(Speaks::Mptcp, 32 << 20, &[], get);
    backup_takes_over(&world, transfer, TO_TABANE);
    world.report("32 MiB, get with a backup path, link 1 dies for 4 s");
}

fn backup_takes_over(world: &World, transfer: Transfer<'_>, way: Way) {
    wait_for_growth("on link 1", 3 * MIB, 10 * SECOND, || world.payload(way)[0]);
    let unused = world.payload(way)[1];
    assert!(unused < 64 << 10, "the backup carried {unused} bytes before there was need");
    world.links[0].set(|conditions| conditions.down = true);
    let begin = Instant::now();
    let time = wait_for_growth("on link 2", MIB, 10 * SECOND, || world.payload(way)[1]);
    println!("  link 1 dead: a MiB by the backup after {time:?}");
    std::thread::sleep((4 * SECOND).saturating_sub(begin.elapsed()));
    world.links[0].set(|conditions| conditions.down = false);
    let time = wait_for_growth("on link 1", MIB, 10 * SECOND, || world.payload(way)[0]);
    println!("  link 1 back: a MiB by it after {time:?}");
    std::thread::sleep(SECOND / 2);
    let second = growth_in(SECOND, || world.payload(way)[1]);
    println!("  in a second with link 1 back: link 2 {second} bytes");
    transfer.complete();
    assert!(second < 64 << 10, "the backup is still used: {second} bytes in a second");
}

fn a_path_black_holed_for_15_s_while_the_kernel_downloads(family: Family) {
    if !ready() {
        return;
    }
    let world = slow(family, 20);
    black_hole(&world, world.joining("subflow").download(Speaks::Mptcp, 56 << 20), TO_KERNEL);
    world.report("56 MiB, kernel downloads, link 1 is a black hole for 15 s");
}

fn a_path_black_holed_for_15_s_while_the_kernel_uploads(family: Family) {
    if !ready() {
        return;
    }
    let world = slow(family, 20);
    black_hole(&world, world.joining("subflow").upload(Speaks::Mptcp, 56 << 20), TO_TABANE);
    world.report("56 MiB, kernel uploads, link 1 is a black hole for 15 s");
}

/// The other link goes on meanwhile, and the path is used again when it returns.
fn black_hole(world: &World, transfer: Transfer<'_>, way: Way) {
    until_both_carry(world, way);
    world.links[0].set(|conditions| conditions.down = true);
    let stall = longest_stall(15 * SECOND, || world.payload(way)[1]);
    println!("  longest pause of link 2 within the 15 s: {stall:?}");
    world.links[0].set(|conditions| conditions.down = false);
    let time = wait_for_growth("on link 1", MIB, 10 * SECOND, || world.payload(way)[0]);
    println!("  link 1 back: a MiB by it after {time:?}");
    transfer.complete();
    assert!(stall < 3 * SECOND, "the living link paused for {stall:?}");
}

/// The longest time within `time` in which `now()` did not grow, to 5 ms.
fn longest_stall(time: Duration, now: impl Fn() -> u64) -> Duration {
    let begin = Instant::now();
    let (mut last, mut since, mut longest) = (now(), begin, Duration::ZERO);
    while begin.elapsed() < time {
        std::thread::sleep(Duration::from_millis(5));
        let value = now();
        longest = longest.max(since.elapsed());
        if value != last {
            (last, since) = (value, Instant::now());
        }
    }
    longest
}
