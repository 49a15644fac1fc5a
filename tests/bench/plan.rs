//! Properties of plans.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use spectop::bench::modes::{Offer, read};
use spectop::bench::plan::{Plan, PrefixCache, Stage};
use spectop::bench::suite::{self, Suite};
use spectop::protocol::run::{ModeSpec, Purpose};

use crate::fake::options;

fn modes(count: usize) -> Vec<ModeSpec> {
    let words: Vec<String> = (0..count).map(|n| format!("m{n}=http://host:{}", n + 1)).collect();
    read(&words, &Offer::default()).unwrap()
}

fn story() -> Suite {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut story = runtime.block_on(suite::load("story", None)).unwrap();
    story.prompts[1].turns.push("And now in one.".into());
    story
}

fn plan(modes: Vec<ModeSpec>, repeats: usize, seed: u64, concurrency: Vec<usize>) -> Plan {
    let mut options = options(&[]);
    (options.repeats, options.seed, options.concurrency) = (repeats, seed, concurrency);
    Plan::new(&options, modes, &[story()], PrefixCache::None).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn every_mode_meets_every_prompt_once_a_repeat(
        count in 1_usize..5, repeats in 1_usize..5, seed: u64, ladder in proptest::sample::subsequence(vec![1, 2, 5], 1..4),
    ) {
        let plan = plan(modes(count), repeats, seed, ladder.clone());
        prop_assert_eq!(&plan, &self::plan(modes(count), repeats, seed, ladder.clone()), "the seed decides");
        let mut seqs = HashSet::new();
        let mut met = HashMap::new();
        for planned in plan.requests() {
            prop_assert!(seqs.insert(planned.seq));
            if planned.purpose == Purpose::Measure {
                let key = (planned.prompt, planned.turn, planned.mode, planned.repeat, planned.concurrency);
                *met.entry(key).or_insert(0) += 1;
            }
        }
        prop_assert_eq!(seqs.len(), plan.end());
        // Four turns in three prompts.
        prop_assert_eq!(met.len(), 4 * count * repeats * ladder.len());
        prop_assert!(met.values().all(|n| *n == 1));
        for stage in &plan.stages {
            let Stage::Batch(batch) = stage else { continue };
            let orders: HashSet<_> = batch.chains.iter().map(|chain| (chain[0].order, chain[0].mode)).collect();
            if batch.concurrency > 1 {
                prop_assert_eq!(orders.len(), 1, "modes do not share the server");
            } else if batch.chains[0][0].purpose == Purpose::Measure {
                prop_assert_eq!(orders.len(), count);
                let modes: HashSet<_> = orders.iter().map(|(_, mode)| mode).collect();
                prop_assert_eq!(modes.len(), count);
            }
            for chain in &batch.chains {
                prop_assert!(chain.iter().enumerate().all(|(at, planned)| planned.turn == at));
            }
        }
    }
}

#[test]
fn orders_vary_and_are_balanced() {
    let plan = plan(modes(3), 200, 3, vec![1]);
    let mut first = [0; 3];
    let mut orders = HashSet::new();
    for stage in &plan.stages {
        if let Stage::Batch(batch) = stage
            && batch.chains[0][0].purpose == Purpose::Measure
        {
            first[batch.chains[0][0].mode] += 1;
            orders.insert(batch.chains.iter().map(|chain| chain[0].mode).collect::<Vec<_>>());
        }
    }
    assert_eq!(orders.len(), 6, "every order occurs");
    assert!(first.iter().all(|n| (140..260).contains(n)), "600 blocks begin with {first:?}");
}

#[test]
fn the_frame_is_warm_up_bracket_measure_bracket() {
    let plan = plan(modes(2), 1, 3, vec![1, 4]);
    let purposes: Vec<_> = plan
        .stages
        .iter()
        .map(|stage| match stage {
            Stage::Warmup { mode, rounds } => {
                assert_eq!(rounds.len(), 8);
                format!("w{mode}×{}", rounds[0].concurrency)
            }
            Stage::Batch(batch) => match batch.chains[0][0].purpose {
                Purpose::Bracket => {
                    assert!(batch.chains.iter().all(|chain| chain[0].mode == 0 && chain.len() == 1));
                    "b".into()
                }
                _ => "m".into(),
            },
        })
        .collect();
    assert_eq!(purposes.join(" "), "w0×1 w1×1 b m m m w0×4 w1×4 m m b");
    let other = self::plan(modes(2), 1, 4, vec![1, 4]);
    assert_ne!(plan.run.hash, other.run.hash);
    assert!(plan.estimate_s(100.0).unwrap() > 0.0 && plan.estimate_s(0.0).is_none());
}

#[test]
fn options_out_of_range_are_refused() {
    let good = options(&[]);
    let story = [story()];
    let refuse = |change: &dyn Fn(&mut spectop::protocol::run::RunOptions), part: &str| {
        let mut options = good.clone();
        change(&mut options);
        let error = Plan::new(&options, modes(1), &story, PrefixCache::None).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    refuse(&|o| o.repeats = 0, "repeats");
    refuse(&|o| o.max_tokens = 0, "max-tokens");
    refuse(&|o| o.prompts = Some(0), "prompts");
    refuse(&|o| o.concurrency = vec![], "concurrency");
    refuse(&|o| o.concurrency = vec![1, 0], "concurrency");
    refuse(&|o| o.concurrency = vec![2, 2], "twice");
    refuse(&|o| o.temperature = f32::NAN, "temperature");
    refuse(&|o| o.timeout_s = 0.0, "timeout");
    refuse(&|o| o.timeout_s = f64::INFINITY, "timeout");
    let error = Plan::new(&good, modes(1), &[self::story(), self::story()], PrefixCache::None).unwrap_err();
    assert!(error.to_string().contains("given twice"));
}

#[tokio::test]
async fn the_usual_files_are_read() {
    let Some(data) = std::env::var_os("SPECTOP_PROMPTS").map(std::path::PathBuf::from) else {
        eprintln!("skipped: SPECTOP_PROMPTS does not name a folder with the public sets");
        return;
    };
    for (file, prompts, turns) in [("gsm8k", 128, 1), ("humaneval", 164, 1), ("mt-bench", 80, 2)] {
        let path = data.join(format!("{file}.jsonl"));
        let suite = suite::load(&path.display().to_string(), None).await.unwrap();
        assert_eq!((suite.prompts.len(), suite.infos[0].name.as_str()), (prompts, file));
        assert!(suite.prompts.iter().all(|prompt| prompt.turns.len() == turns));
    }
}
