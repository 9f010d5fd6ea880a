//! A port that is not opened: it has the queues that are asked of it, if such a port
//! can have them, all that elements may ask of it, and no packets.

use element::io::router_ports::Wanted;
use port::{
    Batch, Capabilities, Feature, Features, Link, Pool, Port, PortStats, RxQueue, RxStats, Support, TxQueue,
    TxStats,
};

/// A port on paper.
pub fn port(wanted: &Wanted) -> Box<dyn Port> {
    let (queues, max_frame) = (super::ports::queues(wanted), wanted.options.max_frame);
    Box::new(UnopenedPort { name: wanted.name.clone(), queues, max_frame })
}

struct UnopenedPort {
    name: String,
    queues: usize,
    max_frame: usize,
}

impl Port for UnopenedPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            rx_queues: self.queues,
            tx_queues: self.queues,
            max_frame: self.max_frame,
            features: Features::from(Feature::ALL.map(|feature| (feature, Support::On))),
            ..Capabilities::default()
        }
    }

    fn mac(&self) -> [u8; 6] {
        [2, 0, 0, 0, 0, 0]
    }

    fn link(&self) -> Link {
        Link::default()
    }

    fn stats(&mut self) -> PortStats {
        PortStats::default()
    }

    fn rx_queue(&mut self, _: usize) -> Option<Box<dyn RxQueue>> {
        Some(Box::new(Blank))
    }

    fn tx_queue(&mut self, _: usize) -> Option<Box<dyn TxQueue>> {
        Some(Box::new(Blank))
    }

    fn set_promiscuous(&mut self, _: bool) -> port::Result<()> {
        Ok(())
    }

    fn stop(&mut self) -> port::Result<()> {
        Ok(())
    }
}

/// A queue without packets.
struct Blank;

impl RxQueue for Blank {
    fn recv(&mut self, _: &mut Pool, _: &mut Batch) -> usize {
        0
    }

    fn stats(&self) -> RxStats {
        RxStats::default()
    }
}

impl TxQueue for Blank {
    fn send(&mut self, _: &mut Pool, _: &mut Batch) -> usize {
        0
    }

    fn clean(&mut self, _: &mut Pool) -> usize {
        0
    }

    fn stats(&self) -> TxStats {
        TxStats::default()
    }
}
