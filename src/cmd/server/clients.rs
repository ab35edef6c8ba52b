//! `tabane server list`, and `remove NAME`, `disable NAME`, `enable NAME`: at once at a server that
//! runs from the file.

use crate::cmd::running::tell_server;
use crate::exit::Failure;
use crate::say;
use serde::Serialize;
use tabane_gateway::address::ClientNumber;
use tabane_gateway::config::ServerConfig;
use tabane_gateway::invite::{change, remove_client, switch_client};

/// Name the clients.
#[derive(clap::Args, Debug)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    file: super::File,
    /// One JSON document.
    #[arg(long)]
    json: bool,
}

/// Remove a client: its keys are worth nothing any more.
#[derive(clap::Args, Debug)]
pub(crate) struct RemoveArgs {
    /// Its name.
    name: String,
    #[command(flatten)]
    file: super::File,
}

/// Refuse a client, or let it in again.
#[derive(clap::Args, Debug)]
pub(crate) struct SwitchArgs {
    /// Its name.
    name: String,
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
}

/// Prints the clients.
///
/// # Errors
/// When the file is wrong.
pub(super) fn list(args: &ListArgs) -> Result<(), Failure> {
    let config = super::super::config::load::<ServerConfig>(&args.file.config)?.config;
    let rows: Vec<Row<'_>> = config
        .client
        .iter()
        .map(|client| Row {
            name: &client.name,
            number: client.number,
            address: config.inner().path(ClientNumber(client.number), 0)[0].to_string(),
            preshared: client.preshared_key.is_some(),
            disabled: client.disabled,
        })
        .collect();
    if args.json {
        return say::print(&serde_json::to_string_pretty(&rows).map_err(anyhow::Error::new)?);
    }
    let mut lines = vec![format!("{:<24} {:>6}  {:<16}", "name", "number", "inner address")];
    lines.extend(rows.iter().map(|row| {
        let disabled = if row.disabled { "disabled" } else { "" };
        format!("{:<24} {:>6}  {:<16} {disabled}", row.name, row.number, row.address)
    }));
    let lines: Vec<_> = lines.iter().map(|line| line.trim_end()).collect();
    say::print(&lines.join("\n"))
}

/// Removes a client.
///
/// # Errors
/// When there is none of that name.
pub(super) fn remove(args: &RemoveArgs) -> Result<(), Failure> {
    change(&args.file.config, |text, _| Ok((remove_client(text, &args.name)?, ())))
        .map_err(super::failure)?;
    let file = args.file.config.display();
    tell_server(&args.file.config, &format!("'{}' is no longer in {file}", args.name))
}

/// Switches a client on or off.
///
/// # Errors
/// When there is none of that name.
pub(super) fn switch(args: &SwitchArgs, on: bool) -> Result<(), Failure> {
    change(&args.file.config, |text, _| Ok((switch_client(text, &args.name, on)?, ())))
        .map_err(super::failure)?;
    let (file, state) = (args.file.config.display(), if on { "enabled" } else { "disabled" });
    tell_server(&args.file.config, &format!("'{}' is {state} in {file}", args.name))
}
