//! A figure as a picture.

use std::path::Path;

use plotters::prelude::*;

use super::Figure;
use crate::Failure;

/// Width and height of a figure, in pixels.
const SIZE: (u32, u32) = (760, 480);

/// Draws a figure as SVG.
///
/// # Errors
/// When the file cannot be written.
pub fn draw(figure: &Figure, path: &Path) -> Result<(), Failure> {
    draw_svg(figure, path).map_err(|error| Failure::new(format!("cannot draw {}: {error}", path.display())))
}

fn draw_svg(figure: &Figure, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let points = || figure.series.iter().flat_map(|series| series.points.iter());
    let right = points().map(|p| p.0).fold(1.0, f64::max);
    let top = points().map(|p| p.1).fold(1.0, f64::max) * 1.1;
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(format!("{}. {}", figure.number, figure.title), ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..right, 0.0..top)?;
    chart.configure_mesh().x_desc(figure.x).y_desc(figure.y).light_line_style(WHITE).draw()?;
    for (n, series) in figure.series.iter().enumerate() {
        let colour = Palette99::pick(n).to_rgba();
        let line = LineSeries::new(series.points.iter().copied(), colour.stroke_width(2)).point_size(3);
        let legend = move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2));
        chart.draw_series(line)?.label(&series.name).legend(legend);
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .position(SeriesLabelPosition::UpperLeft)
        .draw()?;
    area.present()?;
    Ok(())
}
