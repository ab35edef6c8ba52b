//! What an agent is told: one TOML file a role.
//!
//! The plain structs with their defaults are in `client`, `server` and `rule`. `load` reads
//! files, with line and remedy for what is wrong, and what the environment lays over them;
//! `matching` answers which policies some traffic has; `changes` says what a reload can do.

pub(crate) mod changes;
mod check;
pub(crate) mod client;
pub(crate) mod load;
pub(crate) mod matching;
pub(crate) mod next;
mod overrides;
pub(crate) mod rule;
pub(crate) mod secret;
pub(crate) mod server;
pub mod source;
pub(crate) mod udp_mode;

pub(crate) use changes::{ClientChange, ClientPart, PathChange, ServerPart, reloaded};
pub use client::ClientConfig;
pub use client::ListenerConfig;
pub use client::PathConfig;
pub use client::ServerEntry;
pub use client::TunConfig;
pub use load::ConfigError;
pub use load::Configuration;
pub use load::Loaded;
pub use load::default_file;
pub use load::environment;
pub use load::parse;
pub use load::read;
pub(crate) use matching::Choice;
pub(crate) use matching::{Protocol, Rules};
pub use next::NextConfig;
pub use rule::Policies;
pub use rule::Rule;
pub(crate) use secret::Secret;
pub use server::AccessConfig;
pub use server::ClientEntry;
pub use server::ClientLimits;
pub(crate) use server::InvitationEntry;
pub use server::ServerConfig;
pub use source::ConfigFile;
pub(crate) use source::Service;
pub use source::Source;
pub use udp_mode::{Protect, UdpMode};

#[cfg(test)]
mod tests;
