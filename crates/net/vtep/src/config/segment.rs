//! `segment`: the Ethernet segment behind a network's port, which other endpoints have as well
//! (RFC 7432, section 5).

use std::net::IpAddr;

use overlay::{Layer, MAX_PEERS, Segment};

use super::Reading;
use super::network::Basis;
use super::read::{Problem, Read, Table, flag, parsed};

const SEGMENT_KEYS: &[&str] = &["designated", "peers"];

impl Reading<'_> {
    /// Reads which frames for all go to the hosts of a network.
    pub(super) fn segment(&mut self, network: &Table<'_, '_>, basis: &Basis) -> Read<()> {
        let span = network.span_of("segment");
        let segment = network.get("segment", |value| {
            let table = Table::new(value, "a segment", &[SEGMENT_KEYS])?;
            let is_designated = table.get("designated", flag)?.unwrap_or(true);
            let peers = table.list("peers")?.iter();
            let peers: Read<Vec<IpAddr>> =
                peers.map(|peer| parsed(peer, "IP address", "192.0.2.3")).collect();
            let mut peers = peers?;
            peers.sort_unstable();
            peers.dedup();
            match peers.len() <= MAX_PEERS {
                true => Ok(Segment { is_designated, peers }),
                false => {
                    let fix = format!("name at most {MAX_PEERS}");
                    Err(Problem::new(table.span_of("peers"), "too many endpoints have the segment", fix))
                }
            }
        })?;
        let Some(segment) = segment else { return Ok(()) };
        if basis.network.layer != Layer::Ethernet {
            let cause = "only a network of Ethernet frames has an Ethernet segment behind its port";
            return Err(Problem::new(span, cause, "leave segment out"));
        }
        self.config.desired.segments.insert(basis.number, segment);
        Ok(())
    }
}
