//! A virtual function whose driver means harm, against our host on our model; and an honest one
//! beside it, which is answered whatever the other does.
//!
//! Card and host stay from one run to the next, and each begins with a reset of both virtual
//! functions, after which nothing is left of what one had.

use std::time::Duration;

use arbitrary::Arbitrary;
use bus::Pci;
use driver::i40e::host::{Host, Policy, VF_QUEUES};
use driver::i40e::{I40e, RxQueue, TxQueue};
use port::Options;
use regs::i40e::admin::{Descriptor, opcode};
use regs::i40e::reset_state;
use regs::iavf;
use regs::virtchnl::message::*;
use regs::virtchnl::{self, op, status};
use testbed::i40e::open_with_vfs;
use testbed::inprocess::{Handle, InProcess, while_stepping};
use testbed::wire::Cable;

use crate::mailbox::{Observed, Raw};

/// Virtual functions: one that means harm, and an honest one.
const HOSTILE: usize = 0;
const HONEST: usize = 1;
/// How often is looked whether one is hosted: the model's resets end at once.
const MAX_READS: usize = 16;

/// What the hostile driver does next.
#[derive(Arbitrary, Debug)]
pub enum Act {
    /// A message of a kind that there is, in the form that it has, with numbers near those that it
    /// may have; and with some bytes too few.
    Formed { kind: u8, other: bool, numbers: [u16; 6], long: u64, count: u8, short: u8 },
    /// A message of any kind, with any bytes.
    Any { kind: u32, len: u16, bytes: [u8; 24] },
    /// A command to the firmware.
    Command { opcode: u16, cookie: u64, params: [u8; 16] },
    /// A write of a register.
    Write { register: u8, n: u8, value: u32 },
    /// Its mailbox is enabled anew.
    Start,
    /// A reset by its own driver.
    Reset,
}

/// A card with both virtual functions, hosted.
pub struct Hosted {
    host: Host,
    _port: (I40e, Vec<RxQueue>, Vec<TxQueue>),
    raws: [Raw; 2],
    vfs: [Handle; 2],
    card: Handle,
    /// What messages call the hostile one's VSI.
    vsi: u16,
}

impl Hosted {
    /// Opens a card with this device id and makes its host.
    pub fn open(device_id: u16) -> Hosted {
        let mac = testbed::ixgbe::mac(0);
        let options = testbed::i40e::Options { device_id, ..testbed::i40e::Options::with_mac(mac) };
        let cable = Cable::open(&"sink".parse().expect("a wire")).expect("a wire");
        let (card, vfs) = open_with_vfs(&options, cable, 2).expect("a model");
        let (pci, card) = InProcess::new(card);
        let (pcis, vfs): (Vec<Pci>, Vec<Handle>) = vfs.into_iter().map(InProcess::new).unzip();
        let vfs: [Handle; 2] = vfs.try_into().expect("both");
        let observed = Observed::over(pci, u32::MAX);
        let beside = vfs.clone();
        // The devices of virtual functions go on while the host waits for them.
        observed.set_beside(Box::new(move || {
            beside.iter().for_each(|vf| _ = vf.step(0));
        }));
        let policies = [Policy::default(), Policy { trust: true, ..Policy::default() }];
        let dma = crate::dma::space();
        let open = || {
            let options = Options { rx_ring: 64, tx_ring: 64, link_wait_ms: 0, ..Options::default() };
            let (port, rx, tx) = I40e::open(Pci::new(observed.clone()), &dma, options)?.split();
            let host = Host::with_drain(&port, &policies, Duration::ZERO)?;
            Ok::<_, driver::Error>((host, (port, rx, tx)))
        };
        let opened = while_stepping(std::slice::from_ref(&card), open).expect("a thread");
        let (host, port) = opened.unwrap_or_else(|error| panic!("{error}"));
        let mut pcis = pcis.into_iter();
        let raws = [(); 2].map(|()| Raw::over(pcis.next().expect("both"), false));
        Hosted { host, _port: port, raws, vfs, card, vsi: 0 }
    }

