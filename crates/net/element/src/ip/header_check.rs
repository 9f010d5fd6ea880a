//! What elements that check headers have in common: a reason for each bad packet,
//! counted and told of.

use graph::class::{Argument, Handlers, Headers, keyword, read};
use graph::{Action, Class, Conf, ConfFault, Cx, Each, Element, PerPacket, PerThreadCounter};
use memory::Packet;
use port::Reason;

pub(crate) const ARGUMENTS: &[Argument] = &[
    keyword("VERBOSE", "whether every bad packet is told of; false: only the first"),
    keyword("DETAILS", "whether there is a `drop_details` handler; false"),
    keyword("CHECKSUM", "whether the checksum is looked at; true"),
];
const HANDLERS: Handlers<HeaderCheck> = Handlers(&[
    read("drops", "bad packets", |check| check.drops.sum().to_string()),
    read("count", "good packets", |check| check.good.sum().to_string()),
    read("drop_details", "bad packets for each reason", |check: &HeaderCheck| {
        let lines = check.details.iter().flatten().zip(check.reasons);
        lines.map(|(counter, reason)| format!("{}\t{reason}\n", counter.sum())).collect()
    })
    .only_if(|check| check.details.is_some()),
]);

/// What classes of such elements have in common.
pub(crate) const CLASS: Class = Class {
    ports: "1/1-2",
    processing: "a/ah",
    arguments: ARGUMENTS,
    handlers: &HANDLERS,
    headers: Headers { needs_network: true, ..Class::BASE.headers },
    ..Class::BASE
};

/// Makes an element that drops packets for which `check` finds a reason, by its place
/// in `reasons`.
pub(crate) fn make(
    conf: &mut Conf<'_>,
    what: &'static str,
    reasons: &'static [Reason],
    check: fn(&Packet) -> Option<usize>,
) -> Result<Box<dyn Element>, ConfFault> {
    let verbose = conf.keyword("VERBOSE")?.unwrap_or(false);
    let details = conf.keyword("DETAILS")?.unwrap_or(false);
    let sums = conf.keyword("CHECKSUM")?.unwrap_or(true);
    conf.complete()?;
    let details = details.then(|| reasons.iter().map(|_| PerThreadCounter::default()).collect());
    let (drops, good) = (PerThreadCounter::default(), PerThreadCounter::default());
    Ok(Each::boxed(HeaderCheck { what, reasons, check, verbose, sums, drops, good, details }))
}

/// The place of a bad checksum among the reasons.
pub(crate) const BAD_CHECKSUM: usize = 2;

/// An element that checks a header.
pub(crate) struct HeaderCheck {
    what: &'static str,
    reasons: &'static [Reason],
    check: fn(&Packet) -> Option<usize>,
    verbose: bool,
    /// Whether checksums matter.
    sums: bool,
    drops: PerThreadCounter,
    good: PerThreadCounter,
    details: Option<Vec<PerThreadCounter>>,
}

impl HeaderCheck {
    #[cold]
    fn bad(&mut self, cx: &mut Cx<'_>, reason: usize) -> Action {
        if self.drops.own() == 0 || self.verbose {
            // Click's CheckUDPHeader does not say who it is.
            let me = if self.what == "UDP" {
                String::new()
            } else {
                format!("{} :: Check{}Header: ", cx.name(), self.what)
            };
            cx.say(&format!("{me}{} header check failed: {}\n", self.what, self.reasons[reason]));
        }
        self.drops.add(1);
        if let Some(details) = &mut self.details {
            details[reason].add(1);
        }
        Action::out_or_drop(1, reason)
    }
}

impl PerPacket for HeaderCheck {
    #[inline]
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        match (self.check)(packet).filter(|reason| self.sums || *reason != BAD_CHECKSUM) {
            None => {
                self.good.add(1);
                Action::ON
            }
            Some(reason) => self.bad(cx, reason),
        }
    }

    fn replicate(&self) -> Option<HeaderCheck> {
        Some(HeaderCheck {
            what: self.what,
            reasons: self.reasons,
            check: self.check,
            verbose: self.verbose,
            sums: self.sums,
            drops: self.drops.for_another(),
            good: self.good.for_another(),
            details: self.details.as_ref().map(|all| all.iter().map(PerThreadCounter::for_another).collect()),
        })
    }
}
