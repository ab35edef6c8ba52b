//! Socket buffers in Linux's terms, turned into what the engine has: bytes of receive window and
//! of unacknowledged payload.
//!
//! Modelled: `SO_RCVBUF` and `SO_SNDBUF` are capped (`net.core.rmem_max`, `wmem_max`) and doubled,
//! and end autotuning; of a receive buffer, `tcp_win_from_space` says how much is window; a send
//! buffer is charged for each segment's `truesize`, of which only the payload is payload. What
//! `tcp_sndbuf_expand` does needs no model: until it reaches the largest size, the buffer holds
//! more than two windows. Not modelled: memory pressure (and so the smallest of the three sizes),
//! segments dropped because short ones fill the receive buffer with overhead, and the measured
//! share that replaced `tcp_adv_win_scale` in Linux 6.6.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use tabane_config::quantity::Size;
use tabane_engine::config::{Autotuning, TcpConfig};

/// Socket buffers as Linux is told them. A host's table replaces that of `[defaults]`.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LinuxBuffers {
    /// `net.ipv4.tcp_rmem`: smallest, initial and largest receive buffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rmem: Option<Triple>,
    /// `net.ipv4.tcp_wmem`: smallest, initial and largest send buffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wmem: Option<Triple>,
    /// `SO_RCVBUF`, as the program says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub so_rcvbuf: Option<Size>,
    /// `SO_SNDBUF`, as the program says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub so_sndbuf: Option<Size>,
    /// `net.core.rmem_max`, the limit of `SO_RCVBUF`; 212992 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rmem_max: Option<Size>,
    /// `net.core.wmem_max`, the limit of `SO_SNDBUF`; 212992 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wmem_max: Option<Size>,
    /// `net.ipv4.tcp_adv_win_scale`, -31 to 31; 1 by default: half the buffer is window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adv_win_scale: Option<i8>,
    /// What a segment of 1448 bytes is charged in a send buffer; 2304 by default, that of one
    /// without segmentation offload. With it, some 1480.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truesize: Option<Size>,
}

/// Payload of the segment that `truesize` is about.
const PAYLOAD: u64 = 1_448;
/// `SKB_TRUESIZE` of it in one piece: a buffer of 2048 bytes and the `sk_buff`.
const TRUESIZE: u64 = 2_304;
/// `SK_RMEM_MAX` of most builds.
const CORE_MAX: u64 = 212_992;
/// `SOCK_MIN_RCVBUF` and `SOCK_MIN_SNDBUF`.
const LEAST: (u64, u64) = (2_304, 4_608);

impl LinuxBuffers {
    /// Puts what is given over `config`.
    pub fn apply(&self, config: &mut TcpConfig) {
        let limit = |limit: Option<Size>| limit.map_or(CORE_MAX, |size| size.0);
        if let Some(Triple([_, initial, most])) = self.rmem {
            config.receive_buffer = self.window(initial);
            config.receive_buffer_max = self.window(most);
            config.autotuning = Autotuning::Linux;
        }
        if let Some(size) = self.so_rcvbuf {
            let buffer = (2 * size.0.min(limit(self.rmem_max))).max(LEAST.0);
            config.receive_buffer = self.window(buffer);
            config.receive_buffer_max = self.window(buffer);
        }
        if let Some(Triple([_, _, most])) = self.wmem {
            config.send_buffer = self.payload(most);
        }
        if let Some(size) = self.so_sndbuf {
            let buffer = (2 * size.0.min(limit(self.wmem_max))).max(LEAST.1);
            config.send_buffer = self.payload(buffer);
        }
    }

    /// `tcp_win_from_space`.
    fn window(&self, space: u64) -> u64 {
        let window = match self.adv_win_scale.unwrap_or(1) {
            scale @ ..=0 => space >> scale.unsigned_abs(),
            scale => space - (space >> scale),
        };
        window.max(1)
    }

    /// Payload that fits a send buffer.
    fn payload(&self, buffer: u64) -> u64 {
        let truesize = self.truesize.map_or(TRUESIZE, |size| size.0).max(1);
        (u128::from(buffer) * u128::from(PAYLOAD) / u128::from(truesize)).max(1) as u64
    }

