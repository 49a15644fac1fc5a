//! Keys and values of one session. (What layers with a recurrent state keep is in [`super::delta`].)
//!
//! Keys lie in blocks of 16 slots, `[block][kv head][dim][16]`, so that one load serves 16 keys; values lie
//! `[slot][kv head][dim]`. Beside quantised weights they are kept in F16: half the memory, and half of what a long
//! context reads every step. Beside F32 weights they are F32, so that such a run is a reference.
#![allow(unsafe_code, clippy::inline_always)]

use half::f16;
use half::slice::HalfFloatSliceExt;

use super::delta::DeltaCache;
use super::lanes::LANES;
use super::shared::Shared;
use crate::engine::backend::Keeps;

/// Element of a cache.
pub trait Element: Copy + Default + Send + Sync + 'static {
    /// As F32, exactly.
    fn widen(self) -> f32;
    /// Rounds a row.
    fn narrow(from: &[f32], to: &mut [Self]);
    /// The planes of a layer if they are of this type.
    fn planes(layer: &LayerCache) -> Option<(&[Self], &[Self])>;
}

impl Element for f32 {
    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }
    fn narrow(from: &[f32], to: &mut [f32]) {
        to.copy_from_slice(from);
    }
    fn planes(layer: &LayerCache) -> Option<(&[f32], &[f32])> {
        match layer {
            LayerCache::F32(p) => Some((&p.k, &p.v)),
            _ => None,
        }
    }
}

impl Element for f16 {
    /// Moves exponent and mantissa into place and corrects the bias by a multiplication, which is right for subnormal
    /// numbers too, and which compilers turn into vector instructions. Infinities do not come: see `narrow`.
    #[inline(always)]
    fn widen(self) -> f32 {
        let bits = u32::from(self.to_bits());
        let magnitude = f32::from_bits((bits & 0x7FFF) << 13) * f32::from_bits((127 + 112) << 23);
        f32::from_bits(magnitude.to_bits() | (bits & 0x8000) << 16)
    }
    fn narrow(from: &[f32], to: &mut [f16]) {
        to.convert_from_f32_slice(from);
        for v in to {
            // A value that F16 cannot hold becomes the greatest that it can.
            if v.is_infinite() {
                *v = if v.is_sign_negative() { f16::MIN } else { f16::MAX };
            }
        }
    }
    fn planes(layer: &LayerCache) -> Option<(&[f16], &[f16])> {
        match layer {
            LayerCache::F16(p) => Some((&p.k, &p.v)),
            _ => None,
        }
    }
}

/// Keys and values of a layer.
#[derive(Debug, Default, Clone)]
pub struct Planes<E> {
    /// Keys in blocks of 16 slots.
    pub k: Vec<E>,
    /// Values by slot.
    pub v: Vec<E>,
}

/// One layer in one of the formats.
#[derive(Debug, Clone)]
pub enum LayerCache {
    /// Exact.
    F32(Planes<f32>),
    /// Half the size.
    F16(Planes<f16>),
    /// A recurrent state in the place of keys and values.
    Delta(Box<DeltaCache>),
}

/// K and V of one session for all layers of a model.
#[derive(Debug, Clone)]
pub struct Cache {
    /// One entry a layer.
    pub layers: Vec<LayerCache>,
    /// Where things lie.
    pub places: Places,
    /// Slots with room.
    pub slots: usize,
}

/// Arithmetic of the cache layout.
#[derive(Debug, Clone, Copy)]
pub struct Places {
    /// KV heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
}

impl Places {
    /// Index of a key's first dimension; the next ones follow at distances of 16.
    pub fn key(self, slot: usize, head: usize) -> usize {
        ((slot / LANES) * self.kv_heads + head) * self.head_dim * LANES + slot % LANES
    }

    /// Index of a value's first dimension.
    pub fn value(self, slot: usize, head: usize) -> usize {
        (slot * self.kv_heads + head) * self.head_dim
    }
}

impl<E: Element> Planes<E> {
    fn reserve(&mut self, elements: usize) {
        self.k.resize(elements, E::default());
        self.v.resize(elements, E::default());
    }

    fn keep(&mut self, places: Places, base: usize, path: &[usize]) {
        for (j, &node) in path.iter().enumerate().filter(|(j, node)| j != *node) {
            for head in 0..places.kv_heads {
                let (kf, kt) = (places.key(base + node, head), places.key(base + j, head));
                let (vf, vt) = (places.value(base + node, head), places.value(base + j, head));
                for d in 0..places.head_dim {
                    self.k[kt + d * LANES] = self.k[kf + d * LANES];
                }
                self.v.copy_within(vf..vf + places.head_dim, vt);
            }
        }
    }
}

