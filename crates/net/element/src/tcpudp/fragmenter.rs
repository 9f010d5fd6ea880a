//! `TCPFragmenter`: segments that are too long become several.

use std::any::Any;

use graph::class::{Handlers, Headers, keyword, positional, read};
use graph::{Class, Cx, Element, Next, PerThreadCounter, Refused};
use memory::annotation::Header;
use memory::{Batch, Packet};
use wire::ip::Protocol;
use wire::ipv4;
use wire::tcp::{self, Flags};

use super::checksum;
use graph::annotation::{AnnotationOffset, PacketAnnotations};
use graph::chain::Bytes;
use graph::ip_header::{self, Parts};
use port::Reason;

pub static CLASS: Class = Class {
    name: "TCPFragmenter",
    brief: "makes several TCP segments of those that are too long",
    doc: "Segments whose IP packet would be longer than MTU become several of at most so many bytes, each with \
          the headers of the first, its own sequence number and right checksums. Only the last one keeps the \
          FIN flag. Whatever is no whole TCP segment passes unchanged.",
    processing: "h/h",
    arguments: &[
        positional(
            "MTU",
            "the longest IP packet, in bytes; 1500, or what the annotation says where that is given",
        ),
        keyword("MTU_ANNO", "an annotation of two bytes that says it for each packet, where it is not zero"),
    ],
    handlers: &Handlers::<TcpFragmenter>(&[
        read("count", "packets that came", |fragmenter| fragmenter.count.sum().to_string()),
        read("fragmented_count", "packets that were too long", |fragmenter| {
            fragmenter.long.sum().to_string()
        }),
        read("fragments", "segments that they became", |fragmenter| fragmenter.made.sum().to_string()),
    ]),
    drops: &[Reason::NoBuffers],
    example: "CheckIPHeader(14) -> TCPFragmenter(MTU 1500) -> Discard",
    see: &["IPFragmenter", "CheckTCPHeader"],
    headers: Headers { needs_network: true, ..Class::BASE.headers },
    costs: "makes new packets of those that are too long",
    live: true,
    make: |_, conf| {
        let mtu: Option<u16> = conf.positional("MTU")?;
        let place = conf.keyword::<AnnotationOffset<2>>("MTU_ANNO")?.map(|place| place.0);
        conf.ignore("SW_CHECKSUM");
        conf.complete()?;
        let mtu = mtu.unwrap_or(if place.is_none() { 1500 } else { 0 });
        if mtu == 0 && place.is_none() {
            return Err("At least one of MTU and MTU_ANNO must be set".into());
        }
        let [count, long, made] = std::array::from_fn(|_| PerThreadCounter::default());
        Ok(Box::new(TcpFragmenter { mtu: mtu.into(), place, count, long, made }))
    },
    ..Class::BASE
};

/// A `TCPFragmenter` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct TcpFragmenter {
    mtu: usize,
    place: Option<usize>,
    count: PerThreadCounter,
    long: PerThreadCounter,
    made: PerThreadCounter,
}

/// Where the parts of a packet are, from its start.
#[derive(Debug, Clone, Copy)]
struct Layout {
    ip: usize,
    tcp: usize,
    data: usize,
    end: usize,
}

/// The parts of a whole TCP segment.
fn layout(packet: &Packet) -> Option<Layout> {
    let ip = usize::try_from(packet.header_offset(Header::Network)?).ok()?;
    let (head, segment) = ip_header::split_all(packet)?;
    let total = ip_header::total_len(head);
    let whole = ip_header::protocol(head) == Protocol::TCP
        && !ip_header::is_fragment(head)
        && total <= head.len() + segment.len();
    let tcp_len = tcp::header_len(*segment.first().get(tcp::offset::DATA_OFFSET).filter(|_| whole)?);
    let tcp = ip + head.len();
    (tcp_len >= tcp::HEADER_LEN && tcp + tcp_len <= ip + total).then_some(Layout {
        ip,
        tcp,
        data: tcp + tcp_len,
        end: ip + total,
    })
}

impl TcpFragmenter {
    fn mtu(&self, packet: &Packet) -> usize {
        let said = self.place.map_or(0, |at| usize::from(packet.u16_at(at)));
        match (self.mtu, said) {
            (0, said) => said,
            (mtu, 0) => mtu,
            (mtu, said) => mtu.min(said),
        }
    }

    /// How a packet is to be cut, and how much data each part may have.
    fn cut(&self, packet: &Packet) -> Option<(Layout, usize)> {
        let mtu = self.mtu(packet);
        let layout = layout(packet).filter(|_| mtu > 0)?;
        let most = mtu.checked_sub(layout.data - layout.ip).filter(|most| *most > 0)?;
        // One that just fits counts, and gets its checksums, as Click has it.
        (layout.end - layout.data >= most).then_some((layout, most))
    }

    fn part(
        &mut self,
        cx: &mut Cx<'_>,
        packet: &Packet,
        layout: Layout,
        at: usize,
        most: usize,
    ) -> Option<()> {
        let Layout { ip, tcp, data, end } = layout;
        let length = most.min(end - at);
        let mut bytes = packet.get(..data)?.to_vec();
        bytes.extend_from_slice(&Bytes::of(packet).skip(at).front(length));
        let (header, payload) = bytes.get_mut(ip..)?.split_at_mut_checked(tcp - ip)?;
        let (total, segment_len) = (header.len() + payload.len(), payload.len());
        ipv4::Header::of_mut(header)?.set_total_len(total as u16);
        ipv4::fill_checksum(header);
        let mut tcp = tcp::Header::of_mut(payload)?;
        tcp.set_sequence(tcp.sequence().wrapping_add((at - data) as u32));
        if at + length < end {
            tcp.set_flags(tcp.flags().without(Flags::FIN));
        }
        checksum::fill_tcp(&mut Parts { header, payload, behind: None }, segment_len)?;
        let part = cx.packet_like(packet, packet.headroom(), &[&bytes])?;
        self.made.add(1);
        cx.emit(0, part);
        Some(())
    }
}

impl Element for TcpFragmenter {
    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        self.count.add(batch.len() as u64);
        if batch.iter().all(|packet| self.cut(packet).is_none()) {
            return Next::Push(0);
        }
        for packet in batch.drain() {
            let Some((layout, most)) = self.cut(&packet) else {
                cx.emit(0, packet);
                continue;
            };
            self.long.add(1);
            for at in (layout.data..layout.end).step_by(most) {
                if self.part(cx, &packet, layout, at, most).is_none() {
                    cx.count_drops(0, 1);
                }
            }
            cx.free(packet);
        }
        Next::Done
    }

    fn reconfigure(&mut self, _: &mut Cx<'_>, new: Box<dyn Element>) -> Result<(), Refused> {
        let new = (new as Box<dyn Any>).downcast::<TcpFragmenter>().map_err(|_| "of another class")?;
        (self.mtu, self.place) = (new.mtu, new.place);
        Ok(())
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        let [count, long, made] = [&self.count, &self.long, &self.made].map(PerThreadCounter::for_another);
        Some(Box::new(TcpFragmenter { mtu: self.mtu, place: self.place, count, long, made }))
    }
}
