//! Networks that have been read: connections share them. A file that was replaced is read again
//! when the next connection begins; one that is gone, or damaged by now, goes on as it was.

use crate::model::{Model, ModelError};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Networks kept; with one more all are forgotten, and read again as they are asked for.
const FILES_MAX: usize = 256;

/// Length, and when it was written.
type Identity = (u64, Option<SystemTime>);

static READ: Mutex<BTreeMap<PathBuf, (Identity, Model)>> = Mutex::new(BTreeMap::new());

/// The network of a file.
pub(crate) fn model(file: &Path) -> Result<Model, ModelError> {
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    let known = read.get(file);
    let identity = match fs::metadata(file) {
        Ok(meta) => (meta.len(), meta.modified().ok()),
        Err(error) => return known.map(|(_, model)| model.clone()).ok_or(error.into()),
    };
    if let Some((_, model)) = known.filter(|(of, _)| *of == identity) {
        return Ok(model.clone());
    }
    let model = match (Model::read(file), known) {
        (Ok(model), _) => model,
        (Err(_), Some((_, model))) => return Ok(model.clone()),
        (Err(error), None) => return Err(error),
    };
    if read.len() >= FILES_MAX {
        read.clear();
    }
    read.insert(file.to_owned(), (identity, model.clone()));
    Ok(model)
}
