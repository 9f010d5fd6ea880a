//! Counters of the port and of the function's VSI (datasheet chapter 7): they have 32 or 48 bits
//! and do not clear, so that what they were when the device was opened is subtracted. Packets
//! are the VSI's, for other functions may share the port. Losses are marked, so that the accounts
//! can be balanced.

use bus::Bar;
use port::{Counter, Reason};
use regs::Register;
use regs::i40e::*;
use regs::virtchnl::message::Counters;

/// A counter: name, registers, loss, meaning.
struct Source {
    name: &'static str,
    low: Register,
    /// The upper 16 of 48 bits.
    high: Option<Register>,
    loss: Option<Reason>,
    what: &'static str,
}

macro_rules! sources {
    ($list:ident: $($name:ident $low:ident $($high:ident)?, $($loss:ident)?, $what:literal;)*) => {
        const $list: &[Source] = &[$(Source {
            name: stringify!($name),
            low: $low::REGISTER,
            high: sources!(@high $($high)?),
            loss: sources!(@loss $($loss)?),
            what: $what,
        }),*];
    };
    (@high) => { None };
    (@high $high:ident) => { Some($high::REGISTER) };
    (@loss) => { None };
    (@loss $loss:ident) => { Some(Reason::$loss) };
}

sources! {
    OF_PORT:
    GORC GLPRT_GORCL GLPRT_GORCH, , "bytes of good frames received";
    UPRC GLPRT_UPRCL GLPRT_UPRCH, , "unicast frames received";
    MPRC GLPRT_MPRCL GLPRT_MPRCH, , "multicast frames received";
    BPRC GLPRT_BPRCL GLPRT_BPRCH, , "broadcast frames received";
    GOTC GLPRT_GOTCL GLPRT_GOTCH, , "bytes of good frames sent";
    UPTC GLPRT_UPTCL GLPRT_UPTCH, , "unicast frames sent";
    MPTC GLPRT_MPTCL GLPRT_MPTCH, , "multicast frames sent";
    BPTC GLPRT_BPTCL GLPRT_BPTCH, , "broadcast frames sent";
    PRC64 GLPRT_PRC64L GLPRT_PRC64H, , "frames received of 64 bytes";
    PRC127 GLPRT_PRC127L GLPRT_PRC127H, , "frames received of 65 to 127 bytes";
    PRC255 GLPRT_PRC255L GLPRT_PRC255H, , "frames received of 128 to 255 bytes";
    PRC511 GLPRT_PRC511L GLPRT_PRC511H, , "frames received of 256 to 511 bytes";
    PRC1023 GLPRT_PRC1023L GLPRT_PRC1023H, , "frames received of 512 to 1023 bytes";
    PRC1522 GLPRT_PRC1522L GLPRT_PRC1522H, , "frames received of 1024 to 1522 bytes";
    PRC9522 GLPRT_PRC9522L GLPRT_PRC9522H, , "frames received of 1523 bytes and more";
    PTC64 GLPRT_PTC64L GLPRT_PTC64H, , "frames sent of 64 bytes";
    PTC127 GLPRT_PTC127L GLPRT_PTC127H, , "frames sent of 65 to 127 bytes";
    PTC255 GLPRT_PTC255L GLPRT_PTC255H, , "frames sent of 128 to 255 bytes";
    PTC511 GLPRT_PTC511L GLPRT_PTC511H, , "frames sent of 256 to 511 bytes";
    PTC1023 GLPRT_PTC1023L GLPRT_PTC1023H, , "frames sent of 512 to 1023 bytes";
    PTC1522 GLPRT_PTC1522L GLPRT_PTC1522H, , "frames sent of 1024 to 1522 bytes";
    PTC9522 GLPRT_PTC9522L GLPRT_PTC9522H, , "frames sent of 1523 bytes and more";
    CRCERRS GLPRT_CRCERRS, RxCrc, "frames with a wrong CRC";
    ILLERRC GLPRT_ILLERRC, RxSymbol, "frames with an illegal byte";
    RLEC GLPRT_RLEC, RxLengthField, "frames whose length field is wrong";
    RUC GLPRT_RUC, RxUndersize, "frames too short";
    RFC GLPRT_RFC, RxFragment, "fragments";
    ROC GLPRT_ROC, RxOversize, "frames too long";
    RJC GLPRT_RJC, RxJabber, "jabber";
    MLFC GLPRT_MLFC, , "local faults of the MAC";
    MRFC GLPRT_MRFC, , "remote faults of the MAC";
    LXONRXC GLPRT_LXONRXC, , "XON frames received";
    LXOFFRXC GLPRT_LXOFFRXC, , "XOFF frames received";
    LXONTXC GLPRT_LXONTXC, , "XON frames sent";
    LXOFFTXC GLPRT_LXOFFTXC, , "XOFF frames sent";
    TDOLD GLPRT_TDOLD, TxLinkDown, "packets not sent because the link was down";
}

