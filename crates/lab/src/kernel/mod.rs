//! A host whose stack is the kernel: sockets, and what the kernel says about them.

mod host;
mod info;
mod socket;

pub(crate) use host::KernelHost;
pub(crate) use socket::has_mptcp;
