//! Configurations: what is read, what is refused, and how.

use super::load::parse;
use super::*;
use crate::index::PathIndex;
use crate::keys::Key;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use tabane_engine::policy::{Entry, Param, Spec};
use tabane_engine::scheduler;

const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const OTHER: &str = "uRHCGeFjN+8uoyl4sLbve9ZB2C1z4GgBscZP+y2rknk=";
const THIRD: &str = "F3RP4ZK7qx54m0kpIv32IRdM3qmd1VouKjztAHyoKhk=";

fn client() -> String {
    format!(
        r#"name = "home"
number = 2
secret = "{KEY}"

[[server]]
addresses = ["vpn.example.org:51820"]
public_key = "{OTHER}"
key_version = 1
[[path]]
interface = "eth0"

[[path]]
name = "lte"
interface = "wwan0"
role = "backup"
"#
    )
}

fn server() -> String {
    format!(
        r#"private_key = "{KEY}"
listen = ["0.0.0.0:51820"]

[[client]]
name = "home"
number = 1
keys = ["{THIRD}"]
"#
    )
}

fn vars(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn connect_error<C: Configuration + std::fmt::Debug>(text: &str) -> String {
    parse::<C>("c.toml", text, &[]).unwrap_err().to_string()
}

/// Reading `text` fails, at that place, with these words.
#[track_caller]
fn refused<C: Configuration + std::fmt::Debug>(text: &str, place: &str, words: &[&str]) {
    let said = connect_error::<C>(text);
    assert!(said.contains(&format!("c.toml{place}: ")), "{place} in\n{said}");
    for word in words {
        assert!(said.contains(word), "{word} in\n{said}");
    }
}

#[test]
fn good_ones_are_read() {
    let loaded = parse::<ClientConfig>("c.toml", &client(), &[]).unwrap();
    assert_eq!(loaded.config.path[1].label(), "lte");
    assert_eq!(loaded.config.path[0].label(), "eth0");
    assert_eq!(loaded.key, KEY.parse::<Key>().unwrap());
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let loaded = parse::<ServerConfig>("s.toml", &server(), &[]).unwrap();
    assert_eq!(loaded.config.client[0].name, "home");
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
}

#[test]
fn what_is_dumped_reads_back_as_the_same() {
    let config = parse::<ClientConfig>("c.toml", &client(), &[]).unwrap().config;
    let again = toml::to_string(&config).unwrap();
    assert_eq!(parse::<ClientConfig>("c.toml", &again, &[]).unwrap().config, config);
    let config = parse::<ServerConfig>("s.toml", &server(), &[]).unwrap().config;
    let again = toml::to_string(&config).unwrap();
    assert_eq!(parse::<ServerConfig>("s.toml", &again, &[]).unwrap().config, config);
}

#[test]
fn misspelt_keys_have_line_column_and_the_nearest() {
    let text = client().replace("interface = \"wwan0\"", "interfcae = \"wwan0\"");
    refused::<ClientConfig>(&text, ":14:1", &["unknown key 'interfcae'", "'interface'"]);
    let text = client().replace("\"backup\"", "\"bakcup\"");
    refused::<ClientConfig>(&text, ":15:8", &["unknown value 'bakcup'", "'backup'"]);
    refused::<ClientConfig>("number = ", ":1:10", &[]);
    refused::<ServerConfig>(&format!("{}\n[limits]\nrate = 5\n", server()), ":10:8", &["unit"]);
}

#[test]
fn values_are_checked_where_they_stand() {
    let add = |lines: &str| format!("{}{lines}\n", client());
    let cases: &[(String, &str, &[&str])] = &[
        (add("mtu = 500"), ":16:7", &["mtu is 500", "1280 to 65400"]),
        (add("subflows = 9"), ":16:12", &["1 to 8"]),
        (add("probe = \"1ms\""), ":16:9", &["20ms to 1min"]),
        (add("quota_period = \"month\""), ":16:16", &["without a 'quota'"]),
        (add("quota = \"1GB\"\nquota_period = \"week\""), ":17:16", &["day, month"]),
        (add("[up]\nscheduler = \"minrt\""), ":17:13", &["did you mean 'minrtt'?"]),
        (add("[up]\ncongestion = \"cubic:x=1\""), ":17:14", &["no parameter 'x'"]),
        (add("[[rule]]\ndestinations = [\"10.0.0.1/8\"]"), ":17:17", &["did you mean"]),
        (add("[[rule]]\nports = [\"1\", \"x\"]"), ":17:15", &["is no port"]),
        (add("[[rule]]\nprotocol = \"icmp\""), ":17:12", &["tcp or udp"]),
        (add("[[rule]]\nnames = [\"a..b\"]"), ":17:10", &["*.example"]),
        (add("[rule]\nports = [\"1\"]"), ":16:1", &["[[name]]"]),
        (add("[tun]\nroutes = [\"0.0.0.0\", \"0.0.0.0\"]"), ":17:22", &["twice"]),
        (add("[tun]\ntable = 254"), ":17:9", &["kernel's own"]),
        (add("[tun]\nkill_switch = true"), ":17:15", &["nothing is routed", "add routes ="]),
        (add("[front]\nlogin = \"me\""), ":17:9", &["user:password"]),
        (add("[front]\nhttp = [\"127.0.0.1:1080\"]"), ":17:9", &["'front.socks5.0'"]),
        (client().replace("number = 2", "number = 0"), ":2:10", &["1 to 4095"]),
        (client().replace("number = 2", "number = 5000"), ":2:10", &["1 to 4095"]),
        (client().replace(".org:51820", ".org"), ":6:14", &["host:port"]),
        (client().replace("\"lte\"", "\"eth0\""), ":13:8", &["two paths 'eth0'"]),
        (client().replace("interface = \"wwan0\"", ""), ":", &["which link"]),
        (client().replace("\"wwan0\"", "\"a name that is long\""), ":14:13", &["interface"]),
        (client().replace(OTHER, "AAAA"), ":7:14", &["44 characters"]),
    ];
    for (text, place, words) in cases {
        if *place == ":" {
            assert!(connect_error::<ClientConfig>(text).contains(words[0]));
        } else {
            refused::<ClientConfig>(text, place, words);
        }
    }
}

#[test]
fn a_client_needs_a_server_a_path_and_a_key() {
    let said = connect_error::<ClientConfig>("");
    for words in ["there is no server", "there is no path", "there is no key", "secret_file"] {
        assert!(said.contains(words), "{words} in\n{said}");
    }
    let mut text = client();
    (0..7).for_each(|n| text += &format!("[[path]]\ninterface = \"x{n}\"\n"));
    refused::<ClientConfig>(&text, ":28:1", &["9 paths", "8"]);
    let both = client().replace("number = 2", "number = 2\nsecret_file = \"k\"");
    assert!(connect_error::<ClientConfig>(&both).contains("leave one out"));
    let (head, _) = client().split_once("[[path]]").map(|(a, b)| (a.to_owned(), b.len())).unwrap();
    let one = format!("{head}[[path]]\n");
    assert_eq!(parse::<ClientConfig>("c", &one, &[]).unwrap().config.path[0].label(), "default");
}

#[test]
fn servers_are_checked_too() {
    let twin = |name: &str, number: u16, key: &str| {
        let entry =
            format!("[[client]]\nname = \"{name}\"\nnumber = {number}\nkeys = [\"{key}\"]\n");
        server() + &entry
    };
    refused::<ServerConfig>(&twin("home", 2, OTHER), ":9:8", &["client 1 has the name"]);
    refused::<ServerConfig>(&twin("b", 1, OTHER), ":10:10", &["'home' has the number 1 too"]);
    refused::<ServerConfig>(&twin("b", 2, THIRD), ":11:9", &["'home' has this key too"]);
    let own = crate::keys::encode(&KEY.parse::<Key>().unwrap().public());
    refused::<ServerConfig>(&twin("b", 2, &own), ":11:9", &["the server's own key"]);
    let front = |lines: &str| format!("{lines}\n{}", server());
    refused::<ServerConfig>(&front("network = \"10.81.1.0\""), ":1:11", &["10.81.0.0 is"]);
    refused::<ServerConfig>(&front("network6 = \"fd00::1\""), ":1:12", &["fd00:: is"]);
    refused::<ServerConfig>(&front("web = \"0.0.0.0:80\""), ":1:7", &["web_token_file"]);
    let none = server().replace("\"0.0.0.0:51820\"", "");
    refused::<ServerConfig>(&none, ":2:10", &["listens nowhere"]);
    let access = |line: &str| server() + "[access]\n" + line;
    refused::<ServerConfig>(&access("deny_ports = [\"99999\"]"), ":9:15", &["is no port"]);
    refused::<ServerConfig>(&access("allow = [\"10.0.0.0/33\"]"), ":9:10", &["0 to 32"]);
}

fn forwarding() -> String {
    let next = client().replace("[[", "[[next.").replace("name = \"home\"", "[next]\nname = \"a\"");
    server() + &next
}

#[test]
fn a_next_server_is_checked_as_a_clients_is() {
    let config = parse::<ServerConfig>("c.toml", &forwarding(), &[]).unwrap().config;
    let next = config.next.clone().unwrap();
    assert_eq!((next.name.as_str(), next.path.len()), ("a", 2));
    let mut alone = parse::<ClientConfig>("c.toml", &client(), &[]).unwrap().config;
    (alone.name, alone.front.socks5) = ("a".into(), Vec::new());
    assert_eq!(next.client(), alone);
    let again = toml::to_string(&config).unwrap();
    assert_eq!(parse::<ServerConfig>("c.toml", &again, &[]).unwrap().config, config);
    for (from, to, place, words) in [
        ("eth0", "a name that is long", ":18:13", "interface"),
        (OTHER, "AAAA", ":15:14", "44 characters"),
        ("role =", "rol =", ":23:1", "did you mean 'role'?"),
        ("number = 2", "number = 2\nfront = {}", ":11:1", "unknown key 'front'"),
        ("\"backup\"", "\"backup\"\n[next.up]\nscheduler = \"minrt\"", ":25:13", "minrtt"),
    ] {
        refused::<ServerConfig>(&forwarding().replace(from, to), place, &[words]);
    }
    let line = format!("number = 2\nsecret = \"{KEY}\"");
    let keyless = forwarding().replace(&line, "number = 2");
    refused::<ServerConfig>(&keyless, ":8:2", &["there is no key", "secret_file"]);
    let filed = forwarding().replace(&line, "secret_file = \"nowhere\"");
    refused::<ServerConfig>(&filed, ":10:15", &["No such file"]);
    let folder = forwarding().replace(&line, "secret_file = \".\"");
    refused::<ServerConfig>(&folder, ":10:15", &["cannot be read"]);
    let wrong = forwarding().replace(&line, "secret = \"none\"");
    refused::<ServerConfig>(&wrong, ":10:10", &["key"]);
    refused::<ServerConfig>(&(server() + "[next]\n"), ":8:2", &["there is no path"]);
    let over = vars(&[("TABANE_SERVER_NEXT__PATH__LTE__ROLE", "secondary")]);
    let config = parse::<ServerConfig>("c.toml", &forwarding(), &over).unwrap().config;
    assert_eq!(config.next.unwrap().path[1].role, crate::model::Role::Secondary);
}

#[test]
fn a_cap_that_leaves_nothing_is_refused() {
    for cap in ["0Mbps", "1bps"] {
        let text = format!("{}cap_up = \"{cap}\"\n", client());
        refused::<ClientConfig>(&text, &format!(":{}:10", text.lines().count()), &["never"]);
    }
    parse::<ClientConfig>("c.toml", &(client() + "cap_up = \"8kbps\"\n"), &[]).unwrap();
}

#[test]
fn every_fault_is_told_at_once() {
    let text = client().replace("number = 2", "number = 0").replace(".org:51820", ".org") + "mtu=1";
    let error = parse::<ClientConfig>("c.toml", &text, &[]).unwrap_err();
    assert_eq!(error.0.len(), 3, "{error}");
}

#[test]
fn keys_are_never_shown() {
    let wrong = format!("X{}", &KEY[1..40]);
    let cases = [
        client().replace(KEY, &wrong),
        client().replace("secret =", "secrett ="),
        client().replace("secret =", "secert ="),
        format!("{}\n", client().replace(&format!("secret = \"{KEY}\""), KEY)),
        client().replace(&format!("\"{KEY}\""), &format!("\"{KEY}")),
        format!("{}[front]\nlogin = \"{KEY}\"\n", client()),
        format!("'ours{KEY}' = ''\n{}", client()),
        client().replace("name = \"home\"", &format!("name = \"ours {KEY}, {KEY}\"")),
        client().replace("number = 2", &format!("number = \"{KEY}\"")),
        client().replace("secret =", "secret_file ="),
        client().replace("interface = \"eth0\"", &format!("interface = \"{KEY}\"")),
        client().replace("vpn.example.org:51820", KEY),
    ];
    for text in cases {
        let said = connect_error::<ClientConfig>(&text);
        assert!(!said.contains(&KEY[1..39]), "{said}");
    }
    let over = vars(&[("TABANE_CLIENT_SECRET", &wrong)]);
    let said = parse::<ClientConfig>("c.toml", &client(), &over).unwrap_err().to_string();
    assert!(said.contains("TABANE_CLIENT_SECRET") && !said.contains(&wrong), "{said}");
    let shown = format!("{:?}", parse::<ClientConfig>("c.toml", &client(), &[]).unwrap().key);
    assert!(!shown.contains(KEY), "{shown}");
}

#[test]
fn the_environment_is_laid_over_the_file() {
    let over = vars(&[
        ("TABANE_CLIENT_FRONT__SOCKS5", "127.0.0.1:9050, [::1]:9050"),
        ("TABANE_CLIENT_NUMBER", "7"),
        ("TABANE_CLIENT_PATH__0__ROLE", "secondary"),
        ("TABANE_CLIENT_PATH__LTE__CAP_DOWN", "5Mbps"),
        ("TABANE_CLIENT_RULE", "[{ ports = [\"443\"], up = { scheduler = \"redundant\" } }]"),
        ("TABANE_CLIENT_UP__CONGESTION", "olia"),
        ("TABANE_SERVER_LISTEN", "ignored here"),
    ]);
    let config = parse::<ClientConfig>("c.toml", &client(), &over).unwrap().config;
    assert_eq!(config.front.socks5.len(), 2);
    assert_eq!(config.number, 7);
    assert_eq!(config.path[0].role, crate::model::Role::Secondary);
    assert_eq!(config.path[1].cap_down.unwrap().0, 5_000_000);
    assert_eq!(config.rule[0].ports, ["443"]);
    assert_eq!(config.up.congestion, Some(Spec::named("olia").into()));
}

#[test]
fn an_override_that_is_none_is_refused_by_its_name() {
    for (name, value, word) in [
        ("TABANE_CLIENT_FRNT__SOCKS5", "127.0.0.1:1", "did you mean 'front'?"),
        ("TABANE_CLIENT_PATH__WAN9__ROLE", "backup", "which 'path'?"),
        ("TABANE_CLIENT_PATH__7__ROLE", "backup", "only 2"),
        ("TABANE_CLENT_NUMBER", "1", "did you mean 'TABANE_CLIENT_NUMBER'?"),
        ("TABANE_CLIENT_NUMBER", "many", "expected a whole number"),
        ("TABANE_CLIENT_UP__SCHEDULER", "minrt", "did you mean 'minrtt'?"),
    ] {
        let over = vars(&[(name, value)]);
        let said = parse::<ClientConfig>("c.toml", &client(), &over).unwrap_err().to_string();
        assert!(said.contains(name) && said.contains(word), "{word} in\n{said}");
    }
    let over = vars(&[("TABANE_COLOUR", "red")]);
    let loaded = parse::<ClientConfig>("c.toml", &client(), &over).unwrap();
    assert!(loaded.warnings[0].to_string().contains("TABANE_COLOUR"));
    let places = ["TABANE_CONTROL", "TABANE_RUNTIME_DIR", "TABANE_CONFIG_DIR"];
    let over = vars(&places.map(|name| (name, "/nowhere")));
    let loaded = parse::<ClientConfig>("c.toml", &client(), &over).unwrap();
    assert_eq!(loaded.warnings.len(), 0, "they say where things are: {:?}", loaded.warnings);
}

/// `LISTS` says which keys take text with commas: it must be all that hold lists of text.
#[test]
fn every_list_of_text_is_known_as_one() {
    for (role, lists) in [("client", ClientConfig::LISTS), ("server", ServerConfig::LISTS)] {
        let source = match role {
            "client" => {
                concat!(include_str!("client.rs"), include_str!("lan.rs"), include_str!("rule.rs"))
            }
            _ => include_str!("server.rs"),
        };
        let fields = source.lines().filter_map(|line| {
            let (name, kind) = line.trim().strip_prefix("pub ")?.split_once(": ")?;
            let kind = kind.trim_start_matches("Option<");
            let list = kind.starts_with("Vec<String>") || kind.starts_with("Vec<SocketAddr>");
            list.then_some(name)
        });
        let fields: Vec<_> = fields.collect();
        for field in &fields {
            let known = |list: &&&str| list.rsplit('.').next() == Some(field);
            assert!(lists.iter().any(|list| known(&list)), "{role}: {field}");
        }
        let own = lists.iter().filter(|list| !list.starts_with("next."));
        assert_eq!(fields.len(), own.count(), "{role}");
    }
    let shared = |list: &&&str| list.starts_with("server.") || list.starts_with("rule.");
    let shared = ClientConfig::LISTS.iter().filter(shared).map(|list| format!("next.{list}"));
    let next = ServerConfig::LISTS.iter().filter(|list| list.starts_with("next."));
    assert!(next.copied().eq(shared), "of a next server, the same as of a client");
}

#[test]
fn files_are_beside_the_configuration_and_must_be_private() {
    let folder = tempfile::tempdir().unwrap();
    let mode = |path: &std::path::Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(folder.path(), 0o755);
    let (path, key) = (folder.path().join("c.toml"), folder.path().join("key"));
    let line = format!("secret = \"{KEY}\"");
    fs::write(&path, client().replace(&line, "secret_file = \"key\"")).unwrap();
    let said = read::<ClientConfig>(&path, &[]).unwrap_err().to_string();
    assert!(said.contains(":3:15: ") && said.contains("No such file"), "{said}");
    fs::write(&key, format!("{KEY}\n")).unwrap();
    mode(&key, 0o644);
    let loaded = read::<ClientConfig>(&path, &[]).unwrap();
    assert_eq!(loaded.key, KEY.parse().unwrap());
    assert_eq!(loaded.config.secret_file.as_deref(), Some(&*key));
    assert!(loaded.warnings[0].to_string().contains("chmod 600"), "{:?}", loaded.warnings);
    mode(&key, 0o600);
    mode(&path, 0o644);
    assert!(read::<ClientConfig>(&path, &[]).unwrap().warnings.is_empty(), "no key is in it");
    fs::write(&path, client()).unwrap();
    let warnings = read::<ClientConfig>(&path, &[]).unwrap().warnings;
    assert!(warnings[0].to_string().contains("chmod 600"), "{warnings:?}");
    fs::write(&key, "junk").unwrap();
    fs::write(&path, client().replace(&line, "secret_file = \"key\"")).unwrap();
    let said = read::<ClientConfig>(&path, &[]).unwrap_err().to_string();
    assert!(said.contains(":3:15: not a key"), "{said}");
    for (named, words) in [(".", "directory"), ("/dev/zero", "longer than 4096 bytes")] {
        fs::write(&path, client().replace(&line, &format!("secret_file = \"{named}\""))).unwrap();
        let said = read::<ClientConfig>(&path, &[]).unwrap_err().to_string();
        assert!(said.contains(":3:15: ") && said.contains(words), "{named}: {said}");
    }
    fs::write(&path, format!("web_token_file = \".\"\n{}", client())).unwrap();
    let said = read::<ClientConfig>(&path, &[]).unwrap_err().to_string();
    assert!(said.contains(":1:18: ") && said.contains("directory"), "{said}");
}

/// Of a policy that is made from a file: ours is beside our configuration, and which of its own
/// files the other side reads is not ours to say.
#[test]
fn files_of_policies_are_ones_own() {
    const MADE_OF_FILE: Entry<scheduler::Build> = Entry {
        name: "made-of-file",
        aliases: &[],
        summary: "",
        params: &[Param::file("anything")],
        build: &|_| scheduler::build(&Spec::named("minrtt")),
    };
    scheduler::REGISTRY.register(MADE_OF_FILE).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.toml");
    let policy = "scheduler = \"made-of-file:file=a/p.onnx\"";
    let whole = format!("made-of-file:file={}", folder.path().join("a/p.onnx").display());
    let own = |policies: &Policies| policies.scheduler.as_ref().unwrap().0.to_string();
    let rule = format!("[[rule]]\nports = [\"80\"]\nup = {{ {policy} }}\n");
    fs::write(&path, format!("{}\n[up]\n{policy}\n{rule}", client())).unwrap();
    let config = read::<ClientConfig>(&path, &[]).unwrap().config;
    assert_eq!([own(&config.up), own(&config.rule[0].up)], [whole.clone(), whole.clone()]);
    fs::write(&path, format!("{}\n[down]\n{policy}\n", server())).unwrap();
    assert_eq!(own(&read::<ServerConfig>(&path, &[]).unwrap().config.down), whole);
    let text = format!("{}\n[down]\n{policy}\n", client());
    let said = connect_error::<ClientConfig>(&text);
    assert!(said.contains("would be a file of the server's"), "{said}");
    let text = format!("{}\n{}", client(), rule.replace("up =", "down ="));
    let said = connect_error::<ClientConfig>(&text);
    assert!(said.contains("would be a file of the server's"), "{said}");
}

/// It once opened the server itself and its cloud's metadata, too.
#[test]
fn a_server_that_opens_private_networks_is_told_what_that_means() {
    let warnings = |more: &str| {
        let text = format!("{}\n[access]\nprivate = true\n{more}", server());
        parse::<ServerConfig>("s.toml", &text, &[]).unwrap().warnings
    };
    let said = warnings("");
    assert!(said.len() == 1 && said[0].to_string().contains("loopback"), "{said:?}");
    for more in ["loopback = false\n", "metadata = true\n"] {
        assert!(warnings(more).is_empty(), "{more}");
    }
}

/// A limit of all clients together is none of one.
#[test]
fn the_limit_of_all_stands_with_the_server() {
    let text = format!("{}\n[limits]\ntotal = \"64MiB\"\n", server());
    parse::<ServerConfig>("s.toml", &text, &[]).unwrap();
    let own = server().replace("[[client]]\n", "[[client]]\nlimits = { total = \"64MiB\" }\n");
    let faults = parse::<ServerConfig>("s.toml", &own, &[]).unwrap_err().to_string();
    assert!(faults.contains("'total' is for all clients"), "{faults}");
}

#[test]
fn open_proxies_and_unreachable_rules_are_warned_about() {
    let text =
        client() + "[[rule]]\n[[rule]]\nports = [\"1\"]\n[front]\nsocks5 = [\"0.0.0.0:1080\"]\n";
    let warnings = parse::<ClientConfig>("c.toml", &text, &[]).unwrap().warnings;
    let said: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("login"), "{said:?}");
    assert!(said[1].contains("rule 1 takes everything"), "{said:?}");
}

