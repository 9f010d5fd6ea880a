//! The messages of virtual functions' drivers, each answered by words: its kind with whether it was
//! done, and what it asked for.

use regs::ixgbe::{HLREG0, MAXFRS, PFVFLRE, PFVFLREC, RETA, RSSRK};
use regs::ixgbevf::message::{
    self, CLEAR_TO_SEND, FAILURE, INFO_SHIFT, KIND_MASK, SUCCESS, WORDS, kind, mac_of, queues, version, xcast,
};
use wire::MacAddress;

use super::Host;
use crate::intel::ring_registers::address::address_words;

/// Addresses beside its own that a virtual function may have, without trust and with it.
const ADDRESSES: [usize; 2] = [3, 16];
/// VLANs of one without trust, and with it.
const VLANS: [usize; 2] = [16, 63];
/// Multicast addresses in a message.
const MULTICAST: usize = 2 * (WORDS - 1);

/// The longest frame that one may ask for, in bytes with CRC: the longest that Linux's drivers do.
const LONGEST: u32 = 9_728;

/// The words behind the first of an answer; `None` for what is refused.
type Answer = Option<Vec<u32>>;

impl Host {
    /// Answers a message.
    pub(super) fn answer(&mut self, n: usize, words: &[u32; WORDS]) -> Vec<u32> {
        let asked = words[0] & KIND_MASK;
        let answer = match (asked, self.vfs[n].ready) {
            (kind::RESET, _) => self.begin(n),
            (_, false) => None,
            _ => self.serve_ready(n, asked, words),
        };
        let go_on = if self.vfs[n].ready && asked != kind::RESET { CLEAR_TO_SEND } else { 0 };
        tracing::debug!(port = self.chip.name, vf = n, "{}: {}", message::name(asked), answer.is_some());
        match answer {
            Some(rest) => [vec![asked | SUCCESS | go_on], rest].concat(),
            None => {
                self.vfs[n].counters.refused += 1;
                vec![asked | FAILURE | go_on]
            }
        }
    }

    /// The driver begins anew: the answer has its address and how multicast addresses are hashed.
    fn begin(&mut self, n: usize) -> Answer {
        // It was reset before it sent this: one reset is enough, which may have been seen already.
        let (row, bit) = (n / 32, 1 << (n % 32));
        let unseen = self.chip.bar.read32(PFVFLRE::at(row)) & bit != 0;
        self.chip.bar.write32(PFVFLREC::at(row), bit);
        self.vfs[n].counters.resets += u64::from(unseen || self.vfs[n].ready);
        self.take_down(n);
        self.bring_up(n);
        let [low, high] = address_words(self.vfs[n].mac);
        Some(vec![low, high, 0])
    }

    fn serve_ready(&mut self, n: usize, asked: u32, words: &[u32; WORDS]) -> Answer {
        let info = words[0] >> INFO_SHIFT & 0xFF;
        let since = |least: u32| self.vfs[n].version >= least;
        let done = |yes: bool| yes.then(Vec::new);
        match asked {
            kind::SET_MAC_ADDR => done(self.set_mac(n, mac_of([words[1], words[2]]))),
            kind::SET_MULTICAST => done(self.set_multicast(n, info as usize, words)),
            kind::SET_VLAN => done(self.set_vlan(n, words[1], info != 0)),
            kind::SET_LPE => done(self.set_longest(words[1])),
            kind::SET_MACVLAN => done(self.set_more(n, info, mac_of([words[1], words[2]]))),
            kind::API_NEGOTIATE => self.negotiate(n, words[1]),
            kind::GET_QUEUES if since(version::V1_1) => Some(self.queues_of(n)),
            kind::GET_RETA if since(version::V1_2) => Some(self.table()),
            kind::GET_RSS_KEY if since(version::V1_2) => {
                Some((0..RSSRK::COUNT).map(|word| self.chip.bar.read32(RSSRK::at(word))).collect())
            }
            kind::UPDATE_XCAST_MODE if since(version::V1_2) => self.set_xcast(n, words[1]),
            _ => None,
        }
    }

    fn negotiate(&mut self, n: usize, wanted: u32) -> Answer {
        let known = [version::V1_0, version::V1_1, version::V1_2, version::V1_3].contains(&wanted);
        known.then(|| {
            self.vfs[n].version = wanted;
            Vec::new()
        })
    }

    fn queues_of(&self, n: usize) -> Vec<u32> {
        let mut words = vec![0; queues::DEFAULT];
        words[queues::TX - 1] = self.queues as u32;
        words[queues::RX - 1] = self.queues as u32;
        words[queues::TRANSPARENT_VLAN - 1] = self.vfs[n].policy.vlan.is_some().into();
        words
    }

