//! The compiled objects, and how one of them gets into the kernel: read and relocated by aya-obj,
//! its maps made, its programs loaded.

use crate::Error;
use crate::sys::{self, NewMap, NewProgram};
use aya_obj::btf::Btf;
use aya_obj::{EbpfSectionKind, Object};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// A compiled object.
pub(crate) struct Compiled {
    pub(crate) name: &'static str,
    bytes: &'static [u8],
}

/// The reader of ELF wants its structures aligned.
#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);

macro_rules! compiled {
    ($name:literal) => {{
        static OBJECT: &Aligned<[u8]> =
            &Aligned(*include_bytes!(concat!("../bpf/objects/", $name, ".o")));
        Compiled { name: $name, bytes: &OBJECT.0 }
    }};
}

pub(crate) const BICAST: fn() -> Compiled = || compiled!("bicast");
pub(crate) const HAYACK: fn() -> Compiled = || compiled!("hayack");
pub(crate) const HIGHSPEED: fn() -> Compiled = || compiled!("highspeed");
pub(crate) const GHSTCP: fn() -> Compiled = || compiled!("ghstcp");

/// What was loaded: it goes again when this is dropped, unless the kernel uses it by then.
pub(crate) struct Loaded {
    pub(crate) maps: BTreeMap<String, OwnedFd>,
    pub(crate) programs: BTreeMap<String, OwnedFd>,
}

/// How the kernel is told what a program is for.
pub(crate) enum Kind<'a> {
    /// A classifier.
    Classifier,
    /// A member of this structure, by its id in the kernel's types; the name of the program says
    /// which: its number.
    Member(u32, &'a dyn Fn(&str) -> Option<u32>),
}

/// Where the kernel describes its types.
pub(crate) const BTF: &str = "/sys/kernel/btf/vmlinux";
/// Of the verifier's reasons in an error.
const LOG_LINES: usize = 12;
/// Flag of maps that programs only read.
const RDONLY_PROG: u32 = 1 << 7;

impl Compiled {
    /// Loads maps and programs.
    pub(crate) fn load(&self, kind: &Kind<'_>) -> Result<Loaded, Error> {
        let unfit = |reason: String| Error::Object { object: self.name, reason };
        let mut object = Object::parse(self.bytes).map_err(|e| unfit(e.to_string()))?;
        if self.needs_types(kind) {
            let types = Btf::from_sys_fs().map_err(|e| no_btf(&e.to_string()))?;
            object.relocate_btf(&types).map_err(|e| unfit(chain(&e)))?;
        }
        let maps = make_maps(&object)?;
        let known = object.maps.clone();
        let pairs = maps.iter().map(|(name, fd)| (name.as_str(), fd.as_raw_fd(), &known[name]));
        // Everything is inlined: no section holds functions to be called.
        #[allow(clippy::disallowed_types)] // aya-obj asks for it
        let none = std::collections::HashSet::new();
        object.relocate_maps(pairs, &none).map_err(|e| unfit(chain(&e)))?;
        let mut programs = BTreeMap::new();
        for (name, program) in &object.programs {
            let function = object
                .functions
                .get(&program.function_key())
                .ok_or_else(|| unfit(format!("no code of {name}")))?;
            let member = match kind {
                Kind::Classifier => None,
                Kind::Member(id, number) => {
                    let number = number(name).ok_or_else(|| Error::NoStructOps {
                        missing: format!("member {name} of tcp_congestion_ops"),
                    })?;
                    Some((*id, number))
                }
            };
            let new = NewProgram {
                name,
                kind: kind.program_type(),
                instructions: &function.instructions,
                license: &program.license,
                member,
            };
            programs.insert(name.clone(), load(&new)?);
        }
        Ok(Loaded { maps, programs })
    }

    /// Bicast reads packets only, HayACK sockets as well.
    fn needs_types(&self, kind: &Kind<'_>) -> bool {
        matches!(kind, Kind::Member(..)) || self.name == "hayack"
    }
}

impl Kind<'_> {
    fn program_type(&self) -> u32 {
        match self {
            Self::Classifier => sys::PROG_TYPE_SCHED_CLS,
            Self::Member(..) => sys::PROG_TYPE_STRUCT_OPS,
        }
    }
}

fn make_maps(object: &Object) -> Result<BTreeMap<String, OwnedFd>, Error> {
    let mut made = BTreeMap::new();
    let sorted: BTreeMap<_, _> = object.maps.iter().collect();
    for (name, map) in sorted {
        let constant = map.section_kind() == EbpfSectionKind::Rodata;
        let new = NewMap {
            kind: map.map_type(),
            key_size: map.key_size(),
            value_size: map.value_size(),
            max_entries: map.max_entries(),
            flags: map.map_flags() | if constant { RDONLY_PROG } else { 0 },
            structure: None,
        };
        // Dots are not for every kernel.
        let shown = if constant { "tabane_rodata" } else { name.as_str() };
        let fail = |error| Error::system(format!("making the map {shown}"), error);
        let fd = sys::create_map(shown, &new).map_err(fail)?;
        if constant {
            sys::update(&fd, &0u32.to_ne_bytes(), map.data()).map_err(fail)?;
            sys::freeze(&fd).map_err(fail)?;
        }
        made.insert(name.clone(), fd);
    }
    Ok(made)
}

fn load(new: &NewProgram<'_>) -> Result<OwnedFd, Error> {
    sys::load_program(new).map_err(|(error, log)| match error.raw_os_error() {
        // The verifier's own refusals come with a reason.
        Some(libc::EPERM) => Error::system(format!("loading the program {}", new.name), error),
        _ => {
            let lines: Vec<&str> = log.lines().collect();
            let log = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
            Error::Refused { program: new.name.to_owned(), error, log }
        }
    })
}

fn no_btf(reason: &str) -> Error {
    let error = match std::fs::File::open(BTF) {
        Err(error) => error,
        Ok(_) => io::Error::other(reason.to_owned()),
    };
    Error::NoBtf { path: BTF, error }
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text += &format!(": {cause}");
        next = cause.source();
    }
    text
}
