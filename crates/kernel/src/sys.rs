//! The system call bpf(2): maps, programs, types. Every `unsafe` of this crate is here.
//!
//! The kernel takes the structures of its commands at any length and reads zeros beyond, so that
//! each command has a structure of its own here, as far as its members are used.
#![expect(unsafe_code, reason = "bpf(2), by structures that no crate has")]

use aya_obj::generated::bpf_insn;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Commands of bpf(2).
const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP_ELEM: libc::c_int = 1;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const MAP_DELETE_ELEM: libc::c_int = 3;
const MAP_GET_NEXT_KEY: libc::c_int = 4;
const PROG_LOAD: libc::c_int = 5;
const MAP_GET_NEXT_ID: libc::c_int = 12;
const PROG_GET_FD_BY_ID: libc::c_int = 13;
const MAP_GET_FD_BY_ID: libc::c_int = 14;
const OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const BTF_LOAD: libc::c_int = 18;
const MAP_FREEZE: libc::c_int = 22;

/// Types of maps and programs.
pub(crate) const MAP_TYPE_STRUCT_OPS: u32 = 26;
pub(crate) const PROG_TYPE_SCHED_CLS: u32 = 3;
pub(crate) const PROG_TYPE_STRUCT_OPS: u32 = 27;

/// The longest name the kernel keeps, its zero not counted.
pub(crate) const NAME_LEN: usize = 15;
/// Maps of one program; ours have fewer.
const MAPS_LIMIT: usize = 16;
/// Of the verifier's reasons; it keeps the last.
const LOG_BYTES: usize = 1 << 16;

/// A map to be made.
pub(crate) struct NewMap {
    pub(crate) kind: u32,
    pub(crate) key_size: u32,
    pub(crate) value_size: u32,
    pub(crate) max_entries: u32,
    pub(crate) flags: u32,
    /// For a structure of the kernel: types of any kind, and the structure's number.
    pub(crate) structure: Option<(OwnedFd, u32)>,
}

#[repr(C)]
#[derive(Default)]
struct Create {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    map_name: [u8; 16],
    map_ifindex: u32,
    btf_fd: u32,
    btf_key_type_id: u32,
    btf_value_type_id: u32,
    btf_vmlinux_value_type_id: u32,
}

#[repr(C)]
struct Element {
    map_fd: u32,
    unused: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// A program to be loaded.
pub(crate) struct NewProgram<'a> {
    pub(crate) name: &'a str,
    pub(crate) kind: u32,
    pub(crate) instructions: &'a [bpf_insn],
    pub(crate) license: &'a CStr,
    /// For struct_ops: the structure, and which member of it.
    pub(crate) member: Option<(u32, u32)>,
}

#[repr(C)]
#[derive(Default)]
struct Load {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
    prog_btf_fd: u32,
    func_info_rec_size: u32,
    func_info: u64,
    func_info_cnt: u32,
    line_info_rec_size: u32,
    line_info: u64,
    line_info_cnt: u32,
    attach_btf_id: u32,
}

#[repr(C)]
#[derive(Default)]
struct Types {
    btf: u64,
    log_buf: u64,
    size: u32,
    log_size: u32,
    log_level: u32,
    unused: u32,
}

#[repr(C)]
#[derive(Default)]
struct Id {
    id: u32,
    next: u32,
    flags: u32,
}

#[repr(C)]
struct InfoRequest {
    fd: u32,
    len: u32,
    info: u64,
}

/// What the kernel says of a map.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct MapInfo {
    pub(crate) kind: u32,
    pub(crate) id: u32,
    pub(crate) key_size: u32,
    pub(crate) value_size: u32,
    max_entries: u32,
    flags: u32,
    name: [u8; 16],
}

impl MapInfo {
    pub(crate) fn name(&self) -> String {
        text(&self.name)
    }
}

#[repr(C)]
#[derive(Default)]
struct ProgramInfo {
    kind: u32,
    id: u32,
    tag: [u8; 8],
    jited_len: u32,
    xlated_len: u32,
    jited: u64,
    xlated: u64,
    load_time: u64,
    uid: u32,
    maps: u32,
    map_ids: u64,
}

