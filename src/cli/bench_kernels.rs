//! `spectop bench-kernels`: what this machine makes of the engine's kernels.

use std::fmt::Write as _;

use clap::Args;

use crate::engine::profile::{self, Ask, Part, ROWS, Report};

use super::{EngineArgs, Exit, Failure, at_least_one, generate, out};

/// Options of `bench-kernels`.
#[derive(Debug, Clone, Copy, Args)]
pub struct BenchKernelsArgs {
    /// Tokens in the cache. (`--context` limits a server's sequences; this is what is measured.)
    #[arg(long, default_value_t = 300, value_name = "TOKENS", value_parser = at_least_one)]
    pub cached: usize,
    /// Tokens decoded in a round of measurements.
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = at_least_one)]
    pub decode: usize,
    /// Prompt tokens of the prefill measurement.
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = at_least_one)]
    pub prefill: usize,
    /// Rounds of measurements; medians count.
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = at_least_one)]
    pub rounds: usize,
    /// Print one JSON object instead of tables.
    #[arg(long)]
    pub json: bool,
}

/// Runs the subcommand.
pub fn run(engine: &EngineArgs, args: &BenchKernelsArgs) -> Result<(), Failure> {
    let pair = engine.resolve()(&mut |_| {}).map_err(|e| generate::failure(&e))?;
    let ask = Ask {
        device: engine.device,
        threads: engine.threads,
        precision: engine.dtype.into(),
        context: args.cached,
        decode: args.decode,
        prefill: args.prefill,
        rounds: args.rounds,
    };
    let report = profile::measure(&pair, &ask, |round| {
        if !args.json {
            out::tell(&format!("measuring, round {} of {}", round + 1, args.rounds));
        }
    })
    .map_err(|e| Failure::new(Exit::Usage, e.to_string()))?;
    let text = if args.json {
        serde_json::to_string_pretty(&report).map_err(|e| Failure::new(Exit::Failed, e.to_string()))?
    } else {
        table(&report)
    };
    out::print_line(text.trim_end())?;
    Ok(())
}

fn table(report: &Report) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{} ({}, {:.0} MB)", report.model, report.dtype, report.weight_bytes as f64 / 1e6);
    let _ = writeln!(out, "{}, {} threads, {} kernels", report.machine, report.threads, report.kernels);
    let _ = writeln!(out, "{} tokens in the cache; medians, least and greatest in brackets\n", report.context);
    for (what, spread) in [("decode", report.decode_spread), ("prefill", report.prefill_spread)] {
        let _ = writeln!(out, "{what:12} {:8.1} tok/s  [{:.1}, {:.1}]", spread.median, spread.min, spread.max);
    }
    let _ = writeln!(out, "first token  {:8.1} ms     of a 40-token prompt", report.first_token_ms);
    for rows in ROWS {
        let spread = report.verify_spread[&rows.to_string()];
        let rows_of = if rows == 1 { "row" } else { "rows" };
        let ratio = spread.median / report.verify_spread["1"].median;
        let _ = writeln!(
            out,
            "{:12} {:8.2} ms     [{:.2}, {:.2}]  ×{ratio:.2}",
            format!("{rows} {rows_of}"),
            spread.median,
            spread.min,
            spread.max
        );
    }
    if let (Some(draft), Some(outside)) = (report.draft_ms, report.outside_kernels_ms) {
        let _ = writeln!(out, "draft        {draft:8.2} ms");
        let _ = writeln!(out, "round        {outside:8.3} ms     outside kernels");
    }
    let b = report.bandwidth;
    let _ =
        writeln!(out, "\nweights      {:8.1} GB/s   {:.0} % of {:.1}", b.used_gb_s, b.share * 100.0, b.measured_gb_s);
    if let Some(a) = report.arithmetic {
        let share = a.share * 100.0;
        let _ = writeln!(out, "arithmetic   {:8.0} GOP/s  {share:.0} % of {:.0} (64 rows)", a.used_gop_s, a.peak_gop_s);
    }
    if let Some(bytes) = report.peak_memory_bytes {
        let _ = writeln!(out, "memory       {:8.0} MB     peak", bytes as f64 / 1e6);
    }
    let mut columns: Vec<(usize, &String)> =
        report.stages_ms.keys().filter_map(|rows| Some((rows.parse().ok()?, rows))).collect();
    columns.sort();
    let _ = write!(out, "\nms by part");
    for (rows, _) in &columns {
        let _ = write!(out, " {:>9}", format!("{rows} rows"));
    }
    out.push('\n');
    for part in Part::ALL {
        let _ = write!(out, "{:10}", part.name());
        for (_, key) in &columns {
            let _ = write!(out, " {:9.3}", report.stages_ms[*key][part.name()]);
        }
        out.push('\n');
    }
    out
}