impl Cache {
    /// An empty cache; `exact` asks for F32.
    pub fn new(layers: &[Keeps<'_>], exact: bool) -> Self {
        let mut places = Places { kv_heads: 0, head_dim: 0 };
        let layers = layers
            .iter()
            .map(|layer| match layer {
                Keeps::Attention(heads) => {
                    places = Places { kv_heads: heads.kv_heads, head_dim: heads.head_dim };
                    if exact { LayerCache::F32(Planes::default()) } else { LayerCache::F16(Planes::default()) }
                }
                Keeps::Delta(shape) => LayerCache::Delta(Box::new(DeltaCache::new(shape))),
            })
            .collect();
        Self { layers, places, slots: 0 }
    }

    /// Makes room for `slots` slots; grows by halves so that a long answer does not copy at every step.
    pub fn reserve(&mut self, slots: usize) {
        if slots <= self.slots {
            return;
        }
        let room = slots.max(self.slots + self.slots / 2).max(64).next_multiple_of(LANES);
        let elements = room * self.places.kv_heads * self.places.head_dim;
        for layer in &mut self.layers {
            match layer {
                LayerCache::F32(p) => p.reserve(elements),
                LayerCache::F16(p) => p.reserve(elements),
                // Grows with the rows that it is given.
                LayerCache::Delta(_) => {}
            }
        }
        self.slots = room;
    }

    /// Moves slots `base + path[j]` to `base + j`; `path` rises, so a copy from left to right overwrites nothing that
    /// is still needed.
    pub fn keep(&mut self, base: usize, path: &[usize]) {
        for layer in &mut self.layers {
            match layer {
                LayerCache::F32(p) => p.keep(self.places, base, path),
                LayerCache::F16(p) => p.keep(self.places, base, path),
                LayerCache::Delta(rows) => rows.keep(base, path),
            }
        }
    }

    /// Lets the threads of a job write to a layer.
    pub fn writer(&mut self, layer: usize) -> Writer {
        let places = self.places;
        match &mut self.layers[layer] {
            LayerCache::F32(p) => Writer::F32(places, Shared::new(&mut p.k), Shared::new(&mut p.v)),
            LayerCache::F16(p) => Writer::F16(places, Shared::new(&mut p.k), Shared::new(&mut p.v)),
            // A bug above this trait; the write that follows finds no room and says so.
            LayerCache::Delta(_) => Writer::F32(places, Shared::new(&mut []), Shared::new(&mut [])),
        }
    }

    /// The recurrent state of a layer that has one.
    pub fn delta(&mut self, layer: usize) -> &mut DeltaCache {
        match &mut self.layers[layer] {
            LayerCache::Delta(rows) => rows,
            _ => panic!("layer {layer} keeps keys and values, not a recurrent state"),
        }
    }
}

/// Writes keys and values of one layer from several threads.
#[derive(Clone, Copy)]
pub enum Writer {
    /// To an F32 cache.
    F32(Places, Shared<f32>, Shared<f32>),
    /// To an F16 cache.
    F16(Places, Shared<f16>, Shared<f16>),
}

impl Writer {
    /// Writes one head's key and value.
    ///
    /// SAFETY: the cache outlives the call, and no other thread touches this slot and head meanwhile.
    pub unsafe fn put(self, slot: usize, head: usize, key: &[f32], value: &[f32]) {
        // SAFETY: passed on from the caller.
        unsafe {
            match self {
                Writer::F32(places, k, v) => write(places, k, v, slot, head, key, value),
                Writer::F16(places, k, v) => write(places, k, v, slot, head, key, value),
            }
        }
    }
}

/// SAFETY: as [`Writer::put`].
unsafe fn write<E: Element>(
    places: Places,
    keys: Shared<E>,
    values: Shared<E>,
    slot: usize,
    head: usize,
    key: &[f32],
    value: &[f32],
) {
    let at = places.key(slot, head);
    assert!(at + (key.len() - 1) * LANES < keys.len(), "a row's slot has no room in its cache");
    let mut narrow = [E::default(); LANES];
    for (chunk, from) in key.chunks(LANES).enumerate() {
        E::narrow(from, &mut narrow[..from.len()]);
        for (d, &element) in narrow[..from.len()].iter().enumerate() {
            // SAFETY: inside by the check above; this slot and head are the caller's.
            unsafe { keys.set(at + (chunk * LANES + d) * LANES, element) };
        }
    }
    // SAFETY: this slot and head are the caller's.
    E::narrow(value, unsafe { values.slice(places.value(slot, head), value.len()) });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_widens_exactly() {
        for bits in 0..=u16::MAX {
            let half = f16::from_bits(bits);
            if half.is_finite() {
                assert_eq!(half.widen().to_bits(), half.to_f32().to_bits(), "{bits:#06x}");
            }
        }
    }

    #[test]
    fn what_is_too_large_becomes_the_largest() {
        let mut out = [f16::ZERO; 3];
        f16::narrow(&[1e6, -1e6, 1.5], &mut out);
        assert_eq!(out, [f16::MAX, f16::MIN, f16::from_f32(1.5)]);
    }
}
