//! Published models and their drafters, built as sparse files with the real names and shapes: what inspection, the pair
//! check and the memory plan say about them, without 50 GB anywhere. The expected numbers are worked out by hand.

mod checkpoint;
mod models;

use std::path::Path;
use std::time::{Duration, Instant};

use spectop::engine::api::{ModelSource, Precision};
use spectop::engine::inspect::plan::{Holding, plan};
use spectop::engine::inspect::{DraftFacts, Inspected, ModelFacts, TargetFacts, inspect, pair};

/// Long enough for a slow machine, far too short to read weights.
const AT_MOST: Duration = Duration::from_secs(1);

fn open(folder: &Path) -> Inspected {
    inspect(&ModelSource::Path(folder.to_owned())).unwrap_or_else(|error| panic!("{error}"))
}

fn target(seen: &Inspected) -> &TargetFacts {
    match &seen.facts {
        ModelFacts::Target(facts) => facts,
        ModelFacts::Draft(_) => panic!("a drafter"),
    }
}

fn drafter(seen: &Inspected) -> &DraftFacts {
    match &seen.facts {
        ModelFacts::Draft(facts) => facts,
        ModelFacts::Target(_) => panic!("a target"),
    }
}

#[test]
fn qwen3_4b_and_its_drafter() {
    let dir = tempfile::tempdir().expect("a folder");
    let (t, d) = (dir.path().join("Qwen3-4B"), dir.path().join("Qwen3-4B-DFlash-b16"));
    models::qwen3(&t, 2560, 9728, true, 3);
    models::drafter(&d, 2560, 9728, &models::qwen3_drafter());
    let begun = Instant::now();
    let (seen, draft) = (open(&t), open(&d));
    let facts = target(&seen);
    assert_eq!((&*facts.name, &*facts.architecture, facts.container), ("Qwen3-4B", "qwen3", "safetensors"));
    assert_eq!((facts.layers.total, facts.layers.full, facts.layers.linear), (36, 36, 0));
    // 36 layers of 100,930,816, the embedding of 151,936 × 2560, the norm; no head of its own.
    assert_eq!(facts.weights.parameters, 36 * 100_930_816 + 388_956_160 + 2560);
    assert_eq!(facts.weights.parameters, 4_022_468_096);
    assert_eq!((facts.weights.bytes, facts.weights.tensors), (8_044_936_192, 398));
    assert_eq!((&*facts.weights.formats[0].format, facts.weights.formats[0].share), ("BF16", 1.0));
    assert_eq!((facts.tied, facts.vocab, facts.context), (true, 151_936, Some(40_960)));
    assert_eq!((facts.rope.theta, facts.rope.dims, facts.rope.scaling.clone()), (Some(1e6), 128, None));
    let stops: Vec<_> = facts.stop_tokens.iter().map(|s| (s.id, s.text.as_deref().unwrap_or(""))).collect();
    assert_eq!(stops, [(151_643, "<|endoftext|>"), (151_645, "<|im_end|>")]);
    assert_eq!((facts.tokenizer.as_deref(), facts.chat_template), (Some("tokenizer.json"), true));
    assert_eq!(facts.not_loadable, None);

    let by = drafter(&draft);
    assert_eq!((&*by.method, by.layers.len(), by.block_size, by.mask_token), ("dflash", 5, 16, 151_669));
    assert_eq!((by.taps.as_slice(), by.target_layers), (&[1, 9, 17, 25, 33][..], Some(36)));
    assert!(by.layers.iter().all(|l| l.window.is_none() && !l.causal));
    assert_eq!((by.weights.parameters, by.weights.tensors, by.draft_vocab), (537_427_200, 58, None));
    assert_eq!(pair(&seen, &draft).problem, None);

    let gpu = plan(&seen, Some(&draft), Holding::Gpu, 0, 1).expect("a target");
    // Keys and values: 36 and 5 layers of 8 heads of 128, twice, in 16 bits.
    assert_eq!((gpu.context, gpu.kv_per_token), (8192, 2 * (36 + 5) * 8 * 128 * 2));
    assert_eq!(gpu.target, 8_044_936_192);
    // The drafter's K and V projections are held a second time: 5 × 2 × 1024 × 2560.
    assert_eq!(gpu.drafter, 2 * (537_427_200 + 26_214_400));
    assert_eq!(gpu.total, gpu.target + gpu.drafter + gpu.kv + gpu.state + gpu.workspace);
    assert_eq!((gpu.kv, gpu.state), (167_936 * 8192, 0));
    assert!(begun.elapsed() < AT_MOST, "{:?}", begun.elapsed());
}

