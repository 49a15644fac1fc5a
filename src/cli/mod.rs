//! Command line: one file a subcommand. This file says what can be asked for.

pub mod attach;
pub mod bench;
pub mod bench_host;
pub mod bench_kernels;
pub mod conformance;
pub mod dashboard;
pub mod generate;
pub mod loading;
pub mod out;
pub mod run_host;
pub mod screen_loop;
pub mod screenshot;
pub mod serve;
pub mod setup;
pub mod snapshot;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::engine::api::{Precision, Resolve};
use crate::engine::weights::hub;
use crate::gpu::{DEFAULT_INTERVAL, Sampler};
use crate::protocol::mode::{Mode, ModeRequest};

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
    #[command(flatten)]
    pub engine: EngineArgs,
    /// Options of the screen.
    #[command(flatten)]
    pub screen: ScreenArgs,
}

/// Options of the engine.
#[derive(Debug, Clone, Args)]
pub struct EngineArgs {
    /// Target model: a GGUF file, or a folder with config.json and safetensors. Default: SmolLM2-135M-Instruct.
    #[arg(long, global = true, value_name = "PATH")]
    pub target: Option<PathBuf>,
    /// Drafter: a folder with config.json and model.safetensors. Default: the one made for the target.
    #[arg(long, global = true, value_name = "PATH")]
    pub draft: Option<PathBuf>,
    /// Run without a drafter.
    #[arg(long, global = true, conflicts_with = "draft")]
    pub no_draft: bool,
    /// Use the embedded toy pair: nothing is fetched.
    #[arg(long, global = true, conflicts_with_all = ["target", "draft"])]
    pub tiny: bool,
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
        hub::resolve(self.target.clone(), self.draft.clone(), self.no_draft, self.tiny)
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

/// Options of the screen.
#[derive(Debug, Clone, Args)]
pub struct ScreenArgs {
    /// Theme (a name from themes/).
    #[arg(long, global = true, value_name = "NAME")]
    pub theme: Option<String>,
    /// Draw with ASCII characters only.
    #[arg(long, global = true)]
    pub ascii: bool,
    /// Frames a second at most.
    #[arg(long, global = true, default_value_t = 15, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=60))]
    pub fps: u16,
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
    /// Fetch and check the default target model.
    Setup {
        /// Use this file instead of fetching.
        #[arg(long, value_name = "GGUF")]
        from: Option<PathBuf>,
        /// Fetch again even if it is there.
        #[arg(long)]
        force: bool,
    },
    /// Render the screenshots of the README from the program itself.
    #[command(hide = true)]
    Screenshot {
        /// Folder to write to.
        #[arg(value_name = "DIR", default_value = "screenshots")]
        dir: PathBuf,
    },
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

/// Parses the command line and does what it says. A failure is told on stderr.
pub fn main() -> Exit {
    let cli = Cli::parse();
    match dispatch(cli) {
        Ok(()) => Exit::Ok,
        Err(failure) => {
            if !failure.message.is_empty() {
                out::tell(&format!("spectop: {}", failure.message));
            }
            failure.exit
        }
    }
}

fn dispatch(cli: Cli) -> Result<(), Failure> {
    let engine = &cli.engine;
    match cli.command {
        None => dashboard::run(engine, &cli.screen, engine.resolve()),
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
        Some(Command::Setup { from, force }) => setup::run(from, force),
        Some(Command::Screenshot { dir }) => screenshot::run(&dir),
    }
}
