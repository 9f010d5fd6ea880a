//! `ProgressBar`: how far something has come, on a terminal.

use std::io::IsTerminal;

use graph::class::{Handlers, action, both, keyword, mandatory, positional, read};
use graph::clock::SECOND_NS;
use graph::lang::args::{uncomment, words};
use graph::value::{Raw, Span, Value, parse_alone};
use graph::{Class, Cx, Element, Named, Refused, TimerId};

pub static CLASS: Class = Class {
    name: "ProgressBar",
    brief: "shows on a terminal how far something has come",
    doc: "Reads where something is from POSHANDLER, and once, at first, where it ends from SIZEHANDLER: \
          numbers, which are added up where there are several handlers, with spaces between them. Shows a bar, \
          the position, and how long it will take at this rate, or only the position where the size is not \
          known. Nothing is shown where standard error is no terminal.",
    ports: "0/0",
    phase: Class::LATE,
    arguments: &[
        mandatory("POSHANDLER", "handlers that tell how far it has come"),
        positional("SIZEHANDLER", "handlers that tell how far it is to go; none"),
        keyword("UPDATE", "how often it is shown; 0.25 s"),
        keyword("BANNER", "what stands before it; nothing"),
        keyword("ACTIVE", "whether it is shown; true"),
        keyword("DELAY", "how long nothing is shown at first; 0"),
        keyword("CHECK_STDOUT", "shows nothing where standard output is a terminal as well; false"),
        keyword("FIXED_SIZE", "how far it is to go, in place of SIZEHANDLER"),
    ],
    handlers: &Handlers::<ProgressBar>(&[
        action(
            "mark_stopped",
            "shows it for the last time, as far as it came",
            |bar: &mut ProgressBar, cx| {
                bar.complete(cx, false);
            },
        ),
        action("mark_done", "shows it for the last time, as done", |bar, cx| bar.complete(cx, true)),
        both(
            "active",
            "whether it is shown",
            |bar: &ProgressBar| bar.active.to_string(),
            |bar, cx, value| {
                bar.active = parsed(value).map_err(|_| "type mismatch")?;
                bar.wake(cx);
                Ok(())
            },
        )
        .marked("c"),
        both(
            "banner",
            "what stands before it",
            |bar: &ProgressBar| bar.banner.clone(),
            |bar, _, value| {
                bar.banner = value.to_string();
                Ok(())
            },
        )
        .marked("%"),
        both(
            "poshandler",
            "handlers that tell how far it has come",
            |bar| bar.positions.join(" "),
            |bar, cx, value| {
                bar.positions = handlers(&cx.named(), value)?;
                Ok(())
            },
        ),
        both(
            "sizehandler",
            "handlers that tell how far it is to go",
            |bar| bar.sizes.join(" "),
            |bar, cx, value| {
                (bar.sizes, bar.knows_size) = (handlers(&cx.named(), value)?, false);
                Ok(())
            },
        ),
        read("pos", "how far it had come when it was shown last", |bar| bar.last.to_string()),
        both(
            "size",
            "how far it is to go; -1 where that is not known",
            |bar| bar.size.to_string(),
            |bar, _, value| {
                bar.size = parsed(value)?;
                Ok(())
            },
        ),
        action("reset", "shows it from the beginning", |bar: &mut ProgressBar, cx| {
            (bar.knows_size, bar.active) = (false, true);
            if bar.state != State::Hidden {
                bar.state = State::First;
            }
            bar.wake(cx);
        })
        .marked("b"),
    ]),
    example: "f :: FromDump(large.pcap, STOP true) -> Discard; ProgressBar(f.filepos, f.filesize)",
    see: &["FromDump", "Script"],
    make: |_, conf| {
        let positions: Raw = conf.mandatory("POSHANDLER")?;
        let sizes: Option<Raw> = conf.positional("SIZEHANDLER")?;
        let update = conf.keyword("UPDATE")?.unwrap_or(Span(SECOND_NS / 4));
        let banner = conf.keyword("BANNER")?.unwrap_or_default();
        let active = conf.keyword("ACTIVE")?.unwrap_or(true);
        let delay = conf.keyword("DELAY")?.unwrap_or(Span(0));
        let check_stdout = conf.keyword("CHECK_STDOUT")?.unwrap_or(false);
        let fixed: Option<f64> = conf.keyword("FIXED_SIZE")?;
        conf.complete()?;
        let is_hidden = !std::io::stderr().is_terminal() || check_stdout && std::io::stdout().is_terminal();
        let names = |text: &str| words(text).into_iter().map(str::to_string).collect();
        Ok(Box::new(ProgressBar {
            positions: names(&positions.0),
            sizes: names(sizes.as_ref().map_or("", |sizes| &sizes.0)),
            update_ns: update.0.max(1_000_000),
            banner,
            active,
            delay_ns: delay.0.max(0),
            size: fixed.unwrap_or(-1.0),
            knows_size: fixed.is_some(),
            state: if is_hidden { State::Hidden } else { State::First },
            ..ProgressBar::default()
        }))
    },
    ..Class::BASE
};

