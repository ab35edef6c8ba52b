//! Changes to the files of agents that leave their comments and their order alone.

use super::Invitation;
use crate::address::CLIENTS_MAX;
use crate::config::{
    ClientEntry, ConfigError, InvitationEntry, Loaded, ServerConfig, Service, parse_copy,
};
use crate::keys::{Key, write_private};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tabane_config::bounded;
use thiserror::Error;
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, TableLike, value};

/// Why a file is not changed.
#[derive(Error, Debug)]
pub enum EditError {
    /// The file, or what it would become, is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// It cannot be read or written.
    #[error("{0}: {1}")]
    File(PathBuf, io::Error),
    /// There is one of that name, or none.
    #[error("{0}")]
    Client(String),
    /// `client` is neither a list of tables nor a list.
    #[error("'client' is not a list: write [[client]]")]
    Shape,
    /// Whatever the caller's change failed with.
    #[error("{0}")]
    Other(String),
}

/// What becomes of a client in a server's file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientEdit<'n> {
    /// It is refused until it is enabled.
    Disable,
    /// It is let in again.
    Enable,
    /// It goes.
    Remove,
    /// It has another name; its keys and number stay.
    Rename(&'n str),
}

/// Who is invited.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewClient<'n> {
    pub name: &'n str,
    /// Its number; `None`: the first free one.
    pub number: Option<u16>,
    /// Where it reaches the server, if not where the file says.
    pub public: &'n [String],
    /// It exists: its keys, or its previous invitation, are revoked; number and limits stay.
    pub replace: bool,
    /// Until when it may join, seconds since 1970; `None`: its keys are made here, for good.
    pub expires: Option<u64>,
}

/// Changes one client in a server's file.
///
/// # Errors
/// [`EditError`]; [`EditError::Client`] if there is none of that name, if it is so already, or if
/// another has the new name.
pub fn edit_client(file: &Path, name: &str, edit: ClientEdit<'_>) -> Result<(), EditError> {
    change(file, |text, _| {
        let new = match edit {
            ClientEdit::Disable => switch_client(text, name, false)?,
            ClientEdit::Enable => switch_client(text, name, true)?,
            ClientEdit::Remove => remove_client(text, name)?,
            ClientEdit::Rename(new) => rename_client(text, name, new)?,
        };
        Ok((new, ()))
    })
}

/// Adds a client to a server's file, or gives one that is there another invitation.
///
/// # Errors
/// [`EditError`]; [`EditError::Client`] if it is there already, or not there to be replaced, if no
/// number is free, or nobody knows where the server is.
pub fn invite(file: &Path, client: &NewClient<'_>) -> Result<Invitation, EditError> {
    change(file, |text, loaded| invited_client(text, loaded, client))
}

/// The text with the client, and its invitation.
fn invited_client(
    text: &str,
    loaded: &Loaded<ServerConfig>,
    new: &NewClient<'_>,
) -> Result<(String, Invitation), EditError> {
    let mut config = loaded.config.clone();
    if !new.public.is_empty() {
        config.public = new.public.to_vec();
    }
    let refuse = |message: String| Err(EditError::Client(message));
    if config.public.is_empty() {
        let message = "where is the server? add public = [\"host:port\"], or say --public";
        return refuse(message.into());
    }
    let name = new.name;
    let there = config.client.iter().find(|client| client.name == name);
    let number = match (there, new.replace, new.number) {
        (Some(_), false, _) => {
            return refuse(format!(
                "there is a client '{name}' already; --replace gives it new keys"
            ));
        }
        (None, true, _) => return refuse(format!("there is no client '{name}'")),
        (Some(client), true, _) => client.number,
        (None, false, Some(number)) => number,
        (None, false, None) => {
            let is_free = |number: &u16| config.client.iter().all(|c| c.number != *number);
            let none = || EditError::Client("no number is free".into());
            (1..=CLIENTS_MAX).find(is_free).ok_or_else(none)?
        }
    };
    let made = match new.expires {
        Some(expires) => Invitation::new(&config, &loaded.key, (name, number), expires),
        None => Invitation::with_keys(&config, &loaded.key, (name, number), true),
    };
    let (invitation, entry) = made.map_err(|error| EditError::Other(error.to_string()))?;
    let text = if new.replace { replace_keys(text, &entry)? } else { add_client(text, &entry)? };
    Ok((text, invitation))
}

