//! The default target: fetched for real, and paired with its drafter.

mod support;

use std::time::Instant;

use spectop::cli::setup;
use spectop::engine::api::ModelSource;
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
