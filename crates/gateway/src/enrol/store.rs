//! What a server remembers of the clients that have joined: their keys, in a file of its own beside
//! the configuration, which stays its owner's word.
//!
//! Records go by the one-time public key of the invitation. So whoever is no longer in the
//! configuration is forgotten, whoever is renamed is not, and an invitation with a record is spent.
//! A record is in the file before it counts.

use super::Credentials;
use crate::address::CLIENTS_MAX;
use crate::config::ServerConfig;
use crate::keys::write_private;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use thiserror::Error;
use zeroize::Zeroizing;

#[derive(Default, Debug)]
pub(crate) struct Store {
    file: Option<PathBuf>,
    records: BTreeMap<String, Record>,
}

/// A client that has joined.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// What it is known by.
    pub(crate) current: Credentials,
    /// Since when, seconds since 1970.
    pub since: u64,
    /// What it was known by before, as long as that is still valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) former: Option<Former>,
}

/// Credentials that were replaced.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Former {
    /// See [`Record::current`].
    pub(crate) credentials: Credentials,
    /// Until when they are valid, seconds since 1970.
    pub(crate) until: u64,
}

/// Why a server cannot remember, or does not know.
#[derive(Error, Debug)]
pub(crate) enum StoreError {
    /// There is no file for it.
    #[error("this server has no file to remember clients in: give 'state' in its configuration")]
    Nowhere,
    /// It cannot be read. Without it clients that have joined would be strangers.
    #[error("{0}: the clients that have joined cannot be read: {1}")]
    Read(PathBuf, io::Error),
    /// It holds something else.
    #[error(
        "{0}: no list of clients that have joined: {1}; restore it, or remove it and invite anew"
    )]
    Content(PathBuf, serde_json::Error),
    /// It cannot be written.
    #[error("{0}: the clients that have joined cannot be written: {1}")]
    Write(PathBuf, io::Error),
}

/// A record has less than 2 KiB.
const FILE_MAX: u64 = CLIENTS_MAX as u64 * 4096;

impl Store {
    /// Reads the file; one that is not there yet is empty. Without a file nothing can be put.
    ///
    /// # Errors
    /// [`StoreError::Read`], [`StoreError::Content`].
    pub(crate) fn open(file: Option<&Path>) -> Result<Self, StoreError> {
        let Some(path) = file else { return Ok(Self::default()) };
        let fail = |error| StoreError::Read(path.to_owned(), error);
        let mut text = Zeroizing::new(Vec::new());
        match File::open(path) {
            Ok(file) => file.take(FILE_MAX).read_to_end(&mut text).map_err(fail)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self { file: Some(path.to_owned()), records: BTreeMap::new() });
            }
            Err(error) => return Err(fail(error)),
        };
        let records = serde_json::from_slice(&text);
        let records = records.map_err(|error| StoreError::Content(path.to_owned(), error))?;
        Ok(Self { file: Some(path.to_owned()), records })
    }

    /// The record of an invitation: it is spent.
    #[must_use]
    pub(crate) fn get(&self, invitation: &str) -> Option<&Record> {
        self.records.get(invitation)
    }

    /// Remembers it: in the file, then here.
    ///
    /// # Errors
    /// [`StoreError::Nowhere`], [`StoreError::Write`]; nothing has changed then.
    pub(crate) fn put(&mut self, invitation: &str, record: Record) -> Result<(), StoreError> {
        let mut records = self.records.clone();
        records.insert(invitation.to_owned(), record);
        self.write(&records)?;
        self.records = records;
        Ok(())
    }

    /// Forgets clients that are no longer in the configuration, and keys that are no longer valid.
    /// What cannot be written is forgotten all the same, as long as the agent runs.
    ///
    /// # Errors
    /// [`StoreError::Write`].
    pub(crate) fn prune(&mut self, config: &ServerConfig, unix_s: u64) -> Result<(), StoreError> {
        let invited = config.client.iter().filter_map(|client| client.invitation.as_ref());
        let invited: BTreeSet<&str> = invited.map(|invitation| invitation.key.as_str()).collect();
        let ended = |record: &Record| record.former.as_ref().is_some_and(|f| f.until <= unix_s);
        let stays = |key: &str, record: &Record| invited.contains(key) && !ended(record);
        if self.records.iter().all(|(key, record)| stays(key, record)) {
            return Ok(());
        }
        self.records.retain(|key, _| invited.contains(key.as_str()));
        for record in self.records.values_mut().filter(|record| ended(record)) {
            record.former = None;
        }
        self.write(&self.records)
    }

    /// Gives each client of a configuration the keys by which it has joined.
    pub(crate) fn fill(&self, config: &mut ServerConfig) {
        for client in &mut config.client {
            let Some(invitation) = &client.invitation else { continue };
            client.enrolled = self.get(&invitation.key).cloned();
            let current = client.enrolled.as_ref().map(|record| &record.current);
            client.keys = current.map(|current| current.keys.clone()).unwrap_or_default();
            client.preshared_key = current.map(|current| current.preshared_key.clone());
        }
    }

    fn write(&self, records: &BTreeMap<String, Record>) -> Result<(), StoreError> {
        let path = self.file.as_ref().ok_or(StoreError::Nowhere)?;
        let text = serde_json::to_string_pretty(records).expect("invariant: plain data");
        let text = Zeroizing::new(text);
        write_private(path, &text, true).map_err(|e| StoreError::Write(path.clone(), e))
    }
}
