//! `IPFilter` and `IPClassifier`: packets by expressions about their headers.

use std::sync::Arc;

use graph::class::{Handlers, Headers, Row, named, number_in, read, rest};
use graph::element::kernel::{Code, Kernel, of_type};
use graph::value::{Scope, unsigned};
use graph::{Action, Class, Conf, ConfFault, Cx, Each, Element, PerPacket, Refused, Setup};
use memory::Packet;
use memory::annotation::Header;
use port::Reason;

use super::expression::{self, Expr};
use super::listing;
use super::parser::{self, Parser, Said};
use super::primitive::{NETWORK, TRANSPORT};
use super::program::{Program, To};
use super::{straight, tree};
use crate::kernels::each;

const DOC: &str = "Expressions are made of conditions like `src host 10.0.0.1`, `dst net 10.0.0.0/8`, `tcp dst port 80`, \
     `port > 1023`, `icmp type echo`, `ip proto udp`, `tcp opt syn`, `ip frag`, `ip tos 0`, `ip ttl < 3`, \
     `ip[8] & 1 = 1`, `transp[0:2] = 53`, `ether src 1:2:3:4:5:6`, joined by `and`, `or`, `not`, `? :` and \
     parentheses; `-`, `any` and `all` hold for every packet. A packet that ends before what a condition \
     looks at does not fulfil it. IP headers must have been found before.";

const PROGRAM: Row<IpFilter> = read("program", "the decision program, as Click lists it", IpFilter::listing);
const PATTERN: Row<IpFilter> =
    named("an output's expression; takes another", IpFilter::pattern_names, IpFilter::pattern).and_argument();

pub static FILTER: Class = Class {
    name: "IPFilter",
    brief: "lets IP packets pass, or sorts them, by rules",
    doc: DOC,
    ports: "1/-",
    processing: "h/h",
    arguments: &[rest("RULE", "`allow`, `deny`, `drop` or an output's number, and an expression")],
    handlers: &Handlers::<IpFilter>(&[PROGRAM]),
    drops: &[Reason::Denied],
    live: true,
    example: "IPFilter(allow tcp and dst port 80, deny all)",
    see: &["IPClassifier", "Classifier"],
    headers: Headers { needs_network: true, ..Class::BASE.headers },
    kernel: Kernel::Inside(each!(IpFilter).coded(code)),
    make: |setup, conf| {
        let rules = conf.rest();
        conf.complete()?;
        make(setup, conf, rules, None)
    },
    ..Class::BASE
};

pub static CLASSIFIER: Class = Class {
    name: "IPClassifier",
    brief: "sorts IP packets by expressions",
    doc: DOC,
    ports: "1/-",
    processing: "h/h",
    arguments: &[rest(
        "EXPRESSION",
        "one for each output; handlers `pattern0`, `pattern1`, … read them and take others",
    )],
    handlers: &Handlers::<IpFilter>(&[PROGRAM, PATTERN]),
    drops: &[Reason::NoExpression],
    live: true,
    example: "c :: IPClassifier(tcp, udp dst port 53, -)",
    see: &["IPFilter", "Classifier"],
    headers: Headers { needs_network: true, ..Class::BASE.headers },
    kernel: Kernel::Inside(each!(IpFilter).coded(code)),
    make: |setup, conf| {
        let patterns = conf.rest();
        conf.complete()?;
        if patterns.len() != setup.outputs {
            return Err(ConfFault::new(format!("need {} arguments, one per output port", setup.outputs)));
        }
        let rules = patterns.iter().enumerate().map(|(n, pattern)| format!("{n} {pattern}")).collect();
        make(setup, conf, rules, Some(patterns))
    },
    ..Class::BASE
};

/// Makes either; one whose outputs have `patterns`, and no other use, warns of those that no packet gets.
fn make(
    setup: &mut Setup<'_>,
    conf: &Conf<'_>,
    rules: Vec<String>,
    patterns: Option<Vec<String>>,
) -> Result<Box<dyn Element>, ConfFault> {
    let outputs = setup.outputs;
    let (mut laid, mut wrong) = (vec![], vec![]);
    for (n, text) in rules.iter().enumerate() {
        let text = String::from_utf8_lossy(&graph::lang::args::unquote(text)).into_owned();
        let Some((rule, said)) = rule(&text, outputs, conf.scope()) else {
            wrong.push((format!("empty pattern {n}"), vec![]));
            continue;
        };
        said.warnings.into_iter().for_each(|warning| setup.warn(format!("pattern {n}: {warning}")));
        let mut errors = said.errors.into_iter().map(|error| format!("pattern {n}: {error}"));
        laid.push(rule);
        wrong.extend(errors.next().map(|first| (first, errors.collect())));
    }
    if !wrong.is_empty() {
        // What comes after the first error of a rule mostly comes of it.
        let first: Vec<&str> = wrong.iter().map(|(first, _)| first.as_str()).collect();
        let all = wrong.iter().flat_map(|(first, rest)| [first].into_iter().chain(rest));
        let all: Vec<&str> = all.map(String::as_str).collect();
        return Err(ConfFault { compat: Some(all.join("\n")), ..ConfFault::new(first.join("\n")) });
    }
    let program = tree::program(&laid, || expression::program(&laid));
    let reached = if patterns.is_some() { program.outputs() } else { (0..outputs as u32).collect() };
    for output in (0..outputs as u32).filter(|output| !reached.contains(output)) {
        setup.warn(format!("output {output} matches no packets"));
    }
    let link = program.offsets().any(|offset| offset < NETWORK);
    let patterns = patterns.unwrap_or_default().into();
    Ok(Each::boxed(IpFilter { program, link, rules: laid.into(), patterns }))
}