/// Bytes up to the first zero.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Makes a map.
pub(crate) fn create_map(name: &str, map: &NewMap) -> io::Result<OwnedFd> {
    let structure = map.structure.as_ref();
    let mut create = Create {
        map_type: map.kind,
        key_size: map.key_size,
        value_size: map.value_size,
        max_entries: map.max_entries,
        map_flags: map.flags,
        map_name: kernel_name(name),
        btf_fd: structure.map_or(0, |(types, _)| types.as_raw_fd() as u32),
        btf_vmlinux_value_type_id: structure.map_or(0, |(_, id)| *id),
        ..Create::default()
    };
    // SAFETY: the structure holds no address.
    let fd = unsafe { bpf(MAP_CREATE, &mut create) }?;
    Ok(own(fd))
}

/// Sets the value of a key.
pub(crate) fn update(map: &OwnedFd, key: &[u8], value: &[u8]) -> io::Result<()> {
    expect_sizes(map, key, Some(value.len()))?;
    let mut element = element(map, key, value.as_ptr() as u64);
    // SAFETY: key and value are as long as the map says (checked above) and outlive the call,
    // which only reads them.
    unsafe { bpf(MAP_UPDATE_ELEM, &mut element) }.map(|_| ())
}

/// The value of a key.
pub(crate) fn lookup(map: &OwnedFd, key: &[u8]) -> io::Result<Vec<u8>> {
    let len = expect_sizes(map, key, None)?;
    let mut value = vec![0; len];
    let mut element = element(map, key, value.as_mut_ptr() as u64);
    // SAFETY: the key is as long as the map says (checked above), `value` has room for what it
    // says, both outlive the call. The maps asked have one value a key, not one a processor.
    unsafe { bpf(MAP_LOOKUP_ELEM, &mut element) }?;
    Ok(value)
}

/// Removes a key.
pub(crate) fn delete(map: &OwnedFd, key: &[u8]) -> io::Result<()> {
    expect_sizes(map, key, None)?;
    let mut element = element(map, key, 0);
    // SAFETY: the key is as long as the map says (checked above) and outlives the call.
    unsafe { bpf(MAP_DELETE_ELEM, &mut element) }.map(|_| ())
}

