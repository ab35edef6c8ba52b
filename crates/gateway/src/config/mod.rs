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
mod source;

pub(crate) use changes::{ClientChange, ClientPart, PathChange, ServerPart, reloaded};
pub use client::{ClientConfig, ListenerConfig, PathConfig, ServerEntry, TunConfig};
pub(crate) use load::environment;
pub(crate) use load::read;
pub use load::{ConfigError, Configuration, Loaded, default_file, parse};
pub(crate) use matching::Choice;
pub(crate) use matching::{Protocol, Rules};
pub use next::NextConfig;
pub use rule::{Policies, Rule, UdpMode};
pub(crate) use secret::Secret;
pub(crate) use server::InvitationEntry;
pub use server::{AccessConfig, ClientEntry, ClientLimits, ServerConfig};
pub use source::{ConfigFile, Source};
pub(crate) use source::{Service, TEXT_MAX};

#[cfg(test)]
mod tests;
