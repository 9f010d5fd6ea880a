//! What the rows of a curve say together: whether it is flat, and where its knee is.

use serde::Serialize;

use super::{Axis, Row};

/// A curve whose largest figure is at most so many times its smallest is flat; where a figure
/// is more than that above the smallest before it, the curve has its knee.
pub const FLAT: f64 = 2.0;

/// What all rows of one curve say together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// What there is more and more of.
    pub axis: Axis,
    /// What was measured.
    pub curve: String,
    /// The smallest and the largest of the rows' medians.
    pub lowest: f64,
    /// The largest of the rows' medians.
    pub highest: f64,
    /// The largest over the smallest.
    pub ratio: f64,
    /// Whether that is at most [`FLAT`].
    pub is_flat: bool,
    /// The first row that is more than [`FLAT`] times the smallest before it.
    pub knee: Option<Knee>,
}

/// Where a curve leaves the level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Knee {
    /// The last row before it.
    pub after: u64,
    /// The bytes of that row's table, where there is one.
    pub bytes_after: Option<u64>,
    /// The row at which the figure has risen.
    pub at: u64,
    /// The bytes of its table.
    pub bytes_at: Option<u64>,
}

/// The curves of some rows, in the rows' order. Each curve's rows stand in one piece, with
/// growing x.
pub fn curves(rows: &[Row]) -> Vec<Curve> {
    rows.chunk_by(|a, b| (a.axis, &a.curve) == (b.axis, &b.curve)).filter_map(curve).collect()
}

/// The figure of a row that is to be flat: for chains of elements that of each element.
pub fn figure(row: &Row) -> crate::figures::Spread {
    row.cycles_per_element.unwrap_or(row.cycles_per_packet)
}

fn curve(rows: &[Row]) -> Option<Curve> {
    let first = rows.first()?;
    let medians = || rows.iter().map(|row| figure(row).median);
    let (lowest, highest) = (medians().fold(f64::INFINITY, f64::min), medians().fold(0.0, f64::max));
    let (mut smallest, mut knee) = (f64::INFINITY, None);
    for (n, row) in rows.iter().enumerate() {
        let median = figure(row).median;
        if median > FLAT * smallest && knee.is_none() {
            let before = &rows[n - 1];
            knee = Some(Knee {
                after: before.x,
                bytes_after: before.table_bytes,
                at: row.x,
                bytes_at: row.table_bytes,
            });
        }
        smallest = smallest.min(median);
    }
    let ratio = highest / lowest.max(f64::MIN_POSITIVE);
    let is_flat = ratio <= FLAT;
    Some(Curve { axis: first.axis, curve: first.curve.clone(), lowest, highest, ratio, is_flat, knee })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Spread;

    fn row(curve: &str, x: u64, cycles: f64) -> Row {
        Row {
            axis: Axis::Flows,
            curve: curve.to_owned(),
            x,
            batch: 32,
            packets: 1,
            cycles_per_packet: Spread::of(vec![cycles]),
            cycles_per_element: None,
            table_bytes: Some(x * 10),
            windows: 1,
            near_windows: None,
            calibration: [4.0, 4.0],
        }
    }

    #[test]
    fn a_curve_is_flat_within_two_and_its_knee_is_the_first_row_above() {
        let rows = [("a", 1, 10.0), ("a", 10, 20.0), ("b", 1, 30.0), ("b", 10, 20.0), ("b", 100, 41.0)];
        let mut rows: Vec<Row> = rows.iter().map(|(curve, x, cycles)| row(curve, *x, *cycles)).collect();
        rows.push(row("b", 1000, 90.0));
        let curves = curves(&rows);
        assert_eq!(curves.len(), 2);
        assert!(curves[0].is_flat && curves[0].knee.is_none() && curves[0].ratio == 2.0);
        let knee = Knee { after: 10, bytes_after: Some(100), at: 100, bytes_at: Some(1000) };
        assert!(!curves[1].is_flat && curves[1].knee == Some(knee), "{:?}", curves[1]);
        assert_eq!((curves[1].lowest, curves[1].highest), (20.0, 90.0));
    }

    #[test]
    fn a_chain_is_judged_by_what_each_element_costs() {
        let each = |cycles| Some(Spread::of(vec![cycles]));
        let rows = [(1, 10.0), (256, 300.0)].map(|(x, cycles)| Row {
            axis: Axis::Elements,
            cycles_per_element: each(1.0),
            ..row("Null", x, cycles)
        });
        assert!(curves(&rows)[0].is_flat);
    }
}
