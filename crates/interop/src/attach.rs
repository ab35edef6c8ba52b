//! From the command line to a running driver: TUN devices, an endpoint, a control socket.

use anyhow::{Context, anyhow};
use std::path::PathBuf;
use tabane_engine::config::PathConfig;
use tabane_engine::view::PathId;
use tabane_engine::{Config, Endpoint};
use tabane_interop::control::{ControlSocket, Controlled, Inbox};
use tabane_net::device::{TunConfig, TunDevice};
use tabane_net::{App, Clock, Driver, Path};

/// Devices.
#[derive(clap::Args, Debug)]
pub(crate) struct DeviceArgs {
    /// A path: NAME=ADDR/LEN[,ADDR/LEN][,host=ADDR][,mtu=N][,backup]; once for each path.
    #[arg(long, required = true, value_name = "SPEC")]
    tun: Vec<TunConfig>,
    /// Take commands from this Unix socket.
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

/// A driver with its devices open.
pub(crate) struct Attached {
    pub(crate) driver: Driver,
    pub(crate) config: Config,
    inbox: Inbox,
    /// Open for as long as it runs.
    control: Option<ControlSocket>,
}

impl DeviceArgs {
    /// Opens the devices and makes the endpoint.
    pub(crate) fn attach(&self) -> anyhow::Result<Attached> {
        let mut config = Config::default();
        let clock = Clock::start();
        let mut paths = Vec::new();
        for (tun, id) in self.tun.iter().zip(0..) {
            let device = TunDevice::open(tun)?;
            let path = PathConfig::new(PathId(id), device.addresses().to_vec(), device.mtu())
                .with(|p| p.backup = tun.backup);
            paths.push(Path::new(&path, &tun.name, Box::new(device)));
            config.paths.push(path);
        }
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| anyhow!("no random numbers: {error}"))?;
        let driver = Driver::new(Endpoint::new(config.clone(), seed)?, clock, paths)?;
        let (inbox, outbox) = Inbox::new(driver.waker());
        let bind = |path: &PathBuf| {
            ControlSocket::bind(path, outbox)
                .with_context(|| format!("cannot listen on {}", path.display()))
        };
        let control = self.control.as_ref().map(bind).transpose()?;
        let waker = driver.waker();
        ctrlc::set_handler(move || waker.stop()).context("cannot take signals")?;
        Ok(Attached { driver, config, inbox, control })
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
}
