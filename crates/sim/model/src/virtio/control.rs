//! The control queue: commands of the driver, each answered.
//!
//! virtio 1.3, section 5.1.6.5. A command whose feature was not negotiated, or
//! that makes no sense, is refused.

use regs::virtio::control::{ERR, OK, guest_offloads, mac, mq, rx, vlan};
use regs::virtio::feature::net as feature;

use super::chain::Chain;
use super::host::Host;
use super::lint::{Location, Rule};
use super::queue::Queue;
use super::rss::Rss;
use super::rx::Rx;
use crate::Dma;

/// Most commands in a step.
const BURST: usize = 8;
/// Longest command: two tables of addresses, more than are kept.
const LONGEST: u64 = 16 << 10;

/// What commands act upon.
pub(super) struct Subject<'a> {
    pub features: u64,
    pub rx: &'a mut Rx,
    /// Pairs the device has, and that are in use.
    pub pairs: u16,
    pub pairs_in_use: &'a mut u16,
    /// The address in the configuration.
    pub mac: &'a mut [u8; 6],
    pub place: Location,
}

/// Answers what is queued; how many commands that were.
pub(super) fn step<D: Dma>(
    queue: &mut Queue<D::Window>,
    host: &mut Host<D>,
    subject: &mut Subject<'_>,
) -> usize {
    let mut chain = Chain::default();
    for done in 0..BURST {
        if !queue.is_on() || !queue.take(host, &mut chain) {
            return done;
        }
        let len = answer(&chain, host, subject);
        queue.put(chain.id, chain.span, len);
    }
    BURST
}

/// Does one command; bytes of the answer that were written.
fn answer<D: Dma>(chain: &Chain, host: &mut Host<D>, subject: &mut Subject<'_>) -> u32 {
    let room = chain.writable().iter().find(|segment| segment.len > 0);
    let done = match (read(chain, &host.dma), room) {
        (Some(command), Some(_)) => subject.execute(&command),
        _ => Err(Refusal::Malformed),
    };
    if let Err(refusal) = &done {
        let (rule, value) = match *refusal {
            Refusal::Malformed => (Rule::CommandMalformed, chain.bytes()),
            Refusal::Unknown(command) => (Rule::CommandUnknown, command.into()),
            Refusal::Pairs(pairs) => (Rule::QueuePairsInvalid, pairs.into()),
        };
        host.counters.report(rule, subject.place, value);
    }
    let (answer, count) = match done {
        Ok(()) => (OK, &mut host.counters.totals.commands),
        Err(_) => (ERR, &mut host.counters.totals.commands_refused),
    };
    *count += 1;
    let written = room.is_some_and(|segment| host.dma.write(segment.address, &[answer]));
    u32::from(written)
}

fn read<D: Dma>(chain: &Chain, dma: &D) -> Option<Vec<u8>> {
    let len = chain.bytes();
    if !(2..=LONGEST).contains(&len) || chain.is_mixed {
        return None;
    }
    let mut command = vec![0; len as usize];
    let mut rest = &mut command[..];
    for segment in chain.readable() {
        let (part, behind) = rest.split_at_mut(segment.len as usize);
        if !dma.read(segment.address, part) {
            return None;
        }
        rest = behind;
    }
    Some(command)
}

/// Why a command was refused.
enum Refusal {
    Malformed,
    Unknown(u16),
    Pairs(u16),
}

