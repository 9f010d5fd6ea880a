//! A lane and a control with a NIC that has a table of tunnels: what leaves marked, what comes back,
//! and what becomes of all when the NIC fails.
#![allow(clippy::unwrap_used)]

#[path = "common/frames.rs"]
mod frames;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use frames::Frames;
use memory::{Batch, Dma, Pool};
use port::{Capabilities, EncapHeaders, EncapLimits, EncapNetwork, EncapOffload, Error, Result};
use runtime::{Instant, Poller};
use vtep::{Config, Control, InnerQueues, Lane, Offload, Totals, UnderlayQueues, channels};
use wire::{MacAddress, encap_tag};

const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const TEXT: &str = "[[underlay]]\nname = 'up'\nport = 'tap:x'\naddresses = ['192.0.2.1/24']\noffload = 'nic'\n\
                    neighbors = { '192.0.2.2' = '02:00:00:00:00:02' }\n\
                    [[network]]\nnumber = 100\nprotocol = 'vxlan'\ninner = 'tap:a'\n\
                    [[network.entry]]\nkey = '02:00:00:00:0b:01'\nremote = '192.0.2.2'\n\
                    [[network]]\nnumber = 200\nprotocol = 'vxlan'\ninner = 'tap:b'\n\
                    [[network.entry]]\nkey = '02:00:00:00:0b:01'\nremote = '192.0.2.2'\n";

/// A NIC with room for two networks and one entry, which is gone when it is told to.
#[derive(Clone, Default)]
struct Nic {
    entries: Vec<(u16, u128)>,
    is_gone: Arc<AtomicBool>,
    /// Places in which a network was made, or removed.
    networks: Arc<Mutex<Vec<(u16, bool)>>>,
}

impl EncapOffload for Nic {
    fn limits(&self) -> EncapLimits {
        EncapLimits { networks: 2, places: 4, entries: 1 }
    }

    fn generation(&self) -> Result<u32> {
        match self.is_gone.load(Ordering::Relaxed) {
            true => Err(Error::Lost { port: "nic".to_owned(), what: "it is gone" }),
            false => Ok(1),
        }
    }

    fn reset(&mut self) -> Result<()> {
        Ok(())
    }

    fn set_network(&mut self, place: u16, network: Option<&EncapNetwork>) -> Result<()> {
        self.networks.lock().unwrap().push((place, network.is_some()));
        Ok(())
    }

    fn set_headers(&mut self, _place: u32, _is_v6: bool, _headers: &EncapHeaders) -> Result<()> {
        Ok(())
    }

    fn insert(&mut self, network: u16, identifier: u128, _place: u32) -> Result<()> {
        if !self.entries.is_empty() {
            return Err(Error::TableFull { port: "nic".to_owned(), table: "entries", capacity: 1 });
        }
        self.entries.push((network, identifier));
        Ok(())
    }

    fn remove(&mut self, _network: u16, _identifier: u128) -> Result<bool> {
        Ok(false)
    }
}

/// A frame to the station that both networks have an entry for.
fn frame() -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0x0B, 1, 2, 0, 0, 0, 0, 9, 0x88, 0xB5];
    frame.resize(70, 7);
    frame
}

