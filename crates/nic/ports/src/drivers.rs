//! The drivers, and which device each of them knows.

use bus::Pci;
use driver::vf_host::{Hosting, Policy};
use driver::{i40e, iavf, igb, igbvf, ixgbe, ixgbevf, virtio};
use memory::Dma;
use port::{Feature, Offers, Options, Port, Result};

/// A driver of this build.
#[derive(Debug)]
pub struct Driver {
    /// The driver's name, as ports tell it.
    pub name: &'static str,
    /// The devices it drives, in words.
    pub drives: &'static str,
    /// The most receive queues that it opens a device with.
    pub most_queues: usize,
    /// Whether it knows a device by vendor and device id.
    pub knows: fn(vendor: u16, device: u16) -> bool,
    /// Resets a device and brings it up.
    pub open: fn(Pci, &Dma, Options) -> Result<Box<dyn Port>>,
    /// Likewise, as the host of virtual functions; `None` where the driver hosts none.
    pub host: Option<OpenHost>,
    /// What its ports can do.
    pub offers: fn() -> Offers,
    /// What shows that they can: a test of the crate `ixora-testbed`, `file::function`, or a scenario of
    /// the lab, `lab NAME`.
    shown_by: &'static str,
    /// What shows a feature that this does not.
    shown_elsewhere: &'static [(Feature, &'static str)],
}

impl Driver {
    /// What shows that its ports have a feature, if they have it.
    pub fn shown_by(&self, feature: Feature) -> Option<&'static str> {
        let elsewhere = self.shown_elsewhere(feature).unwrap_or(self.shown_by);
        (self.offers)().features.contains(&feature).then_some(elsewhere)
    }

    /// What shows a feature, where it is not what shows most.
    pub fn shown_elsewhere(&self, feature: Feature) -> Option<&'static str> {
        self.shown_elsewhere.iter().find(|(of, _)| *of == feature).map(|(_, by)| *by)
    }
}

/// Resets a device, brings it up and makes virtual functions work that it has, one for each policy.
pub type OpenHost = fn(Pci, &Dma, Options, &[Policy]) -> Result<Box<dyn Hosting>>;

