//! The rows of a forward as the attention kernels read them.

use std::sync::Arc;

use crate::engine::backend::Rows;

use super::driver::{Driver, Memory};
use super::{Cache, done};

/// Slots of a page of a cache, as in the kernels.
pub const PAGE_SLOTS: usize = 64;
/// Numbers a row, as in the kernels: position, slot, start and end of the prefix, first page, visible slots.
const ROW: usize = 6;

/// Rows, masks and page addresses on the device. All layers of a forward share them, so they travel once.
#[derive(Debug)]
pub struct Table<D: Driver> {
    memory: Memory<D>,
    /// What is on the device: pages, then masks, then rows, two numbers a word.
    words: Vec<u64>,
    pages: usize,
    mask_words: usize,
    rows: usize,
    visible: usize,
    /// Pages of the one cache that is rearranged.
    own: Memory<D>,
}

impl<D: Driver> Table<D> {
    /// An empty table.
    pub fn new(driver: &Arc<D>) -> Self {
        Self {
            memory: Memory::none(driver),
            words: Vec::new(),
            pages: 0,
            mask_words: 0,
            rows: 0,
            visible: 0,
            own: Memory::none(driver),
        }
    }

    /// Makes the table that of these rows over these caches.
    pub fn fill(&mut self, rows: &Rows, caches: &mut [&mut Cache<D>]) {
        let mut words: Vec<u64> = Vec::with_capacity(self.words.len());
        let mut first = Vec::with_capacity(caches.len());
        for cache in caches.iter() {
            first.push(words.len());
            words.extend(cache.pages.iter().map(Memory::at));
        }
        let pages = words.len();
        words.extend_from_slice(&rows.masks);
        let mut numbers: Vec<u32> = Vec::with_capacity(rows.len() * ROW);
        let mut most = 0;
        for (i, row) in rows.rows.iter().enumerate() {
            assert!(row.slot < caches[row.session].pages.len() * PAGE_SLOTS, "a row's slot has no room in its cache");
            let picked: u32 = rows.mask(i).iter().map(|bits| bits.count_ones()).sum();
            let visible = row.prefix.len() + picked as usize;
            most = most.max(visible);
            let numbers_of_row =
                [row.position, row.slot, row.prefix.start, row.prefix.end, first[row.session], visible];
            numbers.extend(numbers_of_row.map(|n| n as u32));
        }
        words.extend(numbers.as_chunks::<2>().0.iter().map(|&[low, high]| u64::from(low) | u64::from(high) << 32));
        if words == self.words && pages == self.pages && rows.words == self.mask_words {
            return;
        }
        self.pages = pages;
        self.mask_words = rows.words;
        self.rows = pages + rows.masks.len();
        self.visible = most;
        done(self.memory.grow(words.len() * 8, 0));
        done(self.memory.upload(bytemuck::cast_slice(&words)));
        self.words = words;
    }

    /// Address of the rows from this one on.
    pub fn rows(&self, from: usize) -> u64 {
        self.memory.at() + (self.rows * 8 + from * ROW * 4) as u64
    }

    /// Address of the masks from this row on.
    pub fn masks(&self, from: usize) -> u64 {
        self.memory.at() + ((self.pages + from * self.mask_words) * 8) as u64
    }

    /// Address of the page addresses.
    pub fn pages(&self) -> u64 {
        self.memory.at()
    }

    /// Most slots that a row sees.
    pub fn visible(&self) -> usize {
        self.visible
    }

    /// Address of the page addresses of one cache.
    pub fn pages_of(&mut self, cache: &Cache<D>) -> u64 {
        let pages: Vec<u64> = cache.pages.iter().map(Memory::at).collect();
        done(self.own.grow(pages.len() * 8, 0));
        done(self.own.upload(bytemuck::cast_slice(&pages)));
        self.own.at()
    }
}