#[test]
fn packets_leave_marked_come_back_and_go_by_software_when_the_nic_is_gone() {
    let config = Config::parse(TEXT).unwrap();
    let (channels, to_control, requests) = channels();
    let mut control = Control::new(&config.underlay, &[MAC], config.desired(&[MAC]), channels, 0).unwrap();
    let (inner, up, out) = ([Frames::default(), Frames::default()], Frames::default(), Frames::default());
    let can = Capabilities { max_frame: 1514, ..Capabilities::default() };
    let inner_queues = config.inner.iter().zip(&inner).map(|(edge, rx)| {
        InnerQueues::new(edge, (MAC, &can), Box::new(rx.clone()), Box::new(Frames::default()))
    });
    let inner_queues = inner_queues.collect();
    let queues = (Box::new(up.clone()), Box::new(out.clone()));
    let underlay = vec![UnderlayQueues::new(&config.underlay[0], (MAC, can.clone()), queues.0, queues.1)];
    let (mut lane, counters) = Lane::new(control.table(), inner_queues, underlay, to_control, Some(requests));
    control.table().publish();
    let nic = Nic::default();
    let offload = Offload::new(Box::new(nic.clone()), 0, vec![100, 200]).unwrap();
    lane.set_nic(offload.places());
    control.set_nic(offload);
    let (counts, walks) = (control.nic().unwrap().counts(), control.nic().unwrap().walks());
    assert_eq!((counts.entries, counts.without_room, walks), (1, 1, 1));

    let mut pool = Pool::new(&Dma::new(memory::Options::default()), 1024).unwrap();
    let mut turn = |lane: &mut Lane| lane.turn(Instant::now(), &mut pool, &mut Batch::default());
    inner.iter().for_each(|frames| frames.put(&frame()));
    assert_eq!(turn(&mut lane), 2);
    let marked = out.take();
    let networks = marked.iter().map(|marked| {
        let (tag, packet) = encap_tag::split(marked).unwrap();
        assert!(encap_tag::is_tagged(marked) && packet == frame());
        tag.network()
    });
    assert_eq!(networks.collect::<Vec<_>>(), [0, 1], "the networks' places");

    // What the NIC gives back goes by the table here.
    let mut back = marked[1].clone();
    encap_tag::set_reason(&mut back, encap_tag::reason::KEY);
    up.put(&back);
    assert_eq!(turn(&mut lane), 1);
    let by_software = out.take();
    assert_eq!(by_software.len(), 1);
    assert!(!encap_tag::is_tagged(&by_software[0]) && by_software[0].ends_with(&frame()));
    assert_eq!(by_software[0].len(), 14 + 20 + 8 + 8 + frame().len());
    let totals = |side: &vtep::Side| {
        let mut totals = Totals::default();
        totals.add(side);
        assert!(totals.balances(), "{totals:?}");
        totals
    };
    let (second, below) = (totals(&counters.inner[1]), totals(&counters.underlay[0]));
    assert_eq!((second.forwarded, second.returned, below.given_back), (2, 1, 1));

    // A NIC that is gone is left alone.
    nic.is_gone.store(true, Ordering::Relaxed);
    assert!(control.nic_failure().is_none());
    control.turn(Duration::ZERO, || 1);
    assert!(control.nic_failure().is_some() && control.nic().is_none());
    inner[0].put(&frame());
    assert_eq!(turn(&mut lane), 1);
    assert_eq!(out.take()[0].len(), by_software[0].len());
}

/// Packets that are marked with the place of a network that went are gone when another one has it.
#[test]
fn the_place_of_a_network_that_went_is_no_others_for_a_second() {
    const SECOND: i64 = 1_000_000_000;
    let config = Config::parse(TEXT).unwrap();
    let other = Config::parse(&TEXT.replace("number = 100", "number = 300")).unwrap();
    let (channels, _to_control, _requests) = channels();
    let mut control = Control::new(&config.underlay, &[MAC], config.desired(&[MAC]), channels, 0).unwrap();
    control.table().publish();
    let nic = Nic::default();
    control.set_nic(Offload::new(Box::new(nic.clone()), 0, vec![100, 200, 300]).unwrap());
    let is_used = |place: u16| {
        let told = nic.networks.lock().unwrap();
        told.iter().rfind(|(of, _)| *of == place).map(|(_, is_made)| *is_made)
    };
    assert_eq!([is_used(0), is_used(1)], [Some(true); 2]);
    let begin = 5 * SECOND;
    control.apply(other.desired(&[MAC]), begin).unwrap();
    for tenth in 0..=10 {
        control.turn(Duration::ZERO, || begin + tenth * SECOND / 10);
        assert_eq!(is_used(0), Some(false), "{tenth} tenths of a second later");
    }
    control.turn(Duration::ZERO, || begin + 2 * SECOND);
    assert_eq!(is_used(0), Some(true));
}
