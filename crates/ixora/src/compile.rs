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
use serde::Serialize;

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
    /// Ixora's source; found by itself around the working directory, where `cargo xtask
    /// install` put it, and where this program was built.
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
    /// Print what was made as JSON.
    #[arg(long)]
    json: bool,
}

/// What was made, as `--json` prints it.
#[derive(Serialize)]
struct CompileReport<'a> {
    /// The crate's folder.
    folder: &'a Path,
    /// How many programs of straight code there are in it.
    programs: usize,
    /// What became of each element, in lines.
    notes: Vec<&'a str>,
    /// What was built; nothing with `--no-build`.
    built: Option<Built<'a>>,
}

#[derive(Serialize)]
struct Built<'a> {
    program: &'a Path,
    bytes: u64,
    seconds: f64,
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
    let source = package::find_source()
        .map_err(|failure| failure.fix("run it in the folder that Ixora's Cargo.lock is in"))?;
    let package = package::Package::new(name, Some(folder), source);
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
    if !compile.json {
        print!("{}", code.notes);
    }
    if code.programs == 0 {
        return Err(Failure::new("there is nothing to compile here: no element can be part of a program")
            .fix("ixora click runs it, as fast as a program would"));
    }
    let source = match &compile.source {
        Some(folder) => package::source_in(folder)?,
        None => package::find_source().map_err(|failure| failure.fix("--source DIR says where it is"))?,
    };
    let package = package::Package::new(&file, compile.output.as_deref(), source);
    package.write(&whole.text, &code)?;
    if !compile.json {
        println!("{} is written", package.folder.display());
    }
    let built = if compile.no_build {
        None
    } else {
        let start = Instant::now();
        let program = package.build(&compile.profile, compile.offline)?;
        Some((program, start.elapsed().as_secs_f64()))
    };
    let built = built.as_ref().map(|(program, seconds)| {
        let bytes = std::fs::metadata(program).map_or(0, |file| file.len());
        Built { program, bytes, seconds: *seconds }
    });
    let (folder, programs, notes) = (&package.folder, code.programs, code.notes.lines().collect());
    tell(&CompileReport { folder, programs, notes, built }, compile.json);
    Ok(())
}

/// Prints what was made.
fn tell(made: &CompileReport, json: bool) {
    if json {
        println!("{}", serde_json::to_string_pretty(made).unwrap_or_default());
        return;
    }
    if let Some(Built { program, bytes, seconds }) = &made.built {
        println!(
            "{} is ready ({seconds:.0} s, {:.0} MB): it takes the words of ixora click",
            program.display(),
            *bytes as f64 / 1e6
        );
    }
}
