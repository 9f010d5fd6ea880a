//! What the firmware of an XL710 or an X722 tells of itself and of the cage, and what the driver makes of
//! firmware that is older, newer, or has been given a profile (DDP).

use crate::common::frames::{self, Sums, payload};
use crate::common::i40e::{Bench, model};
use driver::i40e::{I40e, I40eFault};
use memory::TxOffload;
use port::{Feature, Link, LinkDownReason, Options, Port as _};
use testbed::i40e::{self, DEVICE_QSFP, DEVICE_X722};
use testbed::inprocess::{Handle, InProcess, while_stepping};
use testbed::wire::{Plug, plug};

/// Two cards on one cable whose firmware tells this.
fn cards(device_id: u16, words: &str) -> (Vec<bus::Pci>, Vec<Handle>) {
    let plugs = [0, 1].map(|n| Plug { spec: "pair".parse().unwrap(), mac: testbed::ixgbe::mac(n) });
    let cables = plug(&plugs, &Default::default()).unwrap();
    let firmware = if words.is_empty() { Default::default() } else { words.parse().unwrap() };
    let card = |(n, cable)| {
        let options = i40e::Options { device_id, firmware, ..model(n) };
        InProcess::new(i40e::open(&options, cable).unwrap())
    };
    (0..).zip(cables).map(card).unzip()
}

/// What a port tells of its firmware, and that frames come through, spread by their hash.
fn works(device_id: u16, words: &str) -> Vec<(&'static str, String)> {
    let options = Options { rx_queues: 4, promiscuous: true, ..Options::default() };
    let mut bench = Bench::over(cards(device_id, words), &options);
    let frame = frames::udp4(&payload(100), Sums::Full);
    let came = bench.cross(&frame, TxOffload::default());
    assert!(came.len() == 1 && came[0].hash().is_some(), "{words}");
    drop(came);
    let capabilities = bench.sides[0].device.capabilities();
    assert!(capabilities.has(Feature::RssHash));
    bench.finish();
    capabilities.firmware
}

fn told<'a>(rows: &'a [(&'static str, String)], name: &str) -> Option<&'a str> {
    rows.iter().find(|(of, _)| *of == name).map(|(_, told)| told.as_str())
}

#[test]
fn versions_and_profiles_are_told() {
    for (device_id, version) in [(DEVICE_QSFP, "6.0.48442"), (DEVICE_X722, "4.1.48442")] {
        let rows = works(device_id, "");
        let of = |name| told(&rows, name).unwrap();
        assert_eq!([of("firmware"), of("interface"), of("nvm")], [version, "1.7", "6.01"]);
        assert_eq!(of("ddp"), "no profile");
    }
    let rows = works(DEVICE_QSFP, "ddp");
    assert_eq!(told(&rows, "ddp"), Some("GTPv1-C/U IPv4/IPv6 payload 1.0.3.0 (0x80000008)"));
}

/// Such firmware knows of no profiles, of no commands for registers of the receive side and of no
/// RX_ONLY: the linter finds none of them.
#[test]
fn older_firmware_is_driven_without_what_came_later() {
    for api in ["1.4", "1.5", "1.6"] {
        let rows = works(DEVICE_QSFP, &format!("api={api}"));
        assert_eq!((told(&rows, "interface"), told(&rows, "ddp")), (Some(api), None));
    }
}

#[test]
fn firmware_with_another_interface_is_refused_with_its_version() {
    let (pcis, handles) = cards(DEVICE_QSFP, "api=2.0");
    let dma = memory::Dma::new(Default::default());
    let open = || I40e::open(pcis[0].clone(), &dma, Options::default());
    let error = while_stepping(&handles, open).unwrap().err().expect("another interface");
    let driver::Error::I40e(fault @ I40eFault::Interface { speaks: 1, .. }) = error else {
        panic!("{error}")
    };
    assert!(fault.to_string().contains("firmware 6.0 (interface 2.0) has another interface"), "{fault}");
}

#[test]
fn a_link_that_is_down_for_want_of_a_module_says_so() {
    for (words, down_reason) in [
        ("module=none", LinkDownReason::NoMedium),
        ("module=unqualified,ddp", LinkDownReason::UnqualifiedModule),
    ] {
        let options = Options { link_wait_ms: 0, ..Options::default() };
        let bench = Bench::over(cards(DEVICE_QSFP, words), &options);
        let link = bench.sides[0].device.link();
        assert_eq!(link, Link { down_reason: Some(down_reason), ..Link::DOWN });
        assert!(link.to_string().starts_with("down, ") && link.advice().contains("module"), "{link}");
        bench.finish();
    }
}
