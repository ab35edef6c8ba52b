//! From the configuration to what the agent needs of it.

use crate::config::ServerEntry;
use crate::index::PathIndex;
use crate::keys::{self, Key, KeyError};
use tabane_net::wireguard::{Session, random_index};

/// The tunnel of a path to a server, of a client with that secret.
pub(super) fn session(
    secret: &Key,
    server: &ServerEntry,
    path: PathIndex,
) -> Result<Session, KeyError> {
    let own = server.key_of_path(secret, path.get())?;
    let public = keys::public(&server.public_key)?;
    let preshared = server.preshared_key.as_deref().map(str::parse::<Key>).transpose()?;
    let preshared = preshared.map(|key| *key.bytes());
    Ok(Session::new(&(&own).into(), public, preshared, random_index(), None))
}
