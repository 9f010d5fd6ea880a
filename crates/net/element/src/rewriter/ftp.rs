//! `FTPPortMapper`: FTP's PORT commands through rewriters (RFC 959, 4.1.2).

use std::net::Ipv4Addr;
use std::sync::Arc;

use graph::class::{Headers, mandatory};
use graph::{Action, Class, Cx, Each, Named, PerPacket};
use memory::Packet;
use memory::annotation::Header;
use wire::ip::Protocol;
use wire::{ipv4, tcp};

use super::classes::is_rewriter;
use super::flow::Tracking;
use super::flow_id::FlowId;
use super::flows::Ask;
use super::kind::{TCP, addresses};
use super::mapper::all;
use super::rewriter::{Core, now_ms};
use super::sequence::Shift;
use crate::tcpudp::checksum;
use crate::wanted::Wanted;
use graph::ip_header;

pub static CLASS: Class = Class {
    name: "FTPPortMapper",
    brief: "lets FTP's data connections through a rewriter",
    doc: "Takes FTP control packets on their way to CONTROL_REWRITER. A PORT command at the start of a \
          packet, and whole, makes a flow in DATA_REWRITER as if a packet from that port, to the server's \
          port 20 (one below its control port), had come at DATA_REWRITER_INPUT; the command then names the \
          port that became of it. Its length may change by that, so CONTROL_REWRITER shifts the \
          connection's sequence numbers. Other packets pass unchanged.",
    arguments: &[
        mandatory("CONTROL_REWRITER", "a TCPRewriter or IPRewriter that these packets go through next"),
        mandatory("DATA_REWRITER", "the rewriter of the data connections"),
        mandatory("DATA_REWRITER_INPUT", "the input whose specification makes their flows"),
    ],
    example: "c :: IPClassifier(dst tcp port 21, -) -> FTPPortMapper(rw, rw, 0) -> [0]rw; c[1] -> [0]rw;",
    see: &["TCPRewriter", "IPRewriter"],
    headers: Headers { needs_network: true, ..Class::BASE.headers },
    live: true,
    make: |setup, conf| {
        let names = [conf.mandatory("CONTROL_REWRITER")?, conf.mandatory("DATA_REWRITER")?];
        let input: i32 = conf.mandatory("DATA_REWRITER_INPUT")?;
        conf.complete()?;
        let [control, data]: &[String; 2] = &names;
        let is_tcp = |class: &Class| ["IPRewriter", "TCPRewriter"].contains(&class.name);
        let control = CONTROL.check(setup, control, is_tcp);
        let inputs = all([control, DATA.check(setup, data, is_rewriter)].into_iter())?;
        if usize::try_from(input).map_or(true, |input: usize| input >= inputs[1]) {
            return Err("DATA_REWRITER_INPUT out of range".into());
        }
        Ok(Each::boxed(FtpPortMapper { names, input, cores: None }))
    },
    ..Class::BASE
};

const CONTROL: Wanted = Wanted { key: "CONTROL_REWRITER", class: "TCPRewriter" };
const DATA: Wanted = Wanted { key: "DATA_REWRITER", class: "IPRewriterBase" };

/// An `FTPPortMapper` element; [`CLASS`] says what it does.
#[derive(Debug, Clone)]
pub struct FtpPortMapper {
    names: [String; 2],
    input: i32,
    cores: Option<[Arc<Core>; 2]>,
}

/// A PORT command in a TCP segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Command {
    /// Where its argument begins and ends, from the start of the data.
    begin: usize,
    end: usize,
    address: u32,
    port: u16,
}

/// How a command begins.
const PORT: &[u8] = b"PORT ";

fn command(data: &[u8]) -> Option<Command> {
    let word = data.get(..PORT.len())?;
    if !word.eq_ignore_ascii_case(PORT) {
        return None;
    }
    let begin = PORT.len() + data[PORT.len()..].iter().position(|b| *b != b' ')?;
    let length = data[begin..].iter().position(|b| !b.is_ascii_digit() && *b != b',')?;
    let end = begin + length;
    if !matches!(data[end], b'\r' | b'\n') || length > 64 {
        return None;
    }
    let text = std::str::from_utf8(&data[begin..end]).ok()?;
    let number = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse().ok() };
    let numbers: Vec<u8> = text.split(',').map(number).collect::<Option<_>>()?;
    let [a, b, c, d, high, low] = numbers[..] else { return None };
    let address = u32::from_be_bytes([a, b, c, d]);
    Some(Command { begin, end, address, port: u16::from_be_bytes([high, low]) })
}

