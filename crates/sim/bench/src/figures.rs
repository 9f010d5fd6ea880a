//! Figures of many windows, and one line of the driver's table.

use serde::{Deserialize, Serialize};

use crate::Setting;

/// Smallest, middle and largest of some figures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The smallest figure.
    pub min: f64,
    /// The median; of an even number, the larger of the middle two.
    pub median: f64,
    /// The largest figure.
    pub max: f64,
}

impl Spread {
    /// Of nothing: zeros.
    pub fn of(mut figures: Vec<f64>) -> Spread {
        figures.sort_by(f64::total_cmp);
        match figures[..] {
            [] => Spread::default(),
            [min, .., max] => Spread { min, median: figures[figures.len() / 2], max },
            [one] => Spread { min: one, median: one, max: one },
        }
    }
}

/// Where a larger share of polls finds nothing, the driver waits for the device: cycles for
/// each packet are the device's then.
pub const MOST_EMPTY: f64 = 0.15;

/// One line of the table.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// What was set.
    #[serde(flatten)]
    pub setting: Setting,
    /// One or two.
    pub cores: usize,
    /// TSC cycles for each packet that was moved.
    pub cycles_per_packet: Spread,
    /// Packets per second, in millions, at the median.
    pub mpps: f64,
    /// Share of calls that found nothing.
    pub empty_polls: f64,
    /// Whether its cycles are those of the device, for which the driver waited. On one core it
    /// waits for none, for the device's steps are not counted.
    pub device_limits: bool,
    /// Share of the device's rounds in which it moved no packet, on two cores: near zero where
    /// the device is what limits.
    pub device_idle: Option<f64>,
    /// Packets in a call that found some.
    pub batch_fill: f64,
    /// Instructions for each packet, by callgrind.
    pub instructions_per_packet: Option<f64>,
    /// Windows that were measured.
    pub windows: usize,
    /// Of these, windows between two near calibrations; the figures are theirs
    /// if there are any.
    pub near_windows: usize,
    /// Round trips between the cores in TSC cycles, before and after each window.
    pub distance: Option<Spread>,
}
