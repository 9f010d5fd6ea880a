//! The TCP stack of this workspace behind the interface that packetdrill (Cardwell et al.,
//! USENIX ATC 2013) has for stacks in libraries: `--so_filename` names this library, and each
//! system call, packet and look at the clock of a script becomes a call of it.
//!
//! Time is simulated: it passes while packetdrill sleeps or waits for a packet, and not
//! otherwise, so that a script takes milliseconds and always the same course. `Host` is the
//! host that a script sees: sockets over one stack, its clock and its cable. `Settings` are
//! what a script sets by `sysctl` and the like.
//!
//! The library is loaded twice, by `--so_filename` and by `LD_PRELOAD`: packetdrill asks the C
//! library itself for `TCP_INFO`, runs a script's commands by `system`, and locks its memory,
//! which needs a privilege. `overrides` answers these three calls.
//!
//! There is no UDP, nothing urgent is sent, and there are few `ioctl`s. A script that sets an
//! option which this host does not have sees an error, unless it is one that could change nothing
//! here (`remembered`).

mod blocking;
mod calls;
mod commands;
mod epoll;
mod errors;
mod host;
mod interface;
mod ioctl;
mod options;
// A test program has the C library's.
mod notices;
#[cfg(not(test))]
mod overrides;
mod packets;
mod pipes;
mod raw;
mod remembered;
mod send_buffer;
mod settings;
mod socket;
mod stamps;
mod tcp_info;
mod transfer;
mod urgent;
mod usage;
mod zero_copy;
