//! `tabane completions` and `tabane man`: made from the command line's own description.

use crate::exit::Failure;
use crate::say;
use anyhow::Context;
use clap::CommandFactory;
use std::path::PathBuf;

/// Print what makes a shell complete words of tabane.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  source <(tabane completions bash)
  tabane completions zsh > ~/.zfunc/_tabane
  tabane completions fish > ~/.config/fish/completions/tabane.fish")]
pub(crate) struct CompletionArgs {
    /// Which shell.
    shell: clap_complete::Shell,
}

/// Print the manual page.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  tabane man | man -l -
  tabane man --out /usr/local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Write the pages of all verbs into this folder, instead.
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
    print(script)
}

/// Prints the page, or writes all.
///
/// # Errors
/// When they cannot be written.
pub(crate) fn man(args: &ManArgs) -> Result<(), Failure> {
    let command = crate::Cli::command();
    let Some(folder) = &args.out else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        return print(page);
    };
    let cannot = || format!("{}: pages cannot be written", folder.display());
    std::fs::create_dir_all(folder).with_context(cannot)?;
    clap_mangen::generate_to(command, folder).with_context(cannot)?;
    Ok(())
}

fn print(bytes: Vec<u8>) -> Result<(), Failure> {
    let text = String::from_utf8(bytes).expect("invariant: help texts are UTF-8");
    say::print(text.trim_end())
}
