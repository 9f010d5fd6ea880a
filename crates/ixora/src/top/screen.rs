//! What `ixora top` shows: a table that can be sorted and scrolled, and the same as
//! plain text.

use super::Order;
use super::rates::{Dropped, PortRate, Rate, Rates, TunnelRate};
use super::table::{self, Column};
use crate::rate::plural;
use crate::terminal::{Key, Line, Style};

const COLUMNS: [Column; 8] = [
    Column::words("ELEMENT"),
    Column::words("CLASS").going(1),
    Column::numbers("PACKETS/s", 10),
    Column::numbers("BATCH", 6).going(2),
    Column::numbers("CYCLES/PKT", 10).going(4),
    Column::numbers("CORE", 7).going(3),
    Column::numbers("DROPS/s", 9),
    Column::reasons("DROPPED FOR"),
];
const TUNNEL_COLUMNS: [Column; 6] = [
    Column::numbers("NETWORK", 10),
    Column::numbers("PACKETS/s", 10),
    Column::numbers("BYTES/s", 10),
    Column::numbers("PACKETS", 12).going(1),
    Column::numbers("ENTRIES", 8),
    Column::words("FAR END"),
];
const PORT_COLUMNS: [Column; 6] = [
    Column::words("PORT"),
    Column::words("LINK").going(1),
    Column::numbers("RX/s", 10),
    Column::numbers("TX/s", 10),
    Column::numbers("LOST/s", 9),
    Column::reasons("LOST FOR"),
];
const KEYS: &str = "q quit   s sort   i idle elements   space pause   arrows scroll";
/// Lines above and below the elements: the title, the head of the table, the keys.
const AROUND: usize = 3;
/// The part of the screen that ports may take.
const PORTS_PART: usize = 3;
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
        let table = self.rates.table(self.order, self.idle);
        let ports = port_lines(&self.rates, columns, rows / PORTS_PART);
        let room = rows.saturating_sub(AROUND + ports.len());
        self.selected = self.selected.min(table.rows.len().saturating_sub(1));
        self.top = self.top.min(self.selected).max((self.selected + 1).saturating_sub(room));
        let title = format!("{}   {}", self.place, summary(&self.rates, self.order));
        let title = if self.paused { format!("{title}   paused") } else { title };
        let widths = table::widths(table.columns, &table.rows, columns);
        let row = |cells: &[String]| table::line(table.columns, cells, &widths);
        let mut lines = vec![Line { style: Style::Bold, text: title }];
        lines.extend(ports);
        lines.push(Line { style: Style::Underlined, text: row(&table::heads(table.columns)) });
        for (n, cells) in table.rows.iter().enumerate().skip(self.top).take(room) {
            let style = if n == self.selected { Style::Reversed } else { table.styles[n] };
            lines.push(Line { style, text: row(cells) });
        }
        lines.resize(rows.saturating_sub(1), Line { style: Style::Plain, text: String::new() });
        lines.push(Line { style: Style::Grey, text: KEYS.to_owned() });
        lines
    }
}

/// The table below that of the ports.
struct Shown {
    columns: &'static [Column],
    rows: Vec<Vec<String>>,
    styles: Vec<Style>,
}

impl Rates {
    /// A router's elements, or an overlay's tunnels; those without packets only if asked for.
    fn table(&self, order: Order, has_idle: bool) -> Shown {
        if let Some(tunnels) = &self.tunnels {
            let mut list: Vec<&TunnelRate> =
                tunnels.iter().filter(|rate| has_idle || rate.per_second > 0.0).collect();
            if order != Order::Graph {
                list.sort_by(|a, b| b.per_second.total_cmp(&a.per_second));
            }
            let rows: Vec<Vec<String>> = list.into_iter().map(tunnel_cells).collect();
            return Shown { columns: &TUNNEL_COLUMNS, styles: vec![Style::Plain; rows.len()], rows };
        }
        let is_shown = |rate: &&Rate| has_idle || rate.per_second > 0.0 || rate.drops_per_second() > 0.0;
        let elements: Vec<&Rate> = sorted(self, order).into_iter().filter(is_shown).collect();
        let styles = elements.iter().map(|rate| style(rate, self.measured)).collect();
        Shown { columns: &COLUMNS, rows: elements.iter().map(|rate| cells(rate, self)).collect(), styles }
    }
}

