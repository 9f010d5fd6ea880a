//! Bars as a picture (SVG): at each place parts upon one another, and beside them bars of their
//! own; or, without such a stack, bars side by side over an axis of equal factors. What they were
//! measured under stands below the title, as with curves.

use std::path::Path;

use ::bench::paper::Bars;
use plotters::prelude::*;

use super::plot::{self, Curve, Frame, Plot, Range};
use crate::Failure;

/// Share of a place that its bars take.
const TAKEN: f64 = 0.84;

/// Draws bars as SVG.
///
/// # Errors
/// When the file cannot be written.
pub fn draw(plot: &Plot, bars: &Bars, path: &Path) -> Result<(), Failure> {
    let mut svg = String::new();
    draw_svg(plot, bars, &mut svg).map_err(|error| Failure::new(format!("cannot draw: {error}")))?;
    plot::write(&svg, path)
}

/// A bar: its ends from left to right, and from bottom to top; which series it is of.
struct Bar {
    x: [f64; 2],
    y: [f64; 2],
    series: usize,
}

/// All bars. Without a stack, `floor` is where they begin.
fn bars_of(plot: &Plot, bars: &Bars, floor: f64) -> Vec<Bar> {
    let beside = plot.curves.len() - bars.stacked;
    let columns = beside + usize::from(bars.stacked > 0);
    let width = TAKEN / columns.max(1) as f64;
    let left = |x: f64, column: usize| x - TAKEN / 2.0 + column as f64 * width;
    let mut all = vec![];
    for place in 0..bars.labels.len() {
        let mut top = 0.0;
        for (series, curve) in plot.curves[..bars.stacked].iter().enumerate() {
            let Some(value) = at(curve, place) else { continue };
            let x = left(place as f64, 0);
            all.push(Bar { x: [x, x + width], y: [top, top + value], series });
            top += value;
        }
    }
    let first: f64 = plot.curves[..bars.stacked].iter().filter_map(|curve| at(curve, 0)).sum();
    for (n, curve) in plot.curves[bars.stacked..].iter().enumerate() {
        let scale = match at(curve, 0).filter(|_| bars.stacked > 0) {
            Some(own) if own > 0.0 => first / own,
            _ => 1.0,
        };
        for (place, spread) in &curve.points {
            let x = left(*place, n + usize::from(bars.stacked > 0));
            let y = [floor, spread.median * scale];
            all.push(Bar { x: [x, x + width], y, series: bars.stacked + n });
        }
    }
    all
}

/// The value of a series at a place.
fn at(curve: &Curve, place: usize) -> Option<f64> {
    curve.points.iter().find(|(x, _)| *x == place as f64).map(|(_, spread)| spread.median)
}

fn draw_svg<'a>(
    plot: &Plot,
    bars: &Bars,
    svg: &'a mut String,
) -> Result<(), Box<dyn std::error::Error + 'a>> {
    let tops = bars_of(plot, bars, 0.0);
    let y = Range::of(tops.iter().map(|bar| bar.y[1]), plot.y.is_logarithmic);
    let frame = Frame::new(plot, svg)?;
    let small = ("sans-serif", 12);
    let places = bars.labels.len();
    let mut chart = ChartBuilder::on(&frame.left)
        .margin(12)
        .x_label_area_size(76)
        .y_label_area_size(60)
        .build_cartesian_2d(-0.5..places as f64 - 0.5, y)?;
    let name = |x: &f64| {
        let is_place = (x - x.round()).abs() < 1e-6 && *x >= 0.0;
        bars.labels.get(x.round() as usize).filter(|_| is_place).cloned().unwrap_or_default()
    };
    let across = small.into_text_style(&frame.left).transform(FontTransform::Rotate90);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(4 * places)
        .x_label_formatter(&name)
        .x_label_style(across)
        .y_desc(&plot.y.name)
        .draw()?;
    let floor = chart.as_coord_spec().y_spec().floor();
    for bar in bars_of(plot, bars, floor) {
        let colour = Palette99::pick(bar.series).mix(0.8).filled();
        let [bottom, top] = bar.y.map(|y| y.max(floor));
        chart.draw_series([Rectangle::new([(bar.x[0], bottom), (bar.x[1], top)], colour)])?;
    }
    for (n, curve) in plot.curves.iter().enumerate() {
        let name = match n >= bars.stacked && bars.stacked > 0 {
            true => format!("{} (scaled)", curve.name),
            false => curve.name.clone(),
        };
        frame.name(n, &name)?;
    }
    frame.present()
}

#[cfg(test)]
mod tests {
    use ::bench::figures::Spread;

    use super::super::plot::Scale;
    use super::*;

    fn plot(is_logarithmic: bool) -> Plot {
        let curve = |name: &str, values: &[f64]| Curve {
            name: name.to_owned(),
            points: (0..).map(f64::from).zip(values.iter().map(|v| Spread::of(vec![*v]))).collect(),
        };
        let scale = |name: &str| Scale { name: name.to_owned(), is_logarithmic };
        Plot {
            title: "Parts".to_owned(),
            conditions: vec!["one core".to_owned()],
            x: scale("protocol"),
            y: scale("cycles"),
            curves: vec![
                curve("inner", &[10.0, 12.0]),
                curve("outer", &[10.0, 20.0]),
                curve("the paper", &[100.0, 200.0]),
            ],
        }
    }

    #[test]
    fn parts_stand_upon_one_another_and_others_are_scaled() {
        let labels = vec!["none".to_owned(), "VXLAN".to_owned()];
        let bars = Bars { labels, stacked: 2 };
        let of = |series: usize| -> Vec<[f64; 2]> {
            let all = bars_of(&plot(false), &bars, 0.0);
            all.iter().filter(|bar| bar.series == series).map(|bar| bar.y).collect()
        };
        assert_eq!(of(0), [[0.0, 10.0], [0.0, 12.0]]);
        assert_eq!(of(1), [[10.0, 20.0], [12.0, 32.0]]);
        assert_eq!(of(2), [[0.0, 20.0], [0.0, 40.0]], "as high as the stack where there is no tunnel");
    }

    #[test]
    fn a_picture_names_its_places_and_parts() {
        let place = tempfile::tempdir().expect("a directory");
        let file = place.path().join("bars.svg");
        for (stacked, is_logarithmic, beside) in [(2, false, "the paper (scaled)"), (0, true, "the paper")] {
            let bars = Bars { labels: vec!["none".to_owned(), "VXLAN".to_owned()], stacked };
            draw(&plot(is_logarithmic), &bars, &file).expect("a picture");
            let svg = std::fs::read_to_string(&file).expect("text");
            for text in ["Parts", "one core", "none", "VXLAN", "inner", "cycles", beside] {
                assert!(svg.contains(&format!("{text}\n")), "{text}: {svg}");
            }
            assert!(svg.matches("<rect").count() > 6, "{svg}");
        }
    }
}
