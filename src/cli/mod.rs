//! Command line: one file a subcommand. This file says what can be asked for.

pub mod attach;
pub mod bench;
pub mod bench_host;
pub mod bench_kernels;
#[cfg(target_os = "linux")]
pub mod bench_ui;
pub mod config;
pub mod conformance;
pub mod dashboard;
pub mod generate;
pub mod inspect;
pub mod loading;
pub mod machine;
pub mod models;
pub mod out;
pub mod png;
#[cfg(unix)]
pub mod pty;
pub mod recorder;
pub mod replay;
pub mod run_host;
pub mod screen_args;
pub mod screen_loop;
pub mod screenshot;
pub mod serve;
pub mod setup;
pub mod shell;
pub mod snapshot;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::engine::api::{Precision, Resolve};
use crate::engine::device::Device;
use crate::engine::weights::hub;
use crate::gpu::{DEFAULT_INTERVAL, Sampler};
use crate::protocol::mode::{Mode, ModeRequest};
pub use screen_args::ScreenArgs;

/// Exit codes, the same for every subcommand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// All went well.
    Ok = 0,
    /// Something failed while running.
    Failed = 1,
    /// The command line or a file it names is wrong.
    Usage = 2,
    /// The server cannot be reached.
    Unreachable = 3,
    /// A benchmark ended, but requests in it failed.
    FailedRequests = 4,
    /// A gate was not met: a conformance check or a condition of `bench compare`.
    Gate = 5,
    /// Interrupted by the user.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// A failure that ends the program: its message goes to stderr, its code to the shell.
#[derive(Debug)]
pub struct Failure {
    /// Exit code.
    pub exit: Exit,
    /// What happened and what to do next.
    pub message: String,
}

impl Failure {
    /// A failure with this code.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }
}

/// A dashboard for speculative decoding, with its own engine.
#[derive(Debug, Parser)]
#[command(name = "spectop", version, about, long_about = None)]
pub struct Cli {
    /// What to do; without a subcommand: start the engine and open the dashboard on it.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Options of the embedded engine.
    #[command(flatten, next_help_heading = "Engine")]
    pub engine: EngineArgs,
    /// Options of the screen.
    #[command(flatten, next_help_heading = "Screen")]
    pub screen: ScreenArgs,
    /// Configuration file, instead of the one in the user's folder.
    #[arg(long, global = true, value_name = "FILE", env = "SPECTOP_CONFIG")]
    pub config: Option<PathBuf>,
}

/// Options of the engine.
#[derive(Debug, Clone, Args)]
pub struct EngineArgs {
    /// Target model: a GGUF file, a folder with config.json and safetensors, or a model of the Hugging Face hub
    /// (owner/name, owner/name@revision, owner/name:file.gguf or owner/name:Q4_K_M). Default: SmolLM2-135M-Instruct.
    #[arg(long, global = true, value_name = "PATH|REPO")]
    pub target: Option<PathBuf>,
    /// Drafter: a folder with config.json and model.safetensors, or a model of the hub. Default: the one made for the
    /// target.
    #[arg(long, global = true, value_name = "PATH|REPO")]
    pub draft: Option<PathBuf>,
    /// Run without a drafter.
    #[arg(long, global = true, conflicts_with = "draft")]
    pub no_draft: bool,
    /// Use the embedded toy pair: nothing is fetched.
    #[arg(long, global = true, conflicts_with_all = ["target", "draft"])]
    pub tiny: bool,
    /// Where the models run: cpu, cuda:N, or auto (the first GPU if there is one).
    #[arg(long, global = true, default_value_t = Device::Auto, value_name = "DEVICE")]
    pub device: Device,
    /// Fetch nothing: use only what is on this machine (also HF_HUB_OFFLINE=1).
    #[arg(long, global = true)]
    pub offline: bool,
    /// Compute threads (0: one a core).
    #[arg(long, global = true, default_value_t = 0, value_name = "N")]
    pub threads: usize,
    /// Weight format in memory.
    #[arg(long, global = true, value_enum, default_value_t = DtypeArg::Auto)]
    pub dtype: DtypeArg,
    /// Tokens a sequence may have (0: what the model allows, at most 8192).
    #[arg(long, global = true, default_value_t = 0, value_name = "TOKENS")]
    pub context: usize,
    /// Decoding mode.
    #[arg(long, global = true)]
    pub mode: Option<Mode>,
    /// Slots in one draft block, seed included.
    #[arg(long, global = true, value_name = "N")]
    pub block_size: Option<usize>,
    /// DDTree node budget, root excluded.
    #[arg(long, global = true, value_name = "N")]
    pub tree_budget: Option<usize>,
    /// Start the tree from the whole top-1 chain.
    #[arg(long, global = true, value_name = "BOOL")]
    pub chain_seed: Option<bool>,
}

