//! Classifiers at clsact egress, by netlink (tc-bpf(8)): put there, found, and taken away.

use crate::Error;
use rtnetlink::packet_core::{NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::tc::{
    TcAttribute, TcBpfFlags, TcFilterBpfOption, TcHandle, TcMessage, TcOption,
};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use tabane_net::netlink::Netlink;

/// A filter of ours.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Filter {
    pub(super) interface: u32,
    /// What it was called when it was put there.
    pub(super) name: String,
    /// Of its program.
    pub(super) program: u32,
    handle: TcHandle,
    info: u32,
}

const EGRESS: TcHandle = TcHandle { major: u16::MAX, minor: TcHandle::MIN_EGRESS };
/// Among the filters of an interface; lower ones see a packet first.
const PRIORITY: u32 = 1;
/// Every protocol, in the network's order.
const PROTOCOL_ALL: u16 = (libc::ETH_P_ALL as u16).to_be();
const KIND: &str = "bpf";

/// Makes the qdisc that filters hang on; `false` if it was there.
pub(super) fn make_clsact(netlink: &mut Netlink, interface: u32) -> Result<bool, Error> {
    let message = RouteNetlinkMessage::NewQueueDiscipline(clsact(interface));
    match netlink.change(message, NLM_F_CREATE | NLM_F_EXCL) {
        Ok(()) => Ok(true),
        Err(error) => match error.raw_os_error() {
            Some(libc::EEXIST) => Ok(false),
            Some(libc::ENOENT | libc::EOPNOTSUPP) => Err(Error::NoClsact { error }),
            _ => Err(Error::system("making the qdisc clsact", error)),
        },
    }
}

/// Takes the qdisc away, and whatever hangs on it.
pub(super) fn remove_clsact(netlink: &mut Netlink, interface: u32) -> Result<(), Error> {
    let message = RouteNetlinkMessage::DelQueueDiscipline(clsact(interface));
    gone(netlink.change(message, 0)).map_err(|e| Error::system("removing the qdisc clsact", e))
}

/// Hangs a program on the egress of an interface.
pub(super) fn add(
    netlink: &mut Netlink,
    interface: u32,
    name: &str,
    program: &OwnedFd,
) -> Result<(), Error> {
    let mut message = egress(interface);
    message.header.info = PRIORITY << 16 | u32::from(PROTOCOL_ALL);
    let options = [
        TcFilterBpfOption::ProgFd(program.as_raw_fd() as u32),
        TcFilterBpfOption::ProgName(name.to_owned()),
        TcFilterBpfOption::Flags(TcBpfFlags::DirectAction),
    ];
    message.attributes = vec![
        TcAttribute::Kind(KIND.to_owned()),
        TcAttribute::Options(options.map(TcOption::Bpf).into()),
    ];
    let message = RouteNetlinkMessage::NewTrafficFilter(message);
    netlink.change(message, NLM_F_CREATE | NLM_F_EXCL).map_err(|error| match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP) => Error::NoClassifier { error },
        _ => Error::system(format!("attaching {name}"), error),
    })
}

/// The BPF filters at the egress of an interface, ours and others'.
pub(super) fn list(netlink: &mut Netlink, interface: u32) -> Result<Vec<Filter>, Error> {
    let message = RouteNetlinkMessage::GetTrafficFilter(egress(interface));
    let answers = match netlink.request(message, NLM_F_DUMP) {
        // No qdisc that filters could hang on.
        Err(e) if matches!(e.raw_os_error(), Some(libc::EINVAL | libc::ENOENT)) => {
            return Ok(vec![]);
        }
        answers => answers.map_err(|e| Error::system("listing the filters", e))?,
    };
    Ok(answers.into_iter().filter_map(filter).collect())
}

/// Takes a filter away.
pub(super) fn remove(netlink: &mut Netlink, filter: &Filter) -> Result<(), Error> {
    let mut message = egress(filter.interface);
    message.header.handle = filter.handle;
    message.header.info = filter.info;
    message.attributes = vec![TcAttribute::Kind(KIND.to_owned())];
    let message = RouteNetlinkMessage::DelTrafficFilter(message);
    gone(netlink.change(message, 0))
        .map_err(|e| Error::system(format!("detaching {}", filter.name), e))
}

fn clsact(interface: u32) -> TcMessage {
    let mut message = TcMessage::with_index(interface as i32);
    message.header.parent = TcHandle::CLSACT;
    message.header.handle = TcHandle { major: u16::MAX, minor: 0 };
    message.attributes = vec![TcAttribute::Kind("clsact".to_owned())];
    message
}

fn egress(interface: u32) -> TcMessage {
    let mut message = TcMessage::with_index(interface as i32);
    message.header.parent = EGRESS;
    message
}

fn filter(answer: RouteNetlinkMessage) -> Option<Filter> {
    let RouteNetlinkMessage::NewTrafficFilter(message) = answer else { return None };
    let (mut name, mut program) = (None, None);
    for attribute in message.attributes {
        let TcAttribute::Options(options) = attribute else { continue };
        for option in options {
            match option {
                TcOption::Bpf(TcFilterBpfOption::ProgName(text)) => name = Some(text),
                TcOption::Bpf(TcFilterBpfOption::ProgId(id)) => program = Some(id),
                _ => {}
            }
        }
    }
    Some(Filter {
        interface: message.header.index as u32,
        name: name?,
        program: program?,
        handle: message.header.handle,
        info: message.header.info,
    })
}

/// What has gone by itself, with its interface, is gone all the same.
fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::ENODEV)) => Ok(()),
        other => other,
    }
}
