//! The convolution of DFlash 2 around a drafter's attention and MLP, on block rows only (specification 1.11): every row
//! brings kernels of its own, added to those of the layer.

use crate::engine::backend::{Backend, Rows};
use crate::engine::weights::WeightsError;

use super::config::ConvShape;
use super::load::Loader;

/// One such convolution.
pub struct BlockConv<B: Backend> {
    projection: B::Matrix,
    /// `[taps, H]` before the sublayer, and behind it.
    base: [B::Vector; 2],
    shape: ConvShape,
    groups: usize,
}

/// Activations that the convolutions of a drafter share.
pub struct ConvSpace<B: Backend> {
    normed: B::Buf,
    kernels: B::Buf,
    /// What the sublayer reads.
    pub input: B::Buf,
    /// What it gave.
    pub output: B::Buf,
}

impl<B: Backend> ConvSpace<B> {
    /// Buffers for this hidden size. They take no memory until they are used.
    pub fn new(backend: &B, shape: Option<ConvShape>, hidden: usize) -> Self {
        let kernels = shape.map_or(1, |s| 2 * s.kernel * (hidden / s.group));
        Self {
            normed: backend.buf(hidden),
            kernels: backend.buf(kernels),
            input: backend.buf(hidden),
            output: backend.buf(hidden),
        }
    }
}

impl<B: Backend> BlockConv<B> {
    /// Loads the convolution of this name.
    pub fn load(load: &mut Loader<'_, B>, name: &str, shape: ConvShape, hidden: usize) -> Result<Self, WeightsError> {
        let groups = hidden / shape.group;
        let base = load.values(&format!("{name}.base_kernel"), &[2, shape.kernel, hidden])?;
        let (before, behind) = base.split_at(shape.kernel * hidden);
        let projection = format!("{name}.kernel_projection.weight");
        Ok(Self {
            projection: load.matrix(&[(&projection, 2 * shape.kernel * groups)], hidden, None)?,
            base: [load.backend.vector(before.to_vec())?, load.backend.vector(behind.to_vec())?],
            shape,
            groups,
        })
    }

    /// Norms `x` and makes of it what the sublayer reads, in `space.input`.
    pub fn enter(
        &self,
        backend: &mut B,
        x: &B::Buf,
        norm: &B::Vector,
        eps: f32,
        rows: &Rows,
        space: &mut ConvSpace<B>,
    ) {
        let n = rows.len();
        backend.place(x, n, &mut space.normed, 0);
        backend.norm(&mut space.normed, n, norm, eps);
        let input = crate::engine::backend::Input::Plain(&space.normed);
        backend.linear(&input, n, &self.projection, &mut space.kernels, false);
        backend.convolve(
            &space.normed,
            &space.kernels,
            0,
            &self.base[0],
            self.shape.group,
            rows,
            &mut space.input,
            false,
        );
    }

    /// Adds to `x` what the sublayer gave, in `space.output`.
    pub fn leave(&self, backend: &mut B, rows: &Rows, space: &ConvSpace<B>, x: &mut B::Buf) {
        let at = self.shape.kernel * self.groups;
        backend.convolve(&space.output, &space.kernels, at, &self.base[1], self.shape.group, rows, x, true);
    }
}