impl EngineArgs {
    /// How the pair is found.
    fn resolve(&self) -> Resolve {
        hub::resolve(self.ask())
    }

    /// Forgets the pair of the configuration file.
    fn pair_of_command_line(&mut self, matches: &clap::ArgMatches) {
        let asked = |id| matches.value_source(id) == Some(clap::parser::ValueSource::CommandLine);
        self.target = self.target.take().filter(|_| asked("target"));
        self.draft = self.draft.take().filter(|_| asked("draft"));
    }

    /// What they say about the pair.
    pub fn ask(&self) -> hub::Ask {
        hub::Ask {
            target: self.target.clone(),
            draft: self.draft.clone(),
            no_draft: self.no_draft,
            tiny: self.tiny,
            offline: self.offline,
            refresh: false,
        }
    }

    /// A pair is named in one place: what the command line says about the target or the pair makes the drafter of the
    /// configuration file void, since that one belongs to another target.
    fn pair_of_one_source(&mut self, matches: &clap::ArgMatches) {
        let asked = |id| matches.value_source(id) == Some(clap::parser::ValueSource::CommandLine);
        if (asked("target") || self.no_draft || self.tiny) && !asked("draft") {
            self.draft = None;
        }
        if self.tiny {
            self.target = None;
        }
    }

    /// The mode part.
    pub fn mode_request(&self) -> ModeRequest {
        ModeRequest {
            mode: self.mode,
            block_size: self.block_size,
            tree_budget: self.tree_budget,
            chain_seed: self.chain_seed,
        }
    }
}

/// `--dtype`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DtypeArg {
    /// As stored; the drafter in 8 bits beside a quantised target.
    Auto,
    /// Everything in 32-bit floating point.
    F32,
    /// Matrices in 8 bits.
    Q8,
}

impl From<DtypeArg> for Precision {
    fn from(arg: DtypeArg) -> Self {
        match arg {
            DtypeArg::Auto => Precision::Auto,
            DtypeArg::F32 => Precision::F32,
            DtypeArg::Q8 => Precision::Q8,
        }
    }
}

/// Options of a listening server.
#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// Address to listen on. Anything but loopback needs --api-key.
    #[arg(long, default_value = "127.0.0.1")]
    pub host: String,
    /// Port (0: any free one).
    #[arg(long, default_value_t = 8080)]
    pub port: u16,
    /// Key that clients must send as a bearer token.
    #[arg(long, env = "SPECTOP_API_KEY", hide_env_values = true)]
    pub api_key: Option<String>,
}

/// Options of a client.
#[derive(Debug, Clone, Args)]
pub struct ClientArgs {
    /// Server address, e.g. http://127.0.0.1:8080.
    #[arg(value_name = "URL", default_value = "http://127.0.0.1:8080")]
    pub url: String,
    /// Key to send as a bearer token.
    #[arg(long, env = "SPECTOP_API_KEY", hide_env_values = true)]
    pub api_key: Option<String>,
}

/// Subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the engine and its server without a screen.
    Serve(ServeArgs),
    /// Open the dashboard on a running server.
    Attach(ClientArgs),
    /// Race decoding modes against each other, one prompt after another, until stopped.
    Demo,
    /// Play a recording made with --record.
    Replay(replay::ReplayArgs),
    /// Generate once, without a server.
    Generate(GenerateArgs),
    /// Benchmark decoding modes.
    Bench(Box<bench::BenchArgs>),
    /// Measure the engine's kernels on this machine.
    BenchKernels(bench_kernels::BenchKernelsArgs),
    /// Print the state of a server once.
    Snapshot {
        /// The server.
        #[command(flatten)]
        client: ClientArgs,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Run a fixture folder (docs/conformance.md) and compare; exit code 5 when a check fails.
    Conformance {
        /// Folder with expected.json, and target/ and drafter/ unless --target and --draft are given.
        #[arg(value_name = "DIR")]
        dir: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Describe a model and its drafter from their headers, and say whether this machine can run them.
    Inspect {
        /// A GGUF file, a folder with config.json, or a model of the hub (owner/name); see also --draft.
        #[arg(value_name = "PATH|REPO")]
        model: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the models on this machine: what they are, which drafter belongs to them, whether they fit.
    Models {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Fetch and check the default target model, or with --target a model of the hub and its drafter.
    Setup {
        /// Use this file instead of fetching.
        #[arg(long, value_name = "GGUF")]
        from: Option<PathBuf>,
        /// Fetch again even if it is there.
        #[arg(long)]
        force: bool,
    },
    /// Write, print or check the configuration file.
    Config {
        /// What to do.
        #[command(subcommand)]
        command: config::command::ConfigCommand,
    },
    /// Print completions for a shell, e.g. `spectop completions fish > ~/.config/fish/completions/spectop.fish`.
    Completions {
        /// The shell.
        #[arg(value_name = "SHELL")]
        shell: clap_complete::Shell,
    },
    /// Print the man page, or write those of all subcommands into a folder.
    Man {
        /// The folder.
        #[arg(value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Measure what the dashboard itself costs: CPU, memory, bytes to the terminal, time from a key to its frame.
    #[cfg(target_os = "linux")]
    BenchUi(bench_ui::BenchUiArgs),
    /// Draw a moment of a recording, or the pictures of the README, as SVG and PNG.
    Screenshot(screenshot::ScreenshotArgs),
}

/// Options of `generate`.
#[derive(Debug, Clone, Args)]
pub struct GenerateArgs {
    /// The prompt (a user message; see --raw).
    pub prompt: String,
    /// Do not apply the chat template.
    #[arg(long)]
    pub raw: bool,
    /// Tokens to generate at most.
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = at_least_one)]
    pub max_tokens: usize,
    /// 0 is greedy.
    #[arg(long, default_value_t = 0.0, value_name = "T", allow_negative_numbers = true, value_parser = temperature)]
    pub temperature: f32,
    /// Nucleus sampling.
    #[arg(long, default_value_t = 1.0, value_name = "P", allow_negative_numbers = true, value_parser = top_p)]
    pub top_p: f32,
    /// Keep the K most probable tokens (0: all).
    #[arg(long, default_value_t = 0, value_name = "K")]
    pub top_k: usize,
    /// Random seed.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// End the answer before this text (may be given several times).
    #[arg(long, value_name = "TEXT")]
    pub stop: Vec<String>,
    /// Go on after the model's stop tokens.
    #[arg(long)]
    pub ignore_eos: bool,
    /// Print one JSON object instead of the text.
    #[arg(long)]
    pub json: bool,
}

/// Refused here, before a model is loaded for nothing.
fn temperature(text: &str) -> Result<f32, String> {
    match text.parse() {
        Ok(t) if (0.0..f32::INFINITY).contains(&t) => Ok(t),
        _ => Err("it must be a number, 0 (greedy) or greater".into()),
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err("it must be a whole number, at least 1".into()),
    }
}

fn top_p(text: &str) -> Result<f32, String> {
    match text.parse() {
        Ok(p) if p > 0.0 && p <= 1.0 => Ok(p),
        _ => Err("it must be a number above 0 and at most 1".into()),
    }
}

/// Parses the command line, with the configuration file beneath it, and does what it says. A failure is told on stderr.
pub fn main() -> Exit {
    match parse_and_dispatch() {
        Ok(()) => Exit::Ok,
        Err(failure) => {
            if !failure.message.is_empty() {
                out::tell(&format!("spectop: {}", failure.message));
            }
            failure.exit
        }
    }
}

fn parse_and_dispatch() -> Result<(), Failure> {
    let args: Vec<_> = std::env::args_os().collect();
    let path = config::path(&args)?;
    // Help and mistakes on the command line come first: they must not depend on the file.
    let matches = Cli::command().get_matches_from(&args);
    let mut cli = Cli::from_arg_matches(&matches).map_err(|e| Failure::new(Exit::Usage, e.to_string()))?;
    let given = cli.config.is_some();
    if let Some(Command::Config { command }) = cli.command {
        // What is wrong with the file is what these are for; only `print` needs it whole.
        let printing = matches!(command, config::command::ConfigCommand::Print);
        let config = if printing { config::load(&path, given)? } else { config::Config::default() };
        let matches = config::beneath(Cli::command(), &config).get_matches_from(&args);
        return config::command::run(command, &path, given, &matches);
    }
    if matches!(cli.command, Some(Command::Completions { .. } | Command::Man { .. })) {
        return dispatch(cli);
    }
    let config = config::load(&path, given)?;
    let matches = config::beneath(Cli::command(), &config).get_matches_from(&args);
    cli = Cli::from_arg_matches(&matches).map_err(|e| Failure::new(Exit::Usage, e.to_string()))?;
    cli.engine.pair_of_one_source(&matches);
    if matches!(cli.command, Some(Command::Setup { .. } | Command::Inspect { .. })) {
        cli.engine.pair_of_command_line(&matches);
    }
    cli.screen.configure(&config, &matches);
    for warning in &config.warnings {
        out::tell(&format!("spectop: warning: {}: {warning}", path.display()));
    }
    dispatch(cli)
}

fn dispatch(cli: Cli) -> Result<(), Failure> {
    let engine = &cli.engine;
    match cli.command {
        None => dashboard::run(engine, &cli.screen, engine.resolve(), false),
        Some(Command::Demo) => dashboard::run(engine, &cli.screen, engine.resolve(), true),
        Some(Command::Replay(args)) => replay::run(&args, &cli.screen),
        Some(Command::Serve(args)) => {
            let sampler = Sampler::spawn(DEFAULT_INTERVAL)
                .map_err(|e| Failure::new(Exit::Failed, format!("cannot start the sensor thread: {e}")))?;
            serve::run(engine, &args, engine.resolve(), Some(Arc::new(move || sampler.latest())))
        }
        Some(Command::Attach(client)) => attach::run(&client, &cli.screen),
        Some(Command::Generate(args)) => generate::run(&args, serve::engine_config(engine), engine.resolve()),
        Some(Command::Bench(args)) => bench::run(engine, *args),
        Some(Command::BenchKernels(args)) => bench_kernels::run(engine, &args),
        Some(Command::Snapshot { client, json }) => snapshot::run(client, json),
        Some(Command::Conformance { dir, json }) => conformance::run(engine, &dir, json),
        Some(Command::Inspect { model, json }) => inspect::run(engine, model, json),
        Some(Command::Models { json }) => models::run(engine, json),
        Some(Command::Setup { from, force }) if engine.target.is_some() || engine.draft.is_some() => {
            setup::run_pair(engine, from.as_deref(), force)
        }
        Some(Command::Setup { from, force }) => setup::run(from, force),
        #[cfg(target_os = "linux")]
        Some(Command::BenchUi(args)) => bench_ui::run(&args),
        Some(Command::Completions { shell }) => shell::completions(shell),
        Some(Command::Man { dir }) => shell::man(dir.as_deref()),
        Some(Command::Config { .. }) => unreachable!("done before the file was read"),
        Some(Command::Screenshot(args)) => screenshot::run(&args, cli.screen.theme.as_deref()),
    }
}
