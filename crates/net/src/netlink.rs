//! One question at a time to the kernel over netlink (`rtnetlink(7)`): sent, and its answers taken
//! to the acknowledgement or the end of a dump. It waits meanwhile, so it is for starts and ends,
//! and for programs that have nothing else to do. Messages are those of the crate `rtnetlink`.

use rtnetlink::packet_core::{
    NLM_F_ACK, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::io;

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

    /// Sends a request, with `flags` as NLM_F_DUMP, and takes its answers.
    ///
    /// # Errors
    /// What the kernel answers; [`io::ErrorKind::InvalidData`] if that cannot be read.
    pub fn request(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::from(message));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let mut answers = Vec::new();
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
                match answer.payload {
                    NetlinkPayload::Done(_) => return Ok(answers),
                    NetlinkPayload::Error(error) if error.code.is_some() => {
                        return Err(error.to_io());
                    }
                    NetlinkPayload::Error(_) => return Ok(answers),
                    NetlinkPayload::InnerMessage(message) => answers.push(message),
                    _ => {}
                }
            }
        }
    }
}
