//! `IPFragmenter`: packets that are too long for a link are sent in pieces (RFC 791,
//! 2.3 and 3.2).

use graph::class::{Handlers, Headers, keyword, mandatory, positional, read};
use graph::element::kernel::{Code, Inside, Kernel, of_type};
use graph::{Class, Cx, Element, Next, PerThreadCounter};
use memory::annotation::Header;
use memory::{Batch, HEADROOM, Packet};
use wire::ipv4::{self, DONT_FRAGMENT, MORE_FRAGMENTS};
use wire::ipv4_option as option;

use graph::ip_header;
use port::Reason;

pub static CLASS: Class = Class {
    name: "IPFragmenter",
    brief: "sends IP packets that are too long in fragments",
    doc: "IP packets of more than MTU bytes, their header counted, are sent in fragments. Those that must \
          not be fragmented go to output 1, where ICMPError tells their sender, or are dropped. Link \
          headers in front of the IP header stay with the first fragment only: strip them before.",
    ports: "1/1-2",
    processing: "h/h",
    arguments: &[
        mandatory("MTU", "the longest packet, in bytes; at least 8"),
        positional("HONOR_DF", "whether packets may forbid it; true"),
        positional("VERBOSE", "whether every packet that forbids it is told of; false: the first five"),
        keyword("HEADROOM", "free bytes in front of fragments"),
    ],
    handlers: &Handlers::<IpFragmenter>(&[
        read("drops", "packets that must not be fragmented", |fragmenter| fragmenter.drops.sum().to_string()),
        read("fragments", "fragments sent", |fragmenter| fragmenter.fragments.sum().to_string()),
    ]),
    drops: &[Reason::MustNotFragment, Reason::NoIpHeader, Reason::NoBuffers, Reason::LongerThanPossible],
    example: "fr :: IPFragmenter(1500); fr[1] -> ICMPError(10.0.0.1, unreachable, needfrag) -> rt;",
    see: &["IPReassembler", "ICMPError", "CheckIPHeader"],
    costs: "copies packets that are too long",
    headers: Headers { needs_network: true, ..Class::BASE.headers },
    kernel: Kernel::Inside(Inside::aside::<IpFragmenter>(code).through(|output, _| output == 0)),
    make: |_, conf| {
        let mtu = conf.mandatory("MTU")?;
        let honor_df = conf.positional("HONOR_DF")?.unwrap_or(true);
        let verbose = conf.positional("VERBOSE")?.unwrap_or(false);
        let headroom = conf.keyword("HEADROOM")?.unwrap_or(HEADROOM);
        conf.complete()?;
        if mtu < 8 {
            return Err("MTU must be at least 8".into());
        }
        if headroom > HEADROOM {
            return Err(format!("HEADROOM: packets have room for {HEADROOM} bytes").into());
        }
        let (drops, fragments) = (PerThreadCounter::default(), PerThreadCounter::default());
        Ok(Box::new(IpFragmenter { mtu, honor_df, verbose, headroom, drops, fragments }))
    },
    ..Class::BASE
};

/// An `IPFragmenter` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct IpFragmenter {
    mtu: usize,
    honor_df: bool,
    verbose: bool,
    headroom: usize,
    drops: PerThreadCounter,
    fragments: PerThreadCounter,
}

/// Bytes from the network header to the end of a packet, if it has one.
#[inline(always)]
fn network_len(packet: &Packet) -> Option<usize> {
    let first = packet.header(Header::Network)?.len();
    Some(if packet.next().is_none() { first } else { first + packet.total_len() - packet.len() })
}

/// The header of all fragments but the first: only options that are to be copied.
fn later_header(header: &[u8]) -> Vec<u8> {
    let mut later = header[..ip_header::LEN].to_vec();
    let mut options = &header[ip_header::LEN..];
    while let Some(&kind) = options.first() {
        let length = match kind {
            option::END => break,
            option::NO_OPERATION => 1,
            _ => options.get(1).copied().map_or(0, usize::from),
        };
        if length == 0 || length > options.len() || kind > option::NO_OPERATION && length < 2 {
            break;
        }
        if kind & option::COPIED != 0 {
            later.extend_from_slice(&options[..length]);
        }
        options = &options[length..];
    }
    later.resize(later.len().next_multiple_of(4), 0);
    let length = later.len();
    if let Some(mut ip) = ipv4::Header::of_mut(&mut later) {
        ip.set_header_len(length);
    }
    later
}

/// Whether a packet has a network header and is short enough to go on as it is.
#[inline(always)]
pub(crate) fn fits(packet: &Packet, mtu: usize) -> bool {
    network_len(packet).is_some_and(|len| len <= mtu)
}

impl IpFragmenter {
    /// The longest packet, in bytes.
    pub(crate) fn mtu(&self) -> usize {
        self.mtu
    }

