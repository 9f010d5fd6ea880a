//! Our driver of virtual functions of the 82576 and of the I350 on a stub of one, whose physical function
//! the tests play: bring-up, frames both ways, filters, interrupts, resets, and a physical function that is silent,
//! refuses or misbehaves. QEMU's device is in the lab.

use std::marker::PhantomData;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::contents;
use crate::common::limit::{Limit, until};
use crate::common::stub_82576::{FRAME, Served82576, ServingStub};
use crate::common::stub_82576_vf::{Words, honest};
use crate::common::vf::{receive, send};
use bus::Pci;
use bus::vfio_user::client::Client;
use driver::igbvf::{I350, I82576, Model, PortOf, TxQueue, VfFault};
use memory::{Backing, Dma, Pool, TxOffload};
use port::{Completion, Filters as _, Options, Port as _, Reason, RxQueue as _, TxQueue as _};
use regs::igb::RXDCTL as FIELDS;
use regs::igb::rx_high::LB;
use regs::igbvf::message::{MAC_FILTER_ADD, MAC_FILTER_CLR, PROMISC_MULTICAST, PROMISC_UNICAST, kind};
use regs::igbvf::{RQDPC, RXDCTL, SRRCTL, TXDCTL, VTEIMS, VTIVAR};
use regs::ixgbe::descriptor::rx_high;
use regs::ixgbevf::message::{CLEAR_TO_SEND, FAILURE, INFO_SHIFT, KIND_MASK, SUCCESS};

/// Each test with virtual functions of both chips.
macro_rules! with_either {
    ($($test:ident;)*) => {
        mod of_82576 {
            $(
                #[test]
                fn $test() {
                    super::$test::<super::I82576>();
                }
            )*
        }

        mod of_i350 {
            $(
                #[test]
                fn $test() {
                    super::$test::<super::I350>();
                }
            )*
        }
    };
}

with_either! {
    it_comes_up_and_frames_go_both_ways;
    a_port_that_goes_leaves_its_queues_off_and_opens_again;
    what_belongs_to_the_port_is_asked_for;
    a_mode_that_is_refused_is_named_and_a_port_opens_without_it;
    heads_that_are_written_back_have_a_place_and_frames_their_limit;
    a_frame_wakes_who_sleeps;
    a_reset_by_the_physical_function_is_told_and_the_port_opens_again;
    without_a_host_the_error_says_so;
    a_physical_function_that_lies_is_named;
    garbage_in_the_mailbox_is_borne;
    what_had_no_descriptor_is_counted_as_lost;
    the_order_of_a_tags_bytes_is_the_chips;
}

/// The address that the physical function gives.
const MAC: [u8; 6] = [2, 2, 3, 4, 5, 6];
/// Longer than anything here takes.
const TIMEOUT: Duration = Duration::from_secs(60);

fn options() -> Options {
    Options { promiscuous: false, rx_ring: 64, tx_ring: 64, link_wait_ms: 0, ..Options::default() }
}

/// A stub, and what it takes to open it.
struct Bench<C> {
    stub: Served82576,
    _serving: ServingStub,
    pci: Pci,
    dma: Dma,
    pool: Pool,
    card: PhantomData<C>,
}

/// A chip, and the device id of its virtual functions.
trait Card: Model {
    const ID: u16;
}

impl Card for I82576 {
    const ID: u16 = 0x10CA;
}

impl Card for I350 {
    const ID: u16 = 0x1520;
}

/// An opened port.
struct Side<C: Card> {
    device: PortOf<C>,
    rx: Vec<driver::intel::RxQueue<C::Rx>>,
    tx: Vec<TxQueue>,
}

impl<C: Card> Bench<C> {
    fn new(answers: impl FnMut(&Words) -> Option<Vec<u32>> + Send + 'static) -> Bench<C> {
        let stub = Served82576::vf(C::ID, answers);
        let (ours, theirs) = UnixStream::pair().unwrap();
        let serving = stub.serve(theirs);
        let client = Client::over(ours, "vfio-user:stub".to_owned(), TIMEOUT).unwrap();
        let dma = Dma::new(memory::Options { backing: Backing::Memfd, numa_node: None });
        let pool = Pool::new(&dma, 300).unwrap();
        let (pci, card) = (Pci::new(Arc::new(client)), PhantomData);
        Bench { stub, _serving: serving, pci, dma, pool, card }
    }

    fn open(&mut self, options: &Options) -> driver::Result<Side<C>> {
        let (device, mut rx, tx) = PortOf::<C>::open(self.pci.clone(), &self.dma, options.clone())?.split();
        receive(&mut rx, &mut self.pool);
        Ok(Side { device, rx, tx })
    }

