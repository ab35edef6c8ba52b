//! What `serve` and `get` share: TUN devices, policies, capture and control, from the command
//! line to a running driver.

use crate::exit::Failure;
use crate::say;
use anyhow::Context;
use std::fs::File;
use std::io::{BufReader, Read};
use std::net::IpAddr;
use std::path::PathBuf;
use tabane_engine::config::{MptcpConfig, PathConfig, TcpConfig};
use tabane_engine::policy::Spec;
use tabane_engine::view::PathId;
use tabane_engine::{Config, Endpoint};
use tabane_net::capture::Capture;
use tabane_net::control::{ControlSocket, Controlled, Inbox, serve_lines};
use tabane_net::device::{TunConfig, TunDevice};
use tabane_net::{App, Clock, Driver, Path};

/// Devices and policies.
#[derive(clap::Args, Debug)]
pub(crate) struct DeviceArgs {
    /// A path: NAME[=ADDR/LEN][,ADDR/LEN][,host=ADDR][,mtu=N][,backup]. ADDR is the engine's
    /// own; the host gets another of the subnet. Give it once for each path.
    #[arg(long, required = true, value_name = "SPEC")]
    tun: Vec<TunConfig>,
    /// Which subflow carries the next data (`tabane list`).
    #[arg(long, default_value_t = MptcpConfig::default().scheduler, value_name = "SPEC")]
    scheduler: Spec,
    /// How much may be in flight.
    #[arg(long, default_value_t = TcpConfig::default().congestion, value_name = "SPEC")]
    congestion: Spec,
    /// Which paths a segment leaves by.
    #[arg(long, default_value = "own", value_name = "SPEC")]
    egress: Spec,
    /// Plain TCP only.
    #[arg(long)]
    no_mptcp: bool,
    /// Require MPTCP's checksums.
    #[arg(long)]
    checksum: bool,
    /// Announce this address on every connection (ADD_ADDR); `all`: those of the other paths.
    #[arg(long, value_name = "ADDR")]
    announce: Vec<Announce>,
    /// Request low priority for subflows on this path.
    #[arg(long, value_name = "PATH")]
    backup: Vec<String>,
    /// As a client, open no additional subflows.
    #[arg(long)]
    no_full_mesh: bool,
    /// Open no subflows to addresses that the peer announces.
    #[arg(long)]
    ignore_announced: bool,
    /// Write every packet to this file, with one interface per path.
    #[arg(long, value_name = "FILE.pcapng")]
    pcap: Option<PathBuf>,
    /// Take commands from this Unix socket, or `-` for standard input, while running: for
    /// experiments (docs/control.md; `help` is a command).
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

/// An address, or all that there are.
#[derive(Clone, Debug)]
pub(crate) enum Announce {
    All,
    Address(IpAddr),
}

impl std::str::FromStr for Announce {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            text => text.parse().map(Self::Address).map_err(|_| "not an address or 'all'".into()),
        }
    }
}

/// A driver with its devices open.
pub(crate) struct Attached {
    /// Ready to run.
    pub(crate) driver: Driver,
    /// What was opened.
    pub(crate) config: Config,
    labels: Vec<String>,
    inbox: Inbox,
    /// Kept open while running.
    control: Option<ControlSocket>,
}