/// Replaces the argument of a command `at` bytes behind the start of the IP header.
fn replace(packet: &mut Packet, data_at: usize, found: Command, argument: &[u8]) -> Option<()> {
    let start = usize::try_from(packet.header_offset(Header::Network)?).ok()?;
    let (begin, end) = (start + data_at + found.begin, start + data_at + found.end);
    let (old, length) = (packet.len(), packet.len() - (end - begin) + argument.len());
    let total = u16::try_from(length - start).ok()?;
    if length > old {
        packet.set_len(length).ok()?;
    }
    packet.copy_within(end..old, begin + argument.len());
    packet[begin..begin + argument.len()].copy_from_slice(argument);
    packet.set_len(length).ok()?;
    let mut parts = ip_header::parts(packet)?;
    ipv4::Header::of_mut(parts.header)?.update_total_len(total);
    let length = parts.payload.len();
    checksum::fill_tcp(&mut parts, length)
}

impl FtpPortMapper {
    fn map(&self, packet: &mut Packet, now: i64) -> Option<()> {
        let [control, data] = self.cores.as_ref()?;
        let (ip, segment) = ip_header::split(packet)?;
        let tcp = tcp::Header::of(segment)?;
        let is_tcp = ip_header::protocol(ip) == Protocol::TCP;
        if !is_tcp || !ip_header::is_first_fragment(ip) || packet.next().is_some() {
            return None;
        }
        let offset = tcp.header_len();
        let bytes = segment.get(offset..).filter(|_| offset >= tcp::HEADER_LEN)?;
        let (data_at, found) = (ip.len() + offset, command(bytes)?);
        let ((src, dst), src_port, dst_port) = (addresses(ip), tcp.src_port(), tcp.dst_port());
        let behind = tcp.sequence().wrapping_add(bytes.len() as u32);
        let connection = FlowId { src, src_port, dst, dst_port };
        let kept = control.ask(TCP, connection, Ask::Known, now, |flow, _, _| flow.annotation)?;
        let from_port =
            FlowId { src: found.address, src_port: found.port, dst, dst_port: dst_port.wrapping_sub(1) };
        let new = data.ask(TCP, from_port, Ask::At(self.input as usize), now, |flow, _, entry| {
            flow.annotation = kept;
            flow.rewritten(entry.back)
        })?;
        let [a, b, c, d] = Ipv4Addr::from_bits(new.src).octets();
        let argument = format!("{a},{b},{c},{d},{},{}", new.src_port >> 8, new.src_port & 0xFF);
        let grows = argument.len() as i32 - (found.end - found.begin) as i32;
        replace(packet, data_at, found, argument.as_bytes())?;
        control.ask(TCP, connection, Ask::Known, now, |flow, rare, entry| {
            if flow.tracking == Tracking::Tcp {
                flow.is_shifted = true;
                let shifts =
                    rare.shifts.get_or_insert_with(|| Box::new([Shift::default(), Shift::default()]));
                shifts[usize::from(entry.back)].add(behind, grows);
            }
        })
    }
}

impl FtpPortMapper {
    /// The rewriters that are named: of control connections, and of data.
    fn find_cores(&self, named: &Named<'_>) -> Result<[Arc<Core>; 2], String> {
        let [control, data] = &self.names;
        let control = named.shared::<Core>(control).filter(|core| core.kind.is_tcp());
        let control = control.ok_or_else(|| CONTROL.mismatch())?;
        let data = named.shared::<Core>(data).ok_or_else(|| DATA.mismatch())?;
        Ok([control, data])
    }
}

impl PerPacket for FtpPortMapper {
    fn check_names(&self, named: &Named<'_>) -> Result<(), String> {
        self.find_cores(named).map(drop)
    }

    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.cores = Some(self.find_cores(&cx.named())?);
        Ok(())
    }

    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        // Whatever is no command, or cannot be one, passes as it is.
        let _ = self.map(packet, now_ms(cx));
        Action::ON
    }

    fn replicate(&self) -> Option<FtpPortMapper> {
        Some(self.clone())
    }
}
