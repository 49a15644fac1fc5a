//! The tiny random checkpoints under tests/fixtures/hf, what is expected of them, and forwards without rounds.

use std::path::PathBuf;

use spectop::engine::api::{ModelSource, Precision};
use spectop::engine::backend::cpu::Cpu;
use spectop::engine::backend::{Backend, Row, Rows};
use spectop::engine::rounds::Core;
use spectop::engine::tree::Tree;
use spectop::engine::weights::Checkpoint;

/// The targets among them.
pub const NAMES: [&str; 5] = ["qwen3-tied", "qwen3-untied", "llama3-scaled", "qwen35-tied", "qwen35-untied"];

/// Folder of a checkpoint.
pub fn hf(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/hf").join(name)
}

/// What transformers computes.
pub struct Expected {
    /// A prompt.
    pub ids: Vec<u32>,
    /// Logits of every position.
    pub logits: Vec<Vec<f32>>,
    /// Layers whose output is among the features.
    pub taps: Vec<usize>,
    /// Features of the last positions.
    pub features: Vec<Vec<f32>>,
    /// What greedy decoding adds.
    pub greedy: Vec<u32>,
}

impl Expected {
    /// Reads what belongs to a checkpoint.
    pub fn of(name: &str) -> Self {
        let file = Checkpoint::open(&ModelSource::Path(hf(name).join("expected.safetensors"))).expect("it opens");
        let ids = |name: &str| file.tensor(name).expect("there").to_ids().expect("ids");
        let rows = |name: &str| -> Vec<Vec<f32>> {
            let tensor = file.tensor(name).expect("there");
            tensor.to_f32().expect("numbers").chunks(tensor.cols()).map(<[f32]>::to_vec).collect()
        };
        Self {
            ids: ids("ids"),
            logits: rows("logits"),
            taps: ids("taps").into_iter().map(|t| t as usize).collect(),
            features: rows("features"),
            greedy: ids("greedy"),
        }
    }
}

/// A target whose forwards a test calls itself.
pub struct Model<B: Backend = Cpu> {
    /// The target on its backend.
    pub core: Core<B>,
}

impl Model {
    /// Loads a target on one thread.
    pub fn open(source: &ModelSource, precision: Precision) -> Self {
        Self::open_on(source, precision, 1)
    }

    /// Loads a target on this many threads.
    pub fn open_on(source: &ModelSource, precision: Precision, threads: usize) -> Self {
        Self::open_with(Cpu::new(threads), source, precision)
    }
}

impl<B: Backend> Model<B> {
    /// Loads a target on a backend.
    pub fn open_with(backend: B, source: &ModelSource, precision: Precision) -> Self {
        let checkpoint = Checkpoint::open(source).expect("the checkpoint opens");
        let core = Core::load(backend, &checkpoint, None, precision, |_| {}).expect("the model loads");
        Self { core }
    }

    /// An empty cache.
    pub fn cache(&self) -> B::Cache {
        self.core.target.cache(&self.core.backend)
    }

    /// Logits of rows that continue one cache causally.
    pub fn causal(&mut self, cache: &mut B::Cache, start: usize, ids: &[u32]) -> Vec<Vec<f32>> {
        self.side_by_side(&mut [(cache, start, ids)])
    }

    /// Logits of rows that continue several caches causally, all in one forward.
    pub fn side_by_side(&mut self, parts: &mut [(&mut B::Cache, usize, &[u32])]) -> Vec<Vec<f32>> {
        let mut rows = Rows::default();
        let longest = parts.iter().map(|p| p.2.len()).max().unwrap_or(1);
        rows.clear(longest.div_ceil(64));
        let mut ids = Vec::new();
        for (session, (cache, start, more)) in parts.iter_mut().enumerate() {
            self.core.backend.reserve(cache, *start + more.len());
            rows.push_causal(session, *start, more.len());
            ids.extend_from_slice(more);
        }
        let mut caches: Vec<&mut B::Cache> = parts.iter_mut().map(|p| &mut *p.0).collect();
        self.run(&ids, &rows, &mut caches)
    }

    /// Logits of a tree's rows, its root first.
    pub fn tree(&mut self, cache: &mut B::Cache, start: usize, seed: u32, tree: &Tree) -> Vec<Vec<f32>> {
        let words = tree.rows().div_ceil(64);
        let masks = tree.ancestor_masks(words);
        let mut rows = Rows::default();
        rows.clear(words);
        self.core.backend.reserve(cache, start + tree.rows());
        for node in 0..tree.rows() {
            let row = Row { session: 0, position: start + tree.depth(node), slot: start + node, prefix: 0..start };
            rows.push(row, &masks[node * words..(node + 1) * words]);
        }
        let ids: Vec<u32> = std::iter::once(seed).chain(tree.tokens.iter().copied()).collect();
        self.run(&ids, &rows, &mut [cache])
    }

    /// Features of a row of the last forward.
    pub fn features(&self, row: usize) -> Vec<f32> {
        self.core.backend.read(&self.core.target.features, row..row + 1).into_owned()
    }

    fn run(&mut self, ids: &[u32], rows: &Rows, caches: &mut [&mut B::Cache]) -> Vec<Vec<f32>> {
        let wanted: Vec<usize> = (0..ids.len()).collect();
        let Core { backend, target, .. } = &mut self.core;
        target.forward(backend, ids, rows, caches, &wanted);
        wanted.iter().map(|&row| backend.read(&target.logits, row..row + 1).into_owned()).collect()
    }
}