impl DeviceArgs {
    /// Opens the devices and makes the endpoint.
    ///
    /// # Errors
    /// Wrong policies or names (usage), or devices, files and sockets that cannot be had.
    pub(crate) fn attach(&self) -> Result<Attached, Failure> {
        self.check_backup()?;
        // Policies first: a wrong name needs no device to be refused.
        Endpoint::new(self.config(), [0; 32]).map_err(|e| Failure::usage(e.to_string()))?;
        let mut config = self.config();
        let clock = Clock::start();
        let mut paths = Vec::new();
        for (tun, id) in self.tun.iter().zip(0..) {
            let device = TunDevice::open(tun).map_err(anyhow::Error::new)?;
            let path = PathConfig::new(PathId(id), device.addresses().to_vec(), device.mtu())
                .with(|p| p.backup = tun.backup || self.backup.contains(&tun.name));
            paths.push(Path::new(&path, &tun.name, Box::new(device)));
            config.paths.push(path);
        }
        let endpoint = Endpoint::new(config.clone(), seed().context("no random numbers")?)
            .map_err(|e| Failure::usage(e.to_string()))?;
        let mut driver = Driver::new(endpoint, clock, paths).map_err(anyhow::Error::new)?;
        if let Some(file) = &self.pcap {
            let name = file.display().to_string();
            let on_error = move |e| say::error(&format!("the capture {name} ends early: {e}"));
            let capture = Capture::create(file, clock, driver.paths(), Box::new(on_error))
                .with_context(|| format!("cannot write {}", file.display()))?;
            driver.set_tap(Box::new(capture));
        }
        let (inbox, control) = self.control(&driver)?;
        let labels = self.tun.iter().map(|tun| tun.name.clone()).collect();
        let waker = driver.waker();
        ctrlc::set_handler(move || waker.stop()).context("cannot take signals")?;
        Ok(Attached { driver, config, labels, inbox, control })
    }

    /// Addresses to announce one by one.
    pub(crate) fn announced(&self) -> Vec<IpAddr> {
        let address = |announce: &Announce| match announce {
            Announce::All => None,
            Announce::Address(address) => Some(*address),
        };
        self.announce.iter().filter_map(address).collect()
    }

    fn check_backup(&self) -> Result<(), Failure> {
        let names: Vec<&str> = self.tun.iter().map(|tun| tun.name.as_str()).collect();
        match self.backup.iter().find(|name| !names.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => Err(Failure::usage(format!(
                "--backup {name}: there is no such path; there are: {}",
                names.join(", ")
            ))),
        }
    }

    fn config(&self) -> Config {
        let mut config = Config::default();
        config.tcp.congestion = self.congestion.clone();
        config.mptcp = MptcpConfig::default().with(|c| {
            c.enabled = !self.no_mptcp;
            c.checksum = self.checksum;
            c.scheduler = self.scheduler.clone();
            c.egress = self.egress.clone();
            c.full_mesh = !self.no_full_mesh;
            c.accept_addresses = !self.ignore_announced;
            c.announce = self.announce.iter().any(|a| matches!(a, Announce::All));
        });
        config
    }

    fn control(&self, driver: &Driver) -> Result<(Inbox, Option<ControlSocket>), Failure> {
        let (inbox, outbox) = Inbox::new(driver.waker());
        let Some(path) = &self.control else { return Ok((inbox, None)) };
        if path.as_os_str() == "-" {
            std::thread::spawn(move || {
                // It ends with the input or the program.
                let _ = serve_lines(BufReader::new(std::io::stdin()), std::io::stdout(), &outbox);
            });
            return Ok((inbox, None));
        }
        let socket = ControlSocket::bind(path, outbox)
            .with_context(|| format!("cannot listen on {}", path.display()))?;
        Ok((inbox, Some(socket)))
    }
}

impl Attached {
    /// Puts control around `app`, and gives the driver to run it on, and what must be kept until
    /// then.
    pub(crate) fn with<A: App>(self, app: A) -> (Driver, Controlled<A>, Option<ControlSocket>) {
        let waker = self.driver.waker();
        let app = Controlled::new(app, self.inbox, self.driver.paths(), waker);
        (self.driver, app, self.control)
    }

    /// Every path by name, with its addresses.
    pub(crate) fn addresses(&self) -> Vec<(&str, &[IpAddr])> {
        let paths = self.config.paths.iter();
        self.labels
            .iter()
            .zip(paths)
            .map(|(label, path)| (label.as_str(), path.addresses.as_slice()))
            .collect()
    }
}

/// Keys and sequence numbers must not be guessed: from the system.
fn seed() -> std::io::Result<[u8; 32]> {
    let mut seed = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut seed)?;
    Ok(seed)
}
