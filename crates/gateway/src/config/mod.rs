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

pub(crate) use changes::{ClientChange, ClientPart, PathChange, ServerPart, reloaded};
pub use client::{ClientConfig, ListenerConfig, PathConfig, ServerEntry, TunConfig};
pub use load::{ConfigError, Configuration, Loaded, default_file, environment, parse, read};
pub use matching::Choice;
pub(crate) use matching::{Protocol, Rules};
pub use next::NextConfig;
pub use rule::{Policies, Rule, UdpMode};
pub(crate) use secret::Secret;
pub use server::{AccessConfig, ClientEntry, ClientLimits, InvitationEntry, ServerConfig};
pub use source::{ConfigFile, Service, Source};

#[cfg(test)]
mod tests;
