//! Manual pages: section 1 from the command line's description, section 5 from the documents of
//! the files that people write.

use super::document;
use clap::Command;
use clap_mangen::Man;
use std::fmt::Write as _;
use std::io;

/// A page.
pub(super) struct Page {
    /// `tabane-sim-run`.
    pub(super) name: String,
    /// 1 or 5.
    pub(super) section: u8,
    /// roff.
    pub(super) text: String,
}

/// How every verb ends; `exit.rs` does it.
const STATUS: &[(&str, &str)] = &[
    ("0", "It is done."),
    ("1", "It failed; the cause is on standard error."),
    ("2", "It was asked wrongly; what to do is on standard error."),
    ("130", "It was interrupted; what is kept is on standard error."),
];

/// Verbs that run, ask or configure an agent.
const OF_AGENTS: &[&str] = &[
    "client", "conn", "config", "doctor", "monitor", "path", "policy", "record", "reload",
    "server", "service", "status", "top", "whatif",
];

const FILES: &[(&str, &str)] = &[
    ("/etc/tabane/client.toml, /etc/tabane/NAME.toml", "A client. See tabane.toml(5)."),
    ("/etc/tabane/server.toml", "The server. See tabane.toml(5)."),
    ("/run/tabane/NAME.sock", "The control socket of an agent that root runs by hand."),
    ("$XDG_RUNTIME_DIR/tabane/NAME.sock", "That of an agent that a user runs."),
    ("/var/lib/tabane/", "What a client in TUN mode has changed on the host, until it is undone."),
];

const ENVIRONMENT: &[(&str, &str)] = &[
    ("TABANE_CLIENT_KEY, TABANE_SERVER_KEY", "Values laid over the file. See tabane.toml(5)."),
    ("TABANE_CONTROL", "The control socket of the agent that is asked."),
    ("TABANE_RUNTIME_DIR", "The folder of control sockets, instead of those that are looked in."),
    ("TABANE_CONFIG_DIR", "The folder of configurations, instead of /etc/tabane."),
    ("RUNTIME_DIRECTORY, STATE_DIRECTORY", "Folders that systemd gives to a service."),
];

/// Every page.
///
/// # Errors
/// None that writing to memory could give.
pub(super) fn all(command: Command) -> io::Result<Vec<Page>> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    of_verbs(&command, None, &mut pages)?;
    let configuring = include_str!("../../../docs/configuring.md");
    let scenarios = include_str!("../../../docs/scenarios.md");
    let about = "configuration of a client or a server of tabane";
    pages.push(file("tabane.toml", about, configuring));
    let text = ".so man5/tabane.toml.5\n".to_owned();
    pages.push(Page { name: "tabane-server.toml".into(), section: 5, text });
    pages.push(file("tabane-scenario", "scenarios of tabane: links, hosts, flows", scenarios));
    Ok(pages)
}

/// The page of a verb, and of those below it. `top` is the verb right below the program.
fn of_verbs(command: &Command, top: Option<&str>, pages: &mut Vec<Page>) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let man = Man::new(command.clone());
    let mut roff = Vec::new();
    man.render_title(&mut roff)?;
    man.render_name_section(&mut roff)?;
    man.render_synopsis_section(&mut roff)?;
    man.render_description_section(&mut roff)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut roff)?;
    }
    let verbs: Vec<&Command> = command.get_subcommands().filter(|c| !c.is_hide_set()).collect();
    if !verbs.is_empty() {
        man.render_subcommands_section(&mut roff)?;
    }
    let mut text = String::from_utf8_lossy(&roff).into_owned();
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (examples, notes) = sorted(&help);
    if !notes.is_empty() {
        text += ".SH NOTES\n";
        text += &document::text(&notes.join("\n"));
    }
    list(&mut text, "EXIT STATUS", STATUS);
    if top.is_none_or(|verb| OF_AGENTS.contains(&verb)) {
        list(&mut text, "ENVIRONMENT", ENVIRONMENT);
        list(&mut text, "FILES", FILES);
    }
    if !examples.is_empty() {
        text += ".SH EXAMPLES\n";
        text += &document::verbatim(&examples.join("\n"));
    }
    let above = name.rsplit_once('-').map(|(above, _)| format!(".BR {above} (1),\n"));
    let files = ".BR tabane.toml (5),\n.BR tabane\\-scenario (5)\n";
    let _ = write!(text, ".SH \"SEE ALSO\"\n{}{files}", above.unwrap_or_default());
    pages.push(Page { name, section: 1, text });
    for verb in verbs {
        of_verbs(verb, top.or(Some(verb.get_name())), pages)?;
    }
    Ok(())
}

/// What stands behind the options of a verb's help: examples, and the rest. Exit codes have a
/// section of their own.
fn sorted(help: &str) -> (Vec<&str>, Vec<&str>) {
    let (mut examples, mut notes, mut inside) = (Vec::new(), Vec::new(), false);
    for line in help.lines() {
        if line.starts_with("Example") && line.ends_with(':') {
            inside = true;
            // Examples with a condition ("as root") keep it.
            let said = line.trim_start_matches("Examples").trim_start_matches("Example");
            let said = said.trim_matches([',', ':', ' ']);
            examples.extend((!said.is_empty()).then_some(said));
        } else if inside && (line.starts_with("  ") || line.is_empty()) {
            examples.push(line);
        } else {
            inside = false;
            notes.push(line);
        }
    }
    notes.retain(|line| !line.starts_with("Exit codes:") && !line.starts_with("130 "));
    while examples.last().is_some_and(|line| line.is_empty()) {
        examples.pop();
    }
    if notes.iter().all(|line| line.is_empty()) {
        notes.clear();
    }
    (examples, notes)
}

fn list(text: &mut String, title: &str, rows: &[(&str, &str)]) {
    let _ = writeln!(text, ".SH \"{title}\"");
    for (term, words) in rows {
        let (term, words) = (document::escape(term), document::escape(words));
        let _ = writeln!(text, ".TP\n\\fB{term}\\fR\n{words}");
    }
}

/// The page of a file that people write, made from its document.
fn file(name: &str, about: &str, markdown: &str) -> Page {
    let version = env!("CARGO_PKG_VERSION");
    let shown = document::escape(name);
    let mut text =
        format!(".TH {name} 5 \"\" \"tabane {version}\"\n.SH NAME\n{shown} \\- {about}\n");
    text += &document::roff(markdown);
    let _ = write!(text, ".SH \"SEE ALSO\"\n.BR tabane (1)\n");
    Page { name: name.to_owned(), section: 5, text }
}
