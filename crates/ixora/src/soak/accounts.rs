//! Where frames went: what the models' wires and devices counted, beside what the
//! program on them counted. Three accounts, so that an error in one cannot hide
//! behind an error in another: what was received, what became of it in the program,
//! and what was sent.

use port::Reason;
use serde_json::Value;
use testbed::serve::Report;

/// What the models of a process counted, all devices together. Signed: what waits can
/// become less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Frames put on the wires to the host, copies that faults made included.
    pub offered: i64,
    /// Of these, lost on a wire or in a device, by name.
    pub rx_lost: i64,
    /// Of these, on a wire or in a device.
    pub rx_waiting: i64,
    /// Frames that came out of the wires from the host, copies taken off.
    pub delivered: i64,
    /// Frames of the host's that were lost in a device or on a wire, by name.
    pub tx_lost: i64,
    /// Frames of the host's that are on a wire.
    pub tx_waiting: i64,
    /// Generated frames that came back changed, twice, or were not generated.
    pub wrong: i64,
    /// Generated frames that came back behind later ones of their flow.
    pub disordered: i64,
}

impl Totals {
    /// Frames that a program has taken or given.
    pub fn moved(&self) -> i64 {
        self.delivered + self.offered - self.rx_waiting
    }

    /// From a report.
    pub fn of(report: &Report) -> Totals {
        let mut all = Totals::default();
        let sum = |counts: &std::collections::BTreeMap<String, u64>, direction: Option<&str>| -> i64 {
            let fits = |name: &str| direction.is_none_or(|direction| name.starts_with(direction));
            counts.iter().filter(|(name, _)| fits(name)).map(|(_, count)| *count as i64).sum()
        };
        for endpoint in &report.endpoints {
            let (device, wire) = (&endpoint.device, &endpoint.device.wire);
            let (to, from) = (&wire.to_host, &wire.from_host);
            let waiting = device.counters.get("rx_waiting").copied().unwrap_or(0);
            all.offered += (to.offered + to.made) as i64;
            all.rx_lost += sum(&to.lost, None) + sum(&device.drops, Some("rx_"));
            all.rx_waiting += (to.waiting + waiting) as i64;
            all.delivered += from.delivered as i64 - from.made as i64;
            all.tx_lost += sum(&from.lost, None) + sum(&device.drops, Some("tx_"));
            all.tx_waiting += from.waiting as i64;
            if let Some(check) = &wire.check {
                all.wrong += (check.corrupt + check.duplicated + check.foreign) as i64;
                all.disordered += (check.reordered + check.late) as i64;
            }
        }
        all
    }

    /// What was counted since then.
    pub fn since(&self, then: &Totals) -> Totals {
        Totals {
            offered: self.offered - then.offered,
            rx_lost: self.rx_lost - then.rx_lost,
            rx_waiting: self.rx_waiting - then.rx_waiting,
            delivered: self.delivered - then.delivered,
            tx_lost: self.tx_lost - then.tx_lost,
            tx_waiting: self.tx_waiting - then.tx_waiting,
            wrong: self.wrong - then.wrong,
            disordered: self.disordered - then.disordered,
        }
    }
}

/// What the program counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Frames that the program received.
    pub rx: i64,
    /// Frames that the driver refused to receive.
    pub bad: i64,
    /// Frames given to the device.
    pub tx: i64,
    /// Frames dropped because they could not be sent.
    pub dropped: i64,
    /// Buffers that did not come back.
    pub missing: i64,
    /// Packets that it says it moved.
    pub packets: i64,
    /// The error in its summary.
    pub error: Option<String>,
}

impl Program {
    /// From a program's summary; `None` when it is none.
    pub fn of_json(text: &str) -> Option<Program> {
        let value: Value = serde_json::from_str(text).ok()?;
        let summary = value.get("summary").unwrap_or(&value);
        let number = |name: &str| summary[name].as_i64();
        let lost = |reason: Reason| summary["losses"][reason.name()].as_i64().unwrap_or(0);
        Some(Program {
            rx: number("rx_packets")?,
            bad: lost(Reason::RxBadDescriptor),
            tx: number("tx_packets")?,
            dropped: lost(Reason::TxRingFull) + lost(Reason::TxUnsendable),
            missing: number("missing_buffers")?,
            packets: number("packets")?,
            error: summary["error"].as_str().map(str::to_owned),
        })
    }

