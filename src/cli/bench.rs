//! `spectop bench`: benchmarks without a screen.

mod compare;
mod gate;
mod knee;
mod local;
mod output;
mod progress;
mod run;
pub(in crate::cli) mod runs;
mod sweep;
mod table;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{EngineArgs, Exit, Failure};
use crate::bench::journal::JournalError;
use crate::bench::plan::PrefixCache;
use crate::bench::runner::BenchError;
use crate::protocol::run::RunOptions;

/// Options of `bench`.
#[derive(Debug, Clone, Args)]
pub struct BenchArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: BenchCommand,
}

/// Subcommands of `bench`.
#[derive(Debug, Clone, Subcommand)]
pub enum BenchCommand {
    /// Compare decoding modes on the same prompts, in random order.
    Run(RunArgs),
    /// Run with a setting at several values and mark where more of it stops paying.
    Sweep(SweepArgs),
    /// Show kept runs side by side; exit code 5 when a gate is not met.
    Compare(CompareArgs),
    /// List the runs that are kept.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print a kept run again, or write it in other formats.
    Report(ReportArgs),
}

/// Options of `bench run`.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// Server; without one the engine is started in this program.
    #[arg(value_name = "URL")]
    pub url: Option<String>,
    /// What is measured.
    #[command(flatten)]
    pub measure: MeasureArgs,
    /// Modes, the baseline first: off, dflash[:BLOCK], ddtree[:BUDGET][:seed|:noseed], shadow[:BUDGET], auto, as-is, or
    /// LABEL=URL for a server of its own. Default: what the server offers of off, dflash and ddtree.
    #[arg(long, value_name = "MODES", value_delimiter = ',', conflicts_with = "resume")]
    pub modes: Vec<String>,
    /// Requests in flight at once, one experiment each.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1", conflicts_with = "resume")]
    pub concurrency: Vec<usize>,
    /// Go on with a run that was broken off (without an id: the latest).
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "last", conflicts_with = "dry_run")]
    pub resume: Option<String>,
}

/// What `run` and `sweep` share.
#[derive(Debug, Clone, Args)]
pub struct MeasureArgs {
    /// Suites: story, builtin, gsm8k, humaneval, mt-bench, math-500, mbpp, livecodebench, alpaca, or JSON-lines files.
    #[arg(long, value_name = "NAME|FILE", value_delimiter = ',', default_value = "story")]
    pub suite: Vec<String>,
    /// Prompts taken from each suite at most.
    #[arg(long, value_name = "N")]
    pub prompts: Option<usize>,
    /// Repeats of every prompt in every mode.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub repeats: usize,
    /// Tokens that an answer may have.
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub max_tokens: usize,
    /// Sampling temperature; above 0 outputs are not compared.
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    pub temperature: f32,
    /// Seed of the random order.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Seconds until a request counts as timed out.
    #[arg(long, value_name = "S", default_value_t = 300.0)]
    pub timeout: f64,
    /// What to do about the server's prefix cache (ours has none).
    #[arg(long, value_enum, value_name = "POLICY")]
    pub prefix_cache: Option<PrefixCacheArg>,
    /// Key to send as a bearer token.
    #[arg(long, env = "SPECTOP_API_KEY", hide_env_values = true)]
    pub api_key: Option<String>,
    /// Only print what would be sent.
    #[arg(long)]
    pub dry_run: bool,
    /// Files to write at the end.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `--prefix-cache`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PrefixCacheArg {
    /// Begin every prompt with a random line.
    Nonce,
    /// Nothing.
    AsIs,
}

impl From<PrefixCacheArg> for PrefixCache {
    fn from(arg: PrefixCacheArg) -> Self {
        match arg {
            PrefixCacheArg::Nonce => PrefixCache::Nonce,
            PrefixCacheArg::AsIs => PrefixCache::AsIs,
        }
    }
}