/// Files from before version 2 of keys go on, and are told what would be better; whoever has said
/// that it is to be so is left alone.
#[test]
fn keys_that_a_server_has_made_are_warned_about() {
    let text = client().replace("key_version = 1\n", "");
    let loaded = parse::<ClientConfig>("c.toml", &text, &[]).unwrap();
    let [warning] = loaded.warnings.as_slice() else { panic!("{:?}", loaded.warnings) };
    assert!(warning.to_string().contains("--replace"), "{warning}");
    assert!(parse::<ClientConfig>("c.toml", &client(), &[]).unwrap().warnings.is_empty());
}

/// What is printed of a configuration while a fault is looked for has no keys in it.
#[test]
fn debug_shows_no_keys() {
    let text = client() + "[front]\nlogin = \"me:hidden\"\n";
    let text = text.replace("key_version", &format!("preshared_key = \"{THIRD}\"\nkey_version"));
    let client = format!("{:?}", parse::<ClientConfig>("c.toml", &text, &[]).unwrap().config);
    let server = format!("{:?}", parse::<ServerConfig>("s.toml", &server(), &[]).unwrap().config);
    for hidden in [KEY, "hidden"] {
        assert!(!client.contains(hidden) && !server.contains(hidden), "{client} {server}");
    }
    assert!(!client.contains(THIRD), "{client}");
}