    /// From the handlers that a router printed at its end, each under its name.
    pub fn of_handlers(text: &str) -> Program {
        let mut program = Program::default();
        let mut name = "";
        for line in text.lines().map(str::trim) {
            match (line.strip_suffix(':'), line.parse::<i64>()) {
                (Some(head), _) => name = head,
                (None, Ok(count)) => {
                    // Elements of the class, or of an alias of it, begin alike.
                    let receives = name.contains("FromDevice") || name.starts_with('f');
                    match name.rsplit('.').next() {
                        Some("count") if receives => program.rx += count,
                        Some("count") => program.tx += count,
                        Some("dropped") => program.dropped += count,
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        program.packets = program.rx;
        program
    }
}

/// How exact the accounts must be.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Frames that may have been in rings when the program ended.
    pub in_rings: i64,
    /// What is received is sent, or dropped by name.
    pub forwards: bool,
    /// Frames come back unchanged and once: nothing injects faults.
    pub clean: bool,
    /// Frames of a flow come back in order.
    pub ordered: bool,
}

/// What does not balance, in words.
pub fn errors(models: &Totals, program: &Program, rules: Rules) -> Vec<String> {
    let mut errors = Vec::new();
    let received = program.rx + program.bad;
    let left = models.offered - models.rx_lost - models.rx_waiting - received;
    if !(0..=rules.in_rings).contains(&left) {
        errors.push(format!(
            "receive account: {} offered, {} lost by name, {} waiting, {received} received: {left} are missing",
            models.offered, models.rx_lost, models.rx_waiting
        ));
    }
    let left = program.rx - program.tx - program.dropped;
    if rules.forwards && left != 0 {
        errors.push(format!(
            "program's account: {} received, {} sent, {} dropped by name: {left} are missing",
            program.rx, program.tx, program.dropped
        ));
    }
    let left = program.tx - models.delivered - models.tx_lost - models.tx_waiting;
    if !(0..=rules.in_rings).contains(&left) {
        errors.push(format!(
            "transmit account: {} sent, {} delivered, {} lost by name, {} waiting: {left} are missing",
            program.tx, models.delivered, models.tx_lost, models.tx_waiting
        ));
    }
    if rules.clean && models.wrong != 0 {
        errors.push(format!("{} frames came back changed, twice or from nowhere", models.wrong));
    }
    if rules.clean && rules.ordered && models.disordered != 0 {
        errors.push(format!("{} frames came back out of order", models.disordered));
    }
    errors
}

/// Wires on which frames vanished without a name.
pub fn unbalanced_wires(report: &Report) -> Vec<String> {
    let wires = report.endpoints.iter().flat_map(|endpoint| {
        let wire = &endpoint.device.wire;
        [
            (&endpoint.socket, "to the host", &wire.to_host),
            (&endpoint.socket, "from the host", &wire.from_host),
        ]
    });
    let wrong = wires.filter(|(_, _, direction)| !direction.balances());
    wrong.map(|(socket, way, direction)| format!("wire of {socket}, {way}: {direction:?}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXACT: Rules = Rules { in_rings: 0, forwards: true, clean: true, ordered: true };

    fn run() -> (Totals, Program) {
        let models = Totals {
            offered: 100,
            rx_lost: 10,
            rx_waiting: 5,
            delivered: 70,
            tx_lost: 2,
            tx_waiting: 1,
            ..Totals::default()
        };
        let program = Program { rx: 80, bad: 5, tx: 73, dropped: 7, packets: 80, ..Program::default() };
        (models, program)
    }

    #[test]
    fn named_losses_balance() {
        let (models, program) = run();
        assert_eq!(errors(&models, &program, EXACT), Vec::<String>::new());
    }

    #[test]
    fn each_account_stands_for_itself() {
        let (models, program) = run();
        let lost = Totals { offered: 101, ..models };
        assert!(errors(&lost, &program, EXACT)[0].starts_with("receive account"));
        // One too many received hides nothing: the program's own account has it.
        let made_up = Program { rx: 81, ..program.clone() };
        assert!(errors(&lost, &made_up, EXACT)[0].starts_with("program's account"));
        let vanished = Totals { delivered: 69, ..models };
        assert!(errors(&vanished, &program, EXACT)[0].starts_with("transmit account"));
        let twice = Totals { wrong: 1, disordered: 1, ..models };
        assert_eq!(errors(&twice, &program, EXACT).len(), 2);
    }

    #[test]
    fn rings_may_have_held_so_many_and_no_more() {
        let (models, program) = run();
        let rules = Rules { in_rings: 64, ..EXACT };
        let with = |offered| errors(&Totals { offered, ..models }, &program, rules).len();
        assert_eq!((with(100), with(164), with(165), with(99)), (0, 0, 1, 1));
    }

    #[test]
    fn a_summary_is_read_wherever_it_stands() {
        let text = r#"{"rx_packets":9,"tx_packets":7,"packets":9,"missing_buffers":1,
            "losses":{"tx_ring_full":2,"rx_fifo_full":4},"error":null}"#;
        let program = Program::of_json(text).expect("a summary");
        assert_eq!((program.rx, program.tx, program.dropped, program.missing), (9, 7, 2, 1));
        assert_eq!(Program::of_json(&format!("{{\"summary\":{text}}}")), Some(program));
        assert_eq!(Program::of_json("{}"), None);
    }

    #[test]
    fn a_routers_handlers_are_read() {
        let text = "f0.count:\n5\n\nFromDevice@2.count:\n6\n\nt0.count:\n4\n\nToDevice@4.count:\n5\n\n\
                    ToDevice@4.dropped:\n2\n\n";
        let program = Program::of_handlers(text);
        assert_eq!((program.rx, program.tx, program.dropped), (11, 9, 2));
    }
}
