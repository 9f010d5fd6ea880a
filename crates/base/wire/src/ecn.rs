//! Explicit congestion notification (RFC 3168), and what tunnels make of it at their ends
//! (RFC 6040). The field is the lower two bits of IPv4's and IPv6's traffic class.

/// The field's bits of a traffic class.
pub const MASK: u8 = 3;
/// The sender does not take part.
pub const NOT_ECT: u8 = 0;
/// The sender takes part, as [`ECT_0`].
pub const ECT_1: u8 = 1;
/// The sender takes part.
pub const ECT_0: u8 = 2;
/// Congestion was met on the way.
pub const CE: u8 = 3;

/// The outer traffic class in front of a packet with the traffic class `inner`: `dscp` (its
/// upper six bits) and the inner field, as RFC 6040's normal mode has it (section 4.1).
#[inline(always)]
pub const fn encapsulate(dscp: u8, inner: u8) -> u8 {
    dscp & !MASK | inner & MASK
}

/// The traffic class of a packet that leaves a tunnel, by its own and the outer header's (RFC
/// 6040, section 4.2). `None` when it must be dropped: congestion was met, and its sender
/// could not be told otherwise.
#[inline(always)]
pub const fn decapsulate(inner: u8, outer: u8) -> Option<u8> {
    let class = match (inner & MASK, outer & MASK) {
        (NOT_ECT, CE) => return None,
        (ECT_0 | ECT_1, CE) => inner | CE,
        (ECT_0, ECT_1) => inner & !MASK | ECT_1,
        _ => inner,
    };
    Some(class)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figure 4 of RFC 6040: a row for each inner field, a column for each outer one.
    #[test]
    fn all_sixteen_cells() {
        let fields = [NOT_ECT, ECT_0, ECT_1, CE];
        let rows = [
            [Some(NOT_ECT), Some(NOT_ECT), Some(NOT_ECT), None],
            [Some(ECT_0), Some(ECT_0), Some(ECT_1), Some(CE)],
            [Some(ECT_1), Some(ECT_1), Some(ECT_1), Some(CE)],
            [Some(CE); 4],
        ];
        for (inner, row) in fields.iter().zip(rows) {
            for (outer, expected) in fields.iter().zip(row) {
                assert_eq!(decapsulate(*inner, *outer), expected, "{inner} in {outer}");
                let with_dscp = decapsulate(0xB8 | inner, 0xFC | outer);
                assert_eq!(with_dscp, expected.map(|field| 0xB8 | field), "DSCP stays the inner one");
            }
        }
        assert!(fields.iter().all(|field| encapsulate(0xBB, 0x14 | field) == 0xB8 | field));
    }
}