#[test]
fn qwen3_8b_and_its_drafter() {
    let dir = tempfile::tempdir().expect("a folder");
    let (t, d) = (dir.path().join("Qwen3-8B"), dir.path().join("Qwen3-8B-DFlash-b16"));
    models::qwen3(&t, 4096, 12_288, false, 5);
    models::drafter(&d, 4096, 12_288, &models::qwen3_drafter());
    let begun = Instant::now();
    let (seen, draft) = (open(&t), open(&d));
    let facts = target(&seen);
    assert_eq!(facts.weights.parameters, 8_190_735_360);
    assert_eq!((facts.weights.bytes, facts.weights.tensors, facts.tied), (16_381_470_720, 399, false));
    assert_eq!(facts.not_loadable, None);
    let by = drafter(&draft);
    // 5 layers of 192,946,432, the fusion of 4096 × 20,480, two norms.
    assert_eq!(by.weights.parameters, 5 * 192_946_432 + 83_886_080 + 8192);
    assert_eq!(pair(&seen, &draft).problem, None);

    let gpu = plan(&seen, Some(&draft), Holding::Gpu, 40_960, 2).expect("a target");
    assert_eq!((gpu.target, gpu.drafter), (16_381_470_720, 2 * (1_048_626_432 + 41_943_040)));
    assert_eq!((gpu.kv_per_token, gpu.kv), (167_936, 167_936 * 40_960 * 2));
    // The CPU backend widens BF16 to F32, and keeps caches as exact as the weights.
    let cpu = plan(&seen, Some(&draft), Holding::Cpu(Precision::Auto), 0, 1).expect("a target");
    assert_eq!((cpu.target, cpu.drafter), (4 * 8_190_735_360, 4 * (1_048_626_432 + 41_943_040)));
    assert_eq!(cpu.kv_per_token, 2 * 167_936);
    // In 8 bits: 34 bytes for 32 weights of a matrix; norms in F32.
    let q8 = plan(&seen, None, Holding::Cpu(Precision::Q8), 0, 1).expect("a target");
    assert_eq!(q8.target, (8_190_735_360 - 308_224) / 32 * 34 + 308_224 * 4);
    assert!(begun.elapsed() < AT_MOST, "{:?}", begun.elapsed());
}

#[test]
fn qwen36_27b_and_its_drafter() {
    let dir = tempfile::tempdir().expect("a folder");
    let (t, d) = (dir.path().join("Qwen3.6-27B"), dir.path().join("Qwen3.6-27B-DFlash"));
    models::qwen36(&t);
    models::drafter(&d, 5120, 17_408, &models::qwen36_drafter());
    let begun = Instant::now();
    let (seen, draft) = (open(&t), open(&d));
    let facts = target(&seen);
    assert_eq!((&*facts.architecture, facts.vocab, facts.context), ("qwen3_5", 248_320, Some(262_144)));
    assert_eq!((facts.layers.total, facts.layers.full, facts.layers.linear), (64, 16, 48));
    assert_eq!((facts.heads, facts.kv_heads, facts.head_dim, facts.tied), (24, 4, 256, false));
    let linear = facts.linear.expect("recurrent layers");
    assert_eq!((linear.key_heads, linear.value_heads, linear.conv_kernel), (16, 48, 4));
    assert_eq!((facts.rope.theta, facts.rope.dims), (Some(1e7), 64));
    // 48 recurrent layers, 16 full ones, embedding and head of 248,320 × 5120, the norm.
    let text = 48 * 383_273_184 + 16 * 372_255_232 + 2 * 1_271_398_400 + 5120;
    assert_eq!((facts.weights.parameters, facts.weights.bytes), (text, 2 * text));
    assert_eq!(text, 26_895_998_464);
    assert_eq!(facts.not_loadable, None);
    let unused: Vec<_> = facts.weights.unused.iter().map(|u| &*u.part).collect();
    assert_eq!(unused, ["mtp", "visual"], "not part of what is loaded");
    assert!(facts.stop_tokens.iter().map(|s| s.id).eq([248_044, 248_046]) && facts.chat_template);

    let by = drafter(&draft);
    assert_eq!((by.block_size, by.mask_token, by.taps.as_slice()), (16, 248_070, &[1, 16, 31, 46, 61][..]));
    let layers: Vec<_> = by.layers.iter().map(|l| (l.window, l.causal)).collect();
    assert_eq!(layers, [[(Some(2048), true); 4].as_slice(), &[(None, false)]].concat());
    assert_eq!(by.weights.parameters, 1_730_213_120);
    assert_eq!(pair(&seen, &draft).problem, None);

    let gpu = plan(&seen, Some(&draft), Holding::Gpu, 262_144, 1).expect("a target");
    assert_eq!(gpu.target, 53_791_996_928);
    // Only the 16 full layers and the drafter's 5 have a cache that grows.
    assert_eq!(gpu.kv_per_token, 2 * (16 * 4 * 256 + 5 * 8 * 128) * 2);
    // The state of 48 layers: 48 heads of 128 × 128, and beside it the rows of a prompt pass, of a block of 16 and the
    // three that the convolution looks back, each with its input, key, change and decay, in F32.
    let row = 10_240 + 2048 + 6144 + 48;
    assert_eq!(gpu.state, 4 * 48 * (48 * 128 * 128 + (128 + 16 + 3) * row));
    assert!(begun.elapsed() < AT_MOST, "{:?}", begun.elapsed());
}

