//! The arguments of `ixora soak`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::rate::duration;
use crate::soak::SceneKind;

#[derive(Args, Debug)]
pub struct Soak {
    /// How long; the last episode is brought to its end.
    #[arg(long, default_value = "1m", value_parser = duration)]
    pub duration: Duration,
    /// Where the random numbers begin; the time of day if left out.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Only this episode, by its number.
    #[arg(long)]
    pub episode: Option<u64>,
    /// Only this kind of episode; may be given several times.
    #[arg(long, value_enum)]
    pub only: Vec<SceneKind>,
    /// Print the episodes of this many numbers, and run none.
    #[arg(long)]
    pub list: Option<u64>,
    /// Where logs of failed episodes go; a directory beside the temporary files if
    /// left out.
    #[arg(long)]
    pub logs: Option<PathBuf>,
    /// Print the summary as JSON.
    #[arg(long)]
    pub json: bool,
    /// No progress lines.
    #[arg(long, short)]
    pub quiet: bool,
    /// Leave something behind on purpose, to see that it is found.
    #[arg(long, value_enum, hide = true)]
    pub plant: Option<Plant>,
}

/// What is left behind on purpose.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// An open descriptor.
    Descriptor,
    /// A thread that still runs.
    Thread,
    /// A file that nobody removes.
    File,
    /// A child process.
    Process,
}
