//! The port as host of its virtual functions (7.10): a pool of queues for each, and the messages of
//! their drivers, which [`Host::poll`] answers ([`regs::ixgbevf::message`], versions 1.0 to 1.3).
//!
//! Drivers of virtual functions are hostile: what they ask for is checked against what theirs has
//! and the [`Policy`] for it, refused, and counted; a poll answers one message of each. The port
//! itself has no queues meanwhile, and its pool none of the frames: what nobody has an address for
//! is dropped. Not here: traffic classes, IPsec, mirrors.

mod messages;
mod pools;

use bus::Pci;
use memory::Dma;
use port::{Link, Options};
use regs::ixgbe::*;
use regs::ixgbevf::message::{CLEAR_TO_SEND, WORDS, kind};

use super::device::Chip;
use super::info::INFO;
use crate::intel::{Chip as _, Device, Init};
use crate::vf_host::{Hosting, own_address};
pub use crate::vf_host::{Policy, VfCounters};
use crate::{Error, Result};

/// The most virtual functions: the last pool is the port's.
pub const MOST_VFS: usize = 63;

/// A virtual function.
struct Vf {
    policy: Policy,
    mac: [u8; 6],
    /// The address that it has until its driver chooses another.
    first_mac: [u8; 6],
    /// Its driver has begun anew since the last reset, and may ask.
    ready: bool,
    version: u32,
    /// Addresses beside its own; and multicast ones, by their hash.
    unicast: Vec<[u8; 6]>,
    multicast: Vec<u16>,
    vlans: Vec<u16>,
    /// All multicast frames are received.
    all_multicast: bool,
    /// It has sent a message that was not looked at yet, and has not taken the last one.
    asks: bool,
    untaken: bool,
    /// It is to be sent the present state, unsolicited.
    ping: bool,
    counters: VfCounters,
}

/// A host of virtual functions. They lose their pools when it is dropped.
pub struct Host {
    chip: Chip,
    /// The port's own address.
    mac: [u8; 6],
    vfs: Vec<Vf>,
    /// What the shared entries of the address table lead to which pool.
    shared: [Option<pools::PoolAddress>; pools::SHARED],
    /// The table of multicast hashes.
    hashes: [u32; MTA::COUNT],
    /// Queues of a pool.
    queues: usize,
    /// What they were told of the link.
    link: Link,
}

impl Host {
    /// Resets the device, brings it up with pools, and makes virtual functions work that it has, one
    /// for each policy. Of the options the longest frame counts, the hash, and how long a link is
    /// waited for.
    ///
    /// # Errors
    /// [`Error::FewVfs`] when the device has not so many; when an option is out of range, the device is
    /// another one, or a register does not reach the state that the datasheet promises.
    pub fn open(pci: Pci, dma: &Dma, options: Options, policies: &[Policy]) -> Result<Host> {
        let options = Device::check(options, &INFO)?;
        let chip = Chip::new(Device::attach(pci, dma, &INFO)?);
        chip.has_vfs(policies.len())?;
        chip.reset()?;
        let mac = chip.mac()?;
        // What is received is a matter of pools, and their drivers know of no timestamps behind frames.
        let own = Options { promiscuous: false, rx_queues: 1, timestamps: false, ..options.clone() };
        chip.init_rx(mac, &own)?;
        chip.init_tx()?;
        let queues = if policies.len() < 32 { 4 } else { 2 };
        chip.make_pools(queues, policies.len(), &options)?;
        let first_mac = |n: usize, policy: &Policy| policy.mac.unwrap_or(own_address(mac, n));
        let vf = |(n, policy): (usize, &Policy)| Vf {
            policy: *policy,
            mac: first_mac(n, policy),
            first_mac: first_mac(n, policy),
            ready: false,
            version: 0,
            unicast: Vec::new(),
            multicast: Vec::new(),
            vlans: Vec::new(),
            all_multicast: false,
            asks: false,
            untaken: false,
            ping: false,
            counters: VfCounters::default(),
        };
        let vfs = policies.iter().enumerate().map(vf).collect();
        let (shared, hashes) = ([None; pools::SHARED], [0; MTA::COUNT]);
        let mut host = Host { chip, mac, vfs, shared, hashes, queues, link: Link::DOWN };
        host.keep_vlans();
        host.chip.set_receiving(true)?;
        host.chip.start_link()?;
        // From here on drivers of virtual functions do not wait for this one any more.
        host.chip.bar.set32(CTRL_EXT::AT, CTRL_EXT::PFRSTD);
        host.chip.wait_for_link(options.link_wait_ms, || host.chip.link());
        host.link = host.chip.link();
        host.limit();
        Ok(host)
    }

    /// Answers what virtual functions ask, takes what those had that were reset, and tells all when the
    /// link changes; how much was done. What a virtual function does wrong is no error here.
    ///
    /// # Errors
    /// When the device itself fails.
    pub fn poll(&mut self) -> Result<usize> {
        self.chip.health()?;
        let mut done = self.take_resets();
        self.poll_mailboxes();
        let link = self.chip.link();
        if link != self.link {
            self.link = link;
            self.limit();
            // One that is to be told of its reset is, too.
            self.vfs.iter_mut().for_each(|vf| vf.ping |= vf.ready);
        }
        for n in 0..self.vfs.len() {
            done += usize::from(self.vfs[n].asks && self.serve(n));
            done += usize::from(self.vfs[n].ping && !self.vfs[n].untaken && self.tell(n));
        }
        Ok(done)
    }

