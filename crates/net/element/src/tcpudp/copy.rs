//! `CopyFlowID`, `CopyTCPSeq`: what packets on one way tell, written into packets on another.

use std::net::Ipv4Addr;

use graph::class::{Handlers, Headers, action};
use graph::{Action, Class, Cx, Each, PerPacket};
use memory::Packet;
use memory::annotation::Header;
use wire::ip::Ports;
use wire::tcp;

use graph::ip_header;
use port::Reason;

const NEEDS: Headers = Headers { needs_network: true, needs_transport: true, ..Class::BASE.headers };

/// The class of what copies addresses and ports.
pub static FLOW: Class = Class {
    name: "CopyFlowID",
    brief: "gives packets the addresses and ports of another way's first packet",
    doc: "Packets go from an input to the output of the same number. Addresses and ports of the first one that \
          comes in at input 0 are written into all that come in at input 1; checksums stay as they are.",
    ports: "2/2",
    flow: "#/#",
    handlers: &Handlers::<CopyFlowId>(&[action(
        "reset",
        "takes those of the next packet",
        |copy: &mut CopyFlowId, _| {
            copy.flow = None;
        },
    )
    .marked("b")]),
    drops: &[Reason::NoIpHeader],
    example: "a -> [0] c :: CopyFlowID [0] -> b; d -> [1] c [1] -> SetIPChecksum -> SetTCPChecksum -> e;",
    see: &["CopyTCPSeq", "IPRewriter"],
    headers: NEEDS,
    make: |_, conf| {
        conf.complete()?;
        Ok(Each::boxed(CopyFlowId { flow: None }))
    },
    ..Class::BASE
};

/// The class of what copies sequence numbers.
pub static SEQUENCE: Class = Class {
    name: "CopyTCPSeq",
    brief: "gives TCP segments the highest sequence number of another way's",
    doc: "Packets go from an input to the output of the same number. The highest sequence number of those that \
          came in at input 0 is written into all that come in at input 1; checksums stay as they are.",
    handlers: &Handlers::<CopyTcpSeq>(&[action(
        "reset",
        "takes that of the next segment",
        |copy: &mut CopyTcpSeq, _| {
            copy.highest = None;
        },
    )
    .marked("b")]),
    example: "a -> [0] c :: CopyTCPSeq [0] -> b; d -> [1] c [1] -> SetTCPChecksum -> e;",
    see: &["CopyFlowID"],
    make: |_, conf| {
        conf.complete()?;
        Ok(Each::boxed(CopyTcpSeq { highest: None }))
    },
    ..FLOW
};

/// A `CopyFlowID` element; [`FLOW`] says what it does.
#[derive(Debug)]
pub struct CopyFlowId {
    /// Addresses and ports, source first.
    flow: Option<([Ipv4Addr; 2], [u16; 2])>,
}

impl CopyFlowId {
    fn learn(&mut self, packet: &Packet) -> Option<()> {
        let ip = ip_header::fixed(packet)?;
        let ports = Ports::of(packet.header(Header::Transport)?)?;
        self.flow.get_or_insert(([ip.src(), ip.dst()], [ports.src(), ports.dst()]));
        Some(())
    }

    fn write(&self, packet: &mut Packet) -> Option<()> {
        let (addresses, ports) = self.flow.unwrap_or(([Ipv4Addr::UNSPECIFIED; 2], [0; 2]));
        Ports::of(packet.header(Header::Transport)?)?; // nothing is changed where these are missing
        let mut ip = ip_header::fixed_mut(packet)?;
        ip.set_src(addresses[0]);
        ip.set_dst(addresses[1]);
        let mut own = Ports::of_mut(packet.header_mut(Header::Transport)?)?;
        own.set_src(ports[0]);
        own.set_dst(ports[1]);
        Some(())
    }
}

impl PerPacket for CopyFlowId {
    fn packet(&mut self, _: &mut Cx<'_>, input: usize, packet: &mut Packet) -> Action {
        let done = if input == 0 { self.learn(packet) } else { self.write(packet) };
        done.map_or(Action::drop(0), |()| Action::out(input))
    }
}

/// A `CopyTCPSeq` element; [`SEQUENCE`] says what it does.
#[derive(Debug)]
pub struct CopyTcpSeq {
    highest: Option<u32>,
}

impl PerPacket for CopyTcpSeq {
    fn packet(&mut self, _: &mut Cx<'_>, input: usize, packet: &mut Packet) -> Action {
        let tcp = packet.header_mut(Header::Transport).and_then(tcp::Header::of_mut);
        let Some(mut tcp) = tcp else { return Action::drop(0) };
        if input == 0 {
            let own = tcp.sequence();
            let is_higher = self.highest.is_none_or(|highest| own.wrapping_sub(highest) as i32 > 0);
            self.highest = if is_higher { Some(own) } else { self.highest };
        } else {
            tcp.set_sequence(self.highest.unwrap_or(0));
        }
        Action::out(input)
    }
}