    /// Frames go both ways.
    fn works(&mut self, side: &mut Side<C>) {
        let (before, mut limit) = (side.rx[0].stats().packets, Limit::rounds(100, "frames to come"));
        self.stub.take_sent();
        send(&mut side.tx[0], &mut self.pool, &[7; 60], TxOffload::default());
        while side.rx[0].stats().packets == before {
            limit.check();
            self.stub.step();
            for (_, packet) in receive(&mut side.rx, &mut self.pool) {
                assert_eq!(contents(&packet), FRAME);
            }
        }
        assert_eq!(self.stub.take_sent(), [[7; 60]]);
        assert_eq!(side.tx[0].clean(&mut self.pool), 0, "it was sent and freed");
    }

    /// Closes the port; every buffer is back.
    fn finish(mut self, side: Side<C>) {
        drop(side);
        assert_eq!(self.pool.available(), self.pool.capacity(), "every buffer is back");
    }
}

/// The first words of messages.
type Asked = Arc<Mutex<Vec<[u32; 3]>>>;

/// Answers of a physical function that keeps what it is asked, without what comes with each opening.
fn noting() -> (Asked, impl FnMut(&Words) -> Option<Vec<u32>> + Send + 'static) {
    let asked = Asked::default();
    let noted = asked.clone();
    (asked, move |words: &Words| {
        noted.lock().unwrap().push([words[0], words[1], words[2]]);
        honest(words)
    })
}

fn it_comes_up_and_frames_go_both_ways<C: Card>() {
    let (asked, answers) = noting();
    let mut bench = Bench::<C>::new(answers);
    bench.stub.with_mailbox(|mailbox| mailbox.set_host(true));
    let mut side = bench.open(&options()).unwrap();
    assert_eq!(side.device.mac(), MAC);
    assert_eq!(side.device.link(), port::Link::up(1_000));
    let capabilities = side.device.capabilities();
    assert_eq!((capabilities.driver.as_str(), capabilities.limits.rx_queues), ("igbvf", 1));
    let first: Vec<_> = asked.lock().unwrap().iter().map(|words| [words[0], words[1]]).collect();
    assert_eq!(first, [[kind::RESET, 0], [kind::SET_LPE, 1514 + 8]]);
    // Each buffer has 2 KiB, and a full queue drops.
    assert_eq!(bench.stub.register(SRRCTL::at(0)), 1 << 31 | 1 << 25 | 2);
    for _ in 0..100 {
        bench.works(&mut side);
    }
    assert_eq!(side.device.health().ok(), Some(()));
    bench.finish(side);
}

fn a_port_that_goes_leaves_its_queues_off_and_opens_again<C: Card>() {
    let mut bench = Bench::<C>::new(honest);
    for _ in 0..3 {
        let mut side = bench.open(&options()).unwrap();
        bench.works(&mut side);
        side.device.stop().unwrap();
        assert!(side.device.start().unwrap_err().to_string().contains("open the port again"));
        drop(side);
        for control in [RXDCTL::at(0), TXDCTL::at(0)] {
            assert_eq!(bench.stub.register(control) & FIELDS::ENABLE, 0);
        }
        assert_eq!(bench.pool.available(), bench.pool.capacity());
    }
}

fn what_belongs_to_the_port_is_asked_for<C: Card>() {
    let (asked, answers) = noting();
    let mut bench = Bench::<C>::new(answers);
    let mut side = bench.open(&options()).unwrap();
    asked.lock().unwrap().clear();
    let (one, two, group) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], [1, 0, 0x5E, 1, 2, 3]);
    let device = &mut side.device;
    device.add_mac(one).unwrap();
    device.add_mac(two).unwrap();
    device.add_mac(one).unwrap(); // it has it
    assert!(device.remove_mac(one).unwrap() && !device.remove_mac(one).unwrap());
    device.add_mac(group).unwrap();
    device.set_vlan(7, true).unwrap();
    device.set_vlan(7, false).unwrap();
    device.set_all_multicast(true).unwrap();
    device.set_promiscuous(true).unwrap();
    device.set_all_multicast(false).unwrap();
    device.set_promiscuous(false).unwrap();
    let (add, clear) = (kind::SET_MAC_ADDR | MAC_FILTER_ADD, kind::SET_MAC_ADDR | MAC_FILTER_CLR);
    let all = kind::SET_PROMISC | PROMISC_UNICAST | PROMISC_MULTICAST;
    let firsts: Vec<u32> = asked.lock().unwrap().iter().map(|words| words[0]).collect();
    let wanted = [
        add,
        add,
        clear,
        add,
        kind::SET_MULTICAST | 1 << INFO_SHIFT,
        kind::SET_VLAN | 1 << INFO_SHIFT,
        kind::SET_VLAN,
        kind::SET_PROMISC | PROMISC_MULTICAST,
        all,
        all,
        kind::SET_PROMISC,
    ];
    assert_eq!(firsts, wanted);
    let asked = asked.lock().unwrap();
    assert_eq!(asked[2][1..], [0x0403_0202, 0x0605], "its own address, for hosts look at it");
    assert_eq!(asked[3][1..], [0x0000_0002, 0x0200], "the one that stays");
    assert_eq!(asked[4][1], 0x0302 >> 4, "bits 47:36 of the group");
    drop(asked);
    bench.finish(side);
}

