//! What `ixora top` shows: a table that can be sorted and scrolled, and the same as
//! plain text.

use super::Order;
use super::rates::{Rate, Rates};
use crate::terminal::{Key, Line, Style};

const HEAD: [&str; 8] =
    ["ELEMENT", "CLASS", "PACKETS/s", "BATCH", "CYCLES/PKT", "CORE", "DROPS/s", "DROPPED FOR"];
const KEYS: &str = "q quit   s sort   i idle elements   space pause   arrows scroll";
/// Widths of the columns that have the same at any width of the screen; the others share
/// what is left, by their weights.
const FIXED: [Option<usize>; 8] = [None, None, Some(10), Some(6), Some(10), Some(6), Some(9), None];
const WEIGHTS: [usize; 8] = [3, 2, 0, 0, 0, 0, 0, 2];
/// Lines above and below the elements: the title, the head of the table, the keys.
const AROUND: usize = 3;
/// Elements that a page is.
const PAGE: usize = 20;
/// An element that takes this part of a core is shown as busy.
const BUSY: f64 = 0.25;

/// The live view.
pub struct Screen {
    place: String,
    order: Order,
    rates: Rates,
    /// Elements without packets are shown as well.
    idle: bool,
    paused: bool,
    /// The element that is marked, by its line in the table.
    selected: usize,
    /// The first line of the table that is shown.
    top: usize,
}

impl Screen {
    /// A view of a router that was found at `place`.
    pub fn new(place: &str, order: Order, rates: Rates) -> Screen {
        Screen { place: place.to_string(), order, rates, idle: true, paused: false, selected: 0, top: 0 }
    }

    /// Shows what happened last.
    pub fn show(&mut self, rates: Rates) {
        if !self.paused {
            self.rates = rates;
        }
    }

    /// Does what a key is for; false when it ends the view.
    pub fn key(&mut self, key: Key) -> bool {
        match key {
            Key::Char('q') | Key::Escape | Key::Interrupt => return false,
            Key::Char('s') => self.order = self.order.next(),
            Key::Char('i') => self.idle = !self.idle,
            Key::Char(' ') => self.paused = !self.paused,
            Key::Down | Key::Char('j') => self.selected = self.selected.saturating_add(1),
            Key::Up | Key::Char('k') => self.selected = self.selected.saturating_sub(1),
            Key::PageDown => self.selected = self.selected.saturating_add(PAGE),
            Key::PageUp => self.selected = self.selected.saturating_sub(PAGE),
            Key::Home => self.selected = 0,
            Key::End => self.selected = usize::MAX,
            Key::Char(_) => {}
        }
        true
    }

    /// The lines of a screen with so many columns and rows.
    pub fn lines(&mut self, (columns, rows): (usize, usize)) -> Vec<Line> {
        let shown = |rate: &&Rate| self.idle || rate.per_second > 0.0 || rate.drops_per_second() > 0.0;
        let elements: Vec<&Rate> = sorted(&self.rates, self.order).into_iter().filter(shown).collect();
        let room = rows.saturating_sub(AROUND);
        self.selected = self.selected.min(elements.len().saturating_sub(1));
        self.top = self.top.min(self.selected).max((self.selected + 1).saturating_sub(room));
        let title = format!("{}   {}", self.place, summary(&self.rates, self.order));
        let title = if self.paused { format!("{title}   paused") } else { title };
        let widths = widths(columns);
        let head = Line { style: Style::Underlined, text: line(&HEAD.map(String::from), &widths) };
        let mut lines = vec![Line { style: Style::Bold, text: title }, head];
        for (n, rate) in elements.iter().enumerate().skip(self.top).take(room) {
            let style = if n == self.selected { Style::Reversed } else { style(rate, self.rates.measured) };
            lines.push(Line { style, text: line(&cells(rate, &self.rates), &widths) });
        }
        lines.resize(rows.saturating_sub(1), Line { style: Style::Plain, text: String::new() });
        lines.push(Line { style: Style::Grey, text: KEYS.to_owned() });
        lines
    }
}