#[test]
fn halves_of_different_pairs_are_told_apart() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name);
    models::qwen3(&path("Qwen3-4B"), 2560, 9728, true, 3);
    models::qwen3(&path("Qwen3-8B"), 4096, 12_288, false, 5);
    models::qwen36(&path("Qwen3.6-27B"));
    models::drafter(&path("for-8B"), 4096, 12_288, &models::qwen3_drafter());
    models::drafter(&path("for-27B"), 5120, 17_408, &models::qwen36_drafter());
    for (of, by, advice) in [
        ("Qwen3-4B", "for-8B", "made for hidden size 4096, but the target has 2560"),
        ("Qwen3.6-27B", "for-8B", "made for hidden size 4096, but the target has 5120"),
        ("Qwen3-8B", "for-27B", "made for hidden size 5120, but the target has 4096"),
        ("for-8B", "for-8B", "is a drafter, not a target"),
        ("Qwen3-8B", "Qwen3-8B", "is no DFlash drafter"),
    ] {
        let found = pair(&open(&path(of)), &open(&path(by)));
        let problem = found.problem.expect("they do not belong together");
        assert!(!found.fits && problem.contains(advice), "{of} and {by}: {problem}");
    }
    // Same width, but made for a target that ends earlier, or whose tokens are others.
    let mut config = models::qwen3_drafter();
    config["num_target_layers"] = 30.into();
    models::drafter(&path("shallow"), 4096, 12_288, &config);
    let mut config = models::qwen3_drafter();
    config["vocab_size"] = 128_256.into();
    models::drafter(&path("other-words"), 4096, 12_288, &config);
    for (by, advice) in [("shallow", "a target of 30 layers"), ("other-words", "a vocabulary of 128256 tokens")] {
        let problem = pair(&open(&path("Qwen3-8B")), &open(&path(by))).problem.expect("it does not fit");
        assert!(problem.contains(advice) && problem.contains("--no-draft"), "{problem}");
    }
}

#[test]
fn broken_files_are_told_as_in_loading() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = dir.path().join("Qwen3-4B");
    models::qwen3(&folder, 2560, 9728, true, 3);
    let error = || inspect(&ModelSource::Path(folder.clone())).expect_err("it is broken").to_string();
    let shard = folder.join("model-00002-of-00003.safetensors");
    let file = std::fs::File::options().write(true).open(&shard).expect("a shard");
    file.set_len(1 << 20).expect("cut short");
    assert!(error().contains("model-00002-of-00003.safetensors") && error().contains("cut short"), "{}", error());
    std::fs::remove_file(&shard).expect("gone");
    assert!(error().contains("no such file"), "{}", error());
    models::qwen3(&dir.path().join("whole"), 2560, 9728, true, 3);
    std::fs::remove_file(dir.path().join("whole/config.json")).expect("gone");
    let error = inspect(&ModelSource::Path(dir.path().join("whole"))).expect_err("no configuration").to_string();
    assert!(error.contains("there is no config.json beside the weights"), "{error}");
}

#[test]
fn a_tensor_that_is_missing_or_has_another_shape_is_named() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = dir.path().join("drafter");
    let error = |change: &dyn Fn(&mut Vec<checkpoint::Tensor>)| {
        models::drafter(&folder, 2560, 9728, &models::qwen3_drafter());
        let config = std::fs::read(folder.join("config.json")).expect("a file");
        let config = serde_json::from_slice(&config).expect("JSON");
        let mut tensors = models::drafter_tensors(2560, 9728);
        change(&mut tensors);
        checkpoint::write(&folder, &config, &tensors, 1);
        inspect(&ModelSource::Path(folder.clone())).map(|_| ()).map_err(|e| e.to_string())
    };
    assert_eq!(error(&|_| {}), Ok(()));
    let lacks = |name: &'static str| move |tensors: &mut Vec<checkpoint::Tensor>| tensors.retain(|(n, _)| n != name);
    let told = error(&lacks("layers.0.mlp.up_proj.weight")).expect_err("a tensor is missing");
    assert!(told.contains("has no tensor layers.0.mlp.up_proj.weight"), "{told}");
    let told = error(&|tensors| tensors.retain(|(n, _)| !n.starts_with("layers.4."))).expect_err("a layer is missing");
    assert!(told.contains("has no tensor layers.4."), "{told}");
    let told = error(&|tensors| tensors.last_mut().expect("a tensor").1[0] = 2048).expect_err("another shape");
    assert!(told.contains("layers.4.mlp.down_proj.weight: its shape is [2048, 9728]"), "{told}");
}