    /// Does these acts, and checks that both functions are served.
    pub fn run(&mut self, acts: &[Act]) {
        for n in [HOSTILE, HONEST] {
            self.host.reset(n).unwrap_or_else(|error| panic!("{error}"));
            self.await_host(n);
            self.raws[n].start();
            self.ask(n, op::VERSION, &Version { major: 1, minor: 1 }.encode());
            let bytes = self.ask(n, op::GET_VF_RESOURCES, &u32::MAX.to_le_bytes());
            if n == HOSTILE {
                self.vsi = Resources::decode(&bytes).expect("there is a VSI").vsi;
            }
        }
        for act in acts {
            self.act(act);
            self.poll();
            while let Some((event, bytes)) = self.raws[HOSTILE].event() {
                check(&event, &bytes);
            }
            let counters = self.host.counters(HOSTILE);
            assert!(counters.refused <= counters.messages, "{counters:?}");
        }
        let mac = [2, 0, 0, 0, 0, 9];
        let vsi = Resources::decode(&self.ask(HONEST, op::GET_VF_RESOURCES, &[])).expect("a VSI").vsi;
        self.ask(HONEST, op::ADD_ETH_ADDR, &Addresses { vsi, addresses: vec![mac] }.encode());
    }

    fn act(&mut self, act: &Act) {
        let raw = &mut self.raws[HOSTILE];
        match *act {
            Act::Formed { kind, other, numbers, long, count, short } => {
                let (kind, _) = op::TABLE[usize::from(kind) % op::TABLE.len()];
                let vsi = self.vsi.wrapping_add(other.into());
                let mut bytes = formed(raw, kind, vsi, numbers, long, count.into());
                bytes.truncate(bytes.len().saturating_sub(usize::from(short.saturating_sub(128))));
                raw.send(message(kind), &bytes);
            }
            Act::Any { kind, len, ref bytes } => {
                let mut long = bytes.to_vec();
                long.resize(usize::from(len) % 4097, bytes[0]);
                raw.send(message(kind), &long);
            }
            Act::Command { opcode, cookie, params } => {
                raw.send(Descriptor { cookie, params, ..Descriptor::new(opcode) }, &[]);
            }
            Act::Write { register, n, value } => {
                let register = &iavf::TABLE[usize::from(register) % iavf::TABLE.len()];
                raw.bar.write32(register.at(usize::from(n) % register.len()), value);
            }
            Act::Start => raw.start(),
            Act::Reset => raw.pci.reset().unwrap_or_else(|error| panic!("{error}")),
        }
    }

    fn step(&self) {
        self.card.step(0);
        self.vfs.iter().for_each(|vf| _ = vf.step(0));
    }

    /// The host looks at what came. Nothing that a virtual function does is an error of the device.
    fn poll(&mut self) {
        self.step();
        self.host.poll().unwrap_or_else(|error| panic!("{error}"));
        self.step();
    }

    /// Looks until a virtual function that was reset is hosted again.
    fn await_host(&mut self, n: usize) {
        for _ in 0..MAX_READS {
            self.poll();
            if self.raws[n].bar.read32(iavf::VFGEN_RSTAT::AT) == reset_state::ACTIVE {
                return;
            }
        }
        panic!("{n} stays in reset");
    }

    /// Sends a message, which is answered without an error; the answer's bytes.
    fn ask(&mut self, n: usize, kind: u32, bytes: &[u8]) -> Vec<u8> {
        while self.raws[n].event().is_some() {}
        assert_eq!(self.raws[n].send(message(kind), bytes), Some(0), "{}", virtchnl::name(kind));
        self.poll();
        while let Some((event, bytes)) = self.raws[n].event() {
            check(&event, &bytes);
            if event.cookie == u64::from(kind) {
                return bytes;
            }
        }
        panic!("{n} was not answered {}", virtchnl::name(kind));
    }
}

fn message(kind: u32) -> Descriptor {
    Descriptor { cookie: kind.into(), ..Descriptor::new(opcode::SEND_MSG_TO_PF) }
}