fn a_mode_that_is_refused_is_named_and_a_port_opens_without_it<C: Card>() {
    // As Linux's igb: no mode of all unicast frames.
    let mut bench = Bench::<C>::new(|words| {
        let refused = words[0] & (KIND_MASK | PROMISC_UNICAST) == kind::SET_PROMISC | PROMISC_UNICAST;
        if refused { Some(vec![words[0] | FAILURE | CLEAR_TO_SEND]) } else { honest(words) }
    });
    let mut side = bench.open(&Options { promiscuous: true, ..options() }).unwrap();
    side.device.set_all_multicast(true).unwrap();
    side.device.set_promiscuous(false).unwrap();
    let error = side.device.set_promiscuous(true).unwrap_err();
    assert!(error.to_string().contains("does not offer receiving frames without a filter"), "{error}");
    side.device.set_all_multicast(true).unwrap();
    bench.works(&mut side);
    bench.finish(side);
}

fn heads_that_are_written_back_have_a_place_and_frames_their_limit<C: Card>() {
    let (asked, answers) = noting();
    let mut bench = Bench::<C>::new(answers);
    let most = Options { max_frame: 9_720, completion: Completion::Head, ..options() };
    let side = bench.open(&most).unwrap();
    assert_eq!(asked.lock().unwrap()[1][..2], [kind::SET_LPE, 9_728]);
    assert_eq!(bench.stub.register(regs::igbvf::TDWBAL::at(0)) & 3, 1);
    bench.finish(side);
    for wrong in [
        Options { max_frame: 9_721, ..options() },
        Options { rx_queues: 2, ..options() },
        Options { rx_ring: 100, ..options() },
    ] {
        let mut bench = Bench::<C>::new(honest);
        assert!(matches!(bench.open(&wrong).map(|_| ()), Err(driver::Error::Option(_))));
    }
}

fn a_frame_wakes_who_sleeps<C: Card>() {
    let mut bench = Bench::<C>::new(honest);
    let mut side = bench.open(&Options { interrupts: true, ..options() }).unwrap();
    assert_eq!(bench.stub.register(VTIVAR::AT), 0x80, "vector 0 of queue 0 received");
    let woken = |side: &mut Side<C>| {
        let event = side.rx[0].arm().expect("opened with interrupts");
        let mut polled = [rustix::event::PollFd::new(&event, rustix::event::PollFlags::IN)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut polled, Some(&now)).unwrap() > 0
    };
    for _ in 0..3 {
        assert!(!woken(&mut side));
        bench.stub.step();
        until("the queue's interrupt", || woken(&mut side));
        side.rx[0].disarm();
        assert_eq!(bench.stub.register(VTEIMS::AT), 0, "masked while it is polled");
        assert!(!receive(&mut side.rx, &mut bench.pool).is_empty());
    }
    bench.finish(side);
}

fn a_reset_by_the_physical_function_is_told_and_the_port_opens_again<C: Card>() {
    type Reset = fn(&Served82576);
    let resets: [Reset; 2] = [
        Served82576::reset_by_host,
        // Its driver goes, and another comes.
        |stub| {
            stub.with_mailbox(|mailbox| mailbox.set_host(false));
        },
    ];
    for reset in resets {
        let mut bench = Bench::<C>::new(honest);
        let mut side = bench.open(&options()).unwrap();
        bench.works(&mut side);
        reset(&bench.stub);
        let error = side.device.health().unwrap_err();
        assert!(error.to_string().contains("has reset this one"), "{error}");
        assert_eq!(side.device.link(), port::Link::DOWN);
        assert!(side.device.add_mac([2, 0, 0, 0, 0, 1]).is_err());
        drop(side);
        bench.stub.with_mailbox(|mailbox| mailbox.set_host(true));
        let mut side = bench.open(&options()).unwrap();
        bench.works(&mut side);
        side.device.health().unwrap();
        bench.finish(side);
    }
}

fn without_a_host_the_error_says_so<C: Card>() {
    let mut bench = Bench::<C>::new(honest);
    bench.stub.with_mailbox(|mailbox| mailbox.set_host(false));
    let error = bench.open(&options()).err().unwrap();
    let driver::Error::Vf(VfFault::NoHost { register: "V2PMAILBOX", .. }) = error else { panic!("{error}") };
    assert!(error.to_string().contains("Linux's igb)"), "{error}");
}