/// Files to write; `-` is the standard output.
#[derive(Debug, Clone, Default, Args)]
pub struct OutputArgs {
    /// Everything, as run.v1.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Tables for chats and pull requests.
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// A page with charts.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// A line a request.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// A line a suite, mode and concurrency.
    #[arg(long, value_name = "FILE")]
    pub csv_summary: Option<PathBuf>,
    /// The page's charts as SVG files.
    #[arg(long, value_name = "FOLDER")]
    pub plots: Option<PathBuf>,
    /// As vLLM's benchmark writes it.
    #[arg(long, value_name = "FILE")]
    pub vllm: Option<PathBuf>,
    /// As SGLang's benchmark writes it.
    #[arg(long, value_name = "FILE")]
    pub sglang: Option<PathBuf>,
    /// As AIPerf writes it.
    #[arg(long, value_name = "FILE")]
    pub aiperf: Option<PathBuf>,
    /// As AIPerf writes its records, a line a request.
    #[arg(long, value_name = "FILE")]
    pub aiperf_records: Option<PathBuf>,
    /// Mode that --vllm, --sglang, --aiperf and --aiperf-records write: their files hold one (`LABEL@4` for one of several concurrencies).
    #[arg(long, value_name = "LABEL")]
    pub export_mode: Option<String>,
}

/// Options of `bench sweep`.
#[derive(Debug, Clone, Args)]
pub struct SweepArgs {
    /// Server; without one the engine is started in this program.
    #[arg(value_name = "URL")]
    pub url: Option<String>,
    /// Setting and values: tree_budget=4,8,16, block_size=2,4,8, chain_seed=true,false or concurrency=1,2,4.
    #[arg(long, value_name = "SETTING=VALUES", value_parser = sweep::parse)]
    pub over: sweep::Over,
    /// What is measured.
    #[command(flatten)]
    pub measure: MeasureArgs,
}

/// Options of `bench compare`.
#[derive(Debug, Clone, Args)]
pub struct CompareArgs {
    /// Runs: ids, `last`, or files (run.v1, or results of vLLM's or SGLang's benchmark).
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<String>,
    /// Fail (exit code 5) when this holds: MODE[.METRIC]<N or >N (without a metric: the speed-up), `lossless` (fails
    /// when an output differs), `failed`, `unstable`, `slower`, and with several runs `run<N` (a mode against itself in
    /// the first run). Metrics: decode_tok_s, e2e_tok_s, ttft_ms, tau, j_per_token.
    #[arg(long, value_name = "GATE", value_delimiter = ',', value_parser = gate::parse)]
    pub fail_if: Vec<gate::Gate>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Options of `bench report`.
#[derive(Debug, Clone, Args)]
pub struct ReportArgs {
    /// Run: an id, `last`, or a file.
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Files to write.
    #[command(flatten)]
    pub output: OutputArgs,
}

impl MeasureArgs {
    fn options(&self, modes: Vec<String>, concurrency: Vec<usize>) -> RunOptions {
        RunOptions {
            suites: self.suite.clone(),
            prompts: self.prompts,
            modes,
            repeats: self.repeats,
            concurrency,
            temperature: self.temperature,
            max_tokens: self.max_tokens,
            seed: self.seed,
            timeout_s: self.timeout,
        }
    }
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        let exit = match error {
            BenchError::Source(error) => return error.into(),
            BenchError::Suite(_)
            | BenchError::Mode(_)
            | BenchError::Plan(_)
            | BenchError::NoServer(_)
            | BenchError::Resume { .. } => Exit::Usage,
            BenchError::Journal(error) => return error.into(),
            BenchError::ServerGone { .. } => Exit::Unreachable,
            BenchError::Stopped => Exit::Interrupted,
            BenchError::NotReady(_) | BenchError::Internal(_) => Exit::Failed,
        };
        Failure::new(exit, error.to_string())
    }
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Self {
        let exit = match error {
            JournalError::NoRun { .. } | JournalError::NoFolder(_) | JournalError::Damaged { .. } => Exit::Usage,
            JournalError::Io { .. } => Exit::Failed,
        };
        Failure::new(exit, error.to_string())
    }
}

/// Runs the subcommand.
pub fn run(engine: &EngineArgs, args: BenchArgs) -> Result<(), Failure> {
    match args.command {
        BenchCommand::Run(args) => run::run(engine, &args),
        BenchCommand::Sweep(args) => sweep::run(engine, &args),
        BenchCommand::Compare(args) => compare::run(&args),
        BenchCommand::List { json } => runs::list(json),
        BenchCommand::Report(args) => {
            let run = runs::load(&args.run)?;
            output::write(&run, &args.output, &table::verdicts(&run))
        }
    }
}

#[cfg(test)]
#[path = "bench/parse_tests.rs"]
mod tests;
