//! Congestion controls from BPF: `highspeed` (RFC 3649) and `ghstcp`, registered as struct_ops.
//!
//! A control that is loaded is the whole host's, in every network namespace, until it is unloaded
//! or the host restarts. Connections that use it when it is unloaded keep it until they end.

use crate::Error;
use crate::kernel::{Structure, Types, least_types};
use crate::object::{Compiled, GHSTCP, HIGHSPEED, Kind};
use crate::sys::{self, MAP_TYPE_STRUCT_OPS, MapInfo, NewMap};
use serde::Serialize;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};

/// A control that can be loaded.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    /// What it is called here, and in the kernel unless another name is asked for.
    pub name: &'static str,
    /// In a few words.
    pub summary: &'static str,
    /// Of the map that stands for it in the kernel.
    map: &'static str,
    object: fn() -> Compiled,
}

/// Every control.
pub const ALL: &[Control] = &[
    Control {
        name: "highspeed",
        summary: "HighSpeed TCP (RFC 3649)",
        map: "tabane_hstcp",
        object: HIGHSPEED,
    },
    Control {
        name: "ghstcp",
        summary: "gentle HighSpeed TCP: Reno's growth while round-trip times rise",
        map: "tabane_ghstcp",
        object: GHSTCP,
    },
];

/// A control of ours in the kernel.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Loaded {
    /// What it is, as in [`ALL`].
    pub control: &'static str,
    /// The name under which sockets ask for it.
    pub name: String,
    /// The id of its struct_ops map, which `bpftool struct_ops` shows as well.
    pub map_id: u32,
    /// `false`: unloaded, and kept by connections until they end.
    pub available: bool,
    /// Connections that use it, in all network namespaces; the kernel calls it an estimate.
    pub connections: u32,
}

/// The longest name of a control, bytes (TCP_CA_NAME_MAX, less its zero).
pub const NAME_LEN: usize = 15;
/// Where the kernel lists its controls.
pub const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

const KEY: [u8; 4] = [0; 4];
/// Every value of a struct_ops map begins with how many use it, and its state.
const STATE_OFFSET: usize = 4;
const STATE_IN_USE: u32 = 1;
/// References that are the registration's own.
const OWN_REFERENCES: u32 = 1;

/// Finds a control by the name it has here.
#[must_use]
pub fn find(name: &str) -> Option<&'static Control> {
    ALL.iter().find(|control| control.name == name)
}

/// Loads `control`; sockets ask for it as `name`.
///
/// # Errors
/// [`Error`]: privilege, what the kernel lacks, a name that is taken.
pub fn load(control: &Control, name: &str) -> Result<Loaded, Error> {
    let sound = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.';
    if name.is_empty() || name.len() > NAME_LEN || !name.bytes().all(sound) {
        let text = format!(
            "'{name}' is no name of a control: 1 to {NAME_LEN} letters, digits, '_' and '.'"
        );
        return Err(Error::Name(text));
    }
    let layout = Layout::of_kernel()?;
    is_free(name, &layout)?;
    let members = |name: &str| layout.ops.member(name).map(|member| member.0);
    let loaded = (control.object)().load(&Kind::Member(layout.ops.id, &members))?;
    let mut value = vec![0; layout.value.size];
    for (program, fd) in &loaded.programs {
        let (_, at) = layout.ops.member(program).ok_or_else(|| missing(program))?;
        let at = layout.data + at;
        value[at..at + 4].copy_from_slice(&(fd.as_raw_fd() as u32).to_ne_bytes());
    }
    let at = layout.name;
    value[at..at + name.len()].copy_from_slice(name.as_bytes());
    let fail = |error| Error::system(format!("registering {name}"), error);
    let types = sys::load_types(&least_types()).map_err(fail)?;
    let new = NewMap {
        kind: MAP_TYPE_STRUCT_OPS,
        key_size: 4,
        value_size: layout.value.size as u32,
        max_entries: 1,
        flags: 0,
        structure: Some((types, layout.value.id)),
    };
    let map = sys::create_map(control.map, &new).map_err(fail)?;
    sys::update(&map, &KEY, &value).map_err(fail)?;
    let info = sys::map_info(&map).map_err(fail)?;
    layout.loaded(&map, &info).map_err(fail)?.ok_or_else(|| missing("the map just made"))
}

/// What of ours is loaded.
///
/// # Errors
/// [`Error`]: privilege, what the kernel lacks.
pub fn list() -> Result<Vec<Loaded>, Error> {
    let layout = Layout::of_kernel()?;
    let all = controls(&layout)?;
    Ok(all.into_iter().map(|(loaded, _)| loaded).collect())
}

