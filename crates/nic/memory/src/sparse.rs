//! Pools whose buffers are made by and by, as many at a time as their owner wants to wait for.

use crate::Result;
use crate::backing::Pages;
use crate::core::span;
use crate::pool::Pool;
use crate::region::{Dma, Region};

impl Pool {
    /// A pool with room for `count` buffers and none yet, for [`extend`](Pool::extend) to make: that
    /// the kernel provides the memory of all at once takes milliseconds.
    ///
    /// # Errors
    /// As [`Pool::new`].
    pub fn sparse(dma: &Dma, count: usize) -> Result<Pool> {
        Pool::over(dma, count, Pages::Later)
    }

    /// How many further buffers [`extend`](Pool::extend) can make.
    pub fn room(&self) -> usize {
        self.stack.len() - self.made
    }

    /// Makes up to `count` further buffers, as many as there is [`room`](Pool::room) for, and has the kernel
    /// provide their memory; how many.
    ///
    /// # Errors
    /// When memory cannot be had: the pool is as it was.
    pub fn extend(&mut self, count: usize) -> Result<usize> {
        let count = count.min(self.room());
        if count > 0 {
            let bytes = span(self.made, count);
            // SAFETY: the core lives at least as long as the pool.
            unsafe { self.core.as_ref() }.region.populate(bytes.start, bytes.len())?;
            self.make(count);
        }
        Ok(count)
    }

    /// Has room for no further buffers from now on: when their memory could not be had, asking again for each
    /// packet would cost a call of the kernel each.
    pub fn forgo_room(&mut self) {
        self.stack = self.stack[..self.made].into();
    }
}

impl Region {
    /// Has the kernel provide the memory of `len` bytes from `offset` on.
    pub(crate) fn populate(&self, offset: usize, len: usize) -> Result<()> {
        self.chunk.mapping.populate(self.start + offset, len)
    }
}
