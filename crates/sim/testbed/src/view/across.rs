//! Accesses that cross from one mapped range into the next.
//!
//! Memory that is in one piece for the device may be mapped in many: an IOMMU maps
//! page by page, and drivers put rings and packets wherever they fit. Copies are
//! made piece by piece; a window, which must be in one piece, gets a second
//! mapping of the same pages, side by side.

use std::sync::Arc;

use super::{Mapping, View, Window, copy};

/// A part of one range.
pub(super) struct Piece {
    /// Where this process sees it.
    pub base: *mut u8,
    /// Its length in bytes.
    pub len: usize,
    /// Keeps it mapped.
    pub mapping: Arc<Mapping>,
}

impl View {
    /// The pieces of `iova..iova + len` in their order, if ranges that allow the
    /// access hold all of it.
    fn pieces(&self, iova: u64, len: u64, read: bool, write: bool) -> Option<Vec<Piece>> {
        let end = iova.checked_add(len)?;
        let known = self.known.borrow();
        let (mut pieces, mut at) = (Vec::new(), iova);
        while at < end {
            let range = known.iter().find(|range| at.wrapping_sub(range.iova) < range.len)?;
            if read && !range.access.read || write && !range.access.write {
                return None;
            }
            let mapping = range.mapping.clone()?;
            let inside = at - range.iova;
            let len = (range.len - inside).min(end - at);
            // SAFETY: `inside` is less than the mapping's length.
            let base = unsafe { mapping.base().add(inside as usize) };
            pieces.push(Piece { base, len: len as usize, mapping });
            at += len;
        }
        // Of nothing there are no pieces, and nothing is nowhere.
        (!pieces.is_empty()).then_some(pieces)
    }

    /// [`model::Dma::read`], where no single range holds all of it.
    #[cold]
    pub(super) fn read_across(&self, iova: u64, mut data: &mut [u8]) -> bool {
        let Some(pieces) = self.pieces(iova, data.len() as u64, true, false) else { return false };
        for piece in pieces {
            let (now, later) = data.split_at_mut(piece.len);
            // SAFETY: the piece lies in the mapping that it holds; `now` is as
            // long, and this process's own.
            unsafe { copy::bytes(piece.base, now.as_mut_ptr(), piece.len) };
            data = later;
        }
        true
    }

    /// [`model::Dma::write`], where no single range holds all of it.
    #[cold]
    pub(super) fn write_across(&self, iova: u64, mut data: &[u8]) -> bool {
        let Some(pieces) = self.pieces(iova, data.len() as u64, false, true) else { return false };
        for piece in pieces {
            let (now, later) = data.split_at(piece.len);
            // SAFETY: as in `read_across`, the other way round.
            unsafe { copy::bytes(now.as_ptr(), piece.base, piece.len) };
            data = later;
        }
        true
    }

    /// [`model::Dma::window`], where no single range holds all of it. `None`, too,
    /// where ranges meet within a page of this process.
    #[cold]
    pub(super) fn window_across(&self, iova: u64, len: u64) -> Option<Window> {
        let pieces = self.pieces(iova, len, true, true)?;
        let mapping = Mapping::of_pieces(&pieces).ok()?;
        Window::over(mapping.base(), len, mapping)
    }
}