fn tunnel_cells(rate: &TunnelRate) -> Vec<String> {
    vec![
        rate.network.clone(),
        short(rate.per_second),
        short(rate.bytes_per_second),
        rate.packets.to_string(),
        rate.entries.map_or("-".to_owned(), |entries| entries.to_string()),
        rate.far_end.clone(),
    ]
}

/// The ports' table, if there are ports: queues each where there are several, as long as
/// there is room for all of them. Where there is none for all ports, those that lose packets
/// come first, and how many more there are is told.
fn port_lines(rates: &Rates, columns: usize, most: usize) -> Vec<Line> {
    let mut ports: Vec<&PortRate> = rates.ports.iter().collect();
    if ports.is_empty() {
        return Vec::new();
    }
    let mut hidden = 0;
    if ports.len() >= most {
        ports.sort_by(|a, b| b.lost_per_second().total_cmp(&a.lost_per_second()));
        let shown = most.saturating_sub(2); // beside the head and the number of the others
        hidden = ports.len() - shown;
        ports.truncate(shown);
    }
    let (whole, short) = (port_rows(&ports, true), port_rows(&ports, false));
    let rows = if hidden == 0 && whole.len() < most { whole } else { short };
    let widths = table::widths(&PORT_COLUMNS, &rows, columns);
    let line = |style, cells: &[String]| Line { style, text: table::line(&PORT_COLUMNS, cells, &widths) };
    let lost = |row: &Vec<String>| row[4] != "0" && !row[4].is_empty();
    let body = rows.iter().map(|row| line(if lost(row) { Style::Red } else { Style::Plain }, row));
    let head = line(Style::Underlined, &table::heads(&PORT_COLUMNS));
    let more = (hidden > 0).then(|| Line { style: Style::Plain, text: format!("… {hidden} more ports") });
    let lines: Vec<Line> = std::iter::once(head).chain(body).chain(more).collect();
    let over = lines.len().saturating_sub(most); // of few lines the head goes first
    lines.into_iter().skip(over).collect()
}

/// The cells of all ports, and of their queues.
fn port_rows(ports: &[&PortRate], queues: bool) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for port in ports {
        let sum = |rates: &[f64]| short(rates.iter().sum());
        rows.push(vec![
            port.name.clone(),
            port.link.map_or("-".to_owned(), |link| link.to_string()),
            sum(&port.rx),
            sum(&port.tx),
            short(port.lost_per_second()),
            reasons(&port.losses),
        ]);
        let several = port.rx.len().max(port.tx.len());
        for queue in (0..several).filter(|_| queues && several > 1) {
            let rate = |rates: &[f64]| rates.get(queue).map_or(String::new(), |rate| short(*rate));
            let name = format!("  queue {queue}");
            rows.push(vec![name, "".into(), rate(&port.rx), rate(&port.tx), "".into(), "".into()]);
        }
    }
    rows
}