sources! {
    OF_VSI:
    VUPRC GLV_UPRCL GLV_UPRCH, , "unicast frames that came for the function";
    VMPRC GLV_MPRCL GLV_MPRCH, , "multicast frames that came for the function";
    VBPRC GLV_BPRCL GLV_BPRCH, , "broadcast frames that came for the function";
    VUPTC GLV_UPTCL GLV_UPTCH, , "unicast frames that the function sent";
    VMPTC GLV_MPTCL GLV_MPTCH, , "multicast frames that the function sent";
    VBPTC GLV_BPTCL GLV_BPTCH, , "broadcast frames that the function sent";
    RDPC GLV_RDPC, RxNoDescriptor, "frames dropped because a queue had no descriptor";
}

sources! {
    OF_FUNCTION:
    RXERR1 GL_RXERR1L GL_RXERR1H, RxOversize, "frames longer than their queue takes";
}

sources! {
    OF_LED:
    FDLED GLQF_PCNT, , "frames that a filter for their flow led to a queue";
}

sources! {
    OF_DROPPED:
    FDDROP GLQF_PCNT, RxFlowFilter, "frames that a filter for their flow dropped";
}

sources! {
    OF_VF:
    GORC GLV_GORCL GLV_GORCH, , "bytes received";
    UPRC GLV_UPRCL GLV_UPRCH, , "unicast frames received";
    MPRC GLV_MPRCL GLV_MPRCH, , "multicast frames received";
    BPRC GLV_BPRCL GLV_BPRCH, , "broadcast frames received";
    RDPC GLV_RDPC, , "frames dropped because a queue had no descriptor";
    RUPP GLV_RUPP, , "frames of an unknown protocol";
    GOTC GLV_GOTCL GLV_GOTCH, , "bytes sent";
    UPTC GLV_UPTCL GLV_UPTCH, , "unicast frames sent";
    MPTC GLV_MPTCL GLV_MPTCH, , "multicast frames sent";
    BPTC GLV_BPTCL GLV_BPTCH, , "broadcast frames sent";
    TEPC GLV_TEPC, , "frames that the virtual function may not send";
}

/// Packets of either direction: name, what is added up, what is taken off, meaning.
const SUMS: [(&str, [&str; 3], &[&str], &str); 2] = [
    ("PRC", ["VUPRC", "VMPRC", "VBPRC"], &["RDPC", "FDDROP", "RXERR1"], "frames that the function received"),
    ("PTC", ["VUPTC", "VMPTC", "VBPTC"], &[], "frames that the function sent"),
];

/// Counters of filters for flows that a function has: what is led to a queue, what is dropped.
const FLOW_COUNTERS: usize = 2;
/// The first of them. Any function may count with any; drivers of other functions, Linux's and
/// DPDK's, take three or two for each from 0 on.
const FIRST_FLOW_COUNTER: usize = 256;

impl Source {
    fn read(&self, bar: &Bar, n: usize) -> u64 {
        let Some(high) = self.high else { return bar.read32(self.low.at(n)).into() };
        // The upper half may take a carry between two reads: then it is read again, once, for
        // it does not do so twice.
        let upper = bar.read32(high.at(n));
        let lower = bar.read32(self.low.at(n));
        let again = bar.read32(high.at(n));
        let lower = if again == upper { lower } else { bar.read32(self.low.at(n)) };
        u64::from(again & 0xFFFF) << 32 | u64::from(lower)
    }