/// Columns of a terminal.
const COLUMNS: usize = 80;
/// Columns of all that is not the bar or what stands before it.
const OTHERS: usize = 25;
/// Without a move for so long it is said to have stalled.
const STALLED_NS: i64 = 5 * SECOND_NS;

fn parsed<T: Value>(value: &str) -> Result<T, Refused> {
    parse_alone(&uncomment(value)).map_err(Refused::from)
}

/// Names of handlers, which must be there.
fn handlers(named: &Named<'_>, text: &str) -> Result<Vec<String>, Refused> {
    let names: Vec<String> = words(text).into_iter().map(str::to_string).collect();
    for name in &names {
        if !named.handler_of(name)?.read {
            return Err(Refused::NotReadable(name.clone()));
        }
    }
    Ok(names)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// There is no terminal.
    #[default]
    Hidden,
    /// Nothing was shown.
    First,
    Shown,
    Done,
}

/// A `ProgressBar` element; [`CLASS`] says what it does.
#[derive(Debug, Default)]
pub struct ProgressBar {
    positions: Vec<String>,
    sizes: Vec<String>,
    update_ns: i64,
    banner: String,
    active: bool,
    delay_ns: i64,
    size: f64,
    knows_size: bool,
    state: State,
    /// How far it had come when it was shown last.
    last: f64,
    moved_ns: i64,
    started_ns: i64,
    /// How long it did not move.
    stalled_ns: i64,
    timer: Option<TimerId>,
}

/// What handlers say, added up; `None` where one says no number, or there is none.
fn sum(cx: &mut Cx<'_>, handlers: &[String]) -> Option<f64> {
    let mut sum = None;
    for name in handlers {
        let value: f64 = parsed(&cx.read(name, "").ok()?).ok()?;
        sum = Some(sum.unwrap_or(0.0) + value);
    }
    sum
}

/// A number of bytes in few columns.
fn abbreviated(mut position: f64) -> String {
    let mut units = [' ', 'K', 'M', 'G', 'T', 'P'].into_iter();
    let mut unit = units.next().unwrap_or(' ');
    while position >= 100_000.0 {
        let Some(next) = units.next() else { break };
        (position, unit) = (position / 1024.0, next);
    }
    format!(" {:5}{unit}{} ", position as u64, if unit == ' ' { ' ' } else { 'B' })
}

impl ProgressBar {
    fn wake(&mut self, cx: &mut Cx<'_>) {
        if let Some(timer) = self
            .timer
            .filter(|timer| self.active && self.state != State::Hidden && cx.timer_due(*timer).is_none())
        {
            cx.set_timer(timer, cx.now_ns());
        }
    }

    fn complete(&mut self, cx: &mut Cx<'_>, is_full: bool) {
        if !self.active || self.state == State::Done {
            return;
        }
        if is_full {
            self.knows_size = true;
            self.size = sum(cx, &self.positions.clone()).unwrap_or(0.0);
        }
        if self.state != State::Hidden {
            self.begin(cx);
            self.state = State::Done;
            self.show(cx);
            self.active = false;
        }
    }

    /// Before it is shown for the first time.
    fn begin(&mut self, cx: &mut Cx<'_>) {
        if self.state != State::First {
            return;
        }
        if !self.knows_size {
            let size = sum(cx, &self.sizes.clone());
            (self.size, self.knows_size) = (size.unwrap_or(self.size), size.is_some());
        }
        let now_ns = cx.now_ns();
        (self.last, self.moved_ns, self.started_ns, self.stalled_ns) = (0.0, now_ns, now_ns, 0);
        self.state = State::Shown;
    }

    fn show(&mut self, cx: &mut Cx<'_>) {
        let position = sum(cx, &self.positions.clone());
        let end = if self.state == State::Done { "\n" } else { "" };
        let bar = self.bar(position);
        let time = self.time(position, cx.now_ns());
        cx.say(&format!("\r{bar}{time}{end}"));
    }