/// Unloads what is loaded under `name`, or every one that [`ALL`] calls so. Where connections use
/// it, only with `force`: they keep it until they end, new ones do not find it any more.
///
/// # Errors
/// [`Error`]: not loaded, in use.
pub fn unload(name: &str, force: bool) -> Result<Vec<Loaded>, Error> {
    let layout = Layout::of_kernel()?;
    let ours = |loaded: &Loaded| loaded.available && [loaded.control, &loaded.name].contains(&name);
    let found: Vec<_> = controls(&layout)?.into_iter().filter(|(l, _)| ours(l)).collect();
    if found.is_empty() {
        let text = match available().iter().any(|known| known == name) {
            true => format!("{name} is the kernel's own, not loaded by tabane"),
            false => format!("{name} is not loaded; `tabane kernel cc list` shows what is"),
        };
        return Err(Error::Missing(text));
    }
    if let Some((busy, _)) = found.iter().find(|(l, _)| l.connections > 0).filter(|_| !force) {
        let Loaded { name, connections, .. } = busy;
        return Err(Error::InUse(format!(
            "{name} is in use (connections: {connections}); end them first, or --force: they keep \
             it until they end, and new ones do not find it"
        )));
    }
    for (loaded, map) in &found {
        let fail = |error| Error::system(format!("unloading {}", loaded.name), error);
        sys::delete(map, &KEY).map_err(fail)?;
    }
    Ok(found.into_iter().map(|(loaded, _)| loaded).collect())
}

/// The controls that this kernel offers, its own and loaded ones.
#[must_use]
pub fn available() -> Vec<String> {
    let text = fs::read_to_string(AVAILABLE).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

fn is_free(name: &str, layout: &Layout) -> Result<(), Error> {
    if !available().iter().any(|known| known == name) {
        return Ok(());
    }
    let ours = controls(layout)?.iter().any(|(l, _)| l.available && l.name == name);
    Err(Error::Already(if ours {
        format!("{name} is loaded already; `tabane kernel cc unload {name}` takes it away")
    } else {
        format!("this kernel has a {name} of its own; load ours under another name: --as NAME")
    }))
}

/// Where things are in the value of the map.
struct Layout {
    value: Structure,
    ops: Structure,
    data: usize,
    name: usize,
}

impl Layout {
    fn of_kernel() -> Result<Self, Error> {
        let types = Types::of_kernel()?;
        let find = |name: &str| types.structure(name).ok_or_else(|| missing(name));
        let value = find("bpf_struct_ops_tcp_congestion_ops")?;
        let ops = find("tcp_congestion_ops")?;
        let (_, data) = value.member("data").ok_or_else(|| missing("data"))?;
        let (_, name) = ops.member("name").ok_or_else(|| missing("name"))?;
        let name = data + name;
        // What is written later lies within the value.
        if data + ops.size > value.size || name + NAME_LEN >= value.size || data <= STATE_OFFSET {
            return Err(missing("room for the operations"));
        }
        Ok(Self { value, ops, data, name })
    }

    /// What a map of ours says; `None` if it is none of ours.
    fn loaded(&self, map: &OwnedFd, info: &MapInfo) -> std::io::Result<Option<Loaded>> {
        let of_us = |control: &&Control| control.map == info.name();
        let Some(control) = ALL.iter().find(of_us) else { return Ok(None) };
        if info.value_size as usize != self.value.size {
            return Ok(None);
        }
        let value = sys::lookup(map, &KEY)?;
        let word = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|n| value[at + n]));
        Ok(Some(Loaded {
            control: control.name,
            name: sys::text(&value[self.name..self.name + NAME_LEN]),
            map_id: info.id,
            available: word(STATE_OFFSET) == STATE_IN_USE,
            connections: word(0).saturating_sub(OWN_REFERENCES),
        }))
    }
}

/// Our maps of struct_ops, in the order of their ids.
fn controls(layout: &Layout) -> Result<Vec<(Loaded, OwnedFd)>, Error> {
    let fail = |error| Error::system("listing the host's BPF maps", error);
    let mut found = Vec::new();
    let mut id = 0;
    while let Some(next) = sys::next_map(id).map_err(fail)? {
        id = next;
        // It may have gone meanwhile.
        let Ok(map) = sys::map(id) else { continue };
        let info = sys::map_info(&map).map_err(fail)?;
        if info.kind != MAP_TYPE_STRUCT_OPS {
            continue;
        }
        if let Ok(Some(loaded)) = layout.loaded(&map, &info) {
            found.push((loaded, map));
        }
    }
    Ok(found)
}

fn missing(what: &str) -> Error {
    Error::NoStructOps { missing: what.to_owned() }
}