/// Changes a file: `edit` gets its text and configuration, and gives the new text, which is written
/// only if it is a sound configuration. Two changes at once wait for each other.
///
/// # Errors
/// [`EditError`].
pub(super) fn change<T>(
    path: &Path,
    edit: impl FnOnce(&str, &Loaded<ServerConfig>) -> Result<(String, T), EditError>,
) -> Result<T, EditError> {
    // Behind a symbolic link is the file that counts.
    let fail = |error| EditError::File(path.to_owned(), error);
    let found = path.canonicalize();
    // Where there is none, reading says what is wrong, and what to do.
    let path = found.as_ref().map_or(path, PathBuf::as_path);
    crate::config::read::<ServerConfig>(path, &[])?;
    let _lock = lock(path).map_err(fail)?;
    let loaded = crate::config::read::<ServerConfig>(path, &[])?;
    let text = bounded::text(path, bounded::SOURCE_DOCUMENT).map_err(fail)?;
    let (new, result) = edit(&text, &loaded)?;
    parse_copy::<ServerConfig>(path, &new, &[], &Service::default())?;
    write_private(path, &new, true).map_err(fail)?;
    Ok(result)
}

/// Holds the file that is at `path` now; another may have taken its place while we waited.
fn lock(path: &Path) -> io::Result<File> {
    loop {
        let file = File::open(path)?;
        file.lock()?;
        if std::fs::metadata(path)?.ino() == file.metadata()?.ino() {
            return Ok(file);
        }
    }
}

/// The text with one more client.
///
/// # Errors
/// [`EditError::Shape`]; [`EditError::Client`] if it is not TOML.
pub(super) fn add_client(text: &str, entry: &ClientEntry) -> Result<String, EditError> {
    let mut document = document(text)?;
    let clients = document.entry("client").or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
    let mut keys: Array = entry.keys.iter().collect();
    keys.iter_mut().for_each(|key| key.decor_mut().set_prefix("\n    "));
    keys.set_trailing("\n");
    keys.set_trailing_comma(true);
    match clients {
        Item::ArrayOfTables(tables) => {
            let mut table = Table::new();
            table.insert("name", value(&entry.name));
            table.insert("number", value(i64::from(entry.number)));
            if let Some(invitation) = invited(entry) {
                table.insert("invitation", value(invitation));
            } else {
                table.insert("keys", value(keys));
            }
            if let Some(key) = &entry.preshared_key {
                table.insert("preshared_key", value(&**key));
            }
            table.decor_mut().set_prefix(if text.is_empty() { "" } else { "\n" });
            tables.push(table);
        }
        Item::Value(toml_edit::Value::Array(list)) => {
            let mut table = InlineTable::new();
            table.insert("name", (&entry.name).into());
            table.insert("number", i64::from(entry.number).into());
            if let Some(invitation) = invited(entry) {
                table.insert("invitation", invitation.into());
            } else {
                table.insert("keys", entry.keys.iter().collect::<Array>().into());
            }
            if let Some(key) = &entry.preshared_key {
                table.insert("preshared_key", (&**key).into());
            }
            list.push(table);
        }
        _ => return Err(EditError::Shape),
    }
    Ok(document.to_string())
}

/// The invitation of a client, as it is written.
fn invited(entry: &ClientEntry) -> Option<InlineTable> {
    let InvitationEntry { key, preshared_key, expires } = entry.invitation.as_ref()?;
    let mut table = InlineTable::new();
    table.insert("key", key.into());
    table.insert("preshared_key", (&**preshared_key).into());
    table.insert("expires", i64::try_from(*expires).unwrap_or(i64::MAX).into());
    Some(table)
}

/// The text with a client that has another name.
///
/// # Errors
/// [`EditError::Client`] if there is none of that name, or one of the new name.
fn rename_client(text: &str, name: &str, new: &str) -> Result<String, EditError> {
    with_client(text, name, |client| {
        client.insert("name", value(new));
        Ok(())
    })
}

/// The text with a client whose keys or invitation are those of `entry`; its name, number, limits
/// and whatever else it has stay.
///
/// # Errors
/// [`EditError::Client`] if there is none of that name.
fn replace_keys(text: &str, entry: &ClientEntry) -> Result<String, EditError> {
    with_client(text, &entry.name, |client| {
        for key in ["keys", "preshared_key", "invitation"] {
            client.remove(key);
        }
        if let Some(invitation) = invited(entry) {
            client.insert("invitation", value(invitation));
        } else {
            client.insert("keys", value(entry.keys.iter().collect::<Array>()));
        }
        if let Some(key) = &entry.preshared_key {
            client.insert("preshared_key", value(&**key));
        }
        Ok(())
    })
}

