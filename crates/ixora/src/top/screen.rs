//! What `ixora top` shows: a table that can be sorted and scrolled, and the same as
//! plain text.

use ratatui::Frame;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table, TableState};

use super::Order;
use super::rates::{Rate, Rates};

const HEAD: [&str; 8] =
    ["ELEMENT", "CLASS", "PACKETS/s", "BATCH", "CYCLES/PKT", "CORE", "DROPS/s", "DROPPED FOR"];
const KEYS: &str = "q quit   s sort   i idle elements   space pause   arrows scroll";
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
    table: TableState,
}

impl Screen {
    /// A view of a router that was found at `place`.
    pub fn new(place: &str, order: Order, rates: Rates) -> Screen {
        let table = TableState::default().with_selected(0);
        Screen { place: place.to_string(), order, rates, idle: true, paused: false, table }
    }

    /// Shows what happened last.
    pub fn show(&mut self, rates: Rates) {
        if !self.paused {
            self.rates = rates;
        }
    }

    /// Does what a key is for; false when it ends the view.
    pub fn key(&mut self, key: KeyCode) -> bool {
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Char('i') => self.idle = !self.idle,
            KeyCode::Char(' ') => self.paused = !self.paused,
            KeyCode::Down | KeyCode::Char('j') => self.table.select_next(),
            KeyCode::Up | KeyCode::Char('k') => self.table.select_previous(),
            KeyCode::PageDown => self.table.scroll_down_by(20),
            KeyCode::PageUp => self.table.scroll_up_by(20),
            KeyCode::Home => self.table.select_first(),
            KeyCode::End => self.table.select_last(),
            _ => {}
        }
        true
    }

    /// Draws it.
    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        let lines = [Constraint::Length(1), Constraint::Min(1), Constraint::Length(1)];
        let [top, middle, bottom] = Layout::vertical(lines).areas(frame.area());
        let title = format!("{}   {}", self.place, summary(&self.rates, self.order));
        let title = if self.paused { format!("{title}   paused") } else { title };
        frame.render_widget(Line::styled(title, Modifier::BOLD), top);
        frame.render_widget(Line::styled(KEYS, Color::DarkGray), bottom);
        let shown = |rate: &&Rate| self.idle || rate.per_second > 0.0 || rate.drops_per_second() > 0.0;
        let rows: Vec<Row<'_>> = sorted(&self.rates, self.order)
            .into_iter()
            .filter(shown)
            .map(|rate| row(rate, &self.rates))
            .collect();
        let widths = [
            Constraint::Fill(3),
            Constraint::Fill(2),
            Constraint::Length(10),
            Constraint::Length(6),
            Constraint::Length(10),
            Constraint::Length(6),
            Constraint::Length(9),
            Constraint::Fill(2),
        ];
        let head = Row::new(HEAD).style(Style::new().add_modifier(Modifier::UNDERLINED));
        let table = Table::new(rows, widths).header(head).row_highlight_style(Modifier::REVERSED);
        frame.render_stateful_widget(table, middle, &mut self.table);
    }
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

fn row<'a>(rate: &Rate, rates: &Rates) -> Row<'a> {
    let style = match () {
        () if rate.drops_per_second() > 0.0 => Style::new().fg(Color::Red),
        () if rate.core >= BUSY => Style::new().fg(Color::Yellow),
        () if rates.measured && rate.per_second == 0.0 => Style::new().fg(Color::DarkGray),
        () => Style::new(),
    };
    Row::new(cells(rate, rates).map(Cell::from)).style(style)
}

/// The table as text.
pub fn text(rates: &Rates, order: Order) -> String {
    let mut rows = vec![HEAD.map(String::from)];
    rows.extend(sorted(rates, order).into_iter().map(|rate| cells(rate, rates)));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let line = |row: &[String; 8]| {
        let pad = |(column, cell): (usize, &String)| match (2..7).contains(&column) {
            true => format!("{cell:>width$}", width = widths[column]),
            false => format!("{cell:width$}", width = widths[column]),
        };
        let cells: Vec<String> = row.iter().enumerate().map(pad).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    format!("{}\n{}", summary(rates, order), rows.iter().map(line).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::super::rates::Dropped;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

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
        let mut terminal = Terminal::new(TestBackend::new(110, 8)).expect("a terminal");
        terminal.draw(|frame| screen.draw(frame)).expect("it is drawn");
        terminal.backend().to_string()
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
        assert!(screen.key(KeyCode::Char('s')) && screen.key(KeyCode::Char('i')));
        let seen = shown(&mut screen);
        assert!(place(&seen, "second") < place(&seen, "first") && !seen.contains("idle  "), "{seen}");
        assert!(!screen.key(KeyCode::Char('q')));
    }

    #[test]
    fn what_is_paused_stays() {
        let mut screen = Screen::new("here", Order::Graph, rates());
        screen.key(KeyCode::Char(' '));
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
