//! Curves as a picture (SVG): points with the range of their windows, what they were measured
//! under below the title, the names of the curves beside them.

use std::path::Path;

use ::bench::figures::Spread;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::prelude::*;

use crate::Failure;

/// Width and height of a picture, and the width of the names beside the curves, in pixels.
const SIZE: (u32, u32) = (900, 500);
const NAMES: u32 = 180;
/// Height of a line of text, in pixels.
const LINE: u32 = 17;
/// Half the width of the ends of a range, in pixels.
const CAP: i32 = 3;
const SMALL: (&str, i32) = ("sans-serif", 12);
/// Ticks of an axis that is divided evenly.
const TICKS: f64 = 8.0;

/// An axis of a picture.
pub struct Scale {
    /// What it counts.
    pub name: String,
    /// Whether equal steps are equal factors.
    pub is_logarithmic: bool,
}

/// A curve of a picture.
pub struct Curve {
    /// What it is called.
    pub name: String,
    /// Its points, and the windows of each.
    pub points: Vec<(f64, Spread)>,
}

/// A picture, before it is drawn.
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// What that was measured on and under, lines below the title.
    pub conditions: Vec<String>,
    /// From left to right.
    pub x: Scale,
    /// From bottom to top.
    pub y: Scale,
    /// What is drawn.
    pub curves: Vec<Curve>,
}

/// Draws a plot as SVG.
///
/// # Errors
/// When the file cannot be written.
pub fn draw(plot: &Plot, path: &Path) -> Result<(), Failure> {
    write(&text(plot)?, path)
}

/// Writes the text of a picture.
///
/// # Errors
/// When the file cannot be written.
pub fn write(svg: &str, path: &Path) -> Result<(), Failure> {
    let written = std::fs::write(path, svg);
    written.map_err(|error| Failure::new(format!("cannot draw {}: {error}", path.display())))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn<'a, T = ()> = Result<T, Box<dyn std::error::Error + 'a>>;

/// A picture with its title and conditions: room for a chart, and for names beside it.
pub struct Frame<'a> {
    area: Area<'a>,
    /// For the chart.
    pub left: Area<'a>,
    right: Area<'a>,
}

impl<'a> Frame<'a> {
    /// Writes the title and the conditions.
    ///
    /// # Errors
    /// When it cannot be drawn.
    pub fn new(plot: &Plot, svg: &'a mut String) -> Drawn<'a, Frame<'a>> {
        let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        area.draw_text(&plot.title, &("sans-serif", 18).into_text_style(&area), (12, 10))?;
        let grey = BLACK.mix(0.7);
        let grey = SMALL.into_text_style(&area).color(&grey);
        for (n, line) in (0..).zip(&plot.conditions) {
            area.draw_text(line, &grey, (12, 34 + n * LINE as i32))?;
        }
        let (_, below) = area.split_vertically(38 + LINE * plot.conditions.len() as u32);
        let (left, right) = below.split_horizontally(SIZE.0 - NAMES);
        Ok(Frame { area, left, right })
    }

    /// Writes the name of the series of this number beside the chart.
    ///
    /// # Errors
    /// When it cannot be drawn.
    pub fn name(&self, n: usize, name: &str) -> Drawn<'a> {
        let height = 20 + n as i32 * LINE as i32;
        let colour = Palette99::pick(n).to_rgba();
        self.right.draw(&PathElement::new([(0, height), (18, height)], colour.stroke_width(2)))?;
        self.right.draw_text(name, &SMALL.into_text_style(&self.right), (24, height - 7))?;
        Ok(())
    }

    /// Ends the picture.
    ///
    /// # Errors
    /// When it cannot be drawn.
    pub fn present(&self) -> Drawn<'a> {
        self.area.present()?;
        Ok(())
    }
}

/// A plot as the text of an SVG.
///
/// # Errors
/// When it cannot be drawn.
pub fn text(plot: &Plot) -> Result<String, Failure> {
    let mut svg = String::new();
    let drawn = draw_svg(plot, &mut svg).map_err(|error| Failure::new(format!("cannot draw: {error}")));
    drawn.map(|()| svg)
}

fn draw_svg<'a>(plot: &Plot, svg: &'a mut String) -> Drawn<'a> {
    let points = || plot.curves.iter().flat_map(|curve| curve.points.iter());
    let x = Range::of(points().map(|p| p.0), plot.x.is_logarithmic);
    let y = Range::of(points().flat_map(|p| [p.1.min, p.1.max]), plot.y.is_logarithmic);
    let frame = Frame::new(plot, svg)?;
    let mut chart = ChartBuilder::on(&frame.left)
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(60)
        .build_cartesian_2d(x, y)?;
    chart.configure_mesh().x_desc(&plot.x.name).y_desc(&plot.y.name).draw()?;
    for (n, curve) in plot.curves.iter().enumerate() {
        let colour = Palette99::pick(n).to_rgba();
        let median = |(at, spread): &(f64, Spread)| (*at, spread.median);
        let line = LineSeries::new(curve.points.iter().map(median), colour.stroke_width(2)).point_size(3);
        chart.draw_series(line)?;
        chart.draw_series(
            curve
                .points
                .iter()
                .map(|(at, spread)| PathElement::new([spread.min, spread.max].map(|end| (*at, end)), colour)),
        )?;
        let ends = curve.points.iter().flat_map(|(at, spread)| [(*at, spread.min), (*at, spread.max)]);
        chart.draw_series(ends.map(|(at, end)| {
            let cap = PathElement::new([(-CAP, 0), (CAP, 0)], colour);
            EmptyElement::at((at, end)) + cap
        }))?;
        frame.name(n, &curve.name)?;
    }
    frame.present()
}

