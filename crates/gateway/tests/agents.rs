//! A client agent and a server agent on loopback, with programs and servers on both sides: what
//! each of them sees, in good times and bad.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // Helpers of tests; the clock is real.

mod agents {
    mod bed;

    mod chain;
    mod changes;
    mod datagrams;
    mod enrolment;
    mod faults;
    mod floods;
    mod http;
    mod intruders;
    mod programs;
    mod reload;
    mod restart;
    mod revocation;
    mod roles;
    mod soak;
    mod wire;
}
