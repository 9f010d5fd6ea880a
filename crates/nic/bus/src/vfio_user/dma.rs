//! Answers a server's `DMA_READ` and `DMA_WRITE` from the ranges that we
//! offered it: bounds first, then a copy. A server asks this way for memory
//! whose file it was not given.

use std::ptr;

use rustix::io::Errno;

use super::message::{Encoder, Header, MAX_TRANSFER, Request};
use crate::DmaRange;
use crate::sigbus::Registration;

/// A range the server may reach.
#[derive(Debug)]
struct Offered {
    iova: u64,
    len: u64,
    addr: *mut u8,
    /// Of memory whose file the server has.
    registration: Option<Registration>,
}

/// All ranges the server may reach.
#[derive(Debug, Default)]
pub(crate) struct Ranges(Vec<Offered>);

// SAFETY: the addresses are touched only through `answer`, by whoever holds the
// lock around this; `DmaRange` vouches that they stay mapped.
unsafe impl Send for Ranges {}

impl Ranges {
    pub(crate) fn insert(&mut self, range: &DmaRange<'_>) {
        let (iova, len, addr) = (range.iova(), range.len() as u64, range.addr());
        self.0.push(Offered { iova, len, addr, registration: range.watch() });
    }

    /// Whether the server took pages of them away.
    pub(crate) fn are_lost(&self) -> bool {
        self.0.iter().any(|range| range.registration.as_ref().is_some_and(Registration::is_lost))
    }

    /// Removes what begins within `len` bytes from `iova`; whether there was any.
    pub(crate) fn remove(&mut self, iova: u64, len: u64) -> bool {
        let before = self.0.len();
        self.0.retain(|range| range.iova < iova || range.iova - iova >= len);
        self.0.len() < before
    }

    /// Where `count` bytes at `iova` are, all within one range.
    fn find(&self, iova: u64, count: u64) -> Result<*mut u8, Errno> {
        let inside = |range: &&Offered| {
            let from = iova.checked_sub(range.iova);
            from.is_some_and(|from| from <= range.len && range.len - from >= count)
        };
        let range = self.0.iter().find(inside).ok_or(Errno::FAULT)?;
        // SAFETY: `iova` lies within the range, whose bytes are all mapped.
        Ok(unsafe { range.addr.add((iova - range.iova) as usize) })
    }

    fn answer(&self, header: &Header, request: &Request<'_>) -> Result<Vec<u8>, Errno> {
        match *request {
            Request::DmaRead { count, .. } if count > MAX_TRANSFER as u64 => Err(Errno::MSGSIZE),
            Request::DmaRead { iova, count } => {
                let from = self.find(iova, count)?;
                let mut data = vec![0; count as usize];
                // SAFETY: `find` checked all `count` bytes; `data` is as long.
                unsafe { ptr::copy_nonoverlapping(from, data.as_mut_ptr(), data.len()) };
                Ok(Encoder::reply(header).u64(iova).u64(count).bytes(&data).finish())
            }
            Request::DmaWrite { iova, data } => {
                let to = self.find(iova, data.len() as u64)?;
                // SAFETY: `find` checked that all of `data` fits.
                unsafe { ptr::copy_nonoverlapping(data.as_ptr(), to, data.len()) };
                Ok(Encoder::reply(header).u64(iova).u64(data.len() as u64).finish())
            }
            _ => Err(Errno::OPNOTSUPP),
        }
    }

    /// The reply to a command that the server sent us.
    pub(crate) fn reply(&self, header: &Header, body: &[u8]) -> Vec<u8> {
        let request = super::message::decode_request(header.command, body);
        let request = request.map_err(super::message::Malformed::errno);
        let reply = request.and_then(|request| self.answer(header, &request));
        reply.unwrap_or_else(|errno| Encoder::error(header, errno))
    }
}