    fn table(&self) -> Vec<u32> {
        let mut entries = [0; message::RETA_ENTRIES];
        for (n, four) in entries.chunks_exact_mut(4).enumerate() {
            four.copy_from_slice(&self.chip.bar.read32(RETA::at(n)).to_le_bytes());
        }
        message::reta_words(&entries).to_vec()
    }

    /// Whether an address may be a virtual function's: nobody else's, without trust. That which another
    /// has had from the beginning stays that one's: it has it again after its next reset.
    fn may_have(&self, n: usize, mac: [u8; 6]) -> bool {
        let trust = self.vfs[n].policy.trust;
        let taken = |(other, vf): (usize, &super::Vf)| {
            other != n && ([vf.mac, vf.first_mac].contains(&mac) || vf.unicast.contains(&mac))
        };
        let others = mac == self.mac || self.vfs.iter().enumerate().any(taken);
        MacAddress(mac).is_station() && (trust || !others)
    }

    /// Its own address, which stays as the policy has it.
    fn set_mac(&mut self, n: usize, mac: [u8; 6]) -> bool {
        let vf = &self.vfs[n];
        if mac == vf.mac {
            return true;
        }
        let fixed = vf.policy.mac.is_some() && !vf.policy.trust;
        let may = !fixed && self.may_have(n, mac);
        if may {
            self.vfs[n].mac = mac;
            self.bring_up(n);
        }
        may
    }

    /// One more address: number 1 begins a new list, 0 takes all away.
    fn set_more(&mut self, n: usize, number: u32, mac: [u8; 6]) -> bool {
        let vf = &self.vfs[n];
        let fixed = vf.policy.mac.is_some() && !vf.policy.trust;
        if number > 0 && (fixed || !self.may_have(n, mac)) {
            return false;
        }
        let before = self.vfs[n].unicast.clone();
        let most = ADDRESSES[usize::from(self.vfs[n].policy.trust)];
        let list = &mut self.vfs[n].unicast;
        if number < 2 {
            list.clear();
        }
        if number > 0 && !list.contains(&mac) {
            list.push(mac);
        }
        let fits = list.len() <= most && self.tell_addresses();
        if !fits {
            self.vfs[n].unicast = before;
            self.tell_addresses();
        }
        fits
    }

    /// The longest frame, with CRC: the port's is that of all.
    fn set_longest(&mut self, bytes: u32) -> bool {
        let bar = &self.chip.bar;
        let now = bar.read32(MAXFRS::AT) >> MAXFRS::MFS_SHIFT;
        if bytes > now && bytes <= LONGEST {
            bar.write32(MAXFRS::AT, bytes << MAXFRS::MFS_SHIFT);
            bar.set32(HLREG0::AT, HLREG0::JUMBOEN);
        }
        bytes <= LONGEST
    }

    fn set_multicast(&mut self, n: usize, count: usize, words: &[u32; WORDS]) -> bool {
        let hash = |n: usize| (words[1 + n / 2] >> (16 * (n % 2))) as u16 & 0xFFF;
        self.vfs[n].multicast = (0..count.min(MULTICAST)).map(hash).collect();
        self.tell_multicast();
        self.set_mode(n);
        count <= MULTICAST
    }

    /// A VLAN, which one with a VLAN of its own cannot choose.
    fn set_vlan(&mut self, n: usize, vlan: u32, on: bool) -> bool {
        let policy = self.vfs[n].policy;
        let vlan = (vlan & 0xFFF) as u16;
        match on {
            // They come as untagged frames do.
            _ if vlan == 0 => true,
            _ if policy.vlan.is_some() => false,
            true => self.vfs[n].vlans.len() < VLANS[usize::from(policy.trust)] && self.join_vlan(n, vlan),
            false => {
                self.leave_vlan(n, vlan);
                true
            }
        }
    }

    /// Modes: those of multicast frames are given, all multicast to one with trust, and all frames to
    /// nobody, for the 82599 has no such mode of a pool.
    fn set_xcast(&mut self, n: usize, mode: u32) -> Answer {
        let trust = self.vfs[n].policy.trust;
        let given = match mode {
            xcast::NONE | xcast::MULTICAST => mode,
            xcast::ALL_MULTICAST if trust => mode,
            xcast::ALL_MULTICAST => xcast::MULTICAST,
            _ => return None,
        };
        self.vfs[n].counters.not_trusted += u64::from(given != mode);
        self.vfs[n].all_multicast = given == xcast::ALL_MULTICAST;
        self.set_mode(n);
        Some(vec![given])
    }
}
