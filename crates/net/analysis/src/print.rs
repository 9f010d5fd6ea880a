//! `Print`: packets as bytes.

use std::fmt::Write;

use graph::chain::Bytes;
use graph::class::{Handlers, both, keyword, positional};
use graph::element::kernel::Kernel;
use graph::{Action, Class, ConfFault, Cx, Each, PerPacket};
use memory::Packet;
use port::Reason;

use super::output::Active;
use super::text::{self, Contents};

pub static CLASS: Class = Class {
    name: "Print",
    brief: "prints packets' lengths and bytes",
    doc: "Prints a line for each packet: LABEL, its length, and the first MAXLENGTH bytes of its contents. \
          The packets go on unchanged.",
    arguments: &[
        positional("LABEL", "begins each line; nothing"),
        positional("MAXLENGTH", "bytes shown; 24, -1 for all"),
        keyword("LENGTH", "the old name of MAXLENGTH"),
        keyword("NBYTES", "the old name of MAXLENGTH"),
        keyword("CONTENTS", "`NONE`, `HEX` or `ASCII`; HEX"),
        keyword("TIMESTAMP", "shows when the packet came; false"),
        keyword("PRINTANNO", "shows the annotations; false"),
        keyword("ACTIVE", "whether it prints; true"),
        keyword("HEADROOM", "shows how much room is around the data; false"),
        keyword("CPU", "shows the thread; false"),
    ],
    handlers: &Handlers::<Print>(&[both(
        "active",
        "whether it prints",
        |print: &Print| print.active.is().to_string(),
        |print: &mut Print, _, value| print.active.write(value),
    )
    .marked(".c")]),
    drops: &[Reason::NotConnected],
    live: true,
    example: "FromDevice(p) -> Print(in, 64) -> Discard",
    see: &["IPPrint", "ARPPrint"],
    kernel: Kernel::Excluded(crate::PRINT),
    make: |_, conf| {
        let label = conf.positional("LABEL")?.unwrap_or_default();
        let mut most: i32 = conf.positional("MAXLENGTH")?.unwrap_or(24);
        for old in ["LENGTH", "NBYTES"] {
            most = conf.keyword(old)?.unwrap_or(most);
        }
        let contents: String = conf.keyword("CONTENTS")?.unwrap_or_else(|| "HEX".into());
        let print = Print {
            label,
            most,
            contents: Contents::parse(&contents).ok_or_else(|| bad_contents(&contents))?,
            timestamp: conf.keyword("TIMESTAMP")?.unwrap_or(false),
            notes: conf.keyword("PRINTANNO")?.unwrap_or(false),
            active: Active::new(conf.keyword("ACTIVE")?.unwrap_or(true)),
            headroom: conf.keyword("HEADROOM")?.unwrap_or(false),
            thread: conf.keyword("CPU")?.unwrap_or(false),
        };
        conf.complete()?;
        Ok(Each::boxed(print))
    },
    ..Class::BASE
};

/// CONTENTS is none of its values.
pub(super) fn bad_contents(given: &str) -> ConfFault {
    ConfFault::new(format!(
        "bad contents value '{}'; should be 'NONE', 'HEX', or 'ASCII'",
        given.to_ascii_uppercase()
    ))
}

/// A `Print` element; [`CLASS`] says what it does.
#[derive(Debug, Clone)]
pub struct Print {
    label: String,
    most: i32,
    contents: Contents,
    timestamp: bool,
    notes: bool,
    active: Active,
    headroom: bool,
    thread: bool,
}

impl Print {
    /// A packet's line.
    fn line(&self, thread: usize, packet: &Packet) -> String {
        let mut out = self.label.clone();
        let mut separator = if out.is_empty() { "" } else { ": " };
        if self.thread {
            let _ = write!(out, "({thread})");
            separator = ": ";
        }
        if self.timestamp {
            let _ = write!(out, "{separator}{}", text::time(packet.annotations().timestamp_ns));
            separator = ": ";
        }
        let _ = write!(out, "{separator}{:4}", packet.total_len());
        if self.headroom {
            let _ = write!(out, " (h{} t{})", packet.headroom(), packet.tailroom());
        }
        if self.notes {
            out.push_str(" | ");
            for byte in packet.annotations().area {
                let _ = write!(out, "{byte:02x}");
            }
        }
        // A negative number is all of them.
        let shown = usize::try_from(self.most).unwrap_or(usize::MAX).min(packet.total_len());
        if shown > 0 && self.contents != Contents::None {
            out.push_str(" | ");
            let bytes = Bytes::of(packet).front(shown);
            match self.contents {
                Contents::Ascii => text::ascii(&mut out, &bytes, None),
                _ => text::hex(&mut out, &bytes, None),
            }
        }
        out.push('\n');
        out
    }
}

impl PerPacket for Print {
    fn packet(&mut self, cx: &mut Cx<'_>, _: usize, packet: &mut Packet) -> Action {
        if self.active.is() {
            cx.say(&self.line(cx.lane(), packet));
        }
        Action::ON
    }

    fn replicate(&self) -> Option<Print> {
        Some(self.clone())
    }
}