mod rules {
    use super::*;
    use std::net::SocketAddr;

    fn compiled(text: &str) -> Rules {
        let text = format!("{}{text}", client());
        parse::<ClientConfig>("c.toml", &text, &[]).unwrap().config.rules().unwrap()
    }

    #[test]
    fn the_first_that_matches_counts_and_leaves_the_rest_open() {
        let rules = compiled(
            r#"
[up]
scheduler = "roundrobin"
[[rule]]
ports = ["27000-27100"]
protocol = "udp"
up = { udp = "duplicate" }
[[rule]]
names = ["*.example.org", "Game.Example"]
down = { scheduler = "redundant", congestion = "olia" }
[[rule]]
destinations = ["192.0.2.0/24", "2001:db8::1"]
ports = ["443"]
up = { egress = "bicast" }
"#,
        );
        let (tcp, udp) = (Protocol::Tcp, Protocol::Udp);
        let cases: &[(Protocol, &str, Option<&str>, Option<usize>)] = &[
            (udp, "1.1.1.1:27050", None, Some(0)),
            (tcp, "1.1.1.1:27050", None, None),
            (udp, "1.1.1.1:27101", None, None),
            (tcp, "1.1.1.1:80", Some("www.example.org"), Some(1)),
            (tcp, "1.1.1.1:80", Some("WWW.EXAMPLE.ORG."), Some(1)),
            (tcp, "1.1.1.1:80", Some("example.org"), None),
            (tcp, "1.1.1.1:80", Some("badexample.org"), None),
            (tcp, "1.1.1.1:80", Some("game.example"), Some(1)),
            (tcp, "1.1.1.1:80", Some("a.game.example"), None),
            (tcp, "192.0.2.7:443", None, Some(2)),
            (tcp, "[::ffff:192.0.2.7]:443", None, Some(2)),
            (tcp, "[2001:db8::1]:443", None, Some(2)),
            (tcp, "192.0.2.7:80", None, None),
            (tcp, "192.0.3.7:443", None, None),
        ];
        for (on, to, name, rule) in cases {
            let to: SocketAddr = to.parse().unwrap();
            assert_eq!(rules.find(*on, to, *name).rule, *rule, "{on:?} {to} {name:?}");
        }
        let to = "1.1.1.1:80".parse().unwrap();
        let game = rules.find(tcp, to, Some("game.example"));
        assert_eq!(game.up.scheduler.name, "roundrobin", "what is open is the agent's");
        assert_eq!(game.down.scheduler.name, "redundant");
        assert_eq!(game.down.egress.name, "own", "and what that leaves open is the engine's");
        assert_eq!(rules.find(tcp, to, None), rules.rest());
    }

