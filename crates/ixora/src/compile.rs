//! `ixora compile`: a program of its own for one configuration.
//!
//! Elements that look at one packet at a time become straight code, a region of the
//! graph at a time ([`region`]), ways that are alike share it ([`group`]), and the rest
//! runs beside it as `ixora click` runs it. What is written is an ordinary crate
//! (`package`), which a person can read.

pub mod cache;
pub mod group;
mod package;
pub mod region;
mod report;
mod write;

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, Parser};
use graph::lang::Source;
use graph::plan::Instances;
use graph::plan::Plan;

use crate::Failure;
use crate::click::{self, Click};

/// Make a program of a router written in Click's language.
#[derive(Args, Debug, Clone)]
pub struct Compile {
    /// The configuration's file (`-` for standard input), and variables: NAME=VALUE.
    #[arg(value_name = "FILE | NAME=VALUE")]
    words: Vec<String>,
    /// This is the configuration.
    #[arg(long, short = 'e', value_name = "CONFIGURATION", allow_hyphen_values = true)]
    expression: Option<String>,
    /// Where libraries are looked for, folders separated by colons.
    #[arg(long, short = 'C', value_name = "PATH", env = "CLICKPATH")]
    clickpath: Option<String>,
    /// The packet port that FromDPDKDevice(N) and ToDPDKDevice(N) mean; the program is told
    /// by the same option.
    #[arg(long, short = 'p', value_name = "N=NAME")]
    port: Vec<String>,
    /// Write the program's crate into this folder; FILE with `-compiled` for its end if
    /// left out.
    #[arg(long, short = 'o', value_name = "DIR")]
    output: Option<PathBuf>,
    /// Ixora's source; found if this program was built from it, or stands in it.
    #[arg(long, value_name = "DIR")]
    source: Option<PathBuf>,
    /// Write the crate, and do not build it.
    #[arg(long)]
    no_build: bool,
    /// Build without the network.
    #[arg(long)]
    offline: bool,
    /// Build in this profile of cargo's.
    #[arg(long, default_value = "release")]
    profile: String,
}

/// The words of `ixora click` that a configuration is read with.
#[derive(Parser, Debug)]
struct Words {
    #[command(flatten)]
    click: Click,
}

/// The code of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    /// A Rust module.
    pub module: String,
    /// Which elements are in it, and why others are not.
    pub notes: String,
    /// How many programs there are; without any the configuration runs as it is.
    pub programs: usize,
}

/// Writes the code of a configuration whose elements were made.
pub fn code(plan: &Plan, made: &Instances) -> Code {
    let mut graph = region::Graph::new(plan, made);
    let regions = graph.regions();
    let layouts: Vec<group::Layout> = regions.iter().map(|region| group::lay_out(&graph, region)).collect();
    let programs = layouts.len();
    Code { module: write::module(&graph, &layouts), notes: report::report(&graph, &layouts), programs }
}

/// Reads a configuration and writes its code; with it, the configuration as the program
/// reads it.
///
/// # Errors
/// All that is wrong with the configuration.
pub fn code_of(name: &str, text: &str) -> Result<(Code, String), String> {
    let click = Words::parse_from(["click"]).click;
    let whole =
        click::assemble(&click, vec![Source::new(name, text)]).map_err(|problems| problems.to_string())?;
    Ok((code(&whole.plan, &whole.made), whole.text))
}

/// Makes a program of a configuration, in a folder of its own.
pub fn program_of(name: &str, text: &str, folder: &Path) -> Result<PathBuf, Failure> {
    let (code, configuration) = code_of(name, text).map_err(Failure::new)?;
    let package = package::Package::new(name, Some(folder), None)?;
    package.write(&configuration, &code)?;
    package.build("release", false)
}

/// Runs the command.
pub fn run(compile: &Compile) -> Result<(), Failure> {
    let mut click = Words::parse_from(["click"]).click;
    click.words.clone_from(&compile.words);
    click.expression.clone_from(&compile.expression);
    click.clickpath.clone_from(&compile.clickpath);
    click.port.clone_from(&compile.port);
    let click = click.with_ports_numbered()?;
    let sources = click::sources(&click)?;
    let file = sources.first().map_or(String::new(), |source| source.name.clone());
    let whole = click::assemble(&click, sources).map_err(|problems| {
        eprint!("{}", problems.render());
        Failure::status(1)
    })?;
    if !whole.problems.list.is_empty() {
        eprint!("{}", whole.problems.render());
    }
    let code = code(&whole.plan, &whole.made);
    print!("{}", code.notes);
    if code.programs == 0 {
        return Err(Failure::new("there is nothing to compile here: no element can be part of a program")
            .fix("ixora click runs it, as fast as a program would"));
    }
    let package = package::Package::new(&file, compile.output.as_deref(), compile.source.as_deref())?;
    package.write(&whole.text, &code)?;
    println!("{} is written", package.folder.display());
    if compile.no_build {
        return Ok(());
    }
    let start = Instant::now();
    let program = package.build(&compile.profile, compile.offline)?;
    let bytes = std::fs::metadata(&program).map_or(0, |file| file.len());
    println!(
        "{} is ready ({:.0} s, {:.0} MB): it takes the words of ixora click",
        program.display(),
        start.elapsed().as_secs_f64(),
        bytes as f64 / 1e6
    );
    Ok(())
}
