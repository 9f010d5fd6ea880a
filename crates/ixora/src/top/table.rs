//! Columns that fit a width: which of them are left out where there is no room for all, and
//! what is cut.

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// What stands above it.
    pub head: &'static str,
    /// Its width where that does not depend on what is in it: numbers, which stand at the
    /// right.
    pub number: Option<usize>,
    /// It tells reasons, each with a number: `timeout 5, no_route 2`.
    pub is_reasons: bool,
    /// When it is left out where there is no room: 1 first; 0 never.
    pub goes: u8,
}

impl Column {
    /// A column of words, which are never left out.
    pub const fn words(head: &'static str) -> Column {
        Column { head, number: None, is_reasons: false, goes: 0 }
    }

    /// A column of reasons with their numbers, which are never left out.
    pub const fn reasons(head: &'static str) -> Column {
        Column { is_reasons: true, ..Column::words(head) }
    }

    /// A column of numbers, which are never left out.
    pub const fn numbers(head: &'static str, width: usize) -> Column {
        Column { number: Some(width), ..Column::words(head) }
    }

    /// One that is left out where there is no room, those with low numbers first.
    pub const fn going(self, goes: u8) -> Column {
        Column { goes, ..self }
    }
}

/// Blanks between columns.
const GAP: usize = 2;
/// What the last column has before others are left out for it.
const LAST: usize = 20;

/// What no column is wider than: names are what a router says, and `format!` has a limit.
const WIDEST: usize = 1000;

/// The widths of columns in a table that is `room` wide, `None` for those that are left
/// out. The last column has what the others leave, and is cut first.
pub fn widths(columns: &[Column], rows: &[Vec<String>], room: usize) -> Vec<Option<usize>> {
    let longest = |n: usize| rows.iter().map(|row| row[n].chars().count()).max().unwrap_or(0);
    let last = columns.len() - 1;
    let wanted = |n: usize| match columns[n].number {
        Some(width) => width,
        None if n == last => longest(n).min(LAST).max(columns[n].head.len()),
        None => longest(n).max(columns[n].head.len()),
    };
    let mut widths: Vec<Option<usize>> = (0..columns.len()).map(|n| Some(wanted(n))).collect();
    let needed = |widths: &[Option<usize>]| {
        let shown = widths.iter().flatten();
        shown.clone().sum::<usize>() + GAP * shown.count().saturating_sub(1)
    };
    while needed(&widths) > room {
        let shown = (0..columns.len()).filter(|&n| widths[n].is_some() && columns[n].goes > 0);
        let Some(next) = shown.min_by_key(|&n| columns[n].goes) else { break };
        widths[next] = None;
    }
    let over = needed(&widths).saturating_sub(room);
    widths[last] = widths[last].map(|width| width.saturating_sub(over).max(columns[last].head.len()));
    let over = needed(&widths).saturating_sub(room);
    widths[0] = widths[0].map(|width| width.saturating_sub(over).max(1));
    let left = room.saturating_sub(needed(&widths));
    widths[last] = widths[last].map(|width| width.saturating_add(left).min(longest(last).max(width)));
    widths
}

/// Between two reasons.
const AND: &str = ", ";
/// What stands for reasons that are left out.
const MORE: &str = ", …";

/// A line of a table. Words that are too long are shortened in their middle ([`shorten`]), of reasons the
/// first ones are shown ([`first_reasons`]).
pub fn line(columns: &[Column], cells: &[String], widths: &[Option<usize>]) -> String {
    let cell = |n: usize| {
        let (cell, width) = (&cells[n], widths[n]?.min(WIDEST));
        Some(match (n, columns[n].number) {
            (_, None) if columns[n].is_reasons => format!("{:width$}", first_reasons(cell, width)),
            (_, None) => format!("{:width$}", shorten(cell, width)),
            // Without its last digits it would be another number.
            (0, Some(_)) => format!("{:>width$}", shorten(cell, width)),
            (_, Some(_)) => format!("{cell:>width$.width$}"),
        })
    };
    let cells: Vec<String> = (0..columns.len()).filter_map(cell).collect();
    cells.join("  ")
}

/// A name that is at most `width` wide: of one that is too long the middle is left out. Two thirds
/// are its end, which tells elements of one compound apart; the beginning tells compounds apart.
fn shorten(name: &str, width: usize) -> String {
    let length = name.chars().count();
    if length <= width {
        return name.to_owned();
    }
    let kept = width.saturating_sub(1);
    let begin = kept / 3;
    let end = name.chars().skip(length - (kept - begin));
    name.chars().take(begin).chain(['…']).chain(end).collect()
}