fn summary(rates: &Rates, order: Order) -> String {
    if let Some(tunnels) = &rates.tunnels {
        let drops: f64 = rates.ports.iter().map(PortRate::lost_per_second).sum();
        let far_ends = match (tunnels.len(), rates.entries) {
            (0, 1..) => "too many far ends to be told".to_owned(),
            (far_ends, _) => format!("{far_ends} far ends"),
        };
        return format!("{far_ends}   {} entries   {} drops/s", rates.entries, short(drops));
    }
    let cores: f64 = rates.elements.iter().filter_map(|e| e.core).sum();
    let is_timed = rates.elements.iter().any(|e| e.core.is_some_and(|core| core > 0.0));
    let is_told = is_timed || rates.elements.iter().all(|e| e.core.is_some());
    let drops: f64 = rates.elements.iter().map(Rate::drops_per_second).sum();
    let threads = plural(rates.threads, "thread");
    let sort = format!("{order:?}").to_lowercase();
    // Of some elements too few turns were timed to tell.
    let least = if rates.elements.iter().all(|e| e.core.is_some()) { "" } else { "≥" };
    let measured = match rates.measured {
        true if is_told => format!("{least}{:.0} % of a core in elements", cores * 100.0),
        true => "too few turns were timed to tell cycles".to_string(),
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
        Order::Cycles => rate.core.unwrap_or(0.0),
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

/// Why packets were dropped, what counts most first.
fn reasons(drops: &[Dropped]) -> String {
    let mut drops: Vec<_> = drops.iter().filter(|d| d.total > 0).collect();
    drops.sort_by(|a, b| b.per_second.total_cmp(&a.per_second).then(b.total.cmp(&a.total)));
    let told: Vec<String> = drops.iter().map(|d| format!("{} {}", d.reason, short(d.total as f64))).collect();
    told.join(", ")
}

fn cells(rate: &Rate, rates: &Rates) -> Vec<String> {
    let counted = |text: String| if rates.measured { text } else { "-".to_string() };
    vec![
        rate.name.clone(),
        rate.class.clone(),
        counted(short(rate.per_second)),
        counted(if rate.per_batch > 0.0 { format!("{:.1}", rate.per_batch) } else { "-".to_string() }),
        counted(rate.cycles_per_packet.map_or("-".to_string(), |cycles| format!("{cycles:.1}"))),
        counted(rate.core.map_or("-".to_string(), |core| format!("{:.1} %", core * 100.0))),
        short(rate.drops_per_second()),
        reasons(&rate.drops),
    ]
}

fn style(rate: &Rate, measured: bool) -> Style {
    match () {
        () if rate.drops_per_second() > 0.0 => Style::Red,
        () if rate.core.is_some_and(|core| core >= BUSY) => Style::Yellow,
        () if measured && rate.per_second == 0.0 => Style::Grey,
        () => Style::Plain,
    }
}

/// The tables as text.
pub fn text(rates: &Rates, order: Order) -> String {
    let table = rates.table(order, true);
    let ports = port_rows(&rates.ports.iter().collect::<Vec<_>>(), true);
    let ports = if ports.is_empty() { String::new() } else { plain(&PORT_COLUMNS, &ports) };
    format!("{}\n{ports}{}", summary(rates, order), plain(table.columns, &table.rows))
}

/// A table in full width.
fn plain(columns: &[Column], rows: &[Vec<String>]) -> String {
    let widths = table::widths(columns, rows, usize::MAX);
    let head = table::heads(columns);
    let lines = std::iter::once(&head).chain(rows);
    lines.map(|row| format!("{}\n", table::line(columns, row, &widths).trim_end())).collect()
}

#[cfg(test)]
mod tests {
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
            core: Some(core),
            drops,
        }
    }

    fn rates() -> Rates {
        let elements =
            vec![rate("first", 1e6, 0.1, 0.0), rate("second", 2e6, 0.5, 7.0), rate("idle", 0.0, 0.0, 0.0)];
        let (ports, tunnels) = (vec![], None);
        Rates { seconds: 1.0, tsc_hz: 2e9, threads: 2, measured: true, elements, ports, tunnels, entries: 6 }
    }

    #[test]
    fn an_overlay_shows_its_tunnels() {
        let tunnel = |far_end: &str, per_second| TunnelRate {
            network: "100".into(),
            far_end: far_end.into(),
            entries: (per_second > 0.0).then_some(2),
            packets: 9,
            per_second,
            bytes_per_second: per_second * 1e3,
        };
        let tunnels =
            Some(vec![tunnel("192.0.2.2", 7.0), tunnel("192.0.2.3", 0.0), tunnel("192.0.2.4", 5e6)]);
        let mut screen = Screen::new("here", Order::Graph, Rates { elements: vec![], tunnels, ..rates() });
        let seen = shown(&mut screen);
        assert!(seen.contains("FAR END") && seen.contains("3 far ends   6 entries"), "{seen}");
        assert!(seen.find("192.0.2.2") < seen.find("192.0.2.4") && seen.contains("5.0G"), "{seen}");
        assert!(screen.key(Key::Char('s')) && screen.key(Key::Char('i')));
        let seen = shown(&mut screen);
        assert!(seen.find("192.0.2.4") < seen.find("192.0.2.2") && !seen.contains("192.0.2.3"), "{seen}");
        assert!(text(&screen.rates, Order::Graph).contains("192.0.2.3"));
        let many = Rates { elements: vec![], tunnels: Some(vec![]), entries: 20_000, ..rates() };
        let seen = text(&many, Order::Graph);
        assert!(seen.contains("too many far ends to be told   20000 entries"), "{seen}");
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

    /// Names are whole in a terminal of 80 columns, other columns go for them; from 120 on all are there.
    #[test]
    fn names_are_whole_in_80_columns() {
        let name = "gateway/uplink/arp_querier@12/neighbours";
        let elements = vec![rate(name, 1e6, 0.1, 7.0), rate("second", 2e6, 0.5, 7.0)];
        let link = Some(port::Link::up(10_000));
        let (port, rx) = ("vfio-user:/run/models/one.sock,id=1", vec![1e6]);
        let port = PortRate { name: port.into(), link, rx, tx: vec![0.0], losses: vec![] };
        let rates = Rates { elements, ports: vec![port], ..rates() };
        let mut screen = Screen::new("here", Order::Graph, rates);
        let mut shown = |columns| {
            let lines = screen.lines((columns, 24));
            let text = lines.into_iter().skip(1).map(|line| line.text);
            let table: Vec<String> = text.filter(|line| line != KEYS).collect();
            assert!(table.iter().all(|line| line.chars().count() <= columns), "{table:#?}");
            table.join("\n")
        };
        let (narrow, wide) = (shown(80), shown(120));
        for name in [name, "vfio-user:/run/models/one.sock,id=1"] {
            assert!(narrow.contains(name) && wide.contains(name), "{narrow}\n{wide}");
        }
        for head in ["PACKETS/s", "DROPS/s", "DROPPED FOR", "RX/s", "TX/s", "LOST/s"] {
            assert!(narrow.contains(head), "{narrow}");
        }
        assert!(narrow.contains("1.0M") && !narrow.contains("CYCLES/PKT"), "{narrow}");
        let all = ["CLASS", "BATCH", "CYCLES/PKT", "CORE", "LINK", "too short 7"];
        assert!(all.iter().all(|head| wide.contains(head)), "{wide}");
        // Longer than all that can go: the beginning and the end are there.
        let shortened = shown(60);
        assert!(shortened.contains("gateway…") && shortened.contains("neighbours"), "{shortened}");
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
    fn of_many_ports_those_that_lose_are_shown_and_the_others_counted() {
        let port = |n: usize| {
            let per_second = if n == 18 { 5.0 } else { 0.0 };
            let losses = vec![Dropped { reason: "rx_fifo_full".into(), per_second, total: 9 }];
            PortRate {
                name: format!("port{n}"),
                link: Some(port::Link::DOWN),
                rx: vec![0.0],
                tx: vec![0.0],
                losses,
            }
        };
        let ports: Vec<PortRate> = (0..20).map(port).collect();
        let rates = Rates { ports, ..rates() };
        let shown = |most| {
            let lines = port_lines(&rates, 80, most);
            lines.into_iter().map(|line| line.text.split(' ').next().map(str::to_owned).unwrap_or_default())
        };
        assert_eq!(shown(5).collect::<Vec<_>>(), ["PORT", "port18", "port0", "port1", "…"]);
        assert_eq!(port_lines(&rates, 80, 5)[4].text, "… 17 more ports");
        assert_eq!([0, 1, 2, 20, 21].map(|most| shown(most).count()), [0, 1, 2, 20, 21]);
        assert_eq!(
            (shown(1).next().as_deref(), shown(21).next_back().as_deref()),
            (Some("…"), Some("port19"))
        );
    }

    #[test]
    fn ports_tell_what_they_lose_and_their_queues_where_there_is_room() {
        let losses = vec![Dropped { reason: "rx_fifo_full".into(), per_second: 780.0, total: 9000 }];
        let link = Some(port::Link::up(10_000));
        let port = PortRate { name: "0000:03:00.0".into(), link, rx: vec![1e6, 2e6], tx: vec![0.0], losses };
        let mut screen = Screen::new("here", Order::Graph, Rates { ports: vec![port], ..rates() });
        let shown = |screen: &mut Screen, rows| {
            let lines = screen.lines((80, rows));
            assert_eq!(lines.len(), rows);
            lines.iter().map(|line| format!("{}\n", line.text)).collect::<String>()
        };
        let high = shown(&mut screen, 30);
        assert!(high.contains("3.0M") && high.contains("rx_fifo_full 9000"), "{high}");
        assert!(high.contains("  queue 1") && high.contains("2.0M"), "{high}");
        let low = shown(&mut screen, 9);
        assert!(low.contains("0000:03:00.0") && !low.contains("queue 1") && low.contains("second"), "{low}");
        assert!(text(&screen.rates, Order::Graph).contains("  queue 1"));
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
