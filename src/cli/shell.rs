//! What shells and `man` want to know: completions and man pages, from the definition of the command line.

use std::fs;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use super::{Cli, Exit, Failure, out};

/// Prints the completions for a shell.
pub fn completions(shell: Shell) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "spectop", &mut text);
    out::print(&String::from_utf8_lossy(&text)).map(drop)
}

/// Prints the man page, or writes one for every subcommand into a folder.
pub fn man(dir: Option<&Path>) -> Result<(), Failure> {
    let Some(dir) = dir else {
        return out::print(&String::from_utf8_lossy(&page(Cli::command())?)).map(drop);
    };
    fs::create_dir_all(dir).map_err(|e| failed(dir, &e))?;
    let mut root = Cli::command();
    root.build();
    pages(&root, "spectop", dir)
}

fn pages(command: &Command, name: &str, dir: &Path) -> Result<(), Failure> {
    let path = dir.join(format!("{name}.1"));
    // The file and the heading must have the same name: man looks pages up by it.
    fs::write(&path, page(command.clone().name(name.to_owned()))?).map_err(|e| failed(&path, &e))?;
    for sub in command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help") {
        pages(sub, &format!("{name}-{}", sub.get_name()), dir)?;
    }
    Ok(())
}

fn page(command: Command) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    Man::new(command)
        .render(&mut text)
        .map_err(|e| Failure::new(Exit::Failed, format!("the man page could not be made: {e}")))?;
    Ok(text)
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("{}: {error}", path.display()))
}