    #[test]
    fn more_than_the_limit_is_refused() {
        let many = vec![Rule::default(); matching::RULES_MAX + 1];
        let none = Policies::default();
        assert!(Rules::compile(&many, &none, &none).is_err());
        assert!(Rules::compile(&many[1..], &none, &none).is_ok());
    }
}

#[test]
fn hosts_are_behind_interfaces_that_are_nothing_else() {
    let parsed =
        |lan: &str| parse::<ClientConfig>("c.toml", &format!("{}[lan]\n{lan}\n", client()), &[]);
    let lan = parsed("interfaces = ['br0']").unwrap().config.lan.unwrap();
    assert_eq!((lan.interfaces, lan.when_down), (vec!["br0".into()], WhenDown::Block));
    for (text, words) in [
        ("", "no interfaces"),
        ("interface = ['br0']", "did you mean 'interfaces'?"),
        ("interfaces = ['wwan0']", "wwan0 is the link of a path"),
        ("interfaces = ['tabane0']", "tabane0 is the TUN device"),
        ("interfaces = ['br0', 'br0']", "br0 is named twice"),
        ("interfaces = ['br0']\nwhen_down = 'open'", "known: block, direct"),
    ] {
        let said = parsed(text).unwrap_err().to_string();
        assert!(said.contains(words), "{said}");
    }
}

