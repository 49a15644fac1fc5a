//! What a session keeps on the device.

use std::sync::Arc;

use crate::engine::backend::Keeps;

use super::CudaError;
use super::delta::DeltaCache;
use super::driver::{Driver, Memory};
use super::rows::PAGE_SLOTS;

/// What a layer keeps.
#[derive(Debug)]
pub(super) enum Kept<D: Driver> {
    /// Keys and values: which of the layers in a page it is.
    Attention(usize),
    /// A recurrent state.
    Delta(Box<DeltaCache<D>>),
}

/// What one session keeps: keys and values in pages of [`PAGE_SLOTS`] slots, each for all layers; recurrent states.
#[derive(Debug)]
pub struct Cache<D: Driver> {
    pub(super) pages: Vec<Memory<D>>,
    pub(super) kept: Vec<Kept<D>>,
    /// Layers in a page.
    pub(super) layers: usize,
    pub(super) kv_heads: usize,
    pub(super) head_dim: usize,
    pub(super) exact: bool,
}

impl<D: Driver> Cache<D> {
    /// An empty one for these layers.
    pub(super) fn new(driver: &Arc<D>, layers: &[Keeps<'_>], exact: bool) -> Self {
        let mut cache = Self { pages: Vec::new(), kept: Vec::new(), layers: 0, kv_heads: 0, head_dim: 0, exact };
        for layer in layers {
            cache.kept.push(match layer {
                Keeps::Attention(heads) => {
                    (cache.kv_heads, cache.head_dim) = (heads.kv_heads, heads.head_dim);
                    cache.layers += 1;
                    Kept::Attention(cache.layers - 1)
                }
                Keeps::Delta(shape) => Kept::Delta(Box::new(DeltaCache::new(driver, shape))),
            });
        }
        cache
    }

    /// Pages for so many slots.
    pub(super) fn reserve(&mut self, driver: &Arc<D>, slots: usize) -> Result<(), CudaError> {
        let element = if self.exact { 4 } else { 2 };
        let bytes = self.layers * 2 * PAGE_SLOTS * self.kv_heads * self.head_dim * element;
        while bytes > 0 && self.pages.len() * PAGE_SLOTS < slots {
            self.pages.push(Memory::new(driver, bytes)?);
        }
        Ok(())
    }

    /// A layer's place in the pages.
    pub(super) fn attention(&self, layer: usize) -> usize {
        match self.kept[layer] {
            Kept::Attention(index) => index,
            Kept::Delta(_) => unreachable!("attention in a layer that keeps a recurrent state"),
        }
    }

    /// A layer's recurrent state.
    pub(super) fn delta(&mut self, layer: usize) -> &mut DeltaCache<D> {
        match &mut self.kept[layer] {
            Kept::Delta(cache) => cache,
            Kept::Attention(_) => unreachable!("a recurrent state in a layer that keeps keys and values"),
        }
    }
}
