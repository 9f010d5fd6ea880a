//! `FromIPSummaryDump`: packets from lines.

use graph::Class;
use graph::class::{Handlers, Headers, SystemUse, keyword, positional};
use graph::element::Account;
use graph::value::Raw;
use port::Reason;
use wire::ip::Protocol;

use super::lines::Lines;
use super::source::{self, FromLines};
use crate::file::say_packed;
use crate::sample::Sample;

pub static CLASS: Class = Class {
    name: "FromIPSummaryDump",
    brief: "makes packets of lines about them",
    doc: "Reads a file of lines as ToIPSummaryDump writes them, and makes a packet of each: what a line does \
          not say is zero. Lines that begin with `!` say how to read those that follow: `!data` names their \
          fields, `!proto` the protocol of packets of which none is said, `!flowid SRC SPORT DST DPORT [PROTO]` \
          their addresses and ports, `!aggregate` their aggregate, `!binary` that records follow instead of \
          lines. Others and those that begin with `#` are passed over. Packets have no link header unless a \
          line says so. Files may be compressed.",
    ports: "0/1",
    processing: "a",
    arguments: &[
        positional("FILENAME", "the file; `-` for standard input"),
        keyword("STOP", "stop the router at the end; false"),
        keyword("ACTIVE", "whether it reads; true"),
        keyword("ZERO", "taken for compatibility: bytes of which nothing is said are always zero"),
        keyword("TIMING", "packets come when their timestamps say, from the first on; false"),
        keyword("CHECKSUM", "fills in the bytes that are missing, and the checksums; false"),
        keyword("SAMPLE", "takes each packet with this probability; 1"),
        keyword("PROTO", "the protocol when none is said; 6, TCP"),
        keyword("MULTIPACKET", "makes as many packets as the field `count` says; false"),
        keyword("DEFAULT_CONTENTS", "another name of FIELDS"),
        keyword("DEFAULT_FIELDS", "another name of FIELDS"),
        keyword("DEFAULT_FLOWID", "another name of FLOWID"),
        keyword("CONTENTS", "another name of FIELDS"),
        keyword("FIELDS", "the fields of lines before `!data`; none"),
        keyword("FLOWID", "addresses and ports before `!flowid`, as there; none"),
        keyword("ALLOW_NONEXISTENT", "a file that is not there or empty has no packets; false"),
        keyword("DATA", "the lines themselves, in place of a file"),
    ],
    handlers: &Handlers::<FromLines<Lines>>(&[
        source::active(),
        source::sampling(),
        source::encap(),
        source::filename(),
        source::filesize(),
        source::filepos(),
        source::stop(),
    ]),
    drops: &[Reason::NoBuffers, Reason::NotUnderstood, Reason::NotSampled],
    account: Account::Unknown, // lines that are dropped never are packets
    system: &[SystemUse::ProgramsAtStart],
    example: "FromIPSummaryDump(-, STOP true) -> IPPrint -> Discard",
    see: &["ToIPSummaryDump", "FromDump"],
    headers: Headers { finds_network: true, ..Class::BASE.headers },
    make: |setup, conf| {
        let path: Option<String> = conf.positional("FILENAME")?;
        let mut lines = Lines::default();
        let (stop, active) = source::stop_and_active(conf)?;
        let timing = conf.keyword("TIMING")?.unwrap_or(false);
        lines.with_checksums = conf.keyword("CHECKSUM")?.unwrap_or(false);
        let sample = conf.keyword::<Sample>("SAMPLE")?.unwrap_or_default().checked(setup);
        lines.defaults.protocol = conf.keyword("PROTO")?.unwrap_or(Protocol::TCP.0);
        let several = conf.keyword("MULTIPACKET")?.unwrap_or(false);
        let (mut fields, mut flow) = (None, None);
        for key in ["DEFAULT_CONTENTS", "DEFAULT_FIELDS", "CONTENTS", "FIELDS"] {
            fields = conf.keyword::<Raw>(key)?.map(|raw| raw.0).or(fields);
        }
        for key in ["DEFAULT_FLOWID", "FLOWID"] {
            flow = conf.keyword::<Raw>(key)?.map(|raw| raw.0).or(flow);
        }
        lines.file.may_miss = conf.keyword("ALLOW_NONEXISTENT")?.unwrap_or(false);
        let data: Option<String> = conf.keyword("DATA")?;
        conf.complete()?;
        match (path, data) {
            (Some(_), Some(_)) => return Err("FILENAME and DATA conflict".into()),
            (None, None) => return Err("FILENAME: required argument missing".into()),
            (Some(path), None) => {
                say_packed(&path, setup);
                lines.file.path = path;
            }
            (None, Some(data)) => lines.file.data = Some(data),
        }
        lines.preset(fields.as_deref(), flow.as_deref())?;
        Ok(Box::new(FromLines { stop, active, timing, sample, several, ..FromLines::new(lines) }))
    },
    ..Class::BASE
};
