//! What stands beside a packet's bytes: the device's word on a received packet,
//! what the application asks for of one that is sent, and a word for the
//! application itself.

use crate::bounds::TooLong;
use crate::offload::{Checksum, PacketType, RxFlags, TxOffload};
use crate::packet::{DATA_ROOM, HEADROOM, Packet, RxWords};
use crate::prefetch::prefetch_line;

impl Packet {
    /// What the device said of the packet.
    #[inline]
    pub fn rx_flags(&self) -> RxFlags {
        RxFlags(self.meta().rx.flags)
    }

    /// The headers the device found.
    pub fn packet_type(&self) -> PacketType {
        PacketType((self.meta().rx.kind >> 4) as u16)
    }

    /// The receive-side-scaling hash, if the device computed one.
    pub fn hash(&self) -> Option<u32> {
        let rx = &self.meta().rx;
        (rx.kind & 0xF != 0).then_some(rx.hash)
    }

    /// The VLAN tag the device stripped.
    pub fn vlan(&self) -> Option<u16> {
        let rx = &self.meta().rx;
        (rx.flags & RxFlags::VLAN != 0).then_some(rx.vlan)
    }

    /// The device's verdict on the IPv4 header checksum.
    #[inline]
    pub fn ip_checksum(&self) -> Checksum {
        self.rx_flags().ip_checksum()
    }

    /// The device's verdict on the TCP or UDP checksum.
    #[inline]
    pub fn l4_checksum(&self) -> Checksum {
        self.rx_flags().l4_checksum()
    }

    /// Asks the device to do something when the packet is sent.
    #[inline]
    pub fn set_tx_offload(&mut self, offload: TxOffload) {
        self.meta_mut().tx = offload;
    }

    /// A word for the application; zero in a fresh packet.
    #[inline]
    pub fn user(&self) -> u64 {
        self.meta().user
    }

    /// Sets the application's word.
    #[inline]
    pub fn set_user(&mut self, value: u64) {
        self.meta_mut().user = value;
    }

    /// Takes over what the device said of `other`, the last segment of the
    /// same frame; its length stays its own.
    pub fn adopt_rx_words(&mut self, other: &Packet) {
        let len = self.meta().rx.len;
        self.meta_mut().rx = RxWords { len, ..other.meta().rx };
    }

    /// Forgets what the device said, but the length: of a packet that was taken out of the one
    /// that the device saw.
    #[inline]
    pub fn forget_rx_words(&mut self) {
        let len = self.meta().rx.len;
        self.meta_mut().rx = RxWords { len, ..RxWords::default() };
    }

    /// Replaces the contents by `data`, in this one buffer.
    ///
    /// # Errors
    /// [`TooLong`] when it does not fit behind the current start.
    #[inline]
    pub fn copy_from(&mut self, data: &[u8]) -> Result<(), TooLong> {
        self.set_len(data.len())?;
        self.copy_from_slice(data);
        Ok(())
    }

    /// Replaces the contents by the first `len` bytes of `blocks`, in this one buffer. Whole
    /// blocks are copied, which for one of them takes no call; so up to a block is overwritten
    /// behind the packet.
    ///
    /// # Errors
    /// [`TooLong`] when the blocks do not fit behind the current start.
    #[inline]
    pub fn copy_blocks(&mut self, blocks: &[[u8; 64]], len: usize) -> Result<(), TooLong> {
        let whole = size_of_val(blocks);
        self.set_len(whole)?;
        match (blocks, self.first_chunk_mut()) {
            ([block], Some(room)) => *room = *block,
            _ => self.copy_from_slice(blocks.as_flattened()),
        }
        self.meta_mut().rx.len = len.min(whole) as u16; // no more than was there
        Ok(())
    }

    /// Replaces the contents by `data`, beginning `headroom` bytes into the buffer.
    ///
    /// # Errors
    /// [`TooLong`] when it does not fit behind that.
    #[inline]
    pub fn copy_at(&mut self, headroom: usize, data: &[u8]) -> Result<(), TooLong> {
        let room = (HEADROOM + DATA_ROOM).checked_sub(headroom);
        if room.is_none_or(|room| data.len() > room) {
            return Err(TooLong { wanted: data.len(), room: room.unwrap_or(0) });
        }
        let meta = self.meta_mut();
        (meta.start, meta.rx.len) = (headroom as i32 - HEADROOM as i32, data.len() as u16);
        self.copy_from_slice(data);
        Ok(())
    }

    /// Takes over up to `count` bytes that stand in front of the contents of `other`: a
    /// header that was stripped there can be put back here too.
    #[inline]
    pub fn copy_front(&mut self, other: &Packet, count: usize) {
        let (from, to) = (other.headroom(), self.headroom());
        let count = count.min(from).min(to);
        let from = other.buffer().wrapping_add(from - count).cast_const();
        let to = self.buffer().wrapping_add(to - count);
        // SAFETY: `count` bytes in front of the contents are in the buffer, on both
        // sides; each packet owns its buffer, so that they are two, and mapped memory
        // has a value before anybody wrote to it.
        unsafe { std::ptr::copy_nonoverlapping(from, to, count) };
    }

    /// Takes over all that stands beside the bytes of `other`; the length stays.
    pub fn copy_metadata(&mut self, other: &Packet) {
        self.adopt_rx_words(other);
        let (from, to) = (other.meta(), self.meta_mut());
        (to.tx, to.user) = (from.tx, from.user);
        *self.annotations_mut() = *other.annotations();
    }

    /// Brings the packet's bytes towards the cache, before they are needed.
    #[inline(always)]
    pub fn prefetch(&self) {
        prefetch_line(self.data_room());
    }
}
