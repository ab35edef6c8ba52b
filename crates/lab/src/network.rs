//! The network of a scenario, built from its plan: namespaces, devices, addresses, and the
//! emulator between them.

use crate::emulator::{Emulator, Port, Report};
use crate::namespace::{Namespace, remove_leftovers};
use crate::notification::{LIMIT, Notification, Notifier};
use crate::plan::{HostPlan, NetworkPlan};
use crate::{LabError, Stack, refuse};
use rustix::event::{EventfdFlags, eventfd};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tabane_net::device::{TunConfig, TunDevice};
use tabane_net::{Clock, PathDevice};
use tabane_sim::Plan;
use tabane_sim::observe::{Observer, Wants};
use tun_rs::DeviceBuilder;

/// A network without its emulator.
pub(crate) struct Network {
    pub(crate) stack: Stack,
    pub(crate) plan: Plan,
    /// What is made of its hosts.
    pub(crate) hosts: NetworkPlan,
    /// One a host.
    pub(crate) namespaces: Vec<Arc<Namespace>>,
    /// Devices at the emulated links; taken by the emulator.
    ports: Vec<Port>,
    /// Devices of engines, by host; taken by their drivers.
    pub(crate) engines: Vec<Vec<Box<dyn PathDevice>>>,
}

/// A running emulator.
pub(crate) struct Running {
    stop: OwnedFd,
    thread: Option<JoinHandle<Report>>,
}

impl Network {
    /// Builds it. What is built is removed again when it is dropped.
    ///
    /// # Errors
    /// What is refused ([`refuse`]), no privilege, or what the system says.
    pub(crate) fn build(plan: &Plan, stack: Stack) -> Result<Self, LabError> {
        refuse(&plan.scenario, stack).map_err(LabError::Refused)?;
        if !rustix::process::geteuid().is_root() {
            return Err(LabError::Privilege);
        }
        remove_leftovers();
        let mut network = Self {
            stack,
            plan: plan.clone(),
            hosts: NetworkPlan::new(plan, stack, std::process::id()),
            namespaces: Vec::new(),
            ports: Vec::new(),
            engines: Vec::new(),
        };
        for host in 0..network.hosts.hosts.len() {
            network.add_host(host, plan.scenario.ip)?;
        }
        Ok(network)
    }

    fn add_host(&mut self, host: usize, version: u8) -> Result<(), LabError> {
        let plan = &self.hosts.hosts[host];
        let namespace = Namespace::new(&plan.namespace)?;
        let offload = self.plan.scenario.offload;
        let (ports, engines) = namespace.inside(|| open_devices(host, plan, offload))??;
        self.ports.extend(ports);
        self.engines.push(engines);
        namespace.sysctl(&plan.sysctls)?;
        namespace.ip(version, &plan.commands)?;
        self.namespaces.push(Arc::new(namespace));
        Ok(())
    }

    pub(crate) fn start(
        &mut self,
        clock: Clock,
        notifier: (Notifier, Wants),
    ) -> Result<Running, LabError> {
        let ports = std::mem::take(&mut self.ports);
        let (stop, theirs) = stop_pair()?;
        let emulator = Emulator::new(&self.plan, self.stack, ports, clock, notifier, theirs)
            .map_err(LabError::Broken)?;
        let thread = spawn("emulator", move || emulator.run())?;
        Ok(Running { stop, thread: Some(thread) })
    }

    /// Packets that the devices of the network have dropped so far.
    pub(crate) fn dropped(&self) -> u64 {
        let dropped = |namespace: &Arc<Namespace>| {
            let text = namespace.inside(|| fs::read_to_string("/proc/thread-self/net/dev"));
            text.ok().and_then(Result::ok).map_or(0, |text| device_drops(&text))
        };
        self.namespaces.iter().map(dropped).sum()
    }
}