/// Those of reasons that find room in a width, the first ones. Where there is none for the first, its name is
/// shortened: its number is whole, or not there.
fn first_reasons(reasons: &str, width: usize) -> String {
    let fits = |text: &str| text.chars().count() <= width;
    if fits(reasons) {
        return reasons.to_owned();
    }
    let mut shown = reasons.rmatch_indices(AND).map(|(end, _)| format!("{}{MORE}", &reasons[..end]));
    if let Some(shown) = shown.find(|shown| fits(shown)) {
        return shown;
    }
    let (first, more) = reasons.split_once(AND).map_or((reasons, ""), |(first, _)| (first, MORE));
    let Some((name, number)) = first.rsplit_once(' ') else { return shorten(first, width) };
    let room = |more: &str| width.saturating_sub(" ".len() + number.len() + more.chars().count());
    let more = if room(more) > 0 { more } else { "" };
    let ends = [format!("{} {number}{more}", shorten(name, room(more))), number.to_owned()];
    ends.into_iter().find(|shown| fits(shown)).unwrap_or_else(|| "…".to_owned())
}

/// The heads of all columns, as cells.
pub fn heads(columns: &[Column]) -> Vec<String> {
    columns.iter().map(|column| column.head.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column::words("NAME"),
        Column::words("CLASS").going(1),
        Column::numbers("RATE", 8),
        Column::reasons("REASONS"),
    ];

    fn shown(room: usize) -> String {
        let row: Vec<String> =
            ["gateway/arp_querier", "ARPQuerier", "14.9M", "timeout 5"].map(String::from).to_vec();
        let widths = widths(&COLUMNS, std::slice::from_ref(&row), room);
        line(&COLUMNS, &row, &widths)
    }

    #[test]
    fn names_are_whole_as_long_as_anything_else_can_go() {
        assert_eq!(shown(60), "gateway/arp_querier  ARPQuerier     14.9M  timeout 5");
        assert_eq!(shown(50), "gateway/arp_querier     14.9M  timeout 5");
        assert_eq!(shown(38), "gateway/arp_querier     14.9M  t…out 5");
    }

    #[test]
    fn a_number_that_names_a_line_is_not_cut_without_a_mark() {
        let columns = [Column::numbers("NETWORK", 10), Column::words("FAR END")];
        let cells = ["16777215".to_owned(), "192.0.2.1".to_owned()];
        assert!(line(&columns, &cells, &[Some(6), Some(7)]).starts_with("1…7215  "));
        assert!(line(&columns, &cells, &[Some(10), Some(9)]).starts_with("  16777215  "));
    }

    /// What counts most stands first, and no number is another one.
    #[test]
    fn of_reasons_the_first_ones_are_shown_with_whole_numbers() {
        let (reasons, one) = ("rx_fifo_full 14.9M, rx_oversize 3, too short 1", "rx_fifo_full 123.4M");
        let all = [
            (reasons, 46, reasons),
            (reasons, 45, "rx_fifo_full 14.9M, rx_oversize 3, …"),
            (reasons, 35, "rx_fifo_full 14.9M, …"),
            (reasons, 20, "rx_…fo_full 14.9M, …"),
            (reasons, 10, "… 14.9M, …"),
            (reasons, 8, "…l 14.9M"),
            (one, 19, one),
            (one, 18, "rx_…fo_full 123.4M"),
            (one, 8, "… 123.4M"),
            (one, 7, "123.4M"),
            (one, 5, "…"),
            ("odd", 2, "…d"),
        ];
        for (reasons, width, shown) in all {
            let line = line(&[Column::reasons("LOST FOR")], &[reasons.to_owned()], &[Some(width)]);
            assert_eq!((line.trim_end(), line.chars().count()), (shown, width));
        }
    }

    #[test]
    fn a_column_of_any_width_is_shown() {
        let row = ["a".repeat(70_000), "b".repeat(70_000), "1".into(), "c".repeat(70_000)];
        let widths = widths(&COLUMNS, std::slice::from_ref(&row.to_vec()), usize::MAX);
        assert!(line(&COLUMNS, &row, &widths).chars().count() < 4 * WIDEST);
    }

    #[test]
    fn of_a_name_that_is_too_long_the_middle_is_left_out() {
        assert!(shown(30).starts_with("gat…querier  "), "{}", shown(30));
        assert_eq!(shown(30).chars().count(), 30);
        assert!(shown(1).starts_with('…'));
    }
}
