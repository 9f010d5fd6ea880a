//! What a program runs that `ixora compile` made: its one configuration, with the words
//! of `ixora click`.

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser};
use graph::fused::Region;

use crate::click::{self, Click};

/// A compiled configuration.
#[derive(Debug, Clone, Copy)]
pub struct Compiled {
    /// The file it was made of.
    pub name: &'static str,
    /// The configuration, flat.
    pub configuration: &'static str,
    /// Which elements became programs, and why others did not; for `--explain`.
    pub notes: &'static str,
    /// The programs, each with the elements that it replaces.
    pub regions: &'static [Region],
}

/// A compiled router: its configuration is built in, the rest are the words of `ixora
/// click`. Variables were set when it was compiled.
#[derive(Parser, Debug)]
struct Words {
    #[command(flatten)]
    click: Click,
}

/// Runs a compiled configuration; what `main` does.
pub fn run(compiled: &Compiled) -> ExitCode {
    // Ports call the program itself to tidy up after it.
    if std::env::args().nth(1).is_some_and(|word| word == "janitor") {
        return crate::start();
    }
    if std::env::args().nth(1).is_some_and(|word| word == "bench") {
        let bench = || crate::bench::run_compiled(compiled, std::env::args().skip(1));
        return crate::end(crate::logging::begin(0).and_then(|()| bench()));
    }
    let hidden = ["words", "file", "expression", "clickpath"];
    let words =
        hidden.iter().fold(Words::command(), |words, word| words.mut_arg(word, |word| word.hide(true)));
    let mut click = match Words::from_arg_matches(&words.get_matches()) {
        Ok(words) => words.click,
        Err(error) => error.exit(),
    };
    click.compiled = Some(*compiled);
    crate::end(crate::logging::begin(0).and_then(|()| click::run(&click)))
}