/// The text of a client's file with another secret, and other preshared keys of its servers, in
/// their order; invitations, which have been used then, go.
///
/// # Errors
/// [`EditError::Other`] if it is not TOML, or its servers are not a list.
pub fn replace_client_keys(
    text: &str,
    secret: &Key,
    preshared: &[Key],
) -> Result<String, EditError> {
    let mut document = document(text)?;
    document.insert("secret", value(secret.to_string()));
    let shape = || EditError::Other("'server' is not a list: write [[server]]".into());
    let servers: Vec<&mut dyn TableLike> = match document.get_mut("server") {
        Some(Item::ArrayOfTables(tables)) => {
            tables.iter_mut().map(|table| table as &mut dyn TableLike).collect()
        }
        Some(Item::Value(toml_edit::Value::Array(list))) => {
            let tables = list.iter_mut().filter_map(toml_edit::Value::as_inline_table_mut);
            tables.map(|table| table as &mut dyn TableLike).collect()
        }
        _ => return Err(shape()),
    };
    if servers.len() != preshared.len() {
        return Err(shape());
    }
    for (server, key) in servers.into_iter().zip(preshared) {
        server.insert("preshared_key", value(key.to_string()));
        server.remove("enrolment");
    }
    Ok(document.to_string())
}

/// The text with one client changed.
fn with_client(
    text: &str,
    name: &str,
    change: impl FnOnce(&mut dyn TableLike) -> Result<(), EditError>,
) -> Result<String, EditError> {
    let mut document = document(text)?;
    let none = || EditError::Client(format!("there is no client '{name}'"));
    let is = |client: &dyn TableLike| client.get("name").and_then(Item::as_str) == Some(name);
    match document.get_mut("client").ok_or_else(none)? {
        Item::ArrayOfTables(tables) => {
            let client = tables.iter_mut().find(|table| is(*table));
            change(client.ok_or_else(none)?)?;
        }
        Item::Value(toml_edit::Value::Array(list)) => {
            let clients = list.iter_mut().filter_map(toml_edit::Value::as_inline_table_mut);
            let client = clients.into_iter().find(|table| is(*table));
            change(client.ok_or_else(none)?)?;
        }
        _ => return Err(EditError::Shape),
    }
    Ok(document.to_string())
}

/// The text without the client of that name.
///
/// # Errors
/// [`EditError::Client`] if there is none.
pub(super) fn remove_client(text: &str, name: &str) -> Result<String, EditError> {
    let mut document = document(text)?;
    let none = || EditError::Client(format!("there is no client '{name}'"));
    let is = |found: Option<&str>| found == Some(name);
    match document.get_mut("client").ok_or_else(none)? {
        Item::ArrayOfTables(tables) => {
            let at = tables.iter().position(|t| is(t.get("name").and_then(Item::as_str)));
            tables.remove(at.ok_or_else(none)?);
        }
        Item::Value(toml_edit::Value::Array(list)) => {
            let named = |item: &toml_edit::Value| {
                is(item.as_inline_table().and_then(|t| t.get("name")).and_then(|n| n.as_str()))
            };
            let at = list.iter().position(named);
            list.remove(at.ok_or_else(none)?);
        }
        _ => return Err(EditError::Shape),
    }
    Ok(document.to_string())
}

/// The text with a client refused, or let in again.
///
/// # Errors
/// [`EditError::Client`] if there is none of that name, or if it is so already.
fn switch_client(text: &str, name: &str, on: bool) -> Result<String, EditError> {
    with_client(text, name, |client| {
        let disabled = client.get("disabled").and_then(Item::as_bool).unwrap_or(false);
        if disabled != on {
            let state = if on { "enabled" } else { "disabled" };
            return Err(EditError::Client(format!("'{name}' is {state} already")));
        }
        if on {
            client.remove("disabled");
        } else {
            client.insert("disabled", value(true));
        }
        Ok(())
    })
}

fn document(text: &str) -> Result<DocumentMut, EditError> {
    text.parse().map_err(|error: toml_edit::TomlError| EditError::Client(error.to_string()))
}
