//! `spectop bench sweep`: a run in which one setting takes several values.

use super::knee::knee;
use super::run::{measure, verdict};
use super::{SweepArgs, output, table};
use crate::bench::runner::Start;
use crate::cli::{EngineArgs, Failure};
use crate::protocol::run::{ModeSummary, Run};

/// What is varied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Over {
    /// DDTree's nodes.
    TreeBudget(Vec<usize>),
    /// DFlash's slots.
    BlockSize(Vec<usize>),
    /// DDTree with and without the chain as its start.
    ChainSeed(Vec<bool>),
    /// Requests in flight.
    Concurrency(Vec<usize>),
}

/// Reads `SETTING=VALUES`.
pub(super) fn parse(text: &str) -> Result<Over, String> {
    let form = "give SETTING=VALUES, e.g. tree_budget=4,8,16,32";
    let (setting, values) = text.split_once('=').ok_or(form)?;
    let values: Vec<&str> = values.split(',').map(str::trim).collect();
    if (1..values.len()).any(|at| values[..at].contains(&values[at])) {
        return Err("a value is given twice".into());
    }
    let numbers = || {
        let bad = |value: &str| format!("\"{value}\" is no whole number of at least 1; {form}");
        let number = |value: &&str| value.parse().ok().filter(|n: &usize| *n > 0).ok_or_else(|| bad(value));
        values.iter().map(number).collect::<Result<Vec<_>, _>>()
    };
    Ok(match setting.trim() {
        "tree_budget" => Over::TreeBudget(numbers()?),
        "block_size" => Over::BlockSize(numbers()?),
        "concurrency" => Over::Concurrency(numbers()?),
        "chain_seed" => {
            let value = |value: &&str| value.parse().map_err(|_| format!("\"{value}\" is neither true nor false"));
            Over::ChainSeed(values.iter().map(value).collect::<Result<_, _>>()?)
        }
        other => {
            let known = "tree_budget, block_size, chain_seed or concurrency";
            return Err(format!("\"{other}\" cannot be swept; use {known}"));
        }
    })
}

impl Over {
    /// Modes and concurrency of the run.
    fn plan(&self) -> (Vec<String>, Vec<usize>) {
        let off = std::iter::once("off".to_owned());
        match self {
            Over::TreeBudget(values) => (off.chain(values.iter().map(|n| format!("ddtree:{n}"))).collect(), vec![1]),
            Over::BlockSize(values) => (off.chain(values.iter().map(|n| format!("dflash:{n}"))).collect(), vec![1]),
            Over::ChainSeed(values) => {
                let word = |seed: &bool| if *seed { "ddtree:seed" } else { "ddtree:noseed" }.to_owned();
                (off.chain(values.iter().map(word)).collect(), vec![1])
            }
            // The modes that the server offers.
            Over::Concurrency(values) => (Vec::new(), values.clone()),
        }
    }
}

/// Runs the subcommand.
pub fn run(engine: &EngineArgs, args: &SweepArgs) -> Result<(), Failure> {
    let (modes, concurrency) = args.over.plan();
    let start = Start::New(args.measure.options(modes, concurrency));
    let Some(run) = measure(engine, args.url.as_deref(), &args.measure, start)? else { return Ok(()) };
    let text = format!("{}\n{}", curve(&run, &args.over), table::verdicts(&run));
    output::write(&run, &args.measure.output, &text)?;
    verdict(&run)
}

/// The values with their speed-ups, the knee marked.
fn curve(run: &Run, over: &Over) -> String {
    let all = |mode: &str, concurrency: usize| {
        let wanted = |s: &&ModeSummary| s.suite == "all" && s.mode == mode && s.concurrency == concurrency;
        run.summary.iter().find(wanted)
    };
    let labels: Vec<&str> = run.plan.modes.iter().map(|mode| mode.label.as_str()).collect();
    let mut out = String::new();
    match over {
        Over::Concurrency(values) => {
            for label in labels {
                let points: Vec<_> = values
                    .iter()
                    .map(|n| (*n as f64, all(label, *n).and_then(|summary| summary.throughput_tok_s)))
                    .collect();
                let rows = points.iter().map(|(n, y)| vec![format!("{n}"), table::number(*y, 1)]);
                out.push_str(&marked(&[label, "tok/s in all"], rows.collect(), knee(&points)));
                out.push('\n');
            }
        }
        Over::TreeBudget(_) | Over::BlockSize(_) | Over::ChainSeed(_) => {
            let values: Vec<String> = match over {
                Over::TreeBudget(values) | Over::BlockSize(values) => values.iter().map(usize::to_string).collect(),
                Over::ChainSeed(values) => values.iter().map(bool::to_string).collect(),
                Over::Concurrency(_) => Vec::new(),
            };
            // The baseline comes first, then a mode for each value.
            let compares = labels.iter().skip(1).map(|label| all(label, 1).and_then(|s| table::comparison(run, s)));
            let compares: Vec<_> = compares.collect();
            let points: Vec<_> = values
                .iter()
                .zip(&compares)
                .enumerate()
                .map(|(at, (value, compare))| (value.parse().unwrap_or(at as f64), compare.and_then(|c| c.ratio)))
                .collect();
            let rows = values.iter().zip(labels.iter().skip(1)).zip(&compares).map(|((value, label), compare)| {
                let ratio = compare.map_or_else(|| "—".to_owned(), table::ratio);
                let tau = table::number(all(label, 1).and_then(|summary| summary.tau_pooled), 2);
                vec![value.clone(), ratio, tau]
            });
            let name = match over {
                Over::TreeBudget(_) => "tree budget",
                Over::BlockSize(_) => "block size",
                _ => "chain seed",
            };
            out.push_str(&marked(&[name, "against off [95 %]", "τ"], rows.collect(), knee(&points)));
        }
    }
    out
}

fn marked(head: &[&str], mut rows: Vec<Vec<String>>, knee: Option<usize>) -> String {
    if let Some(row) = knee.and_then(|at| rows.get_mut(at)) {
        row.push("◂ knee".into());
    }
    rows.insert(0, head.iter().map(|cell| (*cell).to_owned()).collect());
    table::align(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_become_modes() {
        let over = parse("tree_budget=4, 8").unwrap();
        assert_eq!(over.plan(), (vec!["off".into(), "ddtree:4".into(), "ddtree:8".into()], vec![1]));
        assert_eq!(parse("block_size=2").unwrap().plan().0, ["off", "dflash:2"]);
        assert_eq!(parse("chain_seed=true,false").unwrap().plan().0, ["off", "ddtree:seed", "ddtree:noseed"]);
        assert_eq!(parse("concurrency=1,4").unwrap().plan(), (vec![], vec![1, 4]));
        for bad in ["", "tree_budget", "tree_budget=", "tree_budget=0", "tree_budget=4,4", "chain_seed=1", "x=1"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