/// The keys of a map, `limit` at most.
pub(crate) fn keys(map: &OwnedFd, limit: usize) -> io::Result<Vec<Vec<u8>>> {
    let info = map_info(map)?;
    let mut keys: Vec<Vec<u8>> = Vec::new();
    while keys.len() < limit {
        let mut next = vec![0; info.key_size as usize];
        let last = keys.last().map_or(0, |key| key.as_ptr() as u64);
        let mut element = Element {
            map_fd: map.as_raw_fd() as u32,
            unused: 0,
            key: last,
            value: next.as_mut_ptr() as u64,
            flags: 0,
        };
        // SAFETY: `last` is none or a key of the map's own length, `next` has room for one; both
        // outlive the call.
        match unsafe { bpf(MAP_GET_NEXT_KEY, &mut element) } {
            Ok(_) => keys.push(next),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(keys)
}

/// Nobody in user space can change it any more.
pub(crate) fn freeze(map: &OwnedFd) -> io::Result<()> {
    let mut id = Id { id: map.as_raw_fd() as u32, ..Id::default() };
    // SAFETY: the structure holds no address.
    unsafe { bpf(MAP_FREEZE, &mut id) }.map(|_| ())
}

/// Loads a program; if it is refused, with the end of the verifier's reasons.
pub(crate) fn load_program(new: &NewProgram<'_>) -> Result<OwnedFd, (io::Error, String)> {
    let (attach_btf_id, member) = new.member.unwrap_or_default();
    let mut load = Load {
        prog_type: new.kind,
        insn_cnt: new.instructions.len() as u32,
        insns: new.instructions.as_ptr() as u64,
        license: new.license.as_ptr() as u64,
        prog_name: kernel_name(new.name),
        expected_attach_type: member,
        attach_btf_id,
        ..Load::default()
    };
    // SAFETY: instructions and licence (which ends in a zero) outlive the call, which only reads
    // them, and the count is theirs.
    let first = unsafe { bpf(PROG_LOAD, &mut load) };
    let error = match first {
        Ok(fd) => return Ok(own(fd)),
        Err(error) => error,
    };
    let mut log = vec![0u8; LOG_BYTES];
    (load.log_level, load.log_size, load.log_buf) = (1, LOG_BYTES as u32, log.as_mut_ptr() as u64);
    // SAFETY: as above, and the log has the room that is stated.
    match unsafe { bpf(PROG_LOAD, &mut load) } {
        Ok(fd) => Ok(own(fd)),
        Err(_) => Err((error, text(&log))),
    }
}

/// Loads a description of types.
pub(crate) fn load_types(btf: &[u8]) -> io::Result<OwnedFd> {
    let mut types = Types { btf: btf.as_ptr() as u64, size: btf.len() as u32, ..Types::default() };
    // SAFETY: the bytes outlive the call, which only reads them.
    let fd = unsafe { bpf(BTF_LOAD, &mut types) }?;
    Ok(own(fd))
}

/// The ids of all maps of the host, from `after` on: the next one.
pub(crate) fn next_map(after: u32) -> io::Result<Option<u32>> {
    let mut id = Id { id: after, ..Id::default() };
    // SAFETY: the structure holds no address.
    match unsafe { bpf(MAP_GET_NEXT_ID, &mut id) } {
        Ok(_) => Ok(Some(id.next)),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A map by its id.
pub(crate) fn map(id: u32) -> io::Result<OwnedFd> {
    let mut id = Id { id, ..Id::default() };
    // SAFETY: the structure holds no address.
    unsafe { bpf(MAP_GET_FD_BY_ID, &mut id) }.map(own)
}

/// A program by its id.
pub(crate) fn program(id: u32) -> io::Result<OwnedFd> {
    let mut id = Id { id, ..Id::default() };
    // SAFETY: the structure holds no address.
    unsafe { bpf(PROG_GET_FD_BY_ID, &mut id) }.map(own)
}

/// What the kernel says of a map.
pub(crate) fn map_info(map: &OwnedFd) -> io::Result<MapInfo> {
    let mut info = MapInfo::default();
    // SAFETY: `MapInfo` is what the kernel's bpf_map_info begins with, all of it integers.
    unsafe { describe(map, &mut info) }?;
    Ok(info)
}

/// The ids of the maps that a program uses.
pub(crate) fn maps_of(program: &OwnedFd) -> io::Result<Vec<u32>> {
    let mut ids = vec![0u32; MAPS_LIMIT];
    let mut info = ProgramInfo {
        maps: MAPS_LIMIT as u32,
        map_ids: ids.as_mut_ptr() as u64,
        ..ProgramInfo::default()
    };
    // SAFETY: `ProgramInfo` is what the kernel's bpf_prog_info begins with, all of it integers;
    // the one address that it holds has the room stated beside it.
    unsafe { describe(program, &mut info) }?;
    ids.truncate(info.maps as usize);
    Ok(ids)
}

/// The clock of bpf_ktime_get_ns(), ns.
pub(crate) fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a timespec that the call may write.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// What the kernel says of an object.
///
/// # Safety
/// `T` is the beginning of the structure that the kernel writes for this kind of object; any bytes
/// are a `T`; addresses in it have the room that it states.
unsafe fn describe<T>(object: &OwnedFd, info: &mut T) -> io::Result<()> {
    let mut request = InfoRequest {
        fd: object.as_raw_fd() as u32,
        len: size_of::<T>() as u32,
        info: std::ptr::from_mut(info) as u64,
    };
    // SAFETY: the kernel writes `len` bytes at most; the rest is the caller's promise.
    unsafe { bpf(OBJ_GET_INFO_BY_FD, &mut request) }.map(|_| ())
}

/// The length of a value, after a check that key and value are as long as the map's.
fn expect_sizes(map: &OwnedFd, key: &[u8], value: Option<usize>) -> io::Result<usize> {
    let info = map_info(map)?;
    let len = info.value_size as usize;
    if key.len() != info.key_size as usize || value.is_some_and(|value| value != len) {
        let text =
            format!("map {} has keys of {} and values of {len} bytes", info.name(), info.key_size);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(len)
}

fn element(map: &OwnedFd, key: &[u8], value: u64) -> Element {
    let map_fd = map.as_raw_fd() as u32;
    Element { map_fd, unused: 0, key: key.as_ptr() as u64, value, flags: 0 }
}

fn kernel_name(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (to, from) in bytes[..NAME_LEN].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    bytes
}

fn own(fd: libc::c_long) -> OwnedFd {
    // SAFETY: the kernel has just given us this descriptor (it answered with success to a command
    // that makes one), and nobody else knows it.
    unsafe { OwnedFd::from_raw_fd(fd as i32) }
}

/// # Safety
/// `attr` is what `command` reads, or its beginning, and what it points at is valid for it.
unsafe fn bpf<T>(command: libc::c_int, attr: &mut T) -> io::Result<libc::c_long> {
    // SAFETY: the address and length are those of `attr`; the rest is the caller's promise.
    let done =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<T>()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done) }
}