/// Reads a rule, and what is said of it; nothing of an empty one.
fn rule(text: &str, outputs: usize, scope: &Scope<'_>) -> Option<((Expr, To), Said)> {
    let words = parser::words(text);
    let (slot, words) = words.split_first()?;
    let to = match *slot {
        "allow" if outputs == 0 => Err("'allow' is meaningless, element has zero outputs".to_owned()),
        "allow" => Ok(To::Out(0)),
        "deny" | "drop" => Ok(To::Drop),
        word => {
            let (sign, number) = word.strip_prefix('-').map_or(("", word), |number| ("-", number));
            match unsigned(number) {
                Some(output) if output < outputs as u64 && (sign.is_empty() || output == 0) => {
                    Ok(To::Out(output as u32))
                }
                Some(output) => Err(format!("slot '{sign}{output}' out of range")),
                None => Err(format!("unknown slot ID '{word}'")),
            }
        }
    };
    let (expr, mut said) = match words {
        [] | ["-" | "any" | "all"] => (Expr::TRUE, Said::default()),
        _ => Parser::read(words, scope),
    };
    let to = to.unwrap_or_else(|error| {
        said.errors.insert(0, error);
        To::Drop
    });
    Some(((expr, to), said))
}

/// See [`FILTER`] and [`CLASSIFIER`].
#[derive(Debug, Clone)]
pub struct IpFilter {
    program: Program,
    /// The link layer's header is looked at.
    link: bool,
    /// What the program was made of.
    rules: Arc<[(Expr, To)]>,
    /// What stands for the outputs in an IPClassifier's configuration.
    patterns: Arc<[String]>,
}

impl IpFilter {
    pub(crate) fn program(&self) -> &Program {
        &self.program
    }

    /// What becomes of a packet when a tree decides.
    #[cold]
    #[inline(never)]
    fn in_tree(&self, packet: &Packet) -> Action {
        let part = |header| packet.header(header).unwrap_or(&[]);
        let (network, transport) = (part(Header::Network), part(Header::Transport));
        let (words, there) = if self.link { link(packet) } else { ([0; 16], 0) };
        let to = self.program.in_tree(|offset| place(offset, network, transport, (&words, there)));
        to.output().map_or(Action::drop(0), |output| Action::out(output as usize))
    }

    fn pattern_names(&self) -> Vec<String> {
        (0..self.patterns.len()).map(|output| format!("pattern{output}")).collect()
    }

    fn pattern(&mut self, _: &mut Cx<'_>, handler: &str, _: &str) -> Result<String, Refused> {
        let pattern = number_in(handler).and_then(|output| self.patterns.get(output));
        pattern.cloned().ok_or_else(|| Refused::NoHandler(handler.into()))
    }

    fn listing(&self) -> String {
        listing::list(&self.rules).unwrap_or_else(|| match self.program.is_tree() {
            true => expression::program(&self.rules).unparse(),
            false => self.program.unparse(),
        })
    }
}

impl PerPacket for IpFilter {
    #[inline]
    fn packet(&mut self, _: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        let network = packet.header(Header::Network).unwrap_or(&[]);
        let transport = packet.header(Header::Transport).unwrap_or(&[]);
        let (words, there) = if self.link { link(packet) } else { ([0; 16], 0) };
        let to = self.program.classify_at(|offset| place(offset, network, transport, (&words, there)));
        match to {
            To::Out(output) => Action::out(output as usize),
            To::Drop => Action::drop(0),
            To::Step(_) => self.in_tree(packet),
        }
    }

    fn replicate(&self) -> Option<IpFilter> {
        Some(self.clone())
    }
}

/// What is there from an offset on, of the parts of a packet; the link layer's as [`link`] has it.
#[inline(always)]
fn place<'p>(
    offset: u16,
    network: &'p [u8],
    transport: &'p [u8],
    (words, there): (&'p [u8; 16], usize),
) -> &'p [u8] {
    match offset {
        TRANSPORT.. => transport.get(usize::from(offset - TRANSPORT)..).unwrap_or(&[]),
        NETWORK.. => network.get(usize::from(offset - NETWORK)..).unwrap_or(&[]),
        _ => words[..there].get(usize::from(offset)..).unwrap_or(&[]),
    }
}

/// The link layer's header behind two empty bytes, as its words are counted; and
/// how much of it is there.
#[cold]
fn link(packet: &Packet) -> ([u8; 16], usize) {
    let mut words = [0; 16];
    let header = packet.header(Header::Link).unwrap_or(&[]);
    let there = header.len().min(wire::ethernet::HEADER_LEN);
    words[2..2 + there].copy_from_slice(&header[..there]);
    (words, if there == 0 { 0 } else { 2 + there })
}

/// Its code in programs: with its configuration in it, where that is known.
fn code(element: &dyn Element) -> Code {
    of_type(element, |Each(kernel): &Each<IpFilter>| {
        straight::code_in_headers(kernel.program()).map(Code::Action)
    })
}