    fn must_not(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        if self.verbose || self.drops.own() < 5 {
            let bytes = packet.header(Header::Network).unwrap_or_default();
            let (src, dst) = ip_header::ends(bytes);
            let len = packet.total_len();
            cx.say(&format!("IPFragmenter({}) DF {src} {dst} len={len}\n", self.mtu));
        }
        self.drops.add(1);
        if cx.is_push_output(1) { cx.emit(1, packet) } else { cx.drop(0, packet) }
    }

    /// Sends a packet in fragments.
    #[cold]
    fn fragment(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        let Some((header, _)) = ip_header::split(&packet) else { return cx.drop(1, packet) };
        let Some(ip) = ipv4::Header::of(header) else { return cx.drop(1, packet) };
        let (header_len, flags, total) = (header.len(), ip.fragment_word(), ip.total_len());
        // A fragment itself, whose pieces' offsets would not fit their field.
        if usize::from(ip.fragment_offset()) + total.saturating_sub(header_len) > usize::from(u16::MAX) {
            return cx.drop(3, packet);
        }
        let mtu = self.mtu;
        let first_len = mtu.saturating_sub(header_len) & !7;
        if flags & DONT_FRAGMENT != 0 && self.honor_df || first_len < 8 {
            return self.must_not(cx, packet);
        }
        let skipped = packet.header_offset(Header::Network).unwrap_or(0).max(0) as usize;
        let mut whole = packet.header(Header::Network).unwrap_or_default().to_vec();
        packet.segments().skip(1).for_each(|segment| whole.extend_from_slice(segment));
        if total > whole.len() || total < header_len {
            return cx.drop(1, packet);
        }
        whole.truncate(total);
        if flags & DONT_FRAGMENT != 0
            && let Some(mut ip) = ipv4::Header::of_mut(&mut whole)
        {
            // A sender that forbids it need not number its packets (RFC 6864, 4.1).
            ip.set_identification(graph::random::next() as u16);
        }
        let flags = flags & !DONT_FRAGMENT;
        let (header, payload) = whole.split_at(header_len);
        let later = later_header(header);
        let mut at = 0;
        while at < payload.len() {
            let header = if at == 0 { header } else { &later };
            let len = if at == 0 { first_len } else { (mtu - later.len()) & !7 };
            let piece = &payload[at..payload.len().min(at + len)];
            let last = at + piece.len() == payload.len() && flags & MORE_FRAGMENTS == 0;
            let more = if last { 0 } else { MORE_FRAGMENTS };
            let place = (flags & !(DONT_FRAGMENT | MORE_FRAGMENTS)).wrapping_add(at as u16 / 8) | more;
            let link = if at == 0 { &packet[..skipped.min(packet.len())] } else { &[] };
            self.send(cx, &packet, [link, header, piece], place);
            at += piece.len();
        }
        cx.free(packet);
    }

    fn send(&mut self, cx: &mut Cx<'_>, whole: &Packet, [link, header, piece]: [&[u8]; 3], place: u16) {
        let headroom = if link.is_empty() { self.headroom } else { whole.headroom() };
        let fragment = cx.packet_like(whole, headroom, &[link, header, piece]);
        let Some(mut fragment) = fragment else { return cx.count_drops(2, 1) };
        let header_bytes = fragment.get_mut(link.len()..link.len() + header.len()).unwrap_or_default();
        if let Some(mut fixed) = ipv4::Header::of_mut(header_bytes) {
            fixed.set_total_len((header.len() + piece.len()) as u16);
            fixed.set_fragment_word(place);
        }
        ipv4::fill_checksum(header_bytes);
        ip_header::mark(&mut fragment, link.len(), header.len());
        self.fragments.add(1);
        cx.emit(0, fragment);
    }
}

impl Element for IpFragmenter {
    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        if batch.iter().all(|packet| fits(packet, self.mtu)) {
            return Next::Push(0);
        }
        for packet in batch.drain() {
            match network_len(&packet) {
                Some(len) if len <= self.mtu => cx.emit(0, packet),
                Some(_) => self.fragment(cx, packet),
                None => cx.drop(1, packet),
            }
        }
        Next::Done
    }

    fn replicate(&self) -> Option<Box<dyn Element>> {
        let (drops, fragments) = (self.drops.for_another(), self.fragments.for_another());
        let &IpFragmenter { mtu, honor_df, verbose, headroom, .. } = self;
        Some(Box::new(IpFragmenter { mtu, honor_df, verbose, headroom, drops, fragments }))
    }
}

/// Its code in programs: with its configuration in it, where that is known.
fn code(element: &dyn Element) -> Code {
    of_type(element, |kernel: &IpFragmenter| {
        Some(Code::Aside(format!("kernels::fits(packet, {}).then_some(Action::ON)", kernel.mtu())))
    })
}