    /// What is out of range, with the key.
    pub(crate) fn fault(&self) -> Option<(&'static str, String)> {
        if self.adv_win_scale.is_some_and(|scale| !(-31..=31).contains(&scale)) {
            return Some(("adv_win_scale", "adv_win_scale is between -31 and 31".into()));
        }
        if self.truesize.is_some_and(|size| size.0 < PAYLOAD) {
            let message = format!("a segment of {PAYLOAD} bytes is charged at least that");
            return Some(("truesize", message));
        }
        None
    }
}

/// Three sizes in bytes, as sysctl prints them: `"4096 131072 6291456"`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Triple(pub [u64; 3]);

impl<'de> Deserialize<'de> for Triple {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        let sizes: Option<Vec<u64>> = text.split_whitespace().map(|s| s.parse().ok()).collect();
        match sizes.as_deref() {
            Some(&[least, initial, most]) if least <= initial && initial <= most => {
                Ok(Self([least, initial, most]))
            }
            Some([_, _, _]) => Err(D::Error::custom("sizes that do not ascend")),
            _ => Err(D::Error::custom(
                "three sizes in bytes are expected: smallest, initial, largest, as in \
                 \"4096 131072 6291456\"",
            )),
        }
    }
}

impl Serialize for Triple {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let [least, initial, most] = self.0;
        serializer.collect_str(&format_args!("{least} {initial} {most}"))
    }
}

impl JsonSchema for Triple {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Triple".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["4096 131072 6291456"] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> TcpConfig {
        let buffers: LinuxBuffers = toml::from_str(text).expect("well-formed");
        let mut config = TcpConfig::default();
        buffers.apply(&mut config);
        config
    }

    #[test]
    fn paper_s2_has_windows_of_half_its_buffers() {
        let c = config("rmem = \"4096 87380 87380\"\nwmem = \"4096 16384 65536\"");
        assert_eq!((c.receive_buffer, c.receive_buffer_max), (43_690, 43_690));
        // 65536 / 2304 = 28.4 segments.
        assert_eq!(c.send_buffer, 41_187);
        let old = config("rmem = \"4096 87380 87380\"\nadv_win_scale = 2");
        assert_eq!(old.receive_buffer, 65_535);
        let negative = config("rmem = \"4096 87380 87380\"\nadv_win_scale = -2");
        assert_eq!(negative.receive_buffer, 21_845);
    }

    #[test]
    fn options_are_doubled_capped_and_end_autotuning() {
        let c = config("rmem = \"4096 131072 6291456\"\nso_rcvbuf = \"64KiB\"");
        assert_eq!((c.receive_buffer, c.receive_buffer_max), (65_536, 65_536));
        let c = config("rmem = \"4096 131072 6291456\"\nso_rcvbuf = \"1MiB\"");
        assert_eq!(c.receive_buffer_max, 212_992, "net.core.rmem_max");
        let c = config("so_rcvbuf = \"1MiB\"\nrmem_max = \"4MiB\"\nso_sndbuf = \"64KiB\"");
        assert_eq!(c.receive_buffer_max, 1 << 20);
        assert_eq!(c.send_buffer, 131_072 * 1_448 / 2_304);
        let offload = config("so_sndbuf = \"64KiB\"\ntruesize = 1480");
        assert_eq!(offload.send_buffer, 131_072 * 1_448 / 1_480);
        let c = config("rmem = \"4096 131072 6291456\"");
        assert_eq!((c.receive_buffer_max, c.autotuning), (3_145_728, Autotuning::Linux));
    }

    #[test]
    fn what_is_no_triple_is_refused() {
        for wrong in ["1 2", "1 2 x", "3 2 1", "", "1 2 3 4"] {
            let read: Result<LinuxBuffers, _> = toml::from_str(&format!("rmem = \"{wrong}\""));
            assert!(read.is_err(), "{wrong:?}");
        }
    }
}
