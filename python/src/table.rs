//! Columns on their way to numpy: raw bytes with the name of their type, and texts as codes into
//! the list of those that differ.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use std::collections::BTreeMap;

/// Columns of equal length, in order.
#[derive(Default)]
pub(crate) struct Table(Vec<(&'static str, Column)>);

enum Column {
    Floats(Vec<f64>),
    Integers(Vec<i64>),
    Flags(Vec<u8>),
    Texts(Vec<i32>, Vec<String>),
}

impl Table {
    /// Adds a column of numbers; `None` is not a number.
    pub(crate) fn floats<T: Into<Option<f64>>>(
        &mut self,
        name: &'static str,
        values: impl Iterator<Item = T>,
    ) {
        let values = values.map(|value| value.into().unwrap_or(f64::NAN)).collect();
        self.0.push((name, Column::Floats(values)));
    }

    /// Adds a column of whole numbers.
    pub(crate) fn integers(&mut self, name: &'static str, values: impl Iterator<Item = i64>) {
        self.0.push((name, Column::Integers(values.collect())));
    }

    /// Adds a column of bytes and packets.
    pub(crate) fn counts(&mut self, name: &'static str, values: impl Iterator<Item = u64>) {
        let values = values.map(|n| i64::try_from(n).unwrap_or(i64::MAX));
        self.integers(name, values);
    }

    /// Adds a column of truth values.
    pub(crate) fn flags(&mut self, name: &'static str, values: impl Iterator<Item = bool>) {
        self.0.push((name, Column::Flags(values.map(u8::from).collect())));
    }

    /// Adds a column of texts.
    pub(crate) fn texts<'t>(&mut self, name: &'static str, values: impl Iterator<Item = &'t str>) {
        let mut known: BTreeMap<&str, i32> = BTreeMap::new();
        let mut texts = Vec::new();
        let codes = values.map(|value| {
            *known.entry(value).or_insert_with(|| {
                texts.push(value.to_owned());
                texts.len() as i32 - 1
            })
        });
        let codes = codes.collect();
        self.0.push((name, Column::Texts(codes, texts)));
    }

    /// As Python gets it: name to (type, bytes) or (codes, texts).
    pub(crate) fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let dict = PyDict::new(py);
        for (name, column) in self.0 {
            match column {
                Column::Floats(values) => {
                    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                    dict.set_item(name, ("<f8", PyBytes::new(py, &bytes)))?;
                }
                Column::Integers(values) => {
                    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                    dict.set_item(name, ("<i8", PyBytes::new(py, &bytes)))?;
                }
                Column::Flags(values) => dict.set_item(name, ("?", PyBytes::new(py, &values)))?,
                Column::Texts(codes, texts) => {
                    let bytes: Vec<u8> = codes.iter().flat_map(|v| v.to_le_bytes()).collect();
                    let texts = PyList::new(py, texts)?;
                    dict.set_item(name, (PyBytes::new(py, &bytes), texts))?;
                }
            }
        }
        Ok(dict)
    }
}
