//! How much packet memory a lane may have: what its elements may hold, and what is on its
//! way beside that.

/// Buffers a lane begins with.
pub const FIRST: usize = 2048;
/// Buffers a lane may have beside what its elements may hold.
pub const BASE: usize = 1 << 18;
/// Bytes of a buffer, roughly: with what is known of its packet.
const BYTES: u64 = (memory::HEADROOM + memory::DATA_ROOM + 256) as u64;

/// How many buffers each of so many threads may have when elements of it may hold
/// `held`: half of the machine's memory is left to others.
pub fn limit(held: u64, threads: usize) -> usize {
    let system = rustix::system::sysinfo();
    let memory = (system.totalram as u64).saturating_mul(u64::from(system.mem_unit));
    let most = memory / 2 / BYTES / threads.max(1) as u64;
    let wanted = held.saturating_add(BASE as u64);
    usize::try_from(wanted.min(most.max(FIRST as u64))).unwrap_or(usize::MAX)
}