impl Subject<'_> {
    fn execute(&mut self, command: &[u8]) -> Result<(), Refusal> {
        let Some((&[class, code], data)) = command.split_first_chunk::<2>() else {
            return Err(Refusal::Malformed);
        };
        let unknown = Refusal::Unknown(u16::from(class) << 8 | u16::from(code));
        let needed = match (class, code) {
            (rx::CLASS, rx::PROMISC | rx::ALLMULTI) => feature::CTRL_RX,
            (rx::CLASS, rx::ALLUNI..=rx::NOBCAST) => feature::CTRL_RX_EXTRA,
            (mac::CLASS, mac::TABLE_SET) => feature::CTRL_RX,
            (mac::CLASS, mac::ADDR_SET) => feature::CTRL_MAC_ADDR,
            (vlan::CLASS, vlan::ADD | vlan::DEL) => feature::CTRL_VLAN,
            (mq::CLASS, mq::VQ_PAIRS_SET) => feature::MQ,
            (mq::CLASS, mq::RSS_CONFIG) => feature::RSS,
            (mq::CLASS, mq::HASH_CONFIG) => feature::HASH_REPORT,
            (guest_offloads::CLASS, guest_offloads::SET) => feature::CTRL_GUEST_OFFLOADS,
            _ => return Err(unknown),
        };
        if self.features & needed == 0 {
            return Err(unknown);
        }
        match class {
            rx::CLASS => self.set_mode(code, data),
            mac::CLASS if code == mac::TABLE_SET => self.set_tables(data),
            mac::CLASS => self.set_address(data),
            vlan::CLASS => self.set_vlan(code == vlan::ADD, data),
            mq::CLASS if code == mq::RSS_CONFIG => self.set_rss(data),
            mq::CLASS if code == mq::HASH_CONFIG => self.set_hash(data),
            mq::CLASS => self.set_pairs(data),
            _ => self.set_offloads(data),
        }
    }

    fn set_mode(&mut self, code: u8, data: &[u8]) -> Result<(), Refusal> {
        let &[on @ 0..=1] = data else { return Err(Refusal::Malformed) };
        let modes = &mut self.rx.filter.modes;
        let mode = match code {
            rx::PROMISC => &mut modes.promiscuous,
            rx::ALLMULTI => &mut modes.all_multicast,
            rx::ALLUNI => &mut modes.all_unicast,
            rx::NOMULTI => &mut modes.no_multicast,
            rx::NOUNI => &mut modes.no_unicast,
            _ => &mut modes.no_broadcast,
        };
        *mode = on == 1;
        Ok(())
    }

    fn set_tables(&mut self, data: &[u8]) -> Result<(), Refusal> {
        let (unicast, rest) = table(data).ok_or(Refusal::Malformed)?;
        let (multicast, rest) = table(rest).ok_or(Refusal::Malformed)?;
        if !rest.is_empty() {
            return Err(Refusal::Malformed);
        }
        self.rx.filter.set_table(0, unicast);
        self.rx.filter.set_table(1, multicast);
        Ok(())
    }

    fn set_address(&mut self, data: &[u8]) -> Result<(), Refusal> {
        let &address = <&[u8; 6]>::try_from(data).map_err(|_| Refusal::Malformed)?;
        *self.mac = address;
        self.rx.filter.set_own(&address);
        Ok(())
    }

    fn set_vlan(&mut self, on: bool, data: &[u8]) -> Result<(), Refusal> {
        let &id = <&[u8; 2]>::try_from(data).map_err(|_| Refusal::Malformed)?;
        let id = Some(u16::from_le_bytes(id)).filter(|id| *id < 4096).ok_or(Refusal::Malformed)?;
        self.rx.filter.set_vlan(id, on);
        Ok(())
    }

    fn set_pairs(&mut self, data: &[u8]) -> Result<(), Refusal> {
        let &pairs = <&[u8; 2]>::try_from(data).map_err(|_| Refusal::Malformed)?;
        let pairs = u16::from_le_bytes(pairs);
        if !(mq::PAIRS_MIN..=self.pairs).contains(&pairs) {
            return Err(Refusal::Pairs(pairs));
        }
        *self.pairs_in_use = pairs;
        // From now on flows are steered by what they sent (5.1.6.5.6).
        if self.rx.steer.rss.as_ref().is_some_and(Rss::spreads) {
            self.rx.steer.rss = None;
        }
        Ok(())
    }

    fn set_rss(&mut self, data: &[u8]) -> Result<(), Refusal> {
        let (rss, sent_on) = Rss::spread(data, self.pairs).ok_or(Refusal::Malformed)?;
        *self.pairs_in_use = sent_on.max(rss.highest() + 1);
        self.rx.steer.rss = Some(rss);
        Ok(())
    }

    fn set_hash(&mut self, data: &[u8]) -> Result<(), Refusal> {
        self.rx.steer.rss = Some(Rss::report(data).ok_or(Refusal::Malformed)?);
        Ok(())
    }

    /// Of the receive offloads there is one: checking checksums.
    fn set_offloads(&mut self, data: &[u8]) -> Result<(), Refusal> {
        let &wanted = <&[u8; 8]>::try_from(data).map_err(|_| Refusal::Malformed)?;
        let wanted = u64::from_le_bytes(wanted);
        if wanted & !(self.features & feature::GUEST_CSUM) != 0 {
            return Err(Refusal::Malformed);
        }
        self.rx.checks = wanted & feature::GUEST_CSUM != 0;
        Ok(())
    }
}

/// A count and as many addresses; what follows.
fn table(data: &[u8]) -> Option<(&[[u8; 6]], &[u8])> {
    let (count, rest) = data.split_first_chunk::<4>()?;
    let len = usize::try_from(u32::from_le_bytes(*count)).ok()?.checked_mul(6)?;
    let (addresses, rest) = rest.split_at_checked(len)?;
    Some((addresses.as_chunks::<6>().0, rest))
}