mod reload {
    use super::*;

    #[test]
    fn parts_that_differ_are_named_and_some_need_a_restart() {
        let old = parse::<ClientConfig>("c.toml", &client(), &[]).unwrap().config;
        assert_eq!(old.changes(&old), []);
        let mut new = old.clone();
        new.path[1].role = crate::model::Role::Primary;
        new.path[0].interface = Some("eth1".into());
        new.path.push(PathConfig { interface: Some("eth2".into()), ..PathConfig::default() });
        new.up.scheduler = Some(Spec::named("ecf").into());
        new.tun = Some(TunConfig::default());
        let parts = old.changes(&new);
        assert_eq!(parts, [ClientPart::Paths, ClientPart::Policies, ClientPart::Tun]);
        let live: Vec<_> = parts.iter().map(|part| part.is_live()).collect();
        assert_eq!(live, [true, true, false]);
        let expected = [PathChange::Moved, PathChange::Adjusted, PathChange::Added];
        assert_eq!(old.path_changes(&new), PathIndex::enumerate(expected).collect::<Vec<_>>());
        assert_eq!(new.path_changes(&old)[2], (PathIndex::new(2), PathChange::Removed));
    }

    #[test]
    fn clients_of_a_server_come_and_go() {
        let old = parse::<ServerConfig>("s.toml", &server(), &[]).unwrap().config;
        let mut new = old.clone();
        new.client.push(ClientEntry {
            name: "b".into(),
            number: 9,
            keys: vec![OTHER.into()],
            ..ClientEntry::default()
        });
        new.client[0].disabled = true;
        assert_eq!(old.changes(&new), [ServerPart::Clients]);
        let changes = old.client_changes(&new);
        assert_eq!(changes, [(1, ClientChange::Removed), (9, ClientChange::Added)]);
        let mut rekeyed = old.clone();
        rekeyed.client[0].keys = vec![OTHER.into()];
        assert_eq!(old.client_changes(&rekeyed), [(1, ClientChange::Rekeyed)]);
        rekeyed.client[0] = ClientEntry { name: "c".into(), ..old.client[0].clone() };
        assert_eq!(old.client_changes(&rekeyed), [(1, ClientChange::Adjusted)]);
    }
}