    /// How much was counted since it was `before`; it has wrapped once at most.
    fn since(&self, before: u64, now: u64) -> u64 {
        let bits = if self.high.is_some() { 48 } else { 32 };
        now.wrapping_sub(before) & (u64::MAX >> (64 - bits))
    }
}

/// Where counters of functions begin with those of physical ones: virtual ones stand before.
const PHYSICAL: usize = 128;

/// Where a function's counters are: its port, the VSI's own, the function's, and the first of
/// filters for flows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Places {
    pub port: usize,
    pub vsi: usize,
    pub function: usize,
    pub flows: usize,
}

impl Places {
    /// The counters of a function.
    pub fn new(port: usize, vsi: usize, function: usize) -> Places {
        let flows = (FIRST_FLOW_COUNTER + function * FLOW_COUNTERS) % GLQF_PCNT::COUNT;
        let function = (PHYSICAL + function).min(GL_RXERR1L::COUNT - 1);
        Places { port, vsi: vsi.min(GLV_RDPC::COUNT - 1), function, flows }
    }
}

/// What was counted since the device was opened. Registers are read now and then, and what came
/// since the last time is added, so that one of 32 bits may wrap between one time and the next.
#[derive(Debug, Default)]
pub(super) struct Totals {
    /// The registers as they were the last time.
    last: Vec<u64>,
    sums: Vec<u64>,
    /// The largest that was told of each of [`SUMS`]: a packet may be counted as dropped between
    /// the reads of its parts.
    told: [u64; SUMS.len()],
}

impl Totals {
    /// Counts from now on.
    pub fn new(bar: &Bar, places: Places) -> Totals {
        let last = registers(bar, places);
        Totals { sums: vec![0; last.len()], last, told: Default::default() }
    }

    /// Adds what was counted since the last time. Nothing, if the device turns out to be gone
    /// (`is_there`): all ones are not counts.
    pub fn update(&mut self, bar: &Bar, places: Places, is_there: impl Fn() -> bool) {
        let now = registers(bar, places);
        if is_there() {
            self.add(now);
        }
    }

    fn add(&mut self, now: Vec<u64>) {
        add(sources(), &mut self.sums, &mut self.last, now);
    }

    /// The names of all counters.
    pub fn names() -> impl Iterator<Item = &'static str> {
        sources().map(|source| source.name).chain(SUMS.iter().map(|(name, ..)| *name))
    }

    /// Every counter, and the sums of some.
    pub fn counters(&mut self) -> Vec<Counter> {
        let counter =
            |(s, &value): (&Source, &u64)| Counter { name: s.name, value, loss: s.loss, what: s.what };
        let mut counters: Vec<Counter> = sources().zip(&self.sums).map(counter).collect();
        for ((name, parts, less, what), told) in SUMS.into_iter().zip(&mut self.told) {
            let of = |wanted: &[&str]| -> u64 {
                let part = |counter: &&Counter| wanted.contains(&counter.name);
                counters.iter().filter(part).map(|counter| counter.value).sum()
            };
            // What had no descriptor, or was dropped by a filter, came for the function, too.
            *told = of(&parts).saturating_sub(of(less)).max(*told);
            counters.push(Counter { name, value: *told, loss: None, what });
        }
        counters
    }
}

/// What was counted of a virtual function's VSI since it was made.
#[derive(Debug, Clone, Default)]
pub(super) struct OfVf {
    /// Where the VSI's registers are, and those of the virtual function.
    vsi: usize,
    function: usize,
    last: Vec<u64>,
    sums: Vec<u64>,
}

impl OfVf {
    /// Counts from now on, for the virtual function of this number on the card.
    pub fn new(bar: &Bar, vsi: usize, function: usize) -> OfVf {
        let mut of = OfVf { vsi, function: function.min(PHYSICAL - 1), ..OfVf::default() };
        of.last = of.read(bar);
        of.sums = vec![0; of.last.len()];
        of
    }

    fn read(&self, bar: &Bar) -> Vec<u64> {
        let of_function = OF_FUNCTION.iter().map(|source| source.read(bar, self.function));
        OF_VF.iter().map(|source| source.read(bar, self.vsi)).chain(of_function).collect()
    }

