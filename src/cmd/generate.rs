//! `tabane completions` and `tabane man`: made from the command line's own description, and from
//! the documents of the files that people write.

mod document;
mod page;

use crate::exit::Failure;
use crate::say;
use anyhow::Context;
use clap::CommandFactory;
use page::Page;
use std::path::{Path, PathBuf};
use tabane_engine::policy::{meant, nearest};

/// Print a completion script for a shell.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  source <(tabane completions bash)
  tabane completions zsh > ~/.zfunc/_tabane
  tabane completions fish > ~/.config/fish/completions/tabane.fish")]
pub(crate) struct CompletionArgs {
    /// The shell.
    shell: clap_complete::Shell,
}

/// Print a manual page: of tabane, of a verb, or of a file format.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  tabane man | man -l -
  tabane man tabane-sim-run | man -l -
  tabane man tabane.toml | man -l -            configurations; tabane-scenario: scenarios
  tabane man --out /usr/local/share/man/man1   all; those of files into man5 beside it")]
pub(crate) struct ManArgs {
    /// The page.
    #[arg(default_value = "tabane", conflicts_with = "out")]
    page: String,
    /// Write all pages into this folder instead; if it is called man1, pages of section 5 go into
    /// man5 beside it.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Prints a shell's script.
///
/// # Errors
/// When standard output cannot be written.
pub(crate) fn completions(args: &CompletionArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "tabane", &mut script);
    let text = String::from_utf8(script).expect("invariant: help texts are UTF-8");
    say::print(text.trim_end())
}

/// Prints a page, or writes all.
///
/// # Errors
/// When there is no such page, or they cannot be written.
pub(crate) fn man(args: &ManArgs) -> Result<(), Failure> {
    let pages = page::all(crate::Cli::command())?;
    if let Some(folder) = &args.out {
        return write(folder, &pages);
    }
    match pages.iter().find(|page| page.name == args.page) {
        Some(page) => say::print(page.text.trim_end()),
        None => {
            let meant = meant(nearest(&args.page, pages.iter().map(|page| page.name.as_str())));
            let text = format!("there is no page '{}'{meant}", args.page);
            Err(Failure::usage(format!("{text}; tabane man --out DIR writes all there are")))
        }
    }
}

fn write(folder: &Path, pages: &[Page]) -> Result<(), Failure> {
    let beside = match folder.file_name() {
        Some(name) if name == "man1" => folder.with_file_name("man5"),
        _ => folder.to_owned(),
    };
    for page in pages {
        let folder = if page.section == 5 { &beside } else { folder };
        let cannot = || format!("{}: pages cannot be written", folder.display());
        std::fs::create_dir_all(folder).with_context(cannot)?;
        let file = folder.join(format!("{}.{}", page.name, page.section));
        std::fs::write(file, &page.text).with_context(cannot)?;
    }
    Ok(())
}