/// What a host sends, as it must be whatever was asked.
fn check(event: &Descriptor, bytes: &[u8]) {
    assert_eq!(event.opcode, opcode::SEND_MSG_TO_VF);
    let (kind, told) = (event.cookie as u32, (event.cookie >> 32) as i32);
    assert!(status::TABLE.iter().any(|(value, ..)| *value == told), "status {told}");
    let whole = match kind {
        _ if told != status::SUCCESS => bytes.is_empty(),
        op::VERSION => Version::decode(bytes).is_some(),
        op::GET_VF_RESOURCES => {
            Resources::decode(bytes).is_some_and(|of| usize::from(of.queues) == VF_QUEUES)
        }
        op::GET_STATS => Counters::decode(bytes).is_some(),
        op::GET_RSS_HENA_CAPS => Classes::decode(bytes).is_some(),
        op::EVENT => Event::decode(bytes).is_some(),
        _ => bytes.is_empty(),
    };
    assert!(whole, "{} bytes answer {} with {told}", bytes.len(), virtchnl::name(kind));
}

/// A message in the form of its kind.
fn formed(raw: &Raw, kind: u32, vsi: u16, numbers: [u16; 6], long: u64, count: usize) -> Vec<u8> {
    let [a, b, c, d, e, f] = numbers;
    // Few of the numbers that may be are taken by chance.
    let near = |number: u16, most: u16| if f & 3 == 0 { number } else { number % (most + 2) };
    match kind {
        op::VERSION => Version { major: near(a, 1).into(), minor: b.into() }.encode(),
        op::GET_VF_RESOURCES => (long as u32).to_le_bytes().to_vec(),
        op::CONFIG_VSI_QUEUES => {
            let ring = if f & 4 != 0 { long } else { raw.place(usize::from(c) * 128) };
            let pair = |n: usize| QueuePair {
                queue: near(a, 3).wrapping_add(n as u16),
                tx_len: near(b, 8) * (if f & 3 == 0 { 1 } else { 32 }),
                tx_ring: ring,
                tx_head: (f & 8 != 0).then_some(long),
                rx_len: u32::from(near(d, 8)) * 32,
                rx_ring: ring,
                rx_buffer: u32::from(near(e, 16)) * 128 + 1024,
                rx_max: 64 + u32::from(e),
            };
            Queues { vsi, pairs: (0..count % 7).map(pair).collect() }.encode()
        }
        op::CONFIG_IRQ_MAP => {
            let (vector, rx, tx) = (near(a, 4), near(b, 15), near(c, 15));
            let vectors = vec![Vector { vector, rx, tx, rx_itr: d, tx_itr: e }; count % 7];
            Vectors { vsi, vectors }.encode()
        }
        op::ENABLE_QUEUES | op::DISABLE_QUEUES | op::GET_STATS => {
            Select { vsi, rx: near(a, 15).into(), tx: near(b, 15).into() }.encode()
        }
        op::ADD_ETH_ADDR | op::DEL_ETH_ADDR => {
            let [x, y, ..] = long.to_le_bytes();
            let address = |n: usize| [x, y, a as u8, b as u8, c as u8, n as u8];
            Addresses { vsi, addresses: (0..count).map(address).collect() }.encode()
        }
        op::ADD_VLAN | op::DEL_VLAN => {
            Vlans { vsi, vlans: (0..count as u16 % 128).map(|n| near(a, 4095).wrapping_add(n)).collect() }
                .encode()
        }
        op::CONFIG_PROMISCUOUS_MODE => Promiscuous { vsi, modes: near(a, 3) }.encode(),
        op::CONFIG_RSS_KEY => Rss { vsi, bytes: vec![a as u8; [52, count][usize::from(f & 1)]] }.encode(),
        op::CONFIG_RSS_LUT => {
            Rss { vsi, bytes: vec![near(a, 3) as u8; [64, count][usize::from(f & 1)]] }.encode()
        }
        op::SET_RSS_HENA => Classes(if f & 1 == 0 { long & 0x1E_0000_0000 } else { long }).encode(),
        _ => Vec::new(),
    }
}

/// What any bytes are as messages: nothing, or the same after sending.
pub fn decode(bytes: &[u8]) {
    macro_rules! same {
        ($($type:ident),*) => {$(
            if let Some(value) = $type::decode(bytes) {
                assert_eq!($type::decode(&value.clone().encode()), Some(value), stringify!($type));
            }
        )*};
    }
    same!(
        Version,
        Resources,
        Queues,
        Vectors,
        Select,
        Addresses,
        Vlans,
        Promiscuous,
        Rss,
        Classes,
        Counters,
        Event
    );
}