    fn sources() -> impl Iterator<Item = &'static Source> {
        OF_VF.iter().chain(OF_FUNCTION)
    }

    /// Adds what was counted since the last time; all of it, as its driver is told. Nothing is added
    /// if the device turns out to be gone (`is_there`). The device has no counter of its own for
    /// packets that were not sent (TDPC), and virtchnl no word for frames that were too long: they
    /// count with those that had no descriptor, as Linux's driver tells it.
    pub fn update(&mut self, bar: &Bar, is_there: impl Fn() -> bool) -> Counters {
        let now = self.read(bar);
        if is_there() {
            add(OfVf::sources(), &mut self.sums, &mut self.last, now);
        }
        let of = |name| OfVf::sources().position(|source| source.name == name).map_or(0, |at| self.sums[at]);
        let told = |name| if name == "RDPC" { of(name) + of("RXERR1") } else { of(name) };
        Counters(Counters::NAMES.map(told))
    }
}

/// Adds what registers have counted since they were `last`, each with its width.
fn add<'a>(sources: impl Iterator<Item = &'a Source>, sums: &mut [u64], last: &mut Vec<u64>, now: Vec<u64>) {
    for (((source, sum), last), now) in sources.zip(sums).zip(&*last).zip(&now) {
        *sum = sum.wrapping_add(source.since(*last, *now));
    }
    *last = now;
}

fn sources() -> impl Iterator<Item = &'static Source> {
    OF_PORT.iter().chain(OF_VSI).chain(OF_FUNCTION).chain(OF_LED).chain(OF_DROPPED)
}

/// Every counter's register as it stands.
fn registers(bar: &Bar, places: Places) -> Vec<u64> {
    let of_port = OF_PORT.iter().map(|source| source.read(bar, places.port));
    let of_vsi = OF_VSI.iter().map(|source| source.read(bar, places.vsi));
    let of_led = OF_LED.iter().map(|source| source.read(bar, places.flows));
    let of_dropped = OF_DROPPED.iter().map(|source| source.read(bar, places.flows + 1));
    let of_function = OF_FUNCTION.iter().map(|source| source.read(bar, places.function));
    of_port.chain(of_vsi).chain(of_function).chain(of_led).chain(of_dropped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(name: &str) -> usize {
        sources().position(|source| source.name == name).expect("it is there")
    }

    fn value(counters: &[Counter], name: &str) -> u64 {
        counters.iter().find(|counter| counter.name == name).expect("it is there").value
    }

    fn since(last: Vec<u64>) -> Totals {
        Totals { sums: vec![0; last.len()], last, told: Default::default() }
    }

    #[test]
    fn counters_begin_with_zero_and_wrap_with_their_width() {
        let mut last = vec![0; sources().count()];
        let mut now = last.clone();
        (last[at("VUPRC")], now[at("VUPRC")]) = ((1 << 48) - 3, 4);
        (last[at("CRCERRS")], now[at("CRCERRS")]) = (u32::MAX.into(), 1);
        now[at("RDPC")] = 3;
        let mut totals = since(last);
        totals.add(now.clone());
        let counters = totals.counters();
        assert_eq!((value(&counters, "VUPRC"), value(&counters, "CRCERRS")), (7, 2));
        assert_eq!(value(&counters, "PRC"), 4, "without what was dropped behind it");
        now[at("CRCERRS")] = 0;
        totals.add(now);
        assert_eq!(value(&totals.counters(), "CRCERRS"), 2 + u64::from(u32::MAX), "wrapped once more");
    }

    /// What is dropped between the reads of two registers does not make less of what came.
    #[test]
    fn a_sum_never_goes_back() {
        let mut totals = since(vec![0; sources().count()]);
        let mut now = vec![0; sources().count()];
        now[at("VUPRC")] = 10;
        totals.add(now.clone());
        assert_eq!(value(&totals.counters(), "PRC"), 10);
        now[at("RDPC")] = 4;
        totals.add(now.clone());
        assert_eq!(value(&totals.counters(), "PRC"), 10);
        now[at("VUPRC")] = 20;
        totals.add(now);
        assert_eq!(value(&totals.counters(), "PRC"), 16);
    }
}
