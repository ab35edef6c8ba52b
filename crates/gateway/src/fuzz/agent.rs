//! What a gateway is configured with: files of both agents, and invitations.

use crate::config::load::parse;
use crate::config::{ClientConfig, Configuration, ServerConfig};
use crate::invite::Invitation;

const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const OTHER: &str = "uRHCGeFjN+8uoyl4sLbve9ZB2C1z4GgBscZP+y2rknk=";

/// A client's file.
pub(crate) fn client_config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some(config) = file::<ClientConfig>(text) {
        config.rules().expect("what passed the checks compiles");
    }
}

/// A server's file.
pub(crate) fn server_config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    file::<ServerConfig>(text);
}

/// It is read, or refused with words for each fault; keys are in none of them.
fn file<C: Configuration>(text: &str) -> Option<C> {
    match parse::<C>("fuzz.toml", text, &[]) {
        Ok(loaded) => {
            for warning in &loaded.warnings {
                keeps_secrets(&warning.to_string());
            }
            Some(loaded.config)
        }
        Err(error) => {
            assert!(!error.0.is_empty(), "refused without a fault");
            keeps_secrets(&error.to_string());
            None
        }
    }
}

fn keeps_secrets(said: &str) {
    assert!(!said.trim().is_empty());
    assert!(!said.contains(KEY), "a key is shown: {said}");
}

/// Files with every part.
pub(crate) fn client_configs() -> Vec<Vec<u8>> {
    let plain = format!(
        "name = \"home\"\nnumber = 2\nsecret = \"{KEY}\"\n[[server]]\n\
         addresses = [\"vpn.example.org:51820\"]\npublic_key = \"{OTHER}\"\n\
         [[path]]\ninterface = \"eth0\"\n"
    );
    let full = format!(
        "{plain}[[path]]\nname = \"lte\"\ninterface = \"wwan0\"\nrole = \"backup\"\n\
         [[rule]]\nto = [\"10.0.0.0/8\"]\nports = [\"443\"]\nudp = \"duplicate\"\n"
    );
    vec![plain.into_bytes(), full.into_bytes()]
}

/// Likewise.
pub(crate) fn server_configs() -> Vec<Vec<u8>> {
    let plain = format!("private_key = \"{KEY}\"\nlisten = [\"0.0.0.0:51820\"]\n");
    let full = format!(
        "{plain}network = \"10.9.0.0\"\nnetwork6 = \"fd00:1:2:3::\"\n[[client]]\n\
         name = \"home\"\nnumber = 1\nkeys = [\"{OTHER}\"]\npreshared_key = \"{KEY}\"\n"
    );
    vec![plain.into_bytes(), full.into_bytes()]
}

/// An invitation: refused, or the same when printed, and good for a client's file.
pub(crate) fn invitation(data: &[u8]) {
    let Ok(line) = std::str::from_utf8(data) else { return };
    match line.parse::<Invitation>() {
        Ok(invitation) => {
            assert_eq!(invitation.to_string().parse(), Ok(invitation.clone()));
            let own = invitation.own().unwrap_or_else(|e| panic!("invariant: random bytes: {e}"));
            for interfaces in [vec![], vec!["eth0".to_owned()]] {
                let file = invitation.client_file(&own, &interfaces, interfaces.is_empty());
                let read = parse::<ClientConfig>("fuzz.toml", &file, &[]);
                let read = read.unwrap_or_else(|e| panic!("its file is refused: {e}\n{file}"));
                assert_eq!(read.key, own.secret);
            }
            let _ = invitation.wireguard(Some(3));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Invitations with everything and with little.
pub(crate) fn invitations() -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    for more in ["", "network = \"10.9.0.0\"\nnetwork6 = \"fd00:1:2:3::\"\n"] {
        let public = "public = [\"vpn.example.org:51820\", \"192.0.2.1:51820\"]\n";
        let text = format!("private_key = \"{KEY}\"\n{public}{more}");
        let loaded = parse::<ServerConfig>("server.toml", &text, &[]);
        let loaded = loaded.unwrap_or_else(|e| panic!("invariant: a good file: {e}"));
        let client = ("home", 7);
        let old = Invitation::with_keys(&loaded.config, &loaded.key, client, !more.is_empty());
        let new = Invitation::new(&loaded.config, &loaded.key, client, 1_796_083_199);
        let made = old.into_iter().chain(new);
        lines.extend(made.map(|(invitation, _)| invitation.to_string().into_bytes()));
    }
    lines
}
