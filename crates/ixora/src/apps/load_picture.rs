//! Latencies by load as a picture: how long answers took, against how many came in a second.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use bench::figures::Spread;
use service::load::{Results, Step};

use super::load::QUANTILES;
use crate::Failure;
use crate::bench::plot::{Curve, Plot, Scale, text};

/// The file of a picture, which is opened before the program gives up opening files.
pub struct Picture {
    path: PathBuf,
    file: File,
}

impl Picture {
    /// Opens the file, if one is wanted.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn open(path: Option<&Path>) -> Result<Option<Picture>, Failure> {
        let open = |path: &Path| match File::create(path) {
            Ok(file) => Ok(Picture { path: path.to_owned(), file }),
            Err(error) => Err(Failure::new(format!("cannot write {}: {error}", path.display()))),
        };
        path.map(open).transpose()
    }

    /// Draws what a load saw of a server, under some conditions.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn draw(mut self, title: &str, conditions: Vec<String>, results: &Results) -> Result<(), Failure> {
        let svg = text(&plot(title, conditions, results))?;
        let written = self.file.write_all(svg.as_bytes());
        written.map_err(|error| Failure::new(format!("cannot write {}: {error}", self.path.display())))
    }
}

/// A curve for each quantile, a point for each rate at which anything came back.
fn plot(title: &str, conditions: Vec<String>, results: &Results) -> Plot {
    let mut steps: Vec<&Step> = results.steps.iter().filter(|step| !step.latency.is_empty()).collect();
    steps.sort_by(|one, other| one.rate_seen().total_cmp(&other.rate_seen()));
    let point = |step: &Step, at: f64| {
        let us = step.latency.value_at_quantile(at) as f64 / 1e3;
        (step.rate_seen(), Spread { min: us, median: us, max: us })
    };
    let curve = |(name, at): (&str, f64)| Curve {
        name: name.to_owned(),
        points: steps.iter().map(|step| point(step, at)).collect(),
    };
    Plot {
        title: title.to_owned(),
        conditions,
        x: Scale { name: "answers in a second".to_owned(), is_logarithmic: false },
        y: Scale { name: "latency in microseconds".to_owned(), is_logarithmic: true },
        curves: QUANTILES.map(curve).into(),
    }
}
