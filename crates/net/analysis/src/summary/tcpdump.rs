//! `FromTcpdump`: packets from the lines that tcpdump prints.

mod line;
mod sequence;

use graph::class::{Handlers, Headers, SystemUse, keyword, mandatory};
use graph::element::Account;
use graph::{Class, Cx};
use port::Reason;

use super::builder::PacketBuilder;
use super::source::{self, Descriptions, FromLines};
use super::text_file::TextFile;
use crate::file::say_packed;
use crate::sample::Sample;
use sequence::Flows;

pub static CLASS: Class = Class {
    name: "FromTcpdump",
    brief: "makes packets of the lines that tcpdump prints",
    doc: "Reads what `tcpdump -tt -n` prints (with `-v` more of it, with `-S` as well), in the form that \
          tcpdump had up to version 3: `TIME SRC.PORT > DST.PORT: FLAGS SEQ:END(LENGTH) ack N win N <OPTIONS> \
          (DF)`. A line becomes a packet with the headers of IP and of TCP or UDP; its payload is counted in \
          the extra length. Sequence numbers that tcpdump counts from the flow's first are made absolute \
          again as far as the flow's first packets tell it. Lines that begin with `#` are passed over; of one \
          that is not understood there is one message. Files may be compressed.",
    ports: "0/1",
    processing: "a",
    arguments: &[
        mandatory("FILENAME", "the file; `-` for standard input"),
        keyword("STOP", "stop the router at the end; false"),
        keyword("ACTIVE", "whether it reads; true"),
        keyword("ZERO", "taken for compatibility: bytes of which nothing is said are always zero"),
        keyword("CHECKSUM", "fills in the checksums, of the headers without the payload; false"),
        keyword("SAMPLE", "takes each packet with this probability; 1"),
    ],
    handlers: &Handlers::<FromLines<Tcpdump>>(&[
        source::sampling(),
        source::active(),
        source::encap(),
        source::stop(),
        source::filename(),
        source::filesize(),
        source::filepos(),
    ]),
    drops: &[Reason::NoBuffers, Reason::NotUnderstood, Reason::NotSampled],
    account: Account::Unknown, // lines that are dropped never are packets
    system: &[SystemUse::ProgramsAtStart],
    example: "FromTcpdump(-, STOP true) -> ToIPSummaryDump(-, FIELDS ip_src ip_dst ip_len)",
    see: &["FromDump", "FromIPSummaryDump", "ToIPSummaryDump"],
    headers: Headers { finds_network: true, ..Class::BASE.headers },
    make: |setup, conf| {
        let path: String = conf.mandatory("FILENAME")?;
        let (stop, active) = source::stop_and_active(conf)?;
        let with_checksums = conf.keyword("CHECKSUM")?.unwrap_or(false);
        let sample = conf.keyword::<Sample>("SAMPLE")?;
        conf.complete()?;
        let sample = sample.unwrap_or_default().checked(setup);
        say_packed(&path, setup);
        let file = TextFile { path, ..TextFile::default() };
        let lines = Tcpdump { file, with_checksums, flows: Flows::default() };
        Ok(Box::new(FromLines { stop, active, sample, ..FromLines::new(lines) }))
    },
    ..Class::BASE
};

/// What tcpdump printed.
pub(super) struct Tcpdump {
    file: TextFile,
    with_checksums: bool,
    flows: Flows,
}

impl Descriptions for Tcpdump {
    const NOT_ACTIVE: &'static str = "syntax error";

    fn file(&self) -> &TextFile {
        &self.file
    }

    fn open(&mut self, _: &Cx<'_>) -> Result<(), String> {
        self.file.open().map(drop)
    }

    fn next(&mut self, cx: &mut Cx<'_>) -> Option<PacketBuilder> {
        loop {
            let line = self.file.line(cx)?;
            if self.file.line == 1 && !line.first().is_some_and(u8::is_ascii_digit) {
                let what = "warning: first line suspicious; is this a tcpdump output file?";
                self.file.complain_first(cx, "initializing", ("", what));
            }
            if matches!(line.first(), None | Some(b'#')) {
                continue;
            }
            if let Some(mut builder) = line::packet(&line, &mut self.flows) {
                if self.with_checksums {
                    builder.fill_checksums();
                }
                return Some(builder);
            }
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            cx.count_drops(1, 1);
            if !self.file.has_complained() {
                self.file.complain(cx, "", "packet parse error");
            }
        }
    }
}
