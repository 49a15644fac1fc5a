use clap::{CommandFactory, Parser};

use super::*;
use crate::cli::{Cli, Command};

fn parse(line: &str) -> Result<BenchCommand, clap::Error> {
    let cli = Cli::try_parse_from(line.split_whitespace())?;
    match cli.command {
        Some(Command::Bench(args)) => Ok(args.command),
        other => panic!("{other:?}"),
    }
}

fn run_args(line: &str) -> RunArgs {
    match parse(line) {
        Ok(BenchCommand::Run(args)) => args,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn a_run_has_defaults() {
    let args = run_args("spectop bench run");
    let options = args.measure.options(args.modes, args.concurrency);
    let want = RunOptions {
        suites: vec!["story".into()],
        prompts: None,
        modes: vec![],
        repeats: 5,
        concurrency: vec![1],
        temperature: 0.0,
        max_tokens: 256,
        seed: 1,
        timeout_s: 300.0,
    };
    assert_eq!((options, args.url, args.resume), (want, None, None));
}

#[test]
fn a_run_takes_everything() {
    let args = run_args(
        "spectop bench run host:1 --tiny --suite story,a.jsonl --suite builtin --modes off,ddtree:32:noseed --repeats 3 \
         --prompts 4 --concurrency 1,4 --json - --csv x.csv --prefix-cache nonce --dry-run",
    );
    assert_eq!(args.url.as_deref(), Some("host:1"));
    assert_eq!(args.measure.suite, ["story", "a.jsonl", "builtin"]);
    assert_eq!(args.modes, ["off", "ddtree:32:noseed"]);
    assert_eq!(args.concurrency, [1, 4]);
    assert_eq!((args.measure.prompts, args.measure.dry_run), (Some(4), true));
    assert_eq!(args.measure.output.json, Some("-".into()));
    assert_eq!(args.measure.prefix_cache, Some(PrefixCacheArg::Nonce));
    let urls = run_args("spectop bench run --modes off=http://a:1,dflash=http://b:2").modes;
    assert_eq!(urls, ["off=http://a:1", "dflash=http://b:2"]);
    assert_eq!(run_args("spectop bench run --resume").resume.as_deref(), Some("last"));
    assert_eq!(run_args("spectop bench run --resume 20260101-0000-abcd").resume.as_deref(), Some("20260101-0000-abcd"));
}

#[test]
fn the_others_are_read() {
    let Ok(BenchCommand::Compare(args)) =
        parse("spectop bench compare a b.json --fail-if ddtree<1.1,lossless --fail-if failed")
    else {
        panic!("no compare");
    };
    assert_eq!((args.runs.len(), args.fail_if.len()), (2, 3));
    assert!(matches!(parse("spectop bench sweep --over tree_budget=4,8"), Ok(BenchCommand::Sweep(_))));
    assert!(matches!(parse("spectop bench list --json"), Ok(BenchCommand::List { json: true })));
    assert!(matches!(parse("spectop bench report last --html x.html"), Ok(BenchCommand::Report(_))));
    for bad in [
        "spectop bench",
        "spectop bench sweep",
        "spectop bench sweep --over x=1",
        "spectop bench compare",
        "spectop bench compare a --fail-if nonsense",
        "spectop bench report",
        "spectop bench run --modes off --resume",
        "spectop bench run --dry-run --resume",
    ] {
        assert!(parse(bad).is_err(), "{bad}");
    }
}
