//! The default target: fetched for real, and paired with its drafter.

mod support;

use std::time::Instant;

use spectop::cli::setup;
use spectop::engine::api::{ModelSource, Precision};
use spectop::engine::backend::cpu::Cpu;
use spectop::engine::inspect::inspect;
use spectop::engine::inspect::plan::{Holding, plan};
use spectop::engine::rounds::Core;
use spectop::engine::weights::hub;

/// Run with `SPECTOP_CACHE` set to an empty folder and without `SPECTOP_TARGET`.
#[test]
#[ignore = "fetches 93 MB from the network"]
fn the_default_target_can_be_fetched() {
    let begun = Instant::now();
    let mut last = String::new();
    let path = hub::fetch(None, true, &mut |progress| {
        let now = format!("{progress:?}");
        if now != last {
            eprintln!("{:6.2} s  {now}", begun.elapsed().as_secs_f64());
            last = now;
        }
    });
    let path = path.unwrap_or_else(|error| panic!("{error}"));
    assert!(path.is_file());
    setup::run(None, false).expect("is there and valid");
    assert_eq!(hub::default_target(&mut |_| panic!("nothing to do")).expect("is there"), path);
}

#[test]
fn the_default_target_gets_the_embedded_drafter() {
    let Some(path) = support::target_gguf() else { return };
    let pair = hub::resolve(hub::Ask { target: Some(path), ..hub::Ask::default() })(&mut |_| {}).expect("a pair");
    assert!(matches!(pair.draft, Some(ModelSource::Embedded(e)) if e.name == "smollm2-135m-dflash"));
    assert_eq!(pair.notice, None);
}

/// Quantised formats of several kinds in one file, and a drafter with a reduced vocabulary.
#[test]
fn the_memory_plan_is_what_the_default_pair_takes() {
    let Some(path) = support::target_gguf() else { return };
    let pair = hub::resolve(hub::Ask { target: Some(path), ..hub::Ask::default() })(&mut |_| {}).expect("a pair");
    let (target, draft) = (inspect(&pair.target).expect("a target"), inspect(&pair.draft.expect("ours")).expect("it"));
    for precision in [Precision::Auto, Precision::Q8] {
        let plan = plan(&target, Some(&draft), Holding::Cpu(precision), 0, 1).expect("a target");
        let core = Core::load(Cpu::new(1), &target.checkpoint, Some(&draft.checkpoint), precision, |_| {});
        let core = core.expect("a pair");
        let (target_info, draft_info) = (core.target.info, core.drafter.expect("a drafter").info);
        assert_eq!((plan.target, plan.drafter), (target_info.bytes, draft_info.bytes), "{precision:?}");
        assert_eq!(target.facts.weights().parameters, target_info.parameters);
        assert_eq!(draft.facts.weights().parameters, draft_info.parameters);
    }
}
