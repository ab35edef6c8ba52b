//! The control socket: what the command line asks a running agent, one JSON object a line.
//!
//! A line is a [`Request`](crate::request_channel::Request), `{"ask":"status"}`, and is answered by
//! one line, an [`Answer`](crate::request_channel::Answer); or it is `{"ask":"follow","since":0}`,
//! which is answered by lines of events, from those that are remembered on, until the asker hangs
//! up. `ControlSocket` is the agent's end, [`client::Client`] the other, [`place`] says where
//! sockets are. Who may connect is the file system's matter: mode 0600, in a folder of the agent's
//! user.

pub mod client;
mod line;
pub mod place;
mod server;

#[cfg(test)]
pub(crate) use client::{Client, ClientError};
pub(crate) use place::Places;
#[cfg(test)]
pub(crate) use server::ControlError;
pub(crate) use server::ControlSocket;

/// Clients at a time; one more is told so and hung up on.
pub(crate) const CLIENTS_MAX: usize = 16;
/// Longest question, bytes; what is longer is answered with an error and the end of the client.
/// `configure` carries a whole configuration, whose lines JSON makes a little longer.
pub(crate) const QUESTION_MAX: usize = 10 << 20;
/// Longest answer that a client takes, bytes: 10 000 connections with a few subflows each.
pub(crate) const ANSWER_MAX: usize = 64 << 20;
