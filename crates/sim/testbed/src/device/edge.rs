//! What is at a chip's port: the cable, and in front of it the table of tunnels' headers where the
//! device has one (decision 30).

use bus::config_space::BarType;
use model::encap::Encap;
use model::{FrameError, MAX_FRAME, Wire};
use regs::encap::{self, capability};

use super::{Bar, BarContent, Shape};
use crate::wire::Cable;

impl Shape {
    /// The same function with a table of tunnels, whose registers are a BAR of their own, which is free,
    /// and which a capability at `at` names.
    #[must_use]
    pub(crate) fn with_encap(mut self, index: usize, at: usize) -> Shape {
        let bar = Bar { index, kind: BarType::Memory32, size: encap::LEN, content: BarContent::Encap };
        let mut content = [0; capability::BYTES as usize];
        let mut put = |field: u16, bytes: &[u8]| {
            content[usize::from(field)..][..bytes.len()].copy_from_slice(bytes);
        };
        put(capability::KIND, &[capability::IS_KIND]);
        put(capability::SIGNATURE, &capability::IS_SIGNATURE);
        put(capability::BAR, &[index as u8]);
        put(capability::VERSION, &[capability::IS_VERSION]);
        put(capability::LENGTH, &encap::LEN.to_le_bytes());
        let content = &content[usize::from(capability::KIND)..];
        self.config = self.config.with_bar(index, bar.kind, bar.size.into());
        self.config = self.config.with_vendor_capability(at, content, &[]);
        self.bars.push(bar);
        self
    }
}

/// A cable, with a table of tunnels in front of it or without.
#[derive(Debug)]
pub(crate) struct Edge {
    pub(crate) cable: Cable,
    encap: Option<Box<Encap>>,
}

impl Edge {
    /// A cable with a table of so many entries, if any.
    pub(crate) fn new(cable: Cable, entries: Option<u32>) -> Edge {
        Edge { cable, encap: entries.map(|entries| Box::new(Encap::new(entries))) }
    }

    /// The table, if there is one.
    pub(crate) fn encap(&mut self) -> Option<&mut Encap> {
        self.encap.as_deref_mut()
    }
}

impl Wire for Edge {
    fn receive(&mut self, frame: &mut [u8]) -> Option<usize> {
        loop {
            if let Some(back) = self.encap.as_mut().and_then(|encap| encap.given_back()) {
                let len = back.len().min(frame.len());
                frame[..len].copy_from_slice(&back[..len]);
                return Some(len);
            }
            let len = self.cable.receive(frame)?;
            let came = &frame[..len.min(frame.len())];
            if self.encap.as_mut().is_none_or(|encap| encap.admits(came)) {
                return Some(len);
            }
        }
    }

    #[inline]
    fn transmit(&mut self, frame: &[u8]) {
        match &mut self.encap {
            None => self.cable.transmit(frame),
            Some(encap) => {
                if let Some(frame) = encap.transmit(frame) {
                    self.cable.transmit(frame);
                }
            }
        }
    }

    #[inline]
    fn takes_frames(&self) -> bool {
        self.cable.takes_frames()
    }

    fn frame_error(&self) -> FrameError {
        self.cable.frame_error()
    }

    #[inline]
    fn receive_burst(
        &mut self,
        scratch: &mut [u8],
        max: usize,
        sink: &mut impl FnMut(&[u8], FrameError),
    ) -> usize {
        let Some(encap) = &mut self.encap else { return self.cable.receive_burst(scratch, max, sink) };
        let mut given = 0;
        while given < max
            && let Some(back) = encap.given_back()
        {
            sink(&back[..back.len().min(MAX_FRAME)], FrameError::None);
            given += 1;
        }
        let admitted = &mut |frame: &[u8], error| {
            if encap.admits(frame) {
                sink(frame, error);
            }
        };
        // What is not admitted came, too: there is nothing else to do then.
        given + self.cable.receive_burst(scratch, max - given, admitted)
    }

    #[inline]
    fn has_backpressure(&self) -> bool {
        self.cable.has_backpressure()
    }

    #[inline]
    fn is_up(&self) -> bool {
        self.cable.is_up()
    }
}
