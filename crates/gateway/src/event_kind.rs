//! What can happen to an agent, and how much each of it matters.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// How much an event matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Something does not work that should.
    Error,
    /// Somebody may want to do something.
    Warning,
    /// Worth knowing.
    Notice,
    /// For those who look closely.
    Detail,
}

macro_rules! event_kinds {
    ($($kind:ident $name:literal $level:ident: $doc:literal;)*) => {
        /// What an event is, by the names that logs, `tabane monitor` and JSON have.
        #[derive(Clone, PartialEq, Eq, Debug)]
        #[non_exhaustive]
        pub enum EventKind {
            $(#[doc = $doc] $kind,)*
            /// Of an agent of another version.
            Other(String),
        }

        impl EventKind {
            /// Its name for machines.
            #[must_use]
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$kind => $name,)*
                    Self::Other(name) => name,
                }
            }

            /// How much it matters.
            #[must_use]
            pub fn level(&self) -> Level {
                match self {
                    $(Self::$kind => Level::$level,)*
                    Self::Other(_) => Level::Notice,
                }
            }
        }

        impl From<&str> for EventKind {
            fn from(name: &str) -> Self {
                match name {
                    $($name => Self::$kind,)*
                    _ => Self::Other(name.to_owned()),
                }
            }
        }
    };
}

event_kinds! {
    ClientAdded "client-added" Notice: "A client may connect from now on.";
    ClientConnected "client-connected" Notice: "The first path of a client works.";
    ClientDisabled "client-disabled" Notice: "A client may not connect any more.";
    ClientGone "client-gone" Notice: "None of a client's paths works any more.";
    ClientNotAdded "client-not-added" Notice: "Somebody was to join, and could not be added.";
    ClientRekeyed "client-rekeyed" Notice: "A client has other keys.";
    ClientRemoved "client-removed" Notice: "A client is no client any more.";
    DatagramDropped "datagram-dropped" Detail: "Datagrams that are none of WireGuard.";
    EnrolmentRefused "enrolment-refused" Notice: "An invitation or new keys were not taken.";
    Exhausted "exhausted" Notice: "Programs are refused for want of something.";
    HandshakeRefused "handshake-refused" Warning: "Handshakes came to nothing.";
    Joined "joined" Notice: "A client's keys are known to the server now.";
    KeysChanged "keys-changed" Notice: "A client has changed its keys.";
    NextFailed "next-failed" Error: "The bond to the next server cannot be waited for.";
    NoPort "no-port" Notice: "This machine has no port left towards a target.";
    NotLogged "not-logged" Warning: "There were more events than the log takes.";
    PathDown "path-down" Warning: "A path has ceased to work.";
    PathMtu "path-mtu" Detail: "A path carries packets of another size.";
    PathTooBig "path-too-big" Notice: "A packet was longer than its path carries.";
    PathUp "path-up" Notice: "A path works.";
    PathUse "path-use" Detail: "A path is used for something else.";
    PathWaits "path-waits" Warning: "A path cannot be used for want of something.";
    PoliciesRefused "policies-refused" Warning: "The server does not take a client's policies.";
    QuotaNotSaved "quota-not-saved" Error: "What was used of quotas cannot be saved.";
    RecordStopped "record-stopped" Error: "Nothing, or not everything, is recorded.";
    Reload "reload" Notice: "The configuration was read again.";
    ReloadFailed "reload-failed" Error: "The configuration was read again, and not taken.";
    Role "role" Detail: "A path has another role.";
    ServerChanged "server-changed" Warning: "The client uses another server.";
    ServerRestarted "server-restarted" Notice: "The server was started again.";
    SessionsRenewed "sessions-renewed" Notice: "The sessions of all paths begin anew.";
    StateNotSaved "state-not-saved" Notice: "The clients that have joined cannot be saved.";
    TunFailed "tun-failed" Error: "The host's routes are not as they should be.";
    TunGone "tun-gone" Error: "The TUN device is lost.";
    TunRestored "tun-mended" Notice: "What somebody took of the host's routes is back.";
    TunNote "tun-note" Notice: "Something about the host that users should know.";
    TunUp "tun-up" Notice: "The host's traffic is routed to the TUN device.";
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for EventKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for EventKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(deserializer).map(|name| Self::from(&*name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_work_is_said_loudest() {
        let levels = [EventKind::TunGone, EventKind::PathDown, EventKind::Reload, EventKind::Role];
        let levels = levels.map(|kind| kind.level());
        assert_eq!(levels, [Level::Error, Level::Warning, Level::Notice, Level::Detail]);
    }

    #[test]
    fn names_go_through_json_those_of_other_versions_too() {
        for name in ["path-down", "brought-by-a-later-version"] {
            let text = format!("\"{name}\"");
            let kind: EventKind = serde_json::from_str(&text).unwrap();
            assert_eq!(matches!(kind, EventKind::Other(_)), name != "path-down");
            assert_eq!(serde_json::to_string(&kind).unwrap(), text);
        }
    }
}
