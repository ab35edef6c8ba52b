//! One question at a time to the kernel over netlink (`rtnetlink(7)`): sent, and its answers taken
//! to the acknowledgement or the end of a dump. It waits meanwhile, so it is for starts and ends,
//! and for programs that have nothing else to do. Messages are those of the crate `rtnetlink`.

use rtnetlink::packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::io;
use std::net::IpAddr;

/// The kernel could not list everything as it was at one time (netlink(7)).
pub const NLM_F_DUMP_INTR: u16 = 0x10;
/// After so many lists that changed while they were written, the last one has to do.
const LISTINGS_MAX: usize = 8;

/// A connection to the kernel of the network namespace that it was opened in.
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// Opens it.
    ///
    /// # Errors
    /// Where there is no netlink (a sandbox, another system).
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Asks for a change, with `flags` as NLM_F_CREATE.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn change(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.request(message, NLM_F_ACK | flags).map(|_| ())
    }

    /// Gives an interface an address, unless it has it.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn add_address(&mut self, index: u32, address: IpAddr, prefix_len: u8) -> io::Result<()> {
        let mut message = AddressMessage::default();
        message.header.family = match address {
            IpAddr::V4(_) => AddressFamily::Inet,
            IpAddr::V6(_) => AddressFamily::Inet6,
        };
        (message.header.prefix_len, message.header.index) = (prefix_len, index);
        message.attributes =
            vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
        self.change(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// Sends a request, with `flags` as NLM_F_DUMP, and takes its answers. A list that changed
    /// while the kernel wrote it, of which some may be missing, is asked for again.
    ///
    /// # Errors
    /// What the kernel answers; [`io::ErrorKind::InvalidData`] if that cannot be read.
    pub fn request(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> io::Result<Vec<RouteNetlinkMessage>> {
        for _ in 1..LISTINGS_MAX {
            let (answers, whole) = self.request_once(message.clone(), flags)?;
            if whole {
                return Ok(answers);
            }
        }
        Ok(self.request_once(message, flags)?.0)
    }

    /// The answers, and whether nothing changed while they were written.
    fn request_once(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> io::Result<(Vec<RouteNetlinkMessage>, bool)> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::from(message));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let (mut answers, mut whole) = (Vec::new(), true);
        loop {
            let (datagram, _) = self.socket.recv_from_full()?;
            let mut rest = &datagram[..];
            while !rest.is_empty() {
                let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                    .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))?;
                // Messages are aligned to four bytes.
                let len = (answer.header.length as usize).next_multiple_of(4).max(16);
                rest = rest.get(len..).unwrap_or_default();
                if answer.header.sequence_number != self.sequence {
                    continue;
                }
                whole &= answer.header.flags & NLM_F_DUMP_INTR == 0;
                match answer.payload {
                    NetlinkPayload::Done(_) => return Ok((answers, whole)),
                    NetlinkPayload::Error(error) if error.code.is_some() => {
                        return Err(error.to_io());
                    }
                    NetlinkPayload::Error(_) => return Ok((answers, whole)),
                    NetlinkPayload::InnerMessage(message) => answers.push(message),
                    _ => {}
                }
            }
        }
    }
}