fn a_physical_function_that_lies_is_named<C: Card>() {
    type BadAnswer = (fn(&Words) -> Option<Vec<u32>>, fn(&VfFault) -> bool);
    let answers: [BadAnswer; 6] = [
        // Silent; of another message; neither done nor refused.
        (|_| None, |fault| matches!(fault, VfFault::NoAnswer { message: "RESET", .. })),
        (|_| Some(vec![0x55 | SUCCESS]), |fault| matches!(fault, VfFault::NoAnswer { message: "RESET", .. })),
        (|words| Some(vec![words[0]]), |fault| matches!(fault, VfFault::Nonsense { message: "RESET", .. })),
        // Reset, and there is no address for it, as Linux's igb says it.
        (
            |words| match words[0] {
                kind::RESET => Some(vec![kind::RESET | FAILURE, 0, 0]),
                _ => honest(words),
            },
            |fault| matches!(fault, VfFault::NotOffered { what: "an address", .. }),
        ),
        // Refused; and a word that it has to begin anew instead of an answer.
        (
            |words| match words[0] {
                kind::SET_LPE => Some(vec![kind::SET_LPE | FAILURE]),
                _ => honest(words),
            },
            |fault| matches!(fault, VfFault::Refused { message: "SET_LPE", opcode: 5, .. }),
        ),
        (
            |words| match words[0] {
                kind::SET_LPE => Some(vec![kind::PF_CONTROL_MSG]),
                _ => honest(words),
            },
            |fault| matches!(fault, VfFault::Reset { .. }),
        ),
    ];
    for (n, (answer_with, named)) in answers.into_iter().enumerate() {
        let mut bench = Bench::<C>::new(answer_with);
        let Err(driver::Error::Vf(fault)) = bench.open(&options()).map(|_| ()) else {
            panic!("answer_with {n}")
        };
        assert!(named(&fault), "answer_with {n}: {fault}");
        assert_eq!(bench.pool.available(), bench.pool.capacity());
    }
}

fn garbage_in_the_mailbox_is_borne<C: Card>() {
    let mut seed = 7u32;
    let mut next = move || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        seed.rotate_right(8)
    };
    let mut ends = [0; 2];
    let mut bench = Bench::<C>::new(move |words| {
        // Now and then what it should be, so that more than the first message is sent.
        let mut answer = honest(words).unwrap();
        match next() % 8 {
            0 => answer.iter_mut().for_each(|word| *word = next()),
            1 => answer[0] = words[0] | next() & 0xF000_0000,
            _ => {}
        }
        Some(answer)
    });
    for _ in 0..12 {
        match bench.open(&options()) {
            Ok(mut side) => {
                ends[0] += 1;
                let _ = (side.device.set_vlan(3, true), side.device.add_mac([2, 0, 0, 0, 0, 1]));
                let _ = (side.device.set_promiscuous(true), side.device.stats(), side.device.link());
                drop(side);
            }
            Err(_) => ends[1] += 1,
        }
        assert_eq!(bench.pool.available(), bench.pool.capacity());
    }
    assert!(ends.iter().all(|count| *count > 0), "{ends:?}");
}

fn what_had_no_descriptor_is_counted_as_lost<C: Card>() {
    let mut bench = Bench::<C>::new(honest);
    let mut side = bench.open(&options()).unwrap();
    bench.stub.set_register(RQDPC::at(0), 3);
    // The register clears when it is read: each time there are three more.
    assert_eq!([3, 6].map(|_| side.device.stats().lost(Reason::RxNoDescriptor)), [3, 6]);
    bench.finish(side);
}

/// The tag of a frame that another function of the card sent; of one from the wire it is the same in both.
fn the_order_of_a_tags_bytes_is_the_chips<C: Card>() {
    let mut bench = Bench::<C>::new(honest);
    let mut side = bench.open(&options()).unwrap();
    let told = rx_high::VP | 0x0123 << rx_high::VLAN_SHIFT;
    let of_function = if C::ID == I350::ID { 0x2301 } else { 0x0123 };
    for (bits, tag) in [(told, 0x0123), (told | LB, of_function)] {
        bench.stub.set_received(bits);
        let (mut packets, mut limit) = (Vec::new(), Limit::rounds(100, "frames to come"));
        while packets.is_empty() {
            limit.check();
            bench.stub.step();
            packets = receive(&mut side.rx, &mut bench.pool);
        }
        assert!(packets.iter().all(|(_, packet)| packet.vlan() == Some(tag)), "{tag:#06x}");
        assert_eq!(contents(&packets[0].1), FRAME);
    }
    assert_eq!(side.device.stats().lost(Reason::RxBadDescriptor), 0);
    bench.finish(side);
}
