//! Parse, dispatch, exit code; nothing else.

use std::process::ExitCode;

use clap::Parser;
use spectop::cli::{Cli, Command, conformance, generate};
use spectop::engine::weights::hub;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let e = &cli.engine;
    let r = match cli.command {
        Some(Command::Conformance { dir, json }) => conformance::run(&cli.engine, &dir, json),
        Some(Command::Generate(a)) => generate::run(&a, conformance::engine_config(e), hub::resolve(e.target.clone(), e.draft.clone(), e.no_draft, e.tiny)),
        _ => Ok(()),
    };
    match r { Ok(()) => ExitCode::SUCCESS, Err(f) => { eprintln!("{}", f.message); f.exit.into() } }
}
