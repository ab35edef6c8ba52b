//! Datagrams through the tunnel: by one path, doubled, or spread and put in order again.
//!
//! Inside the tunnel a datagram is a plain IP packet. At the server `Flows` gives every source
//! address of a client a socket of its own, as a NAT does, and brings the replies back as packets;
//! pings too, where the system lets ordinary users send them. ECN and hop limits end at the server.
//!
//! A server that forwards gives the sources of its clients ports of its own instead (`Nat`).
//!
//! Which paths a datagram takes, `Sender` says by the mode of its rule. What goes by several is
//! numbered by `Tagger`; at the far end `Filter` removes copies and restores order. Both ends
//! have all three, one for each direction, in a `Dispatcher`.
//!
//! A packet longer than the path's largest is cut into fragments (`fragment`), which every IP
//! host puts together again; at ours `fragment::Reassembler` does. A host that forbids it (DF,
//! always in IPv6) and sends into a TUN device learns the size by ICMP instead
//! ([`tabane_wire::icmp::emit_too_big`]).

#[cfg(feature = "internals")]
pub(crate) mod bench;
pub(crate) mod bond;
mod by_use;
mod call;
mod dispatcher;
mod filter;
pub(crate) mod flows;
pub(crate) mod fragment;
mod generations;
mod kept;
mod nat;
mod order;
pub(crate) mod packet;
mod protect;
pub(crate) mod request;
mod sender;
mod sent;
mod tag;
mod wants;

pub(crate) use by_use::ByUse;
pub(crate) use dispatcher::{DatagramCounters, DatagramPath, Dispatcher, Outcome, PREFERRED, role};
pub(crate) use filter::Counters as FilterCounters;
pub(crate) use filter::Filter;
pub(crate) use filter::Verdict;
pub(crate) use flows::Flows;
pub(crate) use flows::Outside;
pub(crate) use flows::Refused;
pub(crate) use flows::no_pings;
pub(crate) use nat::{Nat, Sides};
pub(crate) use sender::Choice;
#[cfg(feature = "internals")]
pub(crate) use tag::Kind as TagKind;
pub(crate) use tag::Tagger;

#[cfg(test)]
mod tests;