/// The width of each column, with two blanks between columns.
fn widths(columns: usize) -> [usize; 8] {
    let fixed: usize = FIXED.iter().flatten().sum();
    let left = columns.saturating_sub(fixed + 2 * (HEAD.len() - 1));
    let all: usize = WEIGHTS.iter().sum();
    std::array::from_fn(|n| FIXED[n].unwrap_or(left * WEIGHTS[n] / all))
}

/// A line of the table: numbers stand at the right of their columns, and what is too long
/// is cut.
fn line(cells: &[String; 8], widths: &[usize; 8]) -> String {
    let pad = |(column, (cell, &width)): (usize, (&String, &usize))| match (2..7).contains(&column) {
        true => format!("{cell:>width$.width$}"),
        false => format!("{cell:width$.width$}"),
    };
    let cells: Vec<String> = cells.iter().zip(widths).enumerate().map(pad).collect();
    cells.join("  ")
}

fn summary(rates: &Rates, order: Order) -> String {
    let cores: f64 = rates.elements.iter().map(|e| e.core).sum();
    let drops: f64 = rates.elements.iter().map(Rate::drops_per_second).sum();
    let threads =
        if rates.threads == 1 { "1 thread".to_string() } else { format!("{} threads", rates.threads) };
    let sort = format!("{order:?}").to_lowercase();
    let measured = match rates.measured {
        true => format!("{:.0} % of a core in elements", cores * 100.0),
        false => "packets and cycles are not counted".to_string(),
    };
    format!("{threads}   {measured}   {} drops/s   by {sort}", short(drops))
}

/// Elements in order; those that are equal as in the configuration.
fn sorted(rates: &Rates, order: Order) -> Vec<&Rate> {
    let mut list: Vec<&Rate> = rates.elements.iter().collect();
    let key = |rate: &Rate| match order {
        Order::Graph => 0.0,
        Order::Packets => rate.per_second,
        Order::Cycles => rate.core,
        Order::Drops => rate.drops_per_second(),
    };
    list.sort_by(|a, b| key(b).total_cmp(&key(a)));
    list
}

/// A number with three digits or four and a letter: `999`, `14.9M`.
pub fn short(number: f64) -> String {
    match number {
        n if n < 0.05 => "0".to_string(),
        n if n < 10.0 => format!("{n:.1}"),
        n if n < 1e4 => format!("{n:.0}"),
        n if n < 1e6 => format!("{:.1}k", n / 1e3),
        n if n < 1e9 => format!("{:.1}M", n / 1e6),
        n => format!("{:.1}G", n / 1e9),
    }
}

/// Why an element drops, what counts most first.
fn reasons(rate: &Rate) -> String {
    let mut drops: Vec<_> = rate.drops.iter().filter(|d| d.total > 0).collect();
    drops.sort_by(|a, b| b.per_second.total_cmp(&a.per_second).then(b.total.cmp(&a.total)));
    let told: Vec<String> = drops.iter().map(|d| format!("{} {}", d.reason, short(d.total as f64))).collect();
    told.join(", ")
}

fn cells(rate: &Rate, rates: &Rates) -> [String; 8] {
    let counted = |text: String| if rates.measured { text } else { "-".to_string() };
    [
        rate.name.clone(),
        rate.class.clone(),
        counted(short(rate.per_second)),
        counted(if rate.per_batch > 0.0 { format!("{:.1}", rate.per_batch) } else { "-".to_string() }),
        counted(rate.cycles_per_packet.map_or("-".to_string(), |cycles| format!("{cycles:.1}"))),
        counted(format!("{:.1} %", rate.core * 100.0)),
        short(rate.drops_per_second()),
        reasons(rate),
    ]
}

fn style(rate: &Rate, measured: bool) -> Style {
    match () {
        () if rate.drops_per_second() > 0.0 => Style::Red,
        () if rate.core >= BUSY => Style::Yellow,
        () if measured && rate.per_second == 0.0 => Style::Grey,
        () => Style::Plain,
    }
}

