//! Memory for packed weights: aligned to cache lines, many matrices to a piece, in large pages where the system has
//! them. A forward pass reads all of it once, and with small pages a good part of the time goes into finding them.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a cache line.
const LINE: usize = 64;
/// Bytes of a large page, and alignment of a piece.
const PAGE: usize = 2 << 20;
/// Bytes of a piece; memory that nobody has touched costs nothing.
const PIECE: usize = 64 << 20;

/// A block of memory from the system.
struct Piece {
    start: *mut u8,
    layout: Layout,
}

// SAFETY: the memory is written by the thread that has just taken it from the slab, before anybody else can see it, and
// only read afterwards.
unsafe impl Send for Piece {}
// SAFETY: as above.
unsafe impl Sync for Piece {}

impl Piece {
    fn new(bytes: usize) -> Self {
        let layout = Layout::from_size_align(bytes, PAGE).expect("a matrix fits into the address space");
        // SAFETY: `bytes` is not 0.
        let start = unsafe { alloc(layout) };
        if start.is_null() {
            handle_alloc_error(layout);
        }
        #[cfg(target_os = "linux")]
        // SAFETY: exactly the memory just given. It is advice: whether it is taken changes nothing but speed.
        unsafe {
            libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE);
        }
        Self { start, layout }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and nobody holds it any more.
        unsafe { dealloc(self.start, self.layout) };
    }
}

/// Part of a piece.
#[derive(Clone)]
pub struct Packed {
    piece: Option<Arc<Piece>>,
    from: usize,
    len: usize,
}

impl Packed {
    /// The bytes, on a cache line's boundary.
    pub fn bytes(&self) -> &[u8] {
        match &self.piece {
            // SAFETY: this part was written as a whole before it was given out, and is never written again.
            Some(piece) => unsafe { std::slice::from_raw_parts(piece.start.add(self.from), self.len) },
            None => &[],
        }
    }

    /// The same as floats.
    pub fn floats(&self) -> &[f32] {
        if self.len == 0 { &[] } else { bytemuck::cast_slice(self.bytes()) }
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packed({} bytes)", self.len)
    }
}

/// Gives out parts of pieces.
#[derive(Default)]
pub struct Slab(Mutex<Option<(Arc<Piece>, usize)>>);

impl Slab {
    /// A copy of these bytes.
    pub fn store(&self, bytes: &[u8]) -> Packed {
        let len = bytes.len();
        if len == 0 {
            return Packed { piece: None, from: 0, len };
        }
        // A panic elsewhere cannot leave the pair half changed.
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (piece, from) = match current.take() {
            Some((piece, used)) if piece.layout.size() - used >= len => (piece, used),
            _ => (Arc::new(Piece::new(len.next_multiple_of(PAGE).max(PIECE))), 0),
        };
        // SAFETY: `from..from + len` is inside the piece and part of no `Packed` yet; `bytes` is not in it.
        unsafe { piece.start.add(from).copy_from_nonoverlapping(bytes.as_ptr(), len) };
        *current = Some((Arc::clone(&piece), (from + len).next_multiple_of(LINE).min(piece.layout.size())));
        Packed { piece: Some(piece), from, len }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_keep_their_bytes_and_their_alignment() {
        let slab = Slab::default();
        let contents: Vec<Vec<u8>> = (0..40u8).map(|i| vec![i; 1 + usize::from(i) * 70_001]).collect();
        let parts: Vec<Packed> = contents.iter().map(|c| slab.store(c)).collect();
        let large = slab.store(&vec![7; PIECE + 1]);
        drop(slab);
        for (part, content) in parts.iter().zip(&contents) {
            assert_eq!(part.bytes(), content);
            assert_eq!(part.bytes().as_ptr().addr() % LINE, 0);
        }
        assert!(large.bytes().iter().all(|&b| b == 7) && large.bytes().len() == PIECE + 1);
        assert!(Slab::default().store(&[]).floats().is_empty());
    }
}
