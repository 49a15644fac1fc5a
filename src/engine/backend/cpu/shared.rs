//! A slice that several threads of one job write to, each to places of its own.
#![allow(unsafe_code)]

/// See the module.
#[derive(Debug)]
pub struct Shared<T> {
    start: *mut T,
    len: usize,
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Shared<T> {}
// SAFETY: every use splits the elements so that no two threads touch the same one between two barriers.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Shared<T> {}

impl<T> Shared<T> {
    /// Shares a slice; its borrow must outlive every use.
    pub fn new(slice: &mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), len: slice.len() }
    }

    /// Number of elements.
    pub fn len(self) -> usize {
        self.len
    }

    /// SAFETY: no other thread touches `from..from + len` meanwhile.
    pub unsafe fn slice<'a>(self, from: usize, len: usize) -> &'a mut [T] {
        assert!(from + len <= self.len, "a kernel reached past its buffer");
        // SAFETY: inside the slice by the check; exclusive by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(from), len) }
    }

    /// SAFETY: no thread writes meanwhile.
    pub unsafe fn all<'a>(self) -> &'a [T] {
        // SAFETY: the very slice this was made from.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    /// SAFETY: no other thread touches this element meanwhile.
    pub unsafe fn set(self, index: usize, value: T) {
        debug_assert!(index < self.len);
        // SAFETY: callers stay inside the slice (checked in debug builds).
        unsafe { self.start.add(index).write(value) };
    }
}
