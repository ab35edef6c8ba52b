//! The tree of a TOML file: finding the value at a key, and putting one there.

use std::borrow::Cow;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// The value at `at`, each a key or an index.
pub fn lookup_mut<'t, 's>(
    table: &'t mut DeTable<'s>,
    at: &[String],
) -> Option<&'t mut Spanned<DeValue<'s>>> {
    let mut value = table.get_mut(at.first()?.as_str())?;
    for step in &at[1..] {
        value = match value.get_mut() {
            DeValue::Table(inner) => inner.get_mut(step.as_str())?,
            DeValue::Array(items) => items.get_mut(step.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(value)
}

/// Where the deepest part of `at` that exists stands: the value, or the key of a table.
pub(super) fn locate(table: &DeTable<'_>, at: &[String]) -> Option<Range<usize>> {
    let (first, rest) = at.split_first()?;
    let (key, value) = table.get_key_value(first.as_str())?;
    let mut span = if value.get_ref().is_table() { key.span() } else { value.span() };
    let mut value = value;
    for step in rest {
        let next = match value.get_ref() {
            DeValue::Table(inner) => match inner.get_key_value(step.as_str()) {
                Some((key, v)) if v.get_ref().is_table() => Some((key.span(), v)),
                Some((_, v)) => Some((v.span(), v)),
                None => None,
            },
            DeValue::Array(items) => {
                step.parse().ok().and_then(|n: usize| items.get(n)).map(|v| (v.span(), v))
            }
            _ => None,
        };
        let Some(next) = next else { break };
        (span, value) = next;
    }
    Some(span)
}

/// Puts `value` at `keys`, making tables on the way. An element of a list is named by its index
/// or its `name`; the index may be left out when there is only one.
pub(super) fn insert<'s>(
    table: &mut DeTable<'s>,
    keys: &'s [String],
    value: &mut Spanned<DeValue<'s>>,
    span: &Range<usize>,
) -> Result<(), String> {
    let (key, rest) = keys.split_first().expect("invariant: at least one key");
    if rest.is_empty() {
        let value = std::mem::replace(value, Spanned::new(0..0, DeValue::Boolean(false)));
        match table.get_mut(key.as_str()) {
            Some(place) => *place = value,
            None => {
                table.insert(Spanned::new(span.clone(), Cow::Borrowed(key.as_str())), value);
            }
        }
        return Ok(());
    }
    if table.get(key.as_str()).is_none() {
        let empty = Spanned::new(span.clone(), DeValue::Table(DeTable::new()));
        table.insert(Spanned::new(span.clone(), Cow::Borrowed(key.as_str())), empty);
    }
    match table.get_mut(key.as_str()).map(Spanned::get_mut) {
        Some(DeValue::Table(inner)) => insert(inner, rest, value, span),
        Some(DeValue::Array(items)) => {
            let named = |item: &Spanned<DeValue<'_>>| {
                item.get_ref().get("name").is_some_and(|n| n.get_ref().as_str() == Some(&rest[0]))
            };
            let index = rest[0].parse().ok().or_else(|| items.iter().position(named));
            let (index, rest) = match index {
                Some(n) => (n, &rest[1..]),
                None if items.len() == 1 => (0, rest),
                None => return Err(format!("which '{key}'? write {key}.0 or {key}.NAME")),
            };
            let count = items.len();
            match items.get_mut(index).map(Spanned::get_mut) {
                Some(DeValue::Table(inner)) if !rest.is_empty() => insert(inner, rest, value, span),
                Some(_) => Err(format!("'{key}' has no such keys")),
                None => Err(format!("there are only {count} of '{key}'")),
            }
        }
        _ => Err(format!("'{key}' is a single value, not a table")),
    }
}

/// `value` with every span set to `span`.
pub(super) fn respan<'s>(value: DeValue<'s>, span: &Range<usize>) -> Spanned<DeValue<'s>> {
    let value = match value {
        DeValue::Array(items) => {
            let mut array = DeArray::new();
            items.iter().for_each(|item| array.push(respan(item.get_ref().clone(), span)));
            DeValue::Array(array)
        }
        DeValue::Table(table) => {
            let mut copy = DeTable::new();
            for (k, v) in table.iter() {
                copy.insert(
                    Spanned::new(span.clone(), k.get_ref().clone()),
                    respan(v.get_ref().clone(), span),
                );
            }
            DeValue::Table(copy)
        }
        scalar => scalar,
    };
    Spanned::new(span.clone(), value)
}
