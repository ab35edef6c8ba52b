//! `tabane server list`, and `remove NAME`, `rename OLD NEW`, `disable NAME`, `enable NAME`: at
//! once at a server that runs from the file.

use crate::cmd::running::tell_server;
use crate::exit::Failure;
use crate::say;
use serde::Serialize;
use tabane_gateway::config::server::ClientEntry;
use tabane_gateway::config::server::ServerConfig;
use tabane_gateway::enrol;
use tabane_gateway::invite::edit::{ClientEdit, edit_client};

/// List the clients.
#[derive(clap::Args, Debug)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    file: super::File,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Remove a client; its keys are revoked.
#[derive(clap::Args, Debug)]
pub(crate) struct RemoveArgs {
    /// Its name.
    name: String,
    #[command(flatten)]
    file: super::File,
}

/// Refuse a client, or admit it again.
#[derive(clap::Args, Debug)]
pub(crate) struct SwitchArgs {
    /// Its name.
    name: String,
    #[command(flatten)]
    file: super::File,
}

/// Give a client another name.
#[derive(clap::Args, Debug)]
pub(crate) struct RenameArgs {
    /// Its name.
    name: String,
    /// The new one.
    new: String,
    #[command(flatten)]
    file: super::File,
}

/// A client as shown.
#[derive(Serialize)]
struct Row<'c> {
    name: &'c str,
    number: u16,
    /// First inner address of IPv4.
    address: String,
    preshared: bool,
    disabled: bool,
    keys: Keys,
    /// Seconds since 1970: since when it has its keys, or until when it may join.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<u64>,
}

/// Where a client's keys are from.
#[derive(Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Keys {
    /// It has made them itself.
    Own,
    /// It has none yet.
    Invited,
    /// It has none, and its invitation is over.
    Expired,
    /// The server has made them (an old invitation, or stock WireGuard).
    Server,
    /// It was invited; whether it has joined this user cannot read.
    Unknown,
}

impl Keys {
    fn of(client: &ClientEntry, known: bool, unix_s: u64) -> Self {
        match &client.invitation {
            None => Self::Server,
            Some(_) if client.enrolled.is_some() => Self::Own,
            Some(_) if !known => Self::Unknown,
            Some(invitation) if invitation.expires <= unix_s => Self::Expired,
            Some(_) => Self::Invited,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Own => "has joined",
            Self::Invited => "invited",
            Self::Expired => "invitation expired",
            Self::Server => "keys by server",
            Self::Unknown => "invited (state unreadable)",
        }
    }
}

/// Prints the clients.
///
/// # Errors
/// When the file is wrong.
pub(super) fn list(args: &ListArgs) -> Result<(), Failure> {
    let mut config = super::super::config::load::<ServerConfig>(&args.file.config)?.config;
    let state = config.state.clone().unwrap_or_else(|| super::usual_state(&args.file.config));
    let filled = enrol::fill(&mut config, &state);
    if let Err(error) = &filled {
        say::note(&format!("warning: {error}"));
    }
    let known = filled.is_ok();
    let unix_s = super::unix_s();
    let rows: Vec<Row<'_>> = config
        .client
        .iter()
        .map(|client| Row {
            name: &client.name,
            number: client.number,
            address: config.client_address(client.number).to_string(),
            preshared: client.preshared_key.is_some() || client.invitation.is_some(),
            disabled: client.disabled,
            keys: Keys::of(client, known, unix_s),
            since: client.enrolled.as_ref().map(|record| record.since),
            expires: client.invitation.as_ref().map(|invitation| invitation.expires),
        })
        .collect();
    if args.json {
        return say::print(&serde_json::to_string_pretty(&rows).map_err(anyhow::Error::new)?);
    }
    let mut lines = vec![format!("{:<24} {:>6}  {:<16} keys", "name", "number", "inner address")];
    lines.extend(rows.iter().map(|row| {
        let disabled = if row.disabled { ", disabled" } else { "" };
        let keys = row.keys.text();
        format!("{:<24} {:>6}  {:<16} {keys}{disabled}", row.name, row.number, row.address)
    }));
    let lines: Vec<_> = lines.iter().map(|line| line.trim_end()).collect();
    say::print(&lines.join("\n"))?;
    if rows.iter().any(|row| row.keys == Keys::Server) {
        say::note(
            "keys by server: right for stock WireGuard; a tabane client makes its own after \
             `tabane server invite NAME --replace` here and `tabane client join --force` there",
        );
    }
    Ok(())
}

/// Gives a client another name.
///
/// # Errors
/// When there is none of that name, or one of the new name.
pub(super) fn rename(args: &RenameArgs) -> Result<(), Failure> {
    let edit = ClientEdit::Rename(&args.new);
    edit_client(&args.file.config, &args.name, edit).map_err(super::failure)?;
    let (old, new, file) = (&args.name, &args.new, args.file.config.display());
    let changed = format!("'{old}' is '{new}' in {file}; its keys and its number stay");
    tell_server(&args.file.config, &changed)
}

/// Removes a client.
///
/// # Errors
/// When there is none of that name.
pub(super) fn remove(args: &RemoveArgs) -> Result<(), Failure> {
    edit_client(&args.file.config, &args.name, ClientEdit::Remove).map_err(super::failure)?;
    let file = args.file.config.display();
    tell_server(&args.file.config, &format!("'{}' is no longer in {file}", args.name))
}

/// Switches a client on or off.
///
/// # Errors
/// When there is none of that name.
pub(super) fn switch(args: &SwitchArgs, on: bool) -> Result<(), Failure> {
    let edit = if on { ClientEdit::Enable } else { ClientEdit::Disable };
    edit_client(&args.file.config, &args.name, edit).map_err(super::failure)?;
    let (file, state) = (args.file.config.display(), if on { "enabled" } else { "disabled" });
    tell_server(&args.file.config, &format!("'{}' is {state} in {file}", args.name))
}
