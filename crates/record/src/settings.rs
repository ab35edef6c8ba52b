//! What the configuration says of recording: whether, for how long, where, and with whose names.

use std::path::{Path, PathBuf};
use tabane_config::quantity::Time;
use tabane_engine::Duration;

/// How an agent records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordSettings {
    /// How long files are kept.
    pub keep: Duration,
    /// Where they are.
    pub folder: PathBuf,
    /// Whether names of clients and destinations may be in them.
    pub names: bool,
}

/// A file is kept at least so long.
const KEEP_MIN: Duration = Duration::from_secs(3600);
/// And at most so long, days.
const DAYS_MAX: u64 = 366;
/// Where the configurations of the system are, and what StateDirectory= gives their units.
const SYSTEM_CONFIGS: &str = "/etc/tabane";
const SYSTEM_STATE: &str = "/var/lib";

impl RecordSettings {
    /// What a configuration says (`record`, `record_folder`, `record_names`), whose file is
    /// `config`; `None`: nothing is recorded.
    #[must_use]
    pub fn of(
        record: Option<&str>,
        (folder, names): (Option<&Path>, bool),
        config: Option<&Path>,
    ) -> Option<Self> {
        let keep = keep(record?).ok()?;
        let state = std::env::var_os("STATE_DIRECTORY").filter(|folder| !folder.is_empty());
        // systemd may name several, with colons between them.
        let state = state.map(|folder| {
            let text = folder.to_string_lossy().into_owned();
            PathBuf::from(text.split(':').next().unwrap_or_default())
        });
        let usual = || usual_folder(config.unwrap_or(Path::new("agent")), state.as_deref());
        Some(Self { keep, folder: folder.map_or_else(usual, Path::to_owned), names })
    }
}

/// `"7 days"`, `"36 h"`.
///
/// # Errors
/// What to write, for people.
pub fn keep(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is no time to keep: \"7 days\" or \"12 h\"");
    let days = text.strip_suffix("days").or_else(|| text.strip_suffix("day"));
    let keep = match days.or_else(|| text.strip_suffix('d')) {
        Some(days) => {
            let days: u64 = days.trim().parse().map_err(|_| wrong())?;
            Duration::from_secs(days.min(DAYS_MAX + 1) * 86_400)
        }
        None => text.parse::<Time>().map_err(|_| wrong())?.0,
    };
    if keep < KEEP_MIN || keep > Duration::from_secs(DAYS_MAX * 86_400) {
        return Err(format!("a recording is kept for an hour to {DAYS_MAX} days"));
    }
    Ok(keep)
}

/// Where an agent whose configuration is `config` records, if it names no folder: what systemd
/// gives it (`state`), which for configurations of the system is found without being told; else
/// beside the configuration.
#[must_use]
pub fn usual_folder(config: &Path, state: Option<&Path>) -> PathBuf {
    if let Some(state) = state {
        return state.join("record");
    }
    let stem = config.file_stem().unwrap_or_default().to_string_lossy();
    if config.parent() == Some(Path::new(SYSTEM_CONFIGS)) {
        let unit = match &*stem {
            "server" => "tabane-server".to_owned(),
            name => format!("tabane-client-{name}"),
        };
        return Path::new(SYSTEM_STATE).join(unit).join("record");
    }
    config.with_file_name(format!("{stem}.record"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_hours() {
        assert_eq!(keep("7 days"), Ok(Duration::from_secs(7 * 86_400)));
        assert_eq!(keep("1day"), Ok(Duration::from_secs(86_400)));
        assert_eq!(keep("36 h"), Ok(Duration::from_secs(36 * 3600)));
        for wrong in ["7", "days", "week", "-1 days", "10 min", "400 days", "99999999999999 days"] {
            assert!(keep(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn where_services_and_people_record() {
        let folder = |config: &str, state: Option<&str>| {
            let folder = usual_folder(Path::new(config), state.map(Path::new));
            folder.to_string_lossy().into_owned()
        };
        assert_eq!(folder("/run/c/home.toml", Some("/var/lib/t")), "/var/lib/t/record");
        let system = folder("/etc/tabane/home.toml", None);
        assert_eq!(system, "/var/lib/tabane-client-home/record");
        assert_eq!(folder("/etc/tabane/server.toml", None), "/var/lib/tabane-server/record");
        assert_eq!(folder("/srv/u/client.toml", None), "/srv/u/client.record");
    }
}
