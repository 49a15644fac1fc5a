//! Reading a model's tensors with their shapes checked.

use std::ops::Range;

use crate::engine::api::Precision;
use crate::engine::backend::{Backend, Split, Store};
use crate::engine::weights::{Checkpoint, TensorView, WeightsError};

/// Reads tensors of one checkpoint into one backend, and keeps count.
pub struct Loader<'a, B: Backend> {
    /// The files.
    pub checkpoint: &'a Checkpoint,
    /// The device.
    pub backend: &'a B,
    /// How matrices are held.
    pub store: Store,
    /// Weights seen so far.
    pub parameters: u64,
    /// Bytes they take in memory.
    pub bytes: u64,
    /// Formats in memory, in order of first use.
    pub formats: Vec<&'static str>,
}

impl<'a, B: Backend> Loader<'a, B> {
    /// A loader for one checkpoint.
    pub fn new(checkpoint: &'a Checkpoint, backend: &'a B, store: Store) -> Self {
        Self { checkpoint, backend, store, parameters: 0, bytes: 0, formats: Vec::new() }
    }

    fn view(&self, name: &str, shape: &[usize]) -> Result<TensorView<'a>, WeightsError> {
        let view = self.checkpoint.tensor(name)?;
        if view.shape != shape {
            return Err(WeightsError::tensor(
                self.checkpoint.location(),
                name,
                format!("its shape is {:?}, but the configuration asks for {shape:?}", view.shape),
            ));
        }
        Ok(view)
    }

    /// A vector of this length as F32, on the device.
    pub fn vector(&mut self, name: &str, len: usize) -> Result<B::Vector, WeightsError> {
        let values = self.values(name, &[len])?;
        self.backend.vector(values)
    }

    /// All elements of a small tensor of this shape as F32.
    pub fn values(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, WeightsError> {
        let values = self.view(name, shape)?.to_f32()?;
        self.parameters += values.len() as u64;
        self.bytes += values.len() as u64 * 4;
        Ok(values)
    }

    /// Rows of matrices `[rows, cols]` stacked into one and shared out by outputs: `share` says which stretches of which
    /// tensor's rows device `rank` of `of` gets, in their order.
    pub fn outputs<'n>(
        &mut self,
        share: impl Fn(usize, usize) -> Vec<(&'n str, usize, Vec<Range<usize>>)>,
        cols: usize,
    ) -> Result<B::Matrix, WeightsError> {
        let of = self.backend.ranks();
        let mut shares = Vec::with_capacity(of);
        for rank in 0..of {
            let mut views = Vec::new();
            for (name, rows, stretches) in share(rank, of) {
                let whole = self.view(name, &[rows, cols])?;
                let width = whole.data.len() / rows;
                views.extend(stretches.iter().map(|stretch| TensorView {
                    name: whole.name.clone(),
                    dtype: whole.dtype,
                    shape: vec![stretch.len(), cols],
                    data: &whole.data[stretch.start * width..stretch.end * width],
                }));
            }
            shares.push(views);
        }
        // Not the sum of the shares: what several devices have counts once.
        let rows: usize = share(0, 1).iter().flat_map(|(_, _, stretches)| stretches).map(ExactSizeIterator::len).sum();
        let matrix = self.backend.pack_shares(&shares, Split::Outputs, self.store)?;
        self.count(&matrix, (rows * cols) as u64);
        Ok(matrix)
    }

    /// A matrix `[rows, cols]` shared out by inputs: `share` says which stretches of the columns device `rank` of `of`
    /// gets.
    pub fn inputs(
        &mut self,
        name: &str,
        rows: usize,
        cols: usize,
        share: impl Fn(usize, usize) -> Vec<Range<usize>>,
    ) -> Result<B::Matrix, WeightsError> {
        let of = self.backend.ranks();
        if of == 1 {
            return self.matrix(&[(name, rows)], cols, None);
        }
        let whole = self.view(name, &[rows, cols])?;
        let (elements, bytes) = whole.dtype.block();
        let shares: Vec<Vec<Range<usize>>> = (0..of).map(|rank| share(rank, of)).collect();
        if shares.iter().flatten().any(|s| !s.start.is_multiple_of(elements) || !s.end.is_multiple_of(elements)) {
            let problem = format!(
                "its rows of {cols} elements in blocks of {elements} cannot be divided among {of} devices; use fewer with --tensor-parallel"
            );
            return Err(WeightsError::tensor(self.checkpoint.location(), name, problem));
        }
        let width = whole.data.len() / rows;
        let data: Vec<Vec<u8>> = shares
            .iter()
            .map(|stretches| {
                let row = |row: &[u8]| -> Vec<u8> {
                    stretches
                        .iter()
                        .flat_map(|s| &row[s.start / elements * bytes..s.end / elements * bytes])
                        .copied()
                        .collect()
                };
                whole.data.chunks_exact(width).flat_map(row).collect()
            })
            .collect();
        let views: Vec<Vec<TensorView<'_>>> = shares
            .iter()
            .zip(&data)
            .map(|(stretches, data)| {
                let cols = stretches.iter().map(ExactSizeIterator::len).sum();
                vec![TensorView { name: whole.name.clone(), dtype: whole.dtype, shape: vec![rows, cols], data }]
            })
            .collect();
        let matrix = self.backend.pack_shares(&views, Split::Inputs, self.store)?;
        self.count(&matrix, (rows * cols) as u64);
        Ok(matrix)
    }

    fn count(&mut self, matrix: &B::Matrix, parameters: u64) {
        let (bytes, format) = self.backend.describe(matrix);
        self.bytes += bytes as u64;
        self.parameters += parameters;
        if !self.formats.contains(&format) {
            self.formats.push(format);
        }
    }

    /// Matrices `[rows, cols]` stacked into one; `select` keeps only these rows of a single one.
    pub fn matrix(
        &mut self,
        parts: &[(&str, usize)],
        cols: usize,
        select: Option<&[u32]>,
    ) -> Result<B::Matrix, WeightsError> {
        let views = parts.iter().map(|(name, rows)| self.view(name, &[*rows, cols])).collect::<Result<Vec<_>, _>>()?;
        let matrix = self.backend.pack(&views, select, self.store)?;
        // Rows picked out of another model's head are counted there.
        let own = if select.is_none() { parts.iter().map(|(_, rows)| (rows * cols) as u64).sum() } else { 0 };
        self.count(&matrix, own);
        Ok(matrix)
    }

    /// Refuses a tensor that this model's maths would silently leave out.
    pub fn refuse(&self, name: &str, what: &str) -> Result<(), WeightsError> {
        if self.checkpoint.find(name).is_some() {
            return Err(WeightsError::tensor(self.checkpoint.location(), name, format!("{what} is not supported")));
        }
        Ok(())
    }

    /// Formats for display: `Q4_1+Q8_0`.
    pub fn format(&self) -> String {
        self.formats.join("+")
    }
}

/// How matrices of the target are held.
pub fn target_store(precision: Precision) -> Store {
    match precision {
        Precision::Auto => Store::AsStored,
        Precision::F32 => Store::F32,
        Precision::Q8 => Store::Q8,
    }
}

/// How matrices of the drafter are held beside a target with these formats: 8 bits beside a quantised target, because
/// the drafter decides only the speed, never the text.
pub fn draft_store(precision: Precision, target_formats: &[&str]) -> Store {
    match precision {
        Precision::Auto if target_formats.iter().any(|f| f.starts_with('Q')) => Store::Q8,
        Precision::Auto => Store::AsStored,
        Precision::F32 => Store::F32,
        Precision::Q8 => Store::Q8,
    }
}
