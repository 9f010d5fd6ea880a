//! Which frames a port receives: the filters of every port here, over the tables that
//! its chip has.

use port::{Filters, Flow, FlowTarget, OptionError, Port as _};
use wire::MacAddress;

use super::chip::Chip;
use super::port::{Port, colons};
use crate::Result;

impl<C: Chip> Filters for Port<C> {
    fn add_mac(&mut self, mac: [u8; 6]) -> port::Result<()> {
        tracing::debug!(port = self.name(), "filter: address {} added", colons(mac));
        if !MacAddress(mac).is_multicast() {
            return Ok(self.chip.add_unicast(mac)?);
        }
        let mut multicast = self.multicast.clone();
        if !multicast.contains(&mac) {
            multicast.push(mac);
        }
        self.chip.set_multicast(&multicast)?;
        self.multicast = multicast;
        Ok(())
    }

    fn remove_mac(&mut self, mac: [u8; 6]) -> port::Result<bool> {
        tracing::debug!(port = self.name(), "filter: address {} removed", colons(mac));
        if !MacAddress(mac).is_multicast() {
            return Ok(self.chip.remove_unicast(mac)?);
        }
        let before = self.multicast.len();
        self.multicast.retain(|other| *other != mac);
        self.chip.set_multicast(&self.multicast)?;
        Ok(self.multicast.len() < before)
    }

    fn set_vlan(&mut self, vlan: u16, on: bool) -> port::Result<()> {
        tracing::debug!(port = self.name(), "filter: VLAN {vlan} {}", if on { "added" } else { "removed" });
        Ok(self.chip.set_vlan(vlan, on)?)
    }

    fn add_flow(&mut self, flow: &Flow, target: FlowTarget) -> port::Result<()> {
        tracing::debug!(port = self.name(), "filter: {flow:?} to {target:?}");
        let queues = self.options().rx_queues;
        match target {
            _ if self.chip.flow_filters() == 0 => {
                let (port, operation) = (self.name().to_owned(), "a filter for a flow");
                Err(port::Error::Unsupported { port, operation })
            }
            FlowTarget::Queue(value) if value >= queues => {
                let limit = "a flow can be led to a queue that the port was opened with, counted from 0";
                Err(OptionError { option: "the queue of a flow", value, limit }.into())
            }
            target => Ok(self.chip.add_flow(flow, target)?),
        }
    }

    fn remove_flow(&mut self, flow: &Flow) -> port::Result<bool> {
        tracing::debug!(port = self.name(), "filter: {flow:?} removed");
        Ok(self.chip.remove_flow(flow)?)
    }

    fn set_all_multicast(&mut self, on: bool) -> port::Result<()> {
        let before = std::mem::replace(&mut self.all_multicast, on);
        Ok(self.set_modes().inspect_err(|_| self.all_multicast = before)?)
    }
}

impl<C: Chip> Port<C> {
    /// Turns the VLAN filter on or off: on, only tagged frames of the VLANs of
    /// [`Filters::set_vlan`] are received, and untagged ones.
    pub fn set_vlan_filter(&mut self, on: bool) -> Result<()> {
        self.chip.set_vlan_filter(on)
    }

    /// Receives broadcast frames, as is the default, or not.
    pub fn set_broadcast(&mut self, on: bool) -> Result<()> {
        self.chip.set_broadcast(on)
    }
}
