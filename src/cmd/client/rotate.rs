//! `tabane client rotate`: other keys for a client that has joined.

use crate::cmd::{config, lifetime};
use crate::exit::Failure;
use crate::say;
use anyhow::{Context, anyhow};
use std::path::{Path, PathBuf};
use tabane_gateway::config::client::{ClientConfig, ServerEntry};
use tabane_gateway::config::load::{Loaded, default_file};
use tabane_gateway::enrol::{ExchangeError, KEEP_MAX_S, end_former, rotate};
use tabane_gateway::invite::edit::replace_client_keys;
use tabane_gateway::keys::{Key, write_private};

/// Make new keys and register them at the server; the old ones stay valid for a while.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "A running client uses the old keys until it is restarted. They stay valid \
for the time that --keep states; then they are revoked. If somebody else may have them, use \
--keep 0s and restart the client at once.

If a server does not answer, nothing changes here; run the same command again to continue (the \
new keys wait in FILE.next). Until all have answered, none ends the old keys (for 30 days)."
)]
pub(crate) struct Args {
    /// Its configuration.
    #[arg(short, long, value_name = "FILE", default_value_os_t = default_file("client"))]
    config: PathBuf,
    /// How long the old keys stay valid beside the new ones.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = lifetime::seconds)]
    keep: u64,
}

/// Changes the keys.
///
/// # Errors
/// When the client has not joined with keys of its own, or a server does not answer.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let name = args.config.display();
    let now = config::load::<ClientConfig>(&args.config)?;
    check(&now.config)?;
    let text = std::fs::read_to_string(&args.config).with_context(|| name.to_string())?;
    let next = next_file(&args.config);
    let resumed = next.try_exists().unwrap_or(false);
    if resumed {
        say::note(&format!("going on with the keys in {}", next.display()));
    } else {
        write_private(&next, &renewed(&text, &now)?, false)
            .with_context(|| format!("{} cannot be written", next.display()))?;
    }
    let new = config::load::<ClientConfig>(&next)?;
    // With several servers, one that is silent leaves the client with its old keys: the others must
    // not end them meanwhile.
    let several = now.config.server.len() > 1;
    let keep = if several { KEEP_MAX_S } else { args.keep };
    let silent = tell_each(&now.config, &next, |server| {
        let before = preshared_of(&now.config, server)?;
        let after = preshared_of(&new.config, server)?;
        let keys = ((&now.key, &before), (&new.key, &after));
        Ok(rotate(server, now.config.number, keys.0, keys.1, keep).map_err(anyhow::Error::new)?)
    })?;
    if !silent.is_empty() {
        return Err(anyhow!("{silent}; {name} stays as it is, try again").into());
    }
    let preshared = preshared(&now.config, &new.config)?;
    let text = replace_client_keys(&text, &new.key, &preshared).map_err(anyhow::Error::new)?;
    write_private(&args.config, &text, true).with_context(|| name.to_string())?;
    // What began with several may go on with one: who is given up is taken out of the file.
    if several || resumed {
        let silent = tell_each(&now.config, &next, |server| {
            let keys = (&new.key, &preshared_of(&new.config, server)?);
            let ended = end_former(server, now.config.number, keys, args.keep);
            Ok(ended.map_err(anyhow::Error::new)?)
        })?;
        if !silent.is_empty() {
            let text = format!("{name} has the new keys, but {silent}: the old ones stay valid");
            return Err(anyhow!("{text} there for up to 30 days; try again to end them").into());
        }
    }
    std::fs::remove_file(&next).with_context(|| next.display().to_string())?;
    let keep = lifetime::text(args.keep);
    say::note(&format!(
        "{name} has the new keys; those before are valid for {keep} more.\n\
         next: start the client again, if it runs (systemctl restart tabane-client@NAME)"
    ));
    Ok(())
}

/// Asks each server; what those say that do not answer.
fn tell_each(
    config: &ClientConfig,
    next: &Path,
    tell: impl Fn(&ServerEntry) -> Result<Result<(), ExchangeError>, Failure>,
) -> Result<String, Failure> {
    let mut silent = Vec::new();
    for server in &config.server {
        match tell(server)? {
            Ok(()) => {}
            Err(ExchangeError::Refused(why)) => {
                let text = format!("{}: the server refuses: {why}", server.addresses[0]);
                return Err(anyhow!("{text}; remove {} to begin anew", next.display()).into());
            }
            Err(error) => silent.push(error.to_string()),
        }
    }
    Ok(silent.join("; "))
}

/// Whether the client can change its keys itself.
fn check(config: &ClientConfig) -> Result<(), Failure> {
    if config.secret.is_none() {
        let text = "the secret is in a file of its own ('secret_file'): put it into the \
                    configuration as 'secret', where it can be replaced together with the rest";
        return Err(Failure::usage(text));
    }
    for server in &config.server {
        let name = server.addresses.first().map_or("a server", String::as_str);
        if server.key_version != Some(2) || server.preshared_key.is_none() {
            return Err(Failure::usage(format!(
                "{name} has made this client's keys itself (an old invitation): ask there for \
                 `tabane server invite NAME --replace`, then `tabane client join --force`"
            )));
        }
    }
    Ok(())
}

/// The configuration with other keys.
fn renewed(text: &str, now: &Loaded<ClientConfig>) -> Result<String, Failure> {
    let random = || Key::random().map_err(anyhow::Error::new);
    let secret = random()?;
    let preshared: Result<Vec<Key>, _> = now.config.server.iter().map(|_| random()).collect();
    Ok(replace_client_keys(text, &secret, &preshared?).map_err(anyhow::Error::new)?)
}

/// The new preshared keys, in the order of the servers in the file now.
fn preshared(now: &ClientConfig, new: &ClientConfig) -> Result<Vec<Key>, Failure> {
    now.server.iter().map(|server| preshared_of(new, server)).collect()
}

fn preshared_of(config: &ClientConfig, server: &ServerEntry) -> Result<Key, Failure> {
    let same = |other: &&ServerEntry| other.public_key == server.public_key;
    let key = config.server.iter().find(same).and_then(|other| other.preshared_key.as_deref());
    let text = "the servers have changed since: remove FILE.next, and say it again";
    let key = key.ok_or_else(|| Failure::usage(text))?;
    Ok(key.parse().map_err(anyhow::Error::new)?)
}

fn next_file(config: &Path) -> PathBuf {
    let mut name = config.as_os_str().to_owned();
    name.push(".next");
    name.into()
}
