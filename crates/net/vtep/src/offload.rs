//! The underlay's port whose NIC has a table of tunnels of its own (decision 30): which networks'
//! packets lanes leave to it, and the table that the control keeps in step with its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use overlay::{NicCounts, NicTable, Overlay};
use port::{EncapOffload, Result};

/// How long the place of a network that went is no other's at least, ns. It is a limit of time and no
/// more: a packet that is marked with it and waits in a ring for longer leaves in the next network's
/// tunnel (decision 30).
const REST_NS: i64 = 1_000_000_000;

/// Which networks the NIC has, as lanes look at it.
#[derive(Debug)]
pub struct NicPlaces {
    /// The port of the underlay.
    pub(crate) port: u16,
    /// For each port of a network, in the order of the configuration: one more than the network's
    /// place in the NIC, or 0.
    places: Vec<AtomicU32>,
}

impl NicPlaces {
    /// The place of the network of a network's port; `None` where software sends.
    #[inline]
    pub(crate) fn of(&self, inner: usize) -> Option<u16> {
        // What the NIC was told before, it knows: a packet that comes too early is given back.
        let place = self.places.get(inner)?.load(Ordering::Relaxed);
        place.checked_sub(1).map(|place| place as u16)
    }

    /// The network's port whose network has a place.
    pub(crate) fn inner(&self, place: u16) -> Option<usize> {
        let code = u32::from(place) + 1;
        self.places.iter().position(|place| place.load(Ordering::Relaxed) == code)
    }
}

/// The table of a NIC, and what lanes are told of it.
#[derive(Debug)]
pub struct Offload {
    table: NicTable,
    /// Networks of the networks' ports.
    networks: Vec<u32>,
    places: Arc<NicPlaces>,
    /// When places that rest are let go, if some do.
    places_go_ns: Option<i64>,
}

impl Offload {
    /// The table of the NIC that is a port of the underlay, for networks with these ports.
    ///
    /// # Errors
    /// What the device says.
    pub fn new(nic: Box<dyn EncapOffload>, port: u16, networks: Vec<u32>) -> Result<Offload> {
        let places = networks.iter().map(|_| AtomicU32::new(0)).collect();
        Ok(Offload {
            table: NicTable::new(nic, port)?,
            networks,
            places: Arc::new(NicPlaces { port, places }),
            places_go_ns: None,
        })
    }

    /// What lanes look at.
    pub fn places(&self) -> Arc<NicPlaces> {
        self.places.clone()
    }

    /// The port of the underlay, by its place in the configuration.
    pub fn port(&self) -> u16 {
        self.places.port
    }

    /// What the NIC holds.
    pub fn counts(&self) -> NicCounts {
        self.table.counts()
    }

    /// How often all entries were gone over to tell the NIC, in place of what changed alone.
    pub fn walks(&self) -> u64 {
        self.table.walks()
    }

    /// Tells the NIC what is different in the table, and lanes what it has.
    ///
    /// # Errors
    /// What the device says: all is software's from then on.
    pub(crate) fn sync(&mut self, overlay: &Overlay, now_ns: i64) -> Result<()> {
        if self.places_go_ns.is_some_and(|at_ns| now_ns >= at_ns) {
            self.table.let_places_go();
            self.places_go_ns = None;
        }
        let told = self.table.sync(overlay).inspect_err(|_| self.leave_to_software())?;
        if told {
            for (network, place) in self.networks.iter().zip(&self.places.places) {
                let code = self.table.place(*network).map_or(0, |place| u32::from(place) + 1);
                place.store(code, Ordering::Relaxed);
            }
        }
        if self.table.places_rest() {
            self.places_go_ns.get_or_insert(now_ns.saturating_add(REST_NS));
        }
        Ok(())
    }

    fn leave_to_software(&self) {
        self.places.places.iter().for_each(|place| place.store(0, Ordering::Relaxed));
    }
}