    /// Takes the pool of a virtual function, whose driver is told, and has to begin anew.
    ///
    /// # Errors
    /// [`Error::FewVfs`] when there is none of that number.
    pub fn reset(&mut self, vf: usize) -> Result<()> {
        if vf >= self.vfs.len() {
            let (device, has) = (self.chip.name.clone(), self.vfs.len());
            return Err(Error::FewVfs { device, has, wanted: vf + 1 });
        }
        self.take_down(vf);
        let vf = &mut self.vfs[vf];
        vf.counters.resets += 1;
        vf.ping = true;
        Ok(())
    }

    /// The address of a virtual function; `None` when there is none of that number.
    pub fn mac(&self, vf: usize) -> Option<[u8; 6]> {
        self.vfs.get(vf).map(|vf| vf.mac)
    }

    /// What was counted of a virtual function.
    pub fn counters(&self, vf: usize) -> VfCounters {
        self.vfs.get(vf).map(|vf| vf.counters).unwrap_or_default()
    }

    /// Those that were reset by their drivers or clients (PFVFLRE) have nothing any more.
    fn take_resets(&mut self) -> usize {
        let mut done = 0;
        for row in 0..self.vfs.len().div_ceil(32) {
            let bits = self.chip.bar.read32(PFVFLRE::at(row));
            for n in (0..32).filter(|n| bits >> n & 1 != 0) {
                self.chip.bar.write32(PFVFLREC::at(row), 1 << n);
                if 32 * row + n < self.vfs.len() {
                    self.take_down(32 * row + n);
                    self.vfs[32 * row + n].counters.resets += 1;
                    done += 1;
                }
            }
        }
        done
    }

    /// Who has sent a message, and who has taken one (PFMBICR).
    fn poll_mailboxes(&mut self) {
        for (row, sixteen) in self.vfs.chunks_mut(16).enumerate() {
            let at = PFMBICR::at(row);
            let bits = self.chip.bar.read32(at);
            self.chip.bar.write32(at, bits);
            for (n, vf) in sixteen.iter_mut().enumerate() {
                let (asks, took) = (bits >> n & 1 != 0, bits >> (PFMBICR::VFACK_SHIFT + n as u32) & 1 != 0);
                vf.asks |= asks;
                // One that asks waits for nothing else.
                vf.untaken &= !(asks || took);
            }
        }
    }

    /// Takes the buffer of a mailbox; not while its virtual function writes to it.
    fn hold(&self, vf: usize) -> bool {
        let at = PFMAILBOX::at(vf);
        self.chip.bar.write32(at, PFMAILBOX::PFU);
        self.chip.bar.read32(at) & PFMAILBOX::PFU != 0
    }

    /// Answers a message; `false` when it cannot be read yet.
    fn serve(&mut self, n: usize) -> bool {
        if !self.hold(n) {
            return false;
        }
        let bar = &self.chip.bar;
        let place = |word: usize| PFMBMEM::at(n * WORDS + word);
        let message: [u32; WORDS] = std::array::from_fn(|word| bar.read32(place(word)));
        let answer = self.answer(n, &message);
        let bar = &self.chip.bar;
        for (word, value) in answer.iter().enumerate() {
            bar.write32(place(word), *value);
        }
        // Taken and answered in one, which lets go of the buffer.
        bar.write32(PFMAILBOX::at(n), PFMAILBOX::ACK | PFMAILBOX::STS);
        let vf = &mut self.vfs[n];
        (vf.asks, vf.untaken) = (false, true);
        vf.counters.messages += 1;
        true
    }

    /// Tells a virtual function, unsolicited, to look at the link, and whether it may go on; `false` when its
    /// mailbox has a message or is being written to.
    fn tell(&mut self, n: usize) -> bool {
        if !self.hold(n) {
            return false;
        }
        // Its message may have come since the mailboxes were looked at; none can from here on.
        self.poll_mailboxes();
        if self.vfs[n].asks {
            self.chip.bar.write32(PFMAILBOX::at(n), 0);
            return false;
        }
        let go_on = if self.vfs[n].ready { CLEAR_TO_SEND } else { 0 };
        self.chip.bar.write32(PFMBMEM::at(n * WORDS), kind::PF_CONTROL_MSG | go_on);
        self.chip.bar.write32(PFMAILBOX::at(n), PFMAILBOX::STS);
        let vf = &mut self.vfs[n];
        (vf.ping, vf.untaken) = (false, true);
        true
    }
}

impl Hosting for Host {
    fn poll(&mut self) -> Result<usize> {
        Host::poll(self)
    }

    fn reset(&mut self, vf: usize) -> Result<()> {
        Host::reset(self, vf)
    }

    fn mac(&self, vf: usize) -> Option<[u8; 6]> {
        Host::mac(self, vf)
    }

    fn counters(&self, vf: usize) -> VfCounters {
        Host::counters(self, vf)
    }

    /// A mailbox has room for one, and its virtual function waits for that.
    fn lost(&self) -> u64 {
        0
    }
}

impl Chip {
    /// Whether the device has so many virtual functions, which the system enables (8.2.3.1.2).
    fn has_vfs(&self, wanted: usize) -> Result<()> {
        let status = self.bar.read32(STATUS::AT);
        let active = status != u32::MAX && status & STATUS::IOV_ACTIVE != 0;
        let has = if active { (status >> STATUS::NUM_VFS_SHIFT & 0xFF) as usize } else { 0 };
        let has = has.min(MOST_VFS);
        match has < wanted {
            true => Err(Error::FewVfs { device: self.name.clone(), has, wanted }),
            false => Ok(()),
        }
    }
}