/// The table as text.
pub fn text(rates: &Rates, order: Order) -> String {
    let mut rows = vec![HEAD.map(String::from)];
    rows.extend(sorted(rates, order).into_iter().map(|rate| cells(rate, rates)));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = std::array::from_fn(width);
    let lines = rows.iter().map(|row| format!("{}\n", line(row, &widths).trim_end()));
    format!("{}\n{}", summary(rates, order), lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::super::rates::Dropped;
    use super::*;

    fn rate(name: &str, per_second: f64, core: f64, dropped: f64) -> Rate {
        let drops = vec![Dropped { reason: "too short".into(), per_second: dropped, total: dropped as u64 }];
        let (class, cycles_per_packet) = ("Strip".to_string(), Some(31.5));
        Rate {
            name: name.into(),
            class,
            packets: 9,
            per_second,
            per_batch: 32.0,
            cycles_per_packet,
            core,
            drops,
        }
    }

    fn rates() -> Rates {
        let elements =
            vec![rate("first", 1e6, 0.1, 0.0), rate("second", 2e6, 0.5, 7.0), rate("idle", 0.0, 0.0, 0.0)];
        Rates { seconds: 1.0, tsc_hz: 2e9, threads: 2, measured: true, elements }
    }

    fn shown(screen: &mut Screen) -> String {
        let lines = screen.lines((110, 8));
        assert_eq!(lines.len(), 8);
        lines.iter().map(|line| format!("{}\n", line.text)).collect()
    }

    #[test]
    fn the_table_can_be_sorted_and_thinned() {
        let mut screen = Screen::new("here", Order::Graph, rates());
        let seen = shown(&mut screen);
        let place = |text: &str, name: &str| text.find(name).unwrap_or(usize::MAX);
        assert!(place(&seen, "first") < place(&seen, "second"), "{seen}");
        assert!(
            seen.contains("31.5") && seen.contains("too short 7") && seen.contains("2 threads"),
            "{seen}"
        );
        assert!(screen.key(Key::Char('s')) && screen.key(Key::Char('i')));
        let seen = shown(&mut screen);
        assert!(place(&seen, "second") < place(&seen, "first") && !seen.contains("idle  "), "{seen}");
        assert!(!screen.key(Key::Char('q')));
    }

    #[test]
    fn the_marked_element_stays_on_the_screen() {
        let elements = (0..100).map(|n| rate(&format!("e{n} "), 1.0, 0.0, 0.0)).collect();
        let mut screen = Screen::new("here", Order::Graph, Rates { elements, ..rates() });
        let marked = |screen: &mut Screen| {
            let lines = screen.lines((110, 8));
            let marked: Vec<_> = lines.iter().filter(|line| line.style == Style::Reversed).collect();
            assert_eq!(marked.len(), 1);
            marked[0].text.split(' ').next().map(str::to_owned).unwrap_or_default()
        };
        let steps = [(Key::Down, "e1"), (Key::PageDown, "e21"), (Key::End, "e99"), (Key::Down, "e99")];
        let back = [(Key::PageUp, "e79"), (Key::Up, "e78"), (Key::Home, "e0"), (Key::Up, "e0")];
        for (key, element) in steps.into_iter().chain(back) {
            assert!(screen.key(key));
            assert_eq!(marked(&mut screen), element, "{key:?}");
        }
    }

    #[test]
    fn any_size_of_a_screen_is_filled_and_not_more() {
        let mut screen = Screen::new("here", Order::Graph, rates());
        for (columns, rows) in [(1, 1), (48, 2), (60, 3), (200, 50)] {
            let lines = screen.lines((columns, rows));
            assert_eq!(lines.len(), rows);
            let table = lines.iter().filter(|line| line.style == Style::Underlined);
            assert!(table.clone().all(|line| columns < 60 || line.text.chars().count() <= columns));
        }
    }

    #[test]
    fn what_is_paused_stays() {
        let mut screen = Screen::new("here", Order::Graph, rates());
        screen.key(Key::Char(' '));
        screen.show(Rates { elements: vec![], ..rates() });
        assert!(shown(&mut screen).contains("first"));
    }

    #[test]
    fn text_has_a_line_for_each() {
        let text = text(&rates(), Order::Drops);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5);
        assert!(lines[2].starts_with("second"), "{text}");
    }

    #[test]
    fn numbers_are_short() {
        let all = [0.0, 3.25, 999.0, 14_880.0, 14_880_000.0, 2e9];
        assert_eq!(all.map(short), ["0", "3.2", "999", "14.9k", "14.9M", "2.0G"]);
    }
}
