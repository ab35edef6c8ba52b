//! The access list by table.

use super::*;
use proptest::prelude::*;

fn access(config: &AccessConfig) -> Access {
    let own = vec!["8.8.4.4".parse().unwrap(), "2a00::7".parse().unwrap()];
    Access::new(config, &Network::default(), own).unwrap()
}

fn list(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

fn verdict(access: &Access, ip: &str) -> String {
    let address = SocketAddr::new(ip.parse().unwrap(), 443);
    access.check(address).map_or_else(|denied| denied.to_string(), |()| "open".into())
}

const OPEN: &[&str] = &[
    "1.1.1.1",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.1",
    "169.253.255.255",
    "172.15.255.255",
    "172.32.0.0",
    "192.167.255.255",
    "192.169.0.0",
    "223.255.255.255",
    "2606:4700::1111",
    "2a00::8",
    "::ffff:1.1.1.1",
    "64:ff9b::1.1.1.1",
    "2002:101:101::1",
];

const DENIED: &[(&str, &str)] = &[
    ("0.0.0.0", "loopback"),
    ("0.1.2.3", "loopback"),
    ("10.0.0.1", "private"),
    ("100.64.0.1", "shared"),
    ("100.100.100.200", "metadata"),
    ("127.0.0.1", "loopback"),
    ("127.255.255.255", "loopback"),
    ("168.63.129.16", "metadata"),
    ("169.254.169.254", "link-local"),
    ("172.16.0.1", "private"),
    ("172.31.255.255", "private"),
    ("192.0.0.192", "metadata"),
    ("192.168.1.1", "private"),
    ("198.18.0.1", "testing"),
    ("224.0.0.251", "multicast"),
    ("239.255.255.250", "multicast"),
    ("240.0.0.1", "reserved"),
    ("255.255.255.255", "multicast"),
    ("10.81.0.1", "inner"),
    ("8.8.4.4", "the server's own"),
    ("::", "loopback"),
    ("::1", "loopback"),
    ("2a00::7", "the server's own"),
    ("fc00::1", "private"),
    ("fd00:ec2::254", "metadata"),
    ("fe80::1", "link-local"),
    ("fec0::1", "private"),
    ("ff02::1", "multicast"),
    ("4000::1", "reserved"),
    ("2001::1", "translation"),
    ("64:ff9b:1::1", "translation"),
    ("fd74:6162:616e:6500::1", "inner"),
    // IPv4 addresses in IPv6 clothes.
    ("::ffff:127.0.0.1", "loopback"),
    ("::ffff:10.0.0.1", "private"),
    ("::ffff:8.8.4.4", "the server's own"),
    ("::127.0.0.1", "reserved"),
    ("64:ff9b::10.0.0.1", "private"),
    ("64:ff9b::169.254.169.254", "link-local"),
    ("64:ff9b::8.8.4.4", "the server's own"),
    ("2002:7f00:1::1", "loopback"),
    ("2002:c0a8:101::1", "private"),
    ("2002:808:404::", "the server's own"),
    ("2606:4700::5efe:10.0.0.1", "private"),
    ("2606:4700::200:5efe:10.0.0.1", "private"),
];

#[test]
fn by_default_only_the_internet_is_open() {
    let access = access(&AccessConfig::default());
    for ip in OPEN {
        assert_eq!(verdict(&access, ip), "open", "{ip}");
    }
    for (ip, kind) in DENIED {
        let text = verdict(&access, ip);
        assert!(text.starts_with(&format!("{kind} addresses (")), "{ip}: {text}");
    }
    assert_eq!(
        verdict(&access, "10.9.9.9"),
        "private addresses (10.0.0.0/8) are denied unless allowed"
    );
}

#[test]
fn the_longest_prefix_decides() {
    let access = access(&AccessConfig {
        allow: list(&[
            "0.0.0.0/0",
            "10.1.0.0/16",
            "1.2.3.4",
            "192.168.0.0/16",
            "8.8.4.4",
            "fd00::/8",
        ]),
        deny: list(&["1.0.0.0/8", "10.1.2.0/24", "5.5.5.5", "2a00:1::/32"]),
        ..AccessConfig::default()
    });
    for (ip, expected) in [
        // All of IPv4 is a shorter prefix than what is built in.
        ("10.0.0.1", "private addresses (10.0.0.0/8) are denied unless allowed"),
        ("127.0.0.1", "loopback addresses (127.0.0.0/8) are denied unless allowed"),
        ("10.1.0.1", "open"),
        ("10.1.2.1", "10.1.2.0/24 is denied"),
        ("1.2.3.4", "open"),
        ("1.2.3.5", "1.0.0.0/8 is denied"),
        ("5.5.5.5", "5.5.5.5 is denied"),
        // As long as the one built in.
        ("192.168.7.7", "open"),
        ("8.8.4.4", "open"),
        ("fd00::1", "open"),
        // Longer than that.
        (
            "fd74:6162:616e:6500::1",
            "inner addresses (fd74:6162:616e:6500::/64) are denied unless allowed",
        ),
        ("2a00:1::1", "2a00:1::/32 is denied"),
        ("64:ff9b::1.2.3.5", "1.0.0.0/8 is denied"),
        ("64:ff9b::10.1.0.1", "open"),
    ] {
        assert_eq!(verdict(&access, ip), expected, "{ip}");
    }
    // Denied and allowed alike: denied.
    let both = AccessConfig {
        allow: list(&["9.9.9.9"]),
        deny: list(&["9.9.9.9"]),
        ..AccessConfig::default()
    };
    assert_eq!(
        verdict(&super::Access::new(&both, &Network::default(), vec![]).unwrap(), "9.9.9.9"),
        "9.9.9.9 is denied"
    );
}

/// Private networks, the server itself, and what clouds tell their machines: three switches.
#[test]
fn each_switch_opens_its_own_and_nothing_else() {
    const PRIVATE: &[&str] = &["10.0.0.1", "192.168.1.1", "100.64.0.1", "fc00::1", "fd00::1"];
    const LOOPBACK: &[&str] = &["127.0.0.1", "0.0.0.0", "::1", "8.8.4.4", "::ffff:127.0.0.1"];
    const METADATA: &[&str] = &[
        "169.254.169.254",
        "168.63.129.16",
        "100.100.100.200",
        "192.0.0.192",
        "fe80::1",
        "fd00:ec2::254",
        "fd00:c1::a9fe:a9fe",
        "fd20:ce::254",
        "64:ff9b::169.254.169.254",
    ];
    const NEVER: &[&str] =
        &["224.0.0.1", "255.255.255.255", "ff02::1", "10.81.0.1", "240.0.0.1", "203.0.113.1"];
    let all = [PRIVATE, LOOPBACK, METADATA];
    for switch in 0..3 {
        let access = access(&AccessConfig {
            private: switch == 0,
            loopback: Some(switch == 1),
            metadata: Some(switch == 2),
            deny: list(&["10.6.0.0/16"]),
            ..AccessConfig::default()
        });
        for (group, addresses) in all.iter().enumerate() {
            for ip in *addresses {
                assert_eq!(verdict(&access, ip) == "open", group == switch, "{switch}: {ip}");
            }
        }
        for ip in NEVER.iter().chain(&["10.6.0.1"]) {
            assert_ne!(verdict(&access, ip), "open", "{switch}: {ip}");
        }
    }
}

/// The server's own private address is the server, not somebody in its network.
#[test]
fn a_private_network_does_not_open_the_server_in_it() {
    let config = AccessConfig { private: true, ..AccessConfig::default() };
    let own = vec!["192.168.1.7".parse().unwrap()];
    let access = Access::new(&config, &Network::default(), own).unwrap();
    assert_eq!(verdict(&access, "192.168.1.8"), "open");
    assert!(verdict(&access, "192.168.1.7").starts_with("the server's own"));
}

#[test]
fn ports_are_denied_whatever_the_address() {
    let config = AccessConfig {
        allow: list(&["10.0.0.0/8"]),
        deny_ports: list(&["25", "135-139"]),
        ..AccessConfig::default()
    };
    let access = access(&config);
    for (address, open) in [
        ("1.1.1.1:25", false),
        ("10.0.0.1:25", false),
        ("[2606::1]:137", false),
        ("1.1.1.1:26", true),
        ("1.1.1.1:134", true),
        ("1.1.1.1:140", true),
    ] {
        assert_eq!(access.check(address.parse().unwrap()).is_ok(), open, "{address}");
    }
}

#[test]
fn mistakes_are_reported() {
    let wrong = AccessConfig { deny: list(&["10.0.0.1/8"]), ..AccessConfig::default() };
    let error = Access::new(&wrong, &Network::default(), vec![]).unwrap_err();
    assert!(matches!(error, PrefixError::Bits(..)), "{error}");
    let wrong = AccessConfig { deny_ports: list(&["smtp"]), ..AccessConfig::default() };
    assert!(Access::new(&wrong, &Network::default(), vec![]).is_err());
}

#[test]
fn this_machine_has_a_loopback_address() {
    let own = own_addresses();
    assert!(own.iter().any(IpAddr::is_loopback), "{own:?}");
    let own = vec!["1.1.1.1".parse().unwrap()];
    let access = Access::new(&AccessConfig::default(), &Network::default(), own).unwrap();
    assert_ne!(verdict(&access, "1.1.1.1"), "open");
    assert_eq!(verdict(&access, "8.8.4.4"), "open");
}

proptest! {
    /// Whatever an IPv6 address embeds, it opens nothing that is closed over IPv4.
    #[test]
    fn embedding_opens_nothing(bits: u32, low: u128) {
        let access = access(&AccessConfig::default());
        let v4 = Ipv4Addr::from_bits(bits);
        let bits = u128::from(bits);
        let forms = [
            0xffff << 32 | bits,
            0x64_ff9b << 96 | bits,
            0x2002 << 112 | bits << 80 | low >> 48,
            bits,
            0x2606 << 112 | 0x5efe << 32 | bits,
        ];
        let open = |ip: IpAddr| access.check(SocketAddr::new(ip, 443)).is_ok();
        for form in forms {
            prop_assert!(!open(std::net::Ipv6Addr::from_bits(form).into()) || open(v4.into()));
        }
        // And it is consistent with what the standard library knows.
        let closed = v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_multicast()
            || v4.is_broadcast() || v4.is_documentation() || v4.is_unspecified();
        prop_assert!(!(closed && open(v4.into())));
    }
}
