//! The terminal: raw mode, the alternate screen, keys and lines with colours, by the
//! control sequences of ECMA-48 and xterm that all terminals of today know.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// What a terminal without a size is taken for, in columns and lines.
const USUAL: (usize, usize) = (80, 24);
/// The alternate screen, without a cursor, without lines that wrap.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// Standard input in raw mode, until this is dropped.
pub struct Raw(Termios);

impl Raw {
    /// `None` where standard input is no terminal.
    pub fn new() -> Option<Raw> {
        let before = tcgetattr(io::stdin()).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw).ok()?;
        Some(Raw(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0); // it may be gone
    }
}

/// A key that was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A character of ASCII.
    Char(char),
    /// Ctrl-C, which raw mode does not make a signal of, or the end of the input.
    Interrupt,
    /// The key Escape.
    Escape,
    /// The arrow that points up.
    Up,
    /// The arrow that points down.
    Down,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// To the first line.
    Home,
    /// To the last line.
    End,
}

/// Bytes in front of a sequence that may have been cut: those of keys that are all there.
fn whole(bytes: &[u8]) -> usize {
    let Some(at) = bytes.iter().rposition(|byte| *byte == 0x1B) else { return bytes.len() };
    let is_cut = match &bytes[at + 1..] {
        [] | [b'[' | b'O'] => true,
        [b'[' | b'O', behind @ ..] => !behind.iter().any(|byte| (0x40..=0x7E).contains(byte)),
        _ => false,
    };
    if is_cut { at } else { bytes.len() }
}

/// The keys in these bytes, of which the last sequence is all there.
fn keys(bytes: &[u8]) -> Vec<Key> {
    const SEQUENCES: [(&[u8], Key); 12] = [
        (b"\x1b[A", Key::Up),
        (b"\x1bOA", Key::Up),
        (b"\x1b[B", Key::Down),
        (b"\x1bOB", Key::Down),
        (b"\x1b[5~", Key::PageUp),
        (b"\x1b[6~", Key::PageDown),
        (b"\x1b[H", Key::Home),
        (b"\x1bOH", Key::Home),
        (b"\x1b[1~", Key::Home),
        (b"\x1b[F", Key::End),
        (b"\x1bOF", Key::End),
        (b"\x1b[4~", Key::End),
    ];
    let (mut keys, mut rest) = (vec![], bytes);
    while let [first, behind @ ..] = rest {
        if let Some((sequence, key)) = SEQUENCES.iter().find(|(sequence, _)| rest.starts_with(sequence)) {
            keys.push(*key);
            rest = &rest[sequence.len()..];
            continue;
        }
        rest = behind;
        match first {
            0x03 => keys.push(Key::Interrupt),
            // The rest of a sequence that is not known is no key either.
            0x1B if matches!(behind, [b'[' | b'O', ..]) => {
                let end = behind[1..].iter().position(|byte| (0x40..=0x7E).contains(byte));
                rest = end.map_or(&[], |end| &behind[end + 2..]);
            }
            0x1B => keys.push(Key::Escape),
            0x20..=0x7E => keys.push(Key::Char(char::from(*first))),
            _ => {}
        }
    }
    keys
}

/// How a line is shown: the parameters of an SGR sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// As the terminal shows text.
    Plain,
    /// In bold letters.
    Bold,
    /// With a line below.
    Underlined,
    /// With the colours of text and ground exchanged.
    Reversed,
    /// In grey: the palette's bright black.
    Grey,
    /// In red, by the terminal's palette.
    Red,
    /// In yellow, by the terminal's palette.
    Yellow,
}

impl Style {
    fn parameters(self) -> &'static str {
        match self {
            Style::Plain => "0",
            Style::Bold => "0;1",
            Style::Underlined => "0;4",
            Style::Reversed => "0;7",
            Style::Grey => "0;90",
            Style::Red => "0;31",
            Style::Yellow => "0;33",
        }
    }
}

/// A line of the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// How it is shown.
    pub style: Style,
    /// What it says. Control characters, which may come from another program, are shown
    /// as question marks.
    pub text: String,
}

/// The whole terminal as a screen of lines, until this is dropped.
pub struct FullScreen {
    raw: Option<Raw>,
    /// The start of a sequence whose end was not read yet.
    unread: Vec<u8>,
}