mod page {
    //! `docs/configuring.md` and the structs name the same keys.

    const PAGE: &str = include_str!("../../../../docs/configuring.md");
    const SOURCES: [&str; 5] = [
        include_str!("client.rs"),
        include_str!("lan.rs"),
        include_str!("next.rs"),
        include_str!("server.rs"),
        include_str!("rule.rs"),
    ];
    /// A struct, and the heading that its table stands below.
    const TABLES: [(&str, &str); 17] = [
        ("ClientConfig", "## Client"),
        ("ServerEntry", "### `[[server]]`"),
        ("PathConfig", "### `[[path]]`"),
        ("ListenerConfig", "### `[front]`"),
        ("TunConfig", "### `[tun]`"),
        ("LanConfig", "### `[lan]`"),
        ("Policies", "### `[up]`, `[down]`"),
        ("Rule", "### `[[rule]]`"),
        ("ServerConfig", "## Server"),
        ("NextConfig", "### `[next]`"),
        ("ClientEntry", "### `[[client]]`"),
        ("InvitationEntry", "### `invitation` of a client"),
        ("ClientLimits", "### `[limits]`"),
        ("AccessConfig", "### `[access]`"),
        ("WhenDown", ""),
        ("UdpMode", ""),
        ("Protect", ""),
    ];

