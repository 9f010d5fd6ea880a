//! A tunnel endpoint on opened ports: one lane for each queue, and the control of all.

use std::sync::Arc;

use runtime::{Instant, Poller};
use vtep::{Config, Control, Counters, InnerQueues, Lane, Offload, Totals, UnderlayQueues, channels};
use wire::MacAddress;

use crate::Failure;
use crate::open::Ports;
use crate::port_counts::LastCounts;

/// A tunnel endpoint on its ports, with all that its threads need.
pub struct Host {
    pub config: Config,
    /// Ethernet addresses of the networks' ports.
    pub macs: Vec<MacAddress>,
    pub control: Control,
    pub counters: Arc<Shown>,
}

/// What an endpoint shows while it runs.
#[derive(Debug, Default)]
pub struct Shown {
    lanes: Vec<Arc<Counters>>,
    /// What ports counted.
    pub ports: LastCounts,
}

impl Shown {
    /// What the port of a network counted, by its place in the configuration.
    pub fn inner(&self, place: usize) -> Totals {
        self.sum(|lane| &lane.inner[place])
    }

    /// What a port of the underlay counted.
    pub fn underlay(&self, place: usize) -> Totals {
        self.sum(|lane| &lane.underlay[place])
    }

    /// Requests for neighbours that were sent.
    pub fn requests(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.requests()).sum()
    }

    fn sum(&self, side: impl Fn(&Counters) -> &vtep::Side) -> Totals {
        let mut totals = Totals::default();
        self.lanes.iter().for_each(|lane| totals.add(side(lane)));
        totals
    }
}

/// The names of an endpoint's ports: those of networks, then those of the underlay.
pub fn names(config: &Config) -> impl Iterator<Item = &str> {
    let inner = config.inner.iter().map(|inner| inner.port.as_str());
    inner.chain(config.underlay.iter().map(|port| port.port.as_str()))
}

impl Host {
    /// An endpoint on the ports from `first` on, which stand in the order of [`names`], and
    /// one poller for each of so many queues.
    pub fn new(
        config: Config,
        ports: &mut Ports,
        first: usize,
        queues: usize,
    ) -> Result<(Host, Vec<Box<dyn Poller>>), Failure> {
        let below = first + config.inner.len();
        let macs: Vec<MacAddress> =
            (0..config.underlay.len()).map(|n| MacAddress(ports.mac(below + n))).collect();
        let (channels, to_control, requests) = channels();
        let mut control = Control::new(&config.underlay, &macs, config.desired(&macs), channels, now_ns())?;
        let mut requests = Some(requests);
        let nic = offload(&config, ports, below)?;
        let (mut counters, mut pollers) = (Vec::new(), Vec::<Box<dyn Poller>>::new());
        for queue in 0..queues {
            let (mut inner, mut underlay) = (Vec::new(), Vec::new());
            for (n, edge) in config.inner.iter().enumerate() {
                let (port, mac) = (first + n, MacAddress(ports.mac(first + n)));
                let can = ports.list[port].capabilities();
                let (rx, tx) = (ports.rx_whole(port, queue)?, ports.tx(port, queue)?);
                inner.push(InnerQueues::new(edge, (mac, &can), rx, tx));
            }
            for (n, port) in config.underlay.iter().enumerate() {
                let mac = port.mac.unwrap_or(macs[n]);
                let (rx, tx) = (ports.rx_whole(below + n, queue)?, ports.tx(below + n, queue)?);
                let can = ports.list[below + n].capabilities();
                underlay.push(UnderlayQueues::new(port, (mac, can), rx, tx));
            }
            let (mut lane, shown) =
                Lane::new(control.table(), inner, underlay, to_control.clone(), requests.take());
            nic.iter().for_each(|nic: &Offload| lane.set_nic(nic.places()));
            pollers.push(Box::new(lane));
            counters.push(shown);
        }
        control.table().publish();
        nic.into_iter().for_each(|nic| control.set_nic(nic));
        let macs = (first..below).map(|n| MacAddress(ports.mac(n))).collect();
        let shown_as = config.inner.iter().map(|inner| format!("network {}", inner.network));
        let shown_as = shown_as.chain(config.underlay.iter().map(|port| port.name.clone()));
        let counters = Arc::new(Shown { lanes: counters, ports: LastCounts::named(shown_as.collect()) });
        Ok((Host { config, macs, control, counters }, pollers))
    }

    /// The table of the NIC that puts packets into tunnels, and the name of its port.
    pub fn nic(&self) -> Option<(&str, &Offload)> {
        let nic = self.control.nic()?;
        Some((&self.config.underlay.get(usize::from(nic.port()))?.name, nic))
    }
}

/// The table of the NIC that is to put packets into tunnels, where the configuration wants it.
fn offload(config: &Config, ports: &mut Ports, below: usize) -> Result<Option<Offload>, Failure> {
    let Some(place) = config.underlay.iter().position(|port| port.offload) else { return Ok(None) };
    let port = &mut ports.list[below + place];
    let missing = || {
        let name = &config.underlay[place].port;
        Failure::new(format!("{name}: its NIC has no table of tunnels, and offload = \"nic\" asks for one"))
            .fix("leave offload out; of a device model: --encap-offload")
    };
    let nic = port.encap_offload().ok_or_else(missing)?;
    let networks = config.inner.iter().map(|inner| inner.network).collect();
    Ok(Some(Offload::new(nic, place as u16, networks)?))
}

/// The time as controls have it.
pub fn now_ns() -> i64 {
    Instant::now().as_ns()
}