impl FullScreen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// When standard input or output is no terminal.
    pub fn new() -> io::Result<FullScreen> {
        let raw = Raw::new().ok_or_else(|| io::Error::other("standard input is not one"))?;
        let screen = FullScreen { raw: Some(raw), unread: Vec::new() };
        put(ENTER)?;
        // What a panic says would go with the screen.
        let tell = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let _ = put(LEAVE);
            tell(panic);
        }));
        Ok(screen)
    }

    /// Columns and lines.
    pub fn size(&self) -> (usize, usize) {
        match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
            _ => USUAL,
        }
    }

    /// Shows lines from the top, and nothing below them.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn draw(&mut self, lines: &[Line]) -> io::Result<()> {
        put(&sequence(lines, self.size()))
    }

    /// The keys that are pressed next; none when time is over or the window has another
    /// size.
    ///
    /// # Errors
    /// When the terminal cannot be read.
    pub fn keys(&mut self, limit: Duration) -> io::Result<Vec<Key>> {
        let end = Instant::now() + limit;
        let size = self.size();
        loop {
            let left = end.saturating_duration_since(Instant::now()).min(Duration::from_millis(200));
            let wait = Timespec::try_from(left).map_err(io::Error::other)?;
            let stdin = io::stdin();
            match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&wait)) {
                Ok(0) | Err(Errno::INTR) if Instant::now() < end && self.size() == size => {}
                Ok(0) | Err(Errno::INTR) => return Ok(vec![]),
                Ok(_) => break,
                Err(error) => return Err(error.into()),
            }
        }
        let mut bytes = [0; 64];
        let count = rustix::io::read(io::stdin(), &mut bytes)?;
        if count == 0 {
            return Ok(vec![Key::Interrupt]);
        }
        self.unread.extend_from_slice(&bytes[..count]);
        // More is there: the last sequence may be cut.
        let whole = if count == bytes.len() { whole(&self.unread) } else { self.unread.len() };
        let pressed = keys(&self.unread[..whole]);
        self.unread.drain(..whole);
        Ok(pressed)
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        // Both may be gone. The screen goes first: what is typed is not shown on it.
        let _ = put(LEAVE);
        self.raw = None;
    }
}

fn put(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// What makes a screen of so many columns and lines show these.
fn sequence(lines: &[Line], (columns, rows): (usize, usize)) -> String {
    let mut text = String::new();
    for (row, line) in lines.iter().take(rows).enumerate() {
        let shown = line.text.chars().take(columns).map(|char| if char.is_control() { '?' } else { char });
        text.push_str(&format!("\x1b[{};1H\x1b[{}m", row + 1, line.style.parameters()));
        text.extend(shown);
        text.push_str("\x1b[0m\x1b[K");
    }
    if lines.len() < rows {
        text.push_str(&format!("\x1b[{};1H\x1b[J", lines.len() + 1));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_that_was_cut_is_no_escape() {
        let arrows = b"\x1b[B".repeat(22);
        let end = whole(&arrows[..64]);
        assert_eq!((end, keys(&arrows[..end])), (63, vec![Key::Down; 21]));
        assert_eq!(whole(&arrows[..65]), 63, "in each place");
        assert_eq!((whole(&arrows), whole(b"q"), whole(b""), whole(b"\x1b[")), (66, 1, 0, 0));
    }

    #[test]
    fn keys_are_known_alone_and_behind_one_another() {
        assert_eq!(keys(b"q"), [Key::Char('q')]);
        assert_eq!(keys(b"\x1b[A\x1bOBs\x1b[6~"), [Key::Up, Key::Down, Key::Char('s'), Key::PageDown]);
        assert_eq!(keys(b"\x1b"), [Key::Escape]);
        assert_eq!(keys(b"\x03"), [Key::Interrupt]);
        assert_eq!(keys(b"\x1b[1;5Cx\xFF\x00"), [Key::Char('x')], "unknown ones are none");
        assert!(keys(b"\x1b[1;").is_empty());
    }

    #[test]
    fn lines_are_cut_to_the_screen_and_what_is_below_is_erased() {
        let line = |style, text: &str| Line { style, text: text.to_owned() };
        let lines = [line(Style::Red, "four"), line(Style::Plain, "x")];
        assert_eq!(
            sequence(&lines, (3, 3)),
            "\x1b[1;1H\x1b[0;31mfou\x1b[0m\x1b[K\x1b[2;1H\x1b[0mx\x1b[0m\x1b[K\x1b[3;1H\x1b[J"
        );
        assert!(!sequence(&lines, (3, 1)).contains('x'));
    }

    #[test]
    fn what_another_program_said_controls_no_terminal() {
        let text = "a\x1b[2Jb\n\u{9b}1m".to_owned();
        let shown = sequence(&[Line { style: Style::Plain, text }], (20, 1));
        assert!(shown.contains("a?[2Jb??1m"), "{shown:?}");
    }
}
