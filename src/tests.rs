//! What documents and help texts show is what the program takes: their commands parse, and their
//! TOML is read by the parsers of scenarios and configurations. (Their Rust is compiled by
//! `crates/engine/tests/adding`, the paths that they name are looked for by `tests/tidy`.)

use crate::Cli;
use clap::CommandFactory;
use clap::error::ErrorKind;
use std::path::{Path, PathBuf};
use tabane_gateway::config::client::ClientConfig;
use tabane_gateway::config::load::parse;
use tabane_gateway::config::server::ServerConfig;
use tabane_sim::scenario::Document;

/// Documents with commands and TOML.
fn documents() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = std::fs::read_dir(root.join("docs")).expect("there are documents");
    let mut files: Vec<PathBuf> = folder.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.extend(["README.md", "CONTRIBUTING.md", "packaging/README.md"].map(|f| root.join(f)));
    files.retain(|file| file.extension().is_some_and(|end| end == "md"));
    files.sort();
    let read = |file: PathBuf| {
        let text = std::fs::read_to_string(&file).expect("documents can be read");
        (file, text)
    };
    files.into_iter().map(read).collect()
}

/// Commands among these lines: those that begin with `tabane`.
fn commands(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(|line| line.trim().trim_start_matches("$ "));
    let lines = lines.map(|line| line.strip_prefix("sudo ").unwrap_or(line));
    let verb = |line: &&str| {
        let rest = line.strip_prefix("tabane ");
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '-'))
    };
    lines.filter(verb)
}

/// Lines of a document that are no prose: fenced, or indented by four blanks.
fn code(text: &str) -> String {
    let mut fenced = false;
    let kept = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        !is_fence && (fenced || line.starts_with("    "))
    });
    kept.collect::<Vec<_>>().join("\n")
}

/// The words of a shell's line, up to a comment, a pipe, a redirection or two blanks, after which
/// help texts explain. `None` if it is a pattern (`[--json]`) and no command.
fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.push(c),
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => return None,
            (None, '|' | '>' | '&' | '<' | ';') => break,
            (None, ' ') => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                if chars.peek().is_some_and(|next| *next == ' ' || *next == '#') {
                    break;
                }
            }
            (None, c) => word.push(c),
        }
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    Some(words)
}

/// Why a command would be refused: it is parsed with `--help` at its end, which spares it what is
/// left out (`tabane status ...`) and nothing that it has.
fn refusal(line: &str) -> Option<String> {
    let mut words = words(line)?;
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    words.insert(end, "--help".to_owned());
    let parsed = Cli::command().try_get_matches_from(&words);
    match parsed.map_err(|error| (error.kind(), error.to_string())) {
        Err((ErrorKind::DisplayHelp, _)) => None,
        // A word in capitals stands for a value that is not here.
        Err((ErrorKind::ValueValidation, _)) if words.iter().any(|word| stands_for(word)) => None,
        Err((_, text)) => Some(text),
        Ok(_) => Some("it is taken without looking at --help".to_owned()),
    }
}

fn stands_for(word: &str) -> bool {
    word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase())
}

#[test]
fn commands_of_documents_are_taken() {
    let mut count = 0;
    for (file, text) in documents() {
        for line in commands(&code(&text)) {
            let refused = refusal(line);
            assert_eq!(refused, None, "{}: {line}", file.display());
            count += 1;
        }
    }
    assert!(count > 40, "only {count} commands found");
    assert!(refusal("tabane sim run x.toml --sset a=b").is_some());
    assert!(refusal("tabane simm run").is_some());
}

#[test]
fn commands_of_help_texts_are_taken() {
    fn visit(command: &clap::Command, count: &mut usize) {
        let name = command.get_name().to_owned();
        for help in [command.get_after_help(), command.get_after_long_help()] {
            let text = help.map(ToString::to_string).unwrap_or_default();
            for line in commands(&text) {
                assert_eq!(refusal(line), None, "help of {name}: {line}");
                *count += 1;
            }
        }
        command.get_subcommands().for_each(|below| visit(below, count));
    }
    let mut count = 0;
    visit(&Cli::command(), &mut count);
    assert!(count > 60, "only {count} commands found");
}