/// All drivers. A static, not a constant: that would have each crate compile every driver's code anew.
pub static DRIVERS: &[Driver] = &[
    Driver {
        name: ixgbe::NAME,
        drives: ixgbe::DRIVES,
        most_queues: ixgbe::MOST_QUEUES,
        knows: ixgbe::knows,
        open: |pci, dma, options| Ok(Box::new(ixgbe::Ixgbe::open(pci, dma, options)?)),
        host: Some(|pci, dma, options, policies| {
            Ok(Box::new(ixgbe::host::Host::open(pci, dma, options, policies)?))
        }),
        offers: ixgbe::Ixgbe::offers,
        shown_by: "promises::what_the_driver_of_the_82599_says",
        shown_elsewhere: &[
            (Feature::VlanFilter, "driver_filter::only_vlans_that_were_let_in_pass_the_filter"),
            (Feature::Interrupts, "driver_interrupt::a_sleeper_misses_nothing_whenever_packets_come"),
            (Feature::EncapOffload, "encap_offload::frames_are_those_that_software_makes"),
            (Feature::FixedBuffers, "driver_fixed::frames_cross_both_ways_in_order_and_changed"),
            (
                Feature::Timestamps,
                "driver_timestamps::a_frame_has_the_time_at_which_it_came_and_not_that_of_the_poll",
            ),
        ],
    },
    Driver {
        name: ixgbevf::NAME,
        drives: ixgbevf::DRIVES,
        most_queues: ixgbevf::MOST_QUEUES,
        knows: ixgbevf::knows,
        open: |pci, dma, options| Ok(Box::new(ixgbevf::Ixgbevf::open(pci, dma, options)?)),
        host: None,
        offers: ixgbevf::Ixgbevf::offers,
        shown_by: "promises::what_the_driver_of_the_82599s_virtual_functions_says",
        shown_elsewhere: &[
            (Feature::VlanFilter, "ixgbe_vf::addresses_and_vlans_are_asked_for_and_go_again"),
            (Feature::Interrupts, "ixgbe_vf::a_frame_wakes_a_virtual_function_that_sleeps"),
        ],
    },
    Driver {
        name: igb::NAME,
        drives: igb::DRIVES,
        most_queues: igb::MOST_QUEUES,
        knows: igb::knows,
        open: |pci, dma, options| Ok(Box::new(igb::Igb::open(pci, dma, options)?)),
        host: None,
        offers: igb::Igb::offers,
        shown_by: "lab igb-features",
        // QEMU's device makes IP fragments of such packets.
        shown_elsewhere: &[(Feature::UdpSegmentation, "udp_segments::an_82576_is_told_of_datagrams")],
    },
    Driver {
        name: igbvf::NAME,
        drives: igbvf::DRIVES,
        most_queues: igbvf::MOST_QUEUES,
        knows: igbvf::knows,
        open: |pci, dma, options| Ok(igbvf::open(pci, dma, options)?),
        host: None,
        offers: igbvf::Igbvf::offers,
        shown_by: "lab igbvf-features",
        shown_elsewhere: &[(
            Feature::UdpSegmentation,
            "udp_segments::a_virtual_function_of_an_82576_is_told_of_datagrams",
        )],
    },
    Driver {
        name: i40e::NAME,
        drives: i40e::DRIVES,
        most_queues: i40e::MOST_QUEUES,
        knows: i40e::knows,
        open: |pci, dma, options| Ok(Box::new(i40e::I40e::open(pci, dma, options)?)),
        host: Some(|pci, dma, options, policies| {
            Ok(Box::new(i40e::host::Host::open(pci, dma, options, policies)?))
        }),
        offers: i40e::I40e::offers,
        shown_by: "promises::what_the_driver_of_the_xl710_says",
        shown_elsewhere: &[
            (Feature::VlanFilter, "i40e_driver::vlans_are_filtered_for_each_address"),
            (Feature::Interrupts, "i40e_driver::a_queue_wakes_who_sleeps_on_it"),
            (Feature::EncapOffload, "encap_offload::frames_are_those_that_software_makes"),
            (Feature::FlowFilter, "i40e_flow::a_flow_comes_to_the_queue_that_it_is_led_to"),
            (
                Feature::PtpTimestamps,
                "i40e_timestamps::a_message_has_the_time_at_which_it_came_and_other_frames_none",
            ),
        ],
    },
    Driver {
        name: iavf::NAME,
        drives: iavf::DRIVES,
        most_queues: iavf::MOST_QUEUES,
        knows: iavf::knows,
        open: |pci, dma, options| Ok(Box::new(iavf::Iavf::open(pci, dma, options)?)),
        host: None,
        offers: iavf::Iavf::offers,
        shown_by: "promises::what_the_driver_of_the_xl710s_virtual_functions_says",
        shown_elsewhere: &[
            (Feature::VlanFilter, "i40e_vf::vlans_are_chosen_stripped_or_hidden"),
            (Feature::Interrupts, "i40e_vf::a_queue_wakes_who_sleeps_on_it"),
        ],
    },
    Driver {
        name: virtio::NAME,
        drives: virtio::DRIVES,
        most_queues: virtio::MOST_QUEUES,
        knows: virtio::knows,
        open: |pci, dma, options| Ok(Box::new(virtio::Virtio::open(pci, dma, options)?)),
        host: None,
        offers: virtio::Virtio::offers,
        shown_by: "virtio_rss::flows_spread_by_the_hash_that_each_packet_carries",
        shown_elsewhere: &[
            (Feature::RxChecksum, "virtio_offload::checksum_status_tells_right_from_not_known"),
            (Feature::TxChecksum, "virtio_offload::checksums_are_filled_in_by_either_side"),
            (
                Feature::TunnelChecksum,
                "virtio_offload::checksums_inside_a_tunnel_are_filled_in_by_either_side",
            ),
            (Feature::Segmentation, "virtio_offload::large_packets_are_cut_into_right_segments"),
            (Feature::UdpSegmentation, "udp_segments::virtio_cuts_into_datagrams"),
            (Feature::VlanFilter, "virtio_control::only_vlans_that_were_added_pass"),
            (Feature::EncapOffload, "encap_offload::frames_are_those_that_software_makes"),
            (Feature::RssTable, "virtio_rss::flows_come_to_another_queue_while_the_port_runs"),
            (Feature::Scatter, "virtio_sizes::long_frames_go_through_short_queues"),
            (Feature::Interrupts, "virtio_interrupt::a_packet_after_arming_wakes_and_none_else_does"),
        ],
    },
];

