//! The units themselves: texts of `packaging/systemd`, with the program's place filled in.

/// Where an administrator's units are; a package moves them to its own place.
pub(super) const FOLDER: &str = "/etc/systemd/system";
/// Where units are linked that start by themselves.
pub(super) const WANTED: &str = "/etc/systemd/system/multi-user.target.wants";
/// The files in [`FOLDER`].
pub(super) const NAMES: [&str; 2] = ["tabane-server.service", "tabane-client@.service"];
/// In the folder of a client that has a TUN device.
pub(super) const DROP_IN: &str = "tun.conf";

const SERVER: &str = include_str!("../../../packaging/systemd/tabane-server.service");
const CLIENT: &str = include_str!("../../../packaging/systemd/tabane-client@.service");
const TUN: &str = include_str!("../../../packaging/systemd/tun.conf");

/// What units depend on.
pub(super) struct Choices<'a> {
    pub(super) binary: String,
    /// Clients that have a TUN device.
    pub(super) tun: &'a [String],
    /// The server listens below 1024.
    pub(super) low_ports: bool,
}

/// A file.
pub(super) struct Unit {
    pub(super) path: String,
    pub(super) text: String,
}

/// All files.
pub(super) fn all(choices: &Choices<'_>) -> Vec<Unit> {
    let fill = |text: &str, capability: &str| {
        let lines = match capability {
            "" => "CapabilityBoundingSet=\n".to_owned(),
            name => format!("AmbientCapabilities={name}\nCapabilityBoundingSet={name}\n"),
        };
        text.replace("@BINARY@", &choices.binary).replace("@CAPABILITIES@\n", &lines)
    };
    let low = if choices.low_ports { "CAP_NET_BIND_SERVICE" } else { "" };
    let texts = [fill(SERVER, low), fill(CLIENT, "")];
    let units = NAMES.iter().zip(texts);
    let units = units.map(|(name, text)| Unit { path: format!("{FOLDER}/{name}"), text });
    let drop_ins = choices.tun.iter().map(|client| Unit {
        path: format!("{FOLDER}/tabane-client@{client}.service.d/{DROP_IN}"),
        text: TUN.to_owned(),
    });
    units.chain(drop_ins).collect()
}

/// Whether a folder of [`FOLDER`] may hold a [`DROP_IN`] of ours.
pub(super) fn is_drop_in(name: &str) -> bool {
    name.starts_with("tabane-client@") && name.ends_with(".service.d")
}
