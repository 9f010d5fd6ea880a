//! Whether the endpoints did what working ones do.

use port::Reason;
use serde::Serialize;

use super::account::Direction;
use super::conduct::Seen;
use crate::Failure;
use crate::summary::Summary;

/// Losses that come of offering more than the machine can carry; all others are a fault.
const OVERLOAD: [Reason; 3] = [Reason::RxFifoFull, Reason::RxNoDescriptor, Reason::TxRingFull];

/// What a wire calls the same.
const WIRE_OVERLOAD: &str = "peer's queue full";

/// Whether packets that are lost by this name are a fault.
fn is_fault(name: &str) -> bool {
    name != WIRE_OVERLOAD && !Reason::named(name).is_some_and(|reason| OVERLOAD.contains(&reason))
}

/// Passed, or all reasons why not.
#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    pub passed: bool,
    pub reasons: Vec<String>,
}

impl Verdict {
    pub fn new(directions: &[Direction; 2], seen: &Seen, summary: &Summary, interrupted: bool) -> Verdict {
        let mut reasons = Vec::new();
        if !seen.resolved && !interrupted {
            reasons.push("the endpoints did not find each other by address resolution".to_owned());
        }
        for direction in directions {
            let name = direction.name;
            if !direction.balanced {
                reasons.push(format!("{name}: frames are not accounted for"));
            }
            if direction.delivered == 0 && !interrupted {
                reasons.push(format!("{name}: nothing was delivered"));
            }
            if direction.wrong > 0 {
                reasons.push(format!("{name}: {} frames came wrong", direction.wrong));
            }
            // Each packet that is delivered was put into its tunnel by the NIC, or was given back by it.
            let by_nic = direction.nic.map(|nic| nic.sent + nic.given_back);
            if by_nic.is_some_and(|count| count < direction.delivered) {
                reasons.push(format!("{name}: the NIC was passed over"));
            }
            let faults = direction.lost.iter().filter(|(name, _)| is_fault(name));
            reasons.extend(faults.map(|(loss, count)| format!("{name}: {count} lost by {loss}")));
        }
        if summary.missing_buffers > 0 {
            reasons.push(format!("{} buffers did not come back", summary.missing_buffers));
        }
        let findings = summary.findings.iter().flat_map(|port| &port.findings).count();
        if findings > 0 {
            reasons.push(format!("the linter found {findings} things at the drivers"));
        }
        Verdict { passed: reasons.is_empty(), reasons }
    }

    pub fn print(&self) {
        println!("\n{}", if self.passed { "passed" } else { "FAILED" });
        self.reasons.iter().for_each(|reason| println!("  {reason}"));
    }

    /// The exit status.
    pub fn end(&self) -> Result<(), Failure> {
        let Some(first) = self.reasons.first() else { return Ok(()) };
        Err(Failure::new(format!("the endpoints did not pass: {first}")))
    }
}