impl Running {
    /// Ends the emulator.
    pub(crate) fn stop(mut self) -> Result<Report, LabError> {
        set(&self.stop)?;
        let thread = self.thread.take().expect("invariant: only this takes it");
        thread.join().map_err(|_| LabError::Broken("the emulator panicked".into()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // What went wrong has been reported already.
            let _ = set(&self.stop);
            let _ = thread.join();
        }
    }
}

/// Devices of a host; the calling thread is in its namespace.
#[allow(clippy::type_complexity)] // Two lists, taken apart at once.
fn open_devices(
    host: usize,
    plan: &HostPlan,
    offload: bool,
) -> Result<(Vec<Port>, Vec<Box<dyn PathDevice>>), LabError> {
    let (mut ports, mut engines) = (Vec::new(), Vec::new());
    for (path, device) in plan.devices.iter().enumerate() {
        let what = || format!("open the TUN device {} of {}", device.link, plan.name);
        let system = |source| LabError::System { what: what(), source };
        let link = DeviceBuilder::new().name(&device.link).inherit_enable_state().offload(offload);
        let link = link.build_sync().map_err(system)?;
        link.set_nonblocking(true).map_err(system)?;
        ports.push(Port { host, path, device: link });
        if let Some(name) = &device.engine {
            // Whole addresses: no subnet, so the host gets none beside them.
            let addresses = device.addresses.map(|a| (a, if a.is_ipv4() { 32 } else { 128 }));
            let config = TunConfig {
                name: name.clone(),
                addresses: addresses.to_vec(),
                host: Vec::new(),
                mtu: Some(device.mtu),
                backup: device.backup,
            };
            let device = TunDevice::open(&config).map_err(|e| LabError::Broken(e.to_string()))?;
            engines.push(Box::new(device) as Box<dyn PathDevice>);
        }
    }
    Ok((ports, engines))
}

/// What says "stop", and what hears it.
pub(crate) fn stop_pair() -> Result<(OwnedFd, OwnedFd), LabError> {
    let system = |source: io::Error| LabError::System { what: "make an eventfd".into(), source };
    let fd = eventfd(0, EventfdFlags::CLOEXEC).map_err(|e| system(e.into()))?;
    let other = fd.try_clone().map_err(system)?;
    Ok((fd, other))
}

/// Says it.
pub(crate) fn set(stop: &OwnedFd) -> Result<(), LabError> {
    let done = rustix::io::write(stop, &1_u64.to_ne_bytes());
    done.map(|_| ())
        .map_err(|e| LabError::System { what: "stop a thread".into(), source: e.into() })
}

pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, LabError> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map_err(|source| LabError::System { what: "start a thread".into(), source })
}

/// Packets dropped, both ways, by the devices that `/proc/net/dev` lists.
fn device_drops(text: &str) -> u64 {
    let rows = text.lines().filter_map(|line| line.split_once(':'));
    let rows = rows.filter(|(name, _)| name.trim() != "lo");
    rows.map(|(_, numbers)| {
        let numbers: Vec<u64> = numbers.split_whitespace().filter_map(|n| n.parse().ok()).collect();
        numbers.get(3).unwrap_or(&0) + numbers.get(11).unwrap_or(&0)
    })
    .sum()
}

/// A network that runs, for whatever programs one starts in it.
pub struct Up {
    network: Network,
    running: Option<Running>,
    heard: Receiver<Notification>,
    clock: Clock,
}

/// Builds a scenario's network, without its flows. Timed changes happen.
///
/// # Errors
/// [`LabError`].
pub fn up(plan: &Plan) -> Result<Up, LabError> {
    let mut network = Network::build(plan, Stack::Kernel)?;
    let (out, heard) = sync_channel(LIMIT);
    let clock = Clock::start();
    let running = network.start(clock, (Notifier::new(out), Wants::default()))?;
    Ok(Up { network, running: Some(running), heard, clock })
}

impl Up {
    /// Its plan: hosts, namespaces, addresses.
    pub fn plan(&self) -> &NetworkPlan {
        &self.network.hosts
    }

    /// Stays until `interrupted`, and tells what changes.
    ///
    /// # Errors
    /// [`LabError::Broken`].
    pub fn hold(
        mut self,
        observer: &mut dyn Observer,
        interrupted: &AtomicBool,
    ) -> Result<(), LabError> {
        while !interrupted.load(Ordering::Relaxed) {
            match self.heard.recv_timeout(Duration::from_millis(50)) {
                Ok(Notification::Changed(at, words)) => observer.changed(at, &words),
                Ok(Notification::Broken(why)) => return Err(LabError::Broken(why)),
                _ => {}
            }
        }
        observer.end(self.clock.now());
        self.running.take().map_or(Ok(()), |running| running.stop().map(|_| ()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_of_devices_are_added_up() {
        let text = "Inter-|   Receive                            |  Transmit\n \
                    face |bytes packets errs drop fifo frame compressed multicast|bytes packets\n\
                    lo:  10 1 0 9 0 0 0 0 10 1 0 9 0 0 0 0\n  \
                    wifi: 500 5 0 2 0 0 0 0 700 7 0 3 0 0 0 0\n";
        assert_eq!(device_drops(text), 5);
    }
}
