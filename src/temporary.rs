//! Folders that go with the program.

use anyhow::Context;
use tempfile::{Builder, TempDir};

/// A new folder that is this user's alone and goes with the value. Nobody can know its name before,
/// and put something of their own in its place.
///
/// # Errors
/// It cannot be made.
pub(crate) fn folder(prefix: &str) -> anyhow::Result<TempDir> {
    let mut builder = Builder::new();
    builder.prefix(prefix);
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    let place = std::env::temp_dir();
    let folder = place.canonicalize().and_then(|place| builder.tempdir_in(place));
    folder.with_context(|| format!("no folder can be made in {}", place.display()))
}
