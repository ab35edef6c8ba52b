//! A file on its way: who serves, who asks, where it must arrive, and how one waits for it.

use super::data::Digest32;
use super::far::Paths;
use super::kernel::{Speaks, url};
use super::namespace::{Process, wait_until};
use super::world::World;
use std::time::{Duration, Instant};

/// Longer than any transfer of these tests takes.
const LIMIT: Duration = Duration::from_secs(90);

/// A transfer under way.
pub(crate) struct Transfer<'w> {
    world: &'w World,
    /// The side that asked.
    pub(crate) client: Process,
    /// The side that serves.
    pub(crate) server: Process,
    digest: Digest32,
    arrives: &'static str,
}

impl World {
    /// The kernel downloads `len` bytes from `serve`.
    pub(crate) fn download(&self, speaks: Speaks, len: usize) -> Transfer<'_> {
        let digest = self.folder.make("served/file", len, 1);
        let server = self.serve(false);
        let source = url(self.tabane_address(1), "file");
        let output = self.folder.file("got");
        let client = self.curl(speaks, &["--output", &output.to_string_lossy(), &source]);
        Transfer { world: self, client, server, digest, arrives: "got" }
    }

    /// The same by our Python peer, with its options.
    pub(crate) fn peer_download(&self, len: usize, options: &[&str]) -> Transfer<'_> {
        let digest = self.folder.make("served/file", len, 1);
        let server = self.serve(false);
        let source = url(self.tabane_address(1), "file");
        let output = self.folder.file("got");
        let mut arguments = vec!["get"];
        arguments.extend(options);
        let output = output.to_string_lossy();
        arguments.extend([source.as_str(), &output]);
        let client = self.peer(&arguments);
        Transfer { world: self, client, server, digest, arrives: "got" }
    }

    /// The kernel uploads `len` bytes to `serve`.
    pub(crate) fn upload(&self, speaks: Speaks, len: usize) -> Transfer<'_> {
        let digest = self.folder.make("sent", len, 2);
        let server = self.serve(true);
        let source = self.folder.file("sent");
        let target = url(self.tabane_address(1), "file");
        let client = self.curl(speaks, &["--upload-file", &source.to_string_lossy(), &target]);
        Transfer { world: self, client, server, digest, arrives: "served/file" }
    }

    /// `get` downloads `len` bytes from the kernel.
    pub(crate) fn fetch(&self, speaks: Speaks, len: usize) -> Transfer<'_> {
        self.fetch_with(speaks, len, &[], |source| self.get(Paths::Both, source))
    }

    /// The same with a server that has `options` and a client that `get` starts.
    pub(crate) fn fetch_with(
        &self,
        speaks: Speaks,
        len: usize,
        options: &[&str],
        get: impl FnOnce(&str) -> Process,
    ) -> Transfer<'_> {
        let digest = self.folder.make("file", len, 3);
        let server = self.kernel_server(speaks, options);
        let client = get(&url(self.kernel_address(1), "file"));
        Transfer { world: self, client, server, digest, arrives: "got" }
    }
}

impl Transfer<'_> {
    /// Waits for the end; what arrived must be what was sent.
    pub(crate) fn complete(mut self) {
        self.client.succeed(LIMIT);
        let arrived = self.world.folder.digest(self.arrives);
        assert!(arrived == self.digest, "the file arrived damaged");
        assert!(self.server.is_running(), "the server ended:\n{}", self.server.said());
    }
}

/// Waits until `now()` has grown by `by`; returns how long that took.
pub(crate) fn wait_for_growth(
    what: &str,
    by: u64,
    limit: Duration,
    now: impl Fn() -> u64,
) -> Duration {
    let (begin, start) = (Instant::now(), now());
    wait_until(&format!("{by} bytes more {what}"), limit, || now() >= start + by);
    begin.elapsed()
}

/// How much `now()` grows in `time`.
pub(crate) fn growth_in(time: Duration, now: impl Fn() -> u64) -> u64 {
    let start = now();
    std::thread::sleep(time);
    now() - start
}