    /// What stands behind `pub` or `pub(crate)`.
    fn public(line: &'static str) -> Option<&'static str> {
        line.strip_prefix("pub ").or_else(|| line.strip_prefix("pub(crate) "))
    }

    fn fields(name: &str) -> Vec<&'static str> {
        let head = format!(" struct {name} {{\n");
        let body = SOURCES.iter().find_map(|source| source.split_once(&head)).unwrap().1;
        let body = body.split_once("\n}").unwrap().0;
        let field = |line: &'static str| public(line.trim())?.split_once(": ");
        let lines: Vec<_> = body.lines().collect();
        let pairs = [""].iter().chain(&lines).zip(&lines);
        let document = pairs.filter(|(before, _)| before.trim() != "#[serde(skip)]");
        document.filter_map(|(_, line)| Some(field(line)?.0)).collect()
    }

    fn rows(heading: &str) -> Vec<&'static str> {
        let start = PAGE.find(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
        let below = &PAGE[start + heading.len() + 2..];
        let end = below.find("\n## ").unwrap_or(below.len());
        let end = below.find("\n### ").map_or(end, |at| at.min(end));
        let row = |line: &'static str| Some(line.strip_prefix("| `")?.split_once("` |")?.0);
        below[..end].lines().filter_map(row).collect()
    }

    #[test]
    fn every_key_is_on_the_page_and_no_other() {
        for (name, heading) in TABLES.into_iter().filter(|table| !table.1.is_empty()) {
            assert_eq!(rows(heading), fields(name), "{name}: {heading}");
        }
    }

    #[test]
    fn every_struct_has_a_table() {
        let structs = SOURCES.iter().flat_map(|source| source.lines()).filter_map(|line| {
            let item = public(line)?;
            item.strip_prefix("struct ").or_else(|| item.strip_prefix("enum "))
        });
        for name in structs.map(|rest| rest.trim_end_matches(" {")) {
            assert!(TABLES.iter().any(|table| table.0 == name), "{name}");
        }
    }

    /// The examples are configurations.
    #[test]
    fn examples_are_sound() {
        let example = |n| PAGE.split("```toml\n").nth(n).unwrap().split("```").next().unwrap();
        let text = format!("{}{}", super::client(), example(1));
        super::parse::<super::ClientConfig>("page", &text, &[]).unwrap();
        let key = format!("secret = \"{}\"", super::KEY);
        let next = example(2).replace("secret_file = \"next.key\"", &key);
        super::parse::<super::ServerConfig>("page", &(super::server() + &next), &[]).unwrap();
    }
}
