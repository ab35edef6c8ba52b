//! The quotas of the paths: what each has carried in its period, remembered in the file that
//! `state` names (without it, for as long as the agent runs).
//!
//! What counts are the inner packets of connections and names in both directions; probes count
//! where they come in.

use crate::bond::Counters;
use crate::config::ClientConfig;
use crate::index::PathIndex;
use crate::path::{Period, Quota, QuotaError, QuotaFile, SAVE_EVERY};
use tabane_engine::Instant;

pub(super) struct Quotas {
    file: Option<QuotaFile>,
    paths: Vec<Path>,
    next_save: Instant,
}

struct Path {
    name: String,
    quota: Option<Quota>,
    /// Bytes of its counters that are in the quota.
    counted: u64,
}

impl Quotas {
    /// Those of a configuration, as the file remembers them.
    ///
    /// # Errors
    /// The file cannot be used: without it a quota would begin anew.
    pub(super) fn new(config: &ClientConfig) -> Result<Self, QuotaError> {
        let mut quotas = Self { file: None, paths: Vec::new(), next_save: Instant::ZERO };
        quotas.reload(config)?;
        Ok(quotas)
    }

    /// Another configuration: quotas change, what was used stays.
    ///
    /// # Errors
    /// See [`Quotas::new`].
    pub(super) fn reload(&mut self, config: &ClientConfig) -> Result<(), QuotaError> {
        let limited = config.path.iter().any(|path| path.quota.is_some());
        if let Some(file) = config.state.as_deref()
            && self.file.is_none()
            && limited
        {
            self.file = Some(QuotaFile::open(file)?);
        }
        self.note();
        let paths = config.path.iter().enumerate().map(|(i, path)| {
            let name = path.label().to_owned();
            let old = self.paths.iter().find(|old| old.name == name);
            let known = old.and_then(|old| old.quota.as_ref()).map(Quota::used);
            let filed = || self.file.as_ref().map(|file| file.used(&name));
            let used = known.or_else(filed).unwrap_or_default();
            let period = path.quota_period.as_deref().and_then(|period| period.parse().ok());
            let period: Period = period.unwrap_or_default();
            Path {
                quota: path.quota.map(|limit| Quota::new(limit.0, period, used)),
                counted: self.paths.get(i).map_or(0, |path| path.counted),
                name,
            }
        });
        self.paths = paths.collect();
        Ok(())
    }

    /// Counts what has gone through the paths since the last time.
    pub(super) fn count(&mut self, unix: u64, counters: &[Counters]) {
        for (path, counters) in self.paths.iter_mut().zip(counters) {
            let all = counters.tx_bytes + counters.rx_bytes;
            let new = all.saturating_sub(std::mem::replace(&mut path.counted, all));
            if let Some(quota) = &mut path.quota {
                quota.add(unix, new);
            }
        }
    }

    /// Why a path may carry nothing any more.
    pub(super) fn spent(&mut self, path: PathIndex, unix: u64) -> Option<String> {
        self.paths.get_mut(path.get())?.quota.as_mut()?.spent(unix)
    }

    /// Bytes that a path has left.
    pub(super) fn left(&mut self, path: PathIndex, unix: u64) -> Option<u64> {
        Some(self.paths.get_mut(path.get())?.quota.as_mut()?.left(unix))
    }

    /// Saves when it is time.
    ///
    /// # Errors
    /// Not written; it is tried again later.
    pub(super) fn tick(&mut self, now: Instant) -> Result<(), QuotaError> {
        if now < self.next_save {
            return Ok(());
        }
        self.next_save = now + SAVE_EVERY;
        self.save()
    }

    /// Saves.
    ///
    /// # Errors
    /// Not written.
    pub(super) fn save(&mut self) -> Result<(), QuotaError> {
        self.note();
        self.file.as_mut().map_or(Ok(()), QuotaFile::save)
    }

    fn note(&mut self) {
        let Some(file) = &mut self.file else { return };
        for path in &self.paths {
            if let Some(quota) = &path.quota {
                file.note(&path.name, quota.used());
            }
        }
    }
}