/// The driver that knows a device.
pub fn driver_of(vendor: u16, device: u16) -> Option<&'static Driver> {
    DRIVERS.iter().find(|driver| (driver.knows)(vendor, device))
}

/// What this build drives, in words.
pub fn drives() -> String {
    let each = DRIVERS.iter().map(|driver| format!("{} ({})", driver.drives, driver.name));
    format!("this build drives {}", each.collect::<Vec<_>>().join("; "))
}

/// Whose virtual functions this build hosts, in words.
fn hosts() -> String {
    let each = DRIVERS.iter().filter(|driver| driver.host.is_some());
    let each = each.map(|driver| format!("{} ({})", driver.drives, driver.name));
    format!("this build hosts virtual functions of {}", each.collect::<Vec<_>>().join("; "))
}

/// Opens a device with the driver that knows its PCI ids.
///
/// # Errors
/// [`driver::Error::UnknownDevice`] when none does; else what the driver says.
pub fn open(pci: Pci, dma: &Dma, options: Options) -> Result<Box<dyn Port>> {
    let driver = known(&pci, |driver| Some(driver.open), drives)?;
    driver(pci, dma, options)
}

/// Opens a device as host of its virtual functions, with the driver that knows its PCI ids: one
/// function works for each policy. The device's own port is the host's, as long as that lives.
///
/// # Errors
/// [`driver::Error::UnknownDevice`] when no driver hosts its virtual functions; else what the driver
/// says.
pub fn host(pci: Pci, dma: &Dma, options: Options, policies: &[Policy]) -> Result<Box<dyn Hosting>> {
    let driver = known(&pci, |driver| driver.host, hosts)?;
    driver(pci, dma, options, policies)
}

/// What the driver of a device has of something that not all have; `all` tells of which devices there
/// is some.
fn known<T>(pci: &Pci, of: impl FnOnce(&Driver) -> Option<T>, all: fn() -> String) -> Result<T> {
    let ids = pci.ids().map_err(driver::Error::from)?;
    let (vendor, id) = (ids.vendor, ids.device);
    let unknown = || driver::Error::UnknownDevice { device: pci.name(), vendor, id, known: all() };
    Ok(driver_of(vendor, id).and_then(of).ok_or_else(unknown)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_device_has_one_driver_and_the_list_names_it() {
        let intel = [(0x8086, 0x10FB, "ixgbe"), (0x8086, 0x10C9, "igb"), (0x8086, 0x1583, "i40e")];
        let x722 = [0x37CE, 0x37CF, 0x37D0, 0x37D1, 0x37D2, 0x37D3].map(|device| (0x8086, device, "i40e"));
        let intel = intel.into_iter().chain(x722);
        let intel = intel.chain([(0x8086, 0x154C, "iavf"), (0x8086, 0x1889, "iavf")]);
        let vfs = [0x10ED, 0x1515, 0x1565, 0x15A8].map(|device| (0x8086, device, "ixgbevf"));
        let vfs = vfs.into_iter().chain([(0x8086, 0x10CA, "igbvf"), (0x8086, 0x1520, "igbvf")]);
        let vfs = vfs.chain([(0x8086, 0x37CD, "iavf")]);
        let known = intel.chain(vfs).chain([(0x1AF4, 0x1000, "virtio")]);
        for (vendor, device, name) in known.chain([(0x1AF4, 0x1041, "virtio")]) {
            let drivers = DRIVERS.iter().filter(|driver| (driver.knows)(vendor, device));
            assert_eq!(drivers.map(|driver| driver.name).collect::<Vec<_>>(), [name]);
            assert!(drives().contains(name));
        }
        assert!(driver_of(0x8086, 0x1521).is_none() && driver_of(0x10FB, 0x8086).is_none());
    }

    #[test]
    fn physical_functions_are_hosts() {
        let hosts = DRIVERS.iter().filter(|driver| driver.host.is_some()).map(|driver| driver.name);
        assert_eq!(hosts.collect::<Vec<_>>(), ["ixgbe", "i40e"]);
        assert!(super::hosts().ends_with("(i40e)") && !super::hosts().contains("virtio"));
    }
}
