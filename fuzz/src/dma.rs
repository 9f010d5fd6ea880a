//! DMA memory that one run after the other takes its pools and rings from.
//!
//! Small regions are cut from chunks of 2 MiB, which are populated as a whole: that takes
//! a millisecond, as long as some hundred acts. So a chunk is kept until it is used up.
//! No byte of it serves two runs, and each begins with zeroes.

use std::cell::RefCell;

use memory::{Backing, Dma, Options, Region};

thread_local! {
    static SPACE: Space = Space {
        dma: Dma::new(Options { backing: Backing::Memfd, numa_node: None }),
        kept: RefCell::default(),
    };
}

struct Space {
    dma: Dma,
    /// A region of the chunk that regions are cut from: while it lives the chunk does.
    kept: RefCell<Option<Region>>,
}

/// The address space of all runs, to which no device is attached between them.
pub fn space() -> Dma {
    SPACE.with(|space| {
        let region = space.dma.alloc(1).unwrap_or_else(|error| panic!("{error}"));
        *space.kept.borrow_mut() = Some(region);
        space.dma.clone()
    })
}
