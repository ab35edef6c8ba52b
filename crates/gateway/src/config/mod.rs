//! What an agent is told: one TOML file a role.
//!
//! The plain structs with their defaults are in `client`, `server` and `rule`. `load` reads
//! files, with line and remedy for what is wrong, and what the environment lays over them;
//! `matching` answers which policies some traffic has; `changes` says what a reload can do.

pub(crate) mod changes;
mod check;
pub mod client;
pub mod lan;
pub mod load;
pub(crate) mod matching;
pub(crate) mod next;
mod overrides;
pub mod rule;
pub(crate) mod secret;
pub mod server;
pub mod source;
mod udp_mode;

pub(crate) use changes::{ClientChange, ClientPart, PathChange, ServerPart, reloaded};
pub(crate) use client::{ClientConfig, ListenerConfig, PathConfig, ServerEntry, TunConfig};
pub(crate) use lan::{LanConfig, WhenDown};
pub(crate) use load::{ConfigError, Configuration, Loaded, environment, parse_copy, read};
pub(crate) use matching::{Choice, Protocol, Rules};
pub(crate) use next::NextConfig;
pub(crate) use rule::{Policies, Protect, Rule, UdpMode};
pub(crate) use secret::Secret;
pub(crate) use server::{AccessConfig, ClientEntry, ClientLimits, InvitationEntry, ServerConfig};
pub(crate) use source::{Service, Source, TEXT_MAX};

#[cfg(test)]
mod tests;