/// TOML blocks of a document: where they begin, what they say.
fn blocks(text: &str) -> Vec<(usize, String)> {
    let (mut blocks, mut open) = (Vec::new(), false);
    for (index, line) in text.lines().enumerate() {
        match line.trim() {
            "```toml" => {
                open = true;
                blocks.push((index + 2, String::new()));
            }
            "```" => open = false,
            _ if open => {
                if let Some((_, block)) = blocks.last_mut() {
                    block.push_str(line);
                    block.push('\n');
                }
            }
            _ => {}
        }
    }
    blocks
}

/// Scenarios that a block may be a part of. What the block does not say is theirs.
const SCENARIOS: [&str; 5] = [
    "link.wifi = { rate = '9Mbps', delay = '9ms' }\n\
     link.lte = { rate = '9Mbps', delay = '9ms' }\nflow = [{ bulk = '1MB' }]",
    "link.wifi = { rate = '9Mbps', delay = '9ms' }\n\
     link.lte = { rate = '9Mbps', delay = '9ms' }\nlink.core = { rate = '9Mbps' }\n\
     flow = [{ bulk = '1MB' }]",
    "link.wifi = { rate = '9Mbps' }\nlink.lte = { rate = '9Mbps' }\n\
     link.lan = { rate = '9Mbps' }\npath.wifi = { to = 'relay', links = ['wifi'] }\n\
     path.lte = { to = 'relay', links = ['lte'] }\n\
     path.lan = { from = 'relay', to = 'server', links = ['lan'] }\nproxy.relay = {}\n\
     flow = [{ bulk = '1MB', via = ['relay'] }]",
    "link.web = { between = ['internet', 'web'], rate = '9Mbps' }\n\
     flow = [{ from = 'phone', to = 'web', bulk = '1MB' }]",
    "link.wifi = { rate = '9Mbps' }\nlink.lte = { rate = '9Mbps' }\n\
     path.wifi = { links = ['wifi'] }\npath.lte = { to = 'other', links = ['lte'] }\n\
     flow = [{ bulk = '1MB' }, { to = 'other', bulk = '1MB' }]",
];

/// `part` laid over `whole`, table by table.
fn merge(whole: &mut toml::Table, part: toml::Table) {
    for (key, value) in part {
        match (whole.get_mut(&key), value) {
            (Some(toml::Value::Table(below)), toml::Value::Table(part)) if key != "flow" => {
                merge(below, part);
            }
            (_, value) => drop(whole.insert(key, value)),
        }
    }
}

#[test]
fn toml_of_documents_is_read() {
    let (mut scenarios, mut configurations) = (0, 0);
    for (file, text) in documents() {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for (line, block) in blocks(&text) {
            let part: toml::Table = block.parse().unwrap_or_else(|e| panic!("{name}:{line}: {e}"));
            if ["configuring.md", "recording.md"].contains(&name.as_str()) {
                let key = "uRHCGeFjN+8uoyl4sLbve9ZB2C1z4GgBscZP+y2rknk=";
                let client = format!(
                    "secret = '{key}'\n[[server]]\naddresses = ['192.0.2.1:1']\n\
                     public_key = '{key}'\n[[path]]\ninterface = 'eth0'\n"
                );
                if part.contains_key("rule") {
                    let parsed = parse::<ClientConfig>(&name, &(client + &block), &[]);
                    parsed.unwrap_or_else(|e| panic!("{name}:{line}: {e}"));
                } else {
                    // A server's: the file of its key is not here, and that is all it lacks.
                    let server = format!(
                        "private_key = '{key}'\nlisten = ['0.0.0.0:1']\n{}",
                        block.replace("secret_file = \"next.key\"", &format!("secret = '{key}'"))
                    );
                    let parsed = parse::<ServerConfig>(&name, &server, &[]);
                    parsed.unwrap_or_else(|e| panic!("{name}:{line}: {e}"));
                }
                configurations += 1;
                continue;
            }
            let alone = std::iter::once("").chain(SCENARIOS);
            let tried: Vec<String> = alone
                .filter_map(|whole| {
                    let mut whole: toml::Table = whole.parse().expect("these are right");
                    merge(&mut whole, part.clone());
                    let document = Document::parse(&name, &whole.to_string(), &[]);
                    document.and_then(|d| d.variants()).err().map(|e| e.to_string())
                })
                .collect();
            let refused = tried.len() > SCENARIOS.len();
            assert!(!refused, "{name}:{line}:\n{block}\n{}", tried.join("\n"));
            scenarios += 1;
        }
    }
    assert!(scenarios >= 10 && configurations >= 2, "{scenarios} {configurations}");
}