/// What an axis shows, and where its ticks are.
pub struct Range {
    is_logarithmic: bool,
    ends: [f64; 2],
    ticks: Vec<f64>,
}

impl Range {
    /// An axis on which these values find their places.
    pub fn of(values: impl Iterator<Item = f64> + Clone, is_logarithmic: bool) -> Range {
        let largest = values.clone().fold(0.0, f64::max);
        if !is_logarithmic {
            let step = round_up(largest.max(1.0) / TICKS);
            let count = (largest / step).ceil().max(1.0) as u32;
            let ticks: Vec<f64> = (0..=count).map(|n| f64::from(n) * step).collect();
            return Range { is_logarithmic, ends: [0.0, f64::from(count) * step], ticks };
        }
        let positive = values.filter(|value| *value > 0.0);
        let smallest = positive.fold(f64::INFINITY, f64::min);
        let smallest = if smallest.is_finite() { smallest } else { 1.0 };
        let largest = largest.max(smallest * 2.0);
        // Powers of two over a short range, of ten over a long one.
        let base: f64 = if largest / smallest > 300.0 { 10.0 } else { 2.0 };
        let (first, last) = (smallest.log(base).floor() as i32, largest.log(base).ceil() as i32);
        let ticks: Vec<f64> = (first..=last).map(|power| base.powi(power)).collect();
        Range { is_logarithmic, ends: [base.powi(first), base.powi(last)], ticks }
    }

    /// The value at its lower end.
    pub fn floor(&self) -> f64 {
        self.ends[0]
    }

    /// Where a value stands.
    fn place(&self, value: f64) -> f64 {
        if self.is_logarithmic { value.max(self.ends[0]).log2() } else { value }
    }
}

impl Ranged for Range {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let [first, last] = self.ends.map(|end| self.place(end));
        let share = (self.place(*value) - first) / (last - first);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.ends[0]..self.ends[1]
    }
}

impl ValueFormatter<f64> for Range {
    fn format_ext(&self, value: &f64) -> String {
        label(*value)
    }
}

/// The next of 1, 2 and 5 times a power of ten.
fn round_up(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    factors.iter().map(|factor| factor * power).find(|round| *round >= step * 0.999).unwrap_or(10.0 * power)
}

/// A number as a tick has it: at most three digits, thousands and millions by letter.
fn label(value: f64) -> String {
    let (value, letter) = match value {
        _ if value >= 999_999.5 => (value / 1e6, " M"),
        _ if value >= 9_999.5 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let digits = if value >= 9.995 || (value - value.round()).abs() < 1e-9 { 0 } else { 2 };
    let text = format!("{value:.digits$}");
    let text = if digits > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{letter}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_labels_short() {
        let labels = |values: &[f64], is_logarithmic| {
            let range = Range::of(values.iter().copied(), is_logarithmic);
            range.ticks.iter().map(|tick| label(*tick)).collect::<Vec<_>>()
        };
        assert_eq!(labels(&[1.0, 1e6], true), ["1", "10", "100", "1000", "10 k", "100 k", "1 M"]);
        assert_eq!(labels(&[1.0, 16.0], true), ["1", "2", "4", "8", "16"]);
        assert_eq!(labels(&[0.3, 2.0], true), ["0.25", "0.5", "1", "2"]);
        assert_eq!(labels(&[3.0, 41.0], false), ["0", "10", "20", "30", "40", "50"]);
        assert_eq!(labels(&[], true), ["1", "2"]);
        assert_eq!(labels(&[0.0], false).first().map(String::as_str), Some("0"));
    }

    #[test]
    fn a_picture_has_the_conditions_the_names_and_the_ranges() {
        let place = tempfile::tempdir().expect("a directory");
        let file = place.path().join("plot.svg");
        let spread = |median| Spread { min: median - 1.0, median, max: median + 2.0 };
        let scale = |name: &str| Scale { name: name.to_owned(), is_logarithmic: true };
        let curve = |name: &str| Curve {
            name: name.to_owned(),
            points: vec![(1.0, spread(10.0)), (1e6, spread(400.0))],
        };
        let plot = Plot {
            title: "Growth".to_owned(),
            conditions: vec!["one core".to_owned()],
            x: scale("flows"),
            y: scale("cycles"),
            curves: vec![curve("router"), curve("nat")],
        };
        draw(&plot, &file).expect("a picture");
        let svg = std::fs::read_to_string(&file).expect("text");
        for text in ["Growth", "one core", "flows", "cycles", "router", "nat", "100 k"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        // A line for each curve, one for each range, two for its ends, beside the mesh's.
        let lines = |plot: &Plot| {
            draw(plot, &file).expect("a picture");
            std::fs::read_to_string(&file).expect("text").matches("<polyline").count()
        };
        let with = lines(&plot);
        let without = lines(&Plot { curves: vec![curve("router")], ..plot });
        assert_eq!(with - without, 1 + 2 + 4 + 1, "{with} lines, {without} with a curve less");
    }
}