    /// All but the time.
    fn bar(&self, position: Option<f64>) -> String {
        let mut text = if self.banner.is_empty() { String::new() } else { format!("{} ", self.banner) };
        let percent = position.filter(|_| self.knows_size).map(|position| match self.size > 0.0 {
            true => (100.0 * position / self.size).clamp(0.0, 100.0) as usize,
            false => 100,
        });
        match (percent, self.knows_size) {
            (Some(percent), _) => text += &format!("{percent:3}% "),
            (None, true) => text += "  -% ",
            (None, false) => {}
        }
        let is_fraction = self.knows_size && self.sizes.is_empty();
        let width =
            COLUMNS.saturating_sub(text.chars().count() + 1 + OTHERS) + if is_fraction { 8 } else { 0 };
        text += &match (percent, position) {
            (Some(percent), _) => format!("|{:width$}|", "*".repeat(width * percent / 100)),
            (None, Some(position)) if self.state != State::Done && width > 3 => {
                // There and back again.
                let along = (position / 100_000.0) as usize % 200;
                let before = (width - 3) * along.min(200 - along) / 100;
                format!("|{:width$}|", format!("{:before$}***", ""))
            }
            _ => format!("|{}|", "-".repeat(width)),
        };
        text + &match position {
            _ if is_fraction => " ".to_string(),
            Some(position) => abbreviated(position),
            None => " -----   ".to_string(),
        }
    }

    /// How long it will take, or took.
    fn time(&mut self, position: Option<f64>, now_ns: i64) -> String {
        let mut waits_ns = now_ns - self.moved_ns;
        let at = position.unwrap_or(0.0);
        if at > self.last {
            (self.last, self.moved_ns) = (at, now_ns);
            self.stalled_ns += if waits_ns >= STALLED_NS { waits_ns } else { 0 };
            waits_ns = 0;
        }
        let elapsed = (now_ns - self.started_ns - self.stalled_ns) as f64 / SECOND_NS as f64;
        let is_known = position.is_some() && self.knows_size && elapsed > 0.0 && at <= self.size;
        let is_done = self.state == State::Done;
        if !is_done && !is_known {
            return "   --:-- ETA".into();
        }
        if waits_ns >= STALLED_NS {
            return " - stalled -".into();
        }
        let (seconds, what) = match is_done || at < 1e-6 {
            true => (elapsed, "    "),
            false => (self.size / (at / elapsed) - elapsed, " ETA"),
        };
        let seconds = seconds as u64;
        let hours = if seconds >= 3600 { format!("{:2}:", seconds / 3600) } else { "   ".into() };
        format!("{hours}{:02}:{:02}{what}", seconds % 3600 / 60, seconds % 60)
    }
}

impl Element for ProgressBar {
    fn check_names(&self, named: &Named<'_>) -> Result<(), String> {
        for names in [&self.sizes, &self.positions] {
            handlers(named, &names.join(" ")).map_err(|refused| refused.to_string())?;
        }
        Ok(())
    }

    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.timer = Some(cx.new_timer());
        self.wake(cx);
        Ok(())
    }

    fn fire(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        if !self.active || matches!(self.state, State::Hidden | State::Done) {
            return;
        }
        self.begin(cx);
        let due_ns = self.started_ns + self.delay_ns;
        if cx.now_ns() < due_ns {
            return cx.set_timer(timer, due_ns);
        }
        self.show(cx);
        cx.set_timer_after(timer, self.update_ns);
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        if self.state == State::Shown {
            self.complete(cx, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(size: f64, knows_size: bool) -> ProgressBar {
        let sizes = vec!["f.filesize".to_string()];
        ProgressBar { sizes, size, knows_size, state: State::Shown, ..ProgressBar::default() }
    }

    #[test]
    fn a_bar_is_as_long_as_its_part_of_the_size() {
        let half = bar(200_000.0, true).bar(Some(100_000.0));
        let width = COLUMNS - 5 - 1 - OTHERS;
        assert_eq!(half, format!(" 50% |{:width$}|    97KB ", "*".repeat(width / 2)));
        assert!(bar(0.0, true).bar(Some(7.0)).starts_with("100% |***"));
        assert!(bar(0.0, true).bar(None).starts_with("  -% |---"));
        assert!(bar(-1.0, false).bar(Some(5_000_000.0)).contains("***  "));
        let fraction = ProgressBar { sizes: vec![], ..bar(4.0, true) };
        assert!(fraction.bar(Some(3.0)).ends_with("| "));
    }

    #[test]
    fn time_is_told_by_the_rate() {
        let mut one = bar(100.0, true);
        assert_eq!(one.time(Some(0.0), 0), "   --:-- ETA");
        for step in 1..5 {
            one.time(Some(5.0 * f64::from(step)), 4 * i64::from(step) * SECOND_NS);
        }
        assert_eq!(one.time(Some(25.0), 20 * SECOND_NS), "   01:00 ETA");
        assert_eq!(one.time(Some(25.0), 26 * SECOND_NS), " - stalled -");
        // From here on it moves; the eight seconds before are no time that it took.
        for second in (28..4000).step_by(4) {
            one.time(Some(25.0 + second as f64 / 100.0), second * SECOND_NS);
        }
        one.state = State::Done;
        assert_eq!(one.time(Some(100.0), 4000 * SECOND_NS), " 1:06:32    ");
        assert_eq!(abbreviated(7.0), "     7   ");
    }
}
