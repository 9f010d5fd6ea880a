//! Packet sockets and their options (packet(7), linux/if_packet.h): the part that
//! only `libc` knows. A socket without a protocol receives nothing.
#![allow(unsafe_code)]

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// Every protocol, `ETH_P_ALL` in network order.
const ALL: u16 = (libc::ETH_P_ALL as u16).to_be();

/// A packet socket.
#[derive(Debug)]
pub(crate) struct PacketSocket(OwnedFd);

/// What the kernel counted for a socket since it was asked last.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Statistics {
    /// Frames for which the ring had no room.
    pub(crate) drops: u32,
    /// Times the ring filled up altogether.
    pub(crate) freezes: u32,
}

impl PacketSocket {
    /// A socket that receives nothing yet. Needs CAP_NET_RAW.
    pub(crate) fn open() -> io::Result<PacketSocket> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        Ok(PacketSocket(socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?))
    }

    /// Joins the interface `index`: from now on it sends there and, where
    /// `receives` says so, receives all of its frames.
    pub(crate) fn bind(&self, index: u32, receives: bool) -> io::Result<()> {
        // SAFETY: all zeroes are a value of this structure of numbers.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = if receives { ALL } else { 0 };
        address.sll_ifindex = index.cast_signed();
        let (at, len) = ((&raw const address).cast(), size_of::<libc::sockaddr_ll>() as u32);
        // SAFETY: the address is of the length that is stated, and not kept.
        checked(unsafe { libc::bind(self.0.as_raw_fd(), at, len) })
    }

    /// Sets an option of packet sockets.
    pub(crate) fn set<T: Plain>(&self, option: i32, value: T) -> io::Result<()> {
        self.set_at(libc::SOL_PACKET, option, &value)
    }

    fn set_at<T>(&self, level: i32, option: i32, value: &T) -> io::Result<()> {
        let (at, len) = (std::ptr::from_ref(value).cast(), size_of::<T>() as u32);
        // SAFETY: the value is of the length that is stated; the kernel copies it.
        checked(unsafe { libc::setsockopt(self.0.as_raw_fd(), level, option, at, len) })
    }

    /// Lets nothing in, whatever else is set: a filter that says no.
    pub(crate) fn shut(&self) -> io::Result<()> {
        let mut nothing =
            libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 };
        let program = libc::sock_fprog { len: 1, filter: &raw mut nothing };
        self.set_at(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    /// Has the kernel forget that the interface went down: until somebody has read that, who waits
    /// for the socket to become readable does not sleep. Nothing is received here, as frames
    /// come by the ring.
    pub(crate) fn forget_error(&self) {
        let _ = rustix::net::recv(&self.0, &mut [0; 0][..], rustix::net::RecvFlags::DONTWAIT);
    }

    /// Ends what [`shut`](Self::shut) began.
    pub(crate) fn let_in(&self) -> io::Result<()> {
        self.set_at(libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0_i32)
    }

    /// Has the interface receive every frame, or no longer, on behalf of this
    /// socket: it ends with it.
    pub(crate) fn set_promiscuous(&self, index: u32, on: bool) -> io::Result<()> {
        let what = libc::PACKET_MR_PROMISC as u16;
        let request = libc::packet_mreq {
            mr_ifindex: index.cast_signed(),
            mr_type: what,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        let option = if on { libc::PACKET_ADD_MEMBERSHIP } else { libc::PACKET_DROP_MEMBERSHIP };
        self.set_at(libc::SOL_PACKET, option, &request)
    }

    /// The group that [`libc::PACKET_FANOUT`] made for this socket.
    pub(crate) fn fanout(&self) -> io::Result<u32> {
        self.option(libc::PACKET_FANOUT)
    }

    /// What was counted since the last time.
    pub(crate) fn statistics(&self) -> io::Result<Statistics> {
        let [_, drops, freezes]: [u32; 3] = self.option(libc::PACKET_STATISTICS)?;
        Ok(Statistics { drops, freezes })
    }

    fn option<T: Plain + Default>(&self, option: i32) -> io::Result<T> {
        let (mut value, mut len) = (T::default(), size_of::<T>() as u32);
        let (at, level) = ((&raw mut value).cast(), libc::SOL_PACKET);
        // SAFETY: the kernel writes at most `len` bytes to a value that any
        // bytes make (`Plain`), and how many to `len`.
        checked(unsafe { libc::getsockopt(self.0.as_raw_fd(), level, option, at, &raw mut len) })?;
        Ok(value)
    }
}

#[cfg(test)]
impl PacketSocket {
    /// A descriptor that is no socket, for rings that a test is the kernel of.
    pub(super) fn stand_in(file: OwnedFd) -> PacketSocket {
        PacketSocket(file)
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What any bytes make, and what holds nothing but them.
///
/// # Safety
/// No padding, no pointers, no invalid bits.
pub(crate) unsafe trait Plain {}
// SAFETY: a number.
unsafe impl Plain for i32 {}
// SAFETY: a number.
unsafe impl Plain for u32 {}
// SAFETY: numbers without gaps.
unsafe impl<const N: usize> Plain for [u32; N] {}

fn checked(result: i32) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
