//! `ToDump`: packets to a capture file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};

use graph::class::{Handlers, SystemUse, action, keyword, mandatory, positional, read, write};
use graph::lang::args;
use graph::value::Raw;
use graph::{Class, Cx, Element, Named, Next, Ran, Refused, Signals, TaskId};
use interface::pcap::classic::Writer;
use interface::pcap::{Blocks, put};
use memory::Batch;

use crate::link;
use graph::annotation::{EXTRA_LENGTH, PacketAnnotations};
use graph::well_known::{ENCAP, FILENAME};
use port::Reason;

/// Endings of compressed files, and who packs them.
const PACKED: &[(&str, &str)] = &[(".gz", "gzip"), (".bz2", "bzip2"), (".xz", "xz"), (".zst", "zstd")];

pub static CLASS: Class = Class {
    name: "ToDump",
    brief: "writes packets to a capture file",
    doc: "Writes pcap, which tcpdump, Wireshark and FromDump read. The packets go on, if there is an output. A \
          name that ends in `.gz`, `.bz2`, `.xz` or `.zst` makes a compressed file. ENCAP says what packets \
          begin with: `ETHER`, `IP`, `FDDI`, `ATM`, `802_11`, `802_11_RADIO`, `SLL`, `AIRONET`, `HDLC`, \
          `PPP_HDLC`, `PPP`, `SUNATM`, `PRISM`, `NULL`, or `#` and a number of tcpdump.org's. Packets without \
          a timestamp are written with the time at which they get here. Where no more can be written, such as \
          on a full disk, the file ends with a whole packet, what is pushed later is dropped, if there is no \
          output, nothing more is pulled, and `ixora click` ends with status 1.",
    ports: "1/0-1",
    arguments: &[
        mandatory("FILENAME", "the file; `-` for standard output"),
        positional("SNAPLEN", "bytes of each packet at the most, 0 for all; 2000"),
        positional("ENCAP", "what packets begin with; ETHER"),
        keyword("USE_ENCAP_FROM", "elements whose `encap` handlers say what packets begin with"),
        keyword("EXTRA_LENGTH", "bytes that were cut off before count in the length; true"),
        keyword("UNBUFFERED", "writes each packet at once, not each batch; false"),
        keyword("NANO", "nanoseconds; else microseconds, which all programs read; true"),
    ],
    handlers: &Handlers::<ToDump>(&[
        read(FILENAME.as_str(), "the file", |dump| dump.shown().to_string()),
        read("count", "packets written", |dump| dump.count.to_string()),
        action("reset_counts", "sets the count to zero", |dump: &mut ToDump, _| dump.count = 0).marked("b"),
        write("flush", "writes out what is buffered", |dump, _, _| {
            let flushed = dump.writer().and_then(|w| w.map_or(Ok(()), |w| w.flush()));
            flushed.map_err(|error| Refused::Failed(error.to_string()))
        }),
    ]),
    drops: &[Reason::NotConnected, Reason::NotWritten],
    system: &[SystemUse::ProgramTakenOver, SystemUse::ProgramsAtStart],
    example: "FromDevice(p) -> ToDump(out.pcap) -> Queue -> ToDevice(q)",
    see: &["FromDump", "ToIPSummaryDump"],
    make: |setup, conf| {
        let path: String = conf.mandatory("FILENAME")?;
        let snap: u32 = conf.positional("SNAPLEN")?.unwrap_or(2000);
        let encap: Option<String> = conf.positional("ENCAP")?;
        let from: Option<Raw> = conf.keyword("USE_ENCAP_FROM")?;
        let extra = conf.keyword("EXTRA_LENGTH")?.unwrap_or(true);
        let unbuffered = conf.keyword("UNBUFFERED")?.unwrap_or(false);
        let nano = conf.keyword("NANO")?.unwrap_or(true);
        conf.complete()?;
        // What packets begin with may be other than before where other elements say it.
        let continues = setup.continues() && from.is_none();
        match packing(&path) {
            Some(_) if from.is_some() => setup.will_need(SystemUse::ProgramsAtStart),
            Some(_) => setup.will_need(SystemUse::ProgramTakenOver),
            None => {}
        }
        if encap.is_some() && from.is_some() {
            return Err("specify at most one of 'ENCAP' and 'USE_ENCAP_FROM'".into());
        }
        let from: Vec<String> = from.iter().flat_map(|raw| args::words(&raw.0)).map(String::from).collect();
        let link = match encap {
            Some(encap) => link::parse(&encap).ok_or("bad encapsulation type")?,
            None => link::ETHERNET,
        };
        let on_screen = path == "-"; // in order with what else is printed
        Ok(Box::new(ToDump {
            path,
            snap: if snap == 0 { u32::MAX } else { snap },
            link,
            from,
            extra,
            unbuffered: unbuffered || on_screen,
            nano,
            continues,
            active: true,
            count: 0,
            output: Output::Closed,
            packer: None,
            task: None,
            packets: Signals::default(),
        }))
    },
    ..Class::BASE
};

/// The place of [`Reason::NotWritten`] in the class's list.
const NOT_WRITTEN: usize = 1;

type Dump = Writer<Blocks>;

/// The file: what was in it is kept until the first packet, or the end. When this
/// element takes another's place it goes on where that one was.
enum Output {
    Closed,
    Opened(File),
    Writing(Box<Dump>),
}

/// The program that packs what is written to a file of this name, if one is to.
fn packing(path: &str) -> Option<&'static str> {
    PACKED.iter().find(|(ending, _)| path.ends_with(ending)).map(|(_, program)| *program)
}

/// A `ToDump` element; [`CLASS`] says what it does.
pub struct ToDump {
    path: String,
    snap: u32,
    link: u32,
    /// Elements that know what packets begin with.
    from: Vec<String>,
    extra: bool,
    unbuffered: bool,
    nano: bool,
    /// It takes over the file of its predecessor, and the program that packs it.
    continues: bool,
    /// Nothing went wrong so far.
    active: bool,
    count: u64,
    output: Output,
    packer: Option<Child>,
    task: Option<TaskId>,
    packets: Signals,
}

impl ToDump {
    fn shown(&self) -> &str {
        if self.path == "-" { "<stdout>" } else { &self.path }
    }

    /// Asks other elements what packets begin with.
    fn ask_link(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let mut agreed: Option<(u32, String)> = None;
        for element in self.from.clone() {
            let said = cx.read_of(&element, ENCAP, "");
            let said = said.map_err(|_| format!("'{element}' has no '{ENCAP}' read handler"))?;
            let link = link::parse(said.trim());
            let link =
                link.ok_or(format!("'{element}.{ENCAP}' did not return a valid encapsulation type"))?;
            match &agreed {
                Some((other, before)) if *other != link => {
                    return Err(format!(
                        "source encapsulation types disagree: {before}, but {element} has {}",
                        said.trim()
                    ));
                }
                _ => agreed = Some((link, format!("{element} has {}", said.trim()))),
            }
        }
        self.link = agreed.map_or(self.link, |(link, _)| link);
        Ok(())
    }

    fn open(&mut self) -> io::Result<()> {
        if self.path == "-" {
            return self.write_to(io::stdout().as_fd().try_clone_to_owned()?.into());
        }
        if let Some(program) = packing(&self.path) {
            // That it can be started is seen now; it is when nothing else writes the file.
            let mut tried = Command::new(program);
            let tried = tried.arg("-c").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            tried.status().map_err(|error| io::Error::other(format!("{program}: {error}")))?;
        }
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&self.path)?;
        self.output = Output::Opened(file);
        Ok(())
    }

    /// Begins a file, of which nothing is left.
    fn begin_file(&mut self, file: File) -> io::Result<()> {
        // A pipe or a device has no length to set.
        if crate::file::regular_size(&file).is_some() {
            file.set_len(0)?;
        }
        let Some(program) = packing(&self.path) else { return self.write_to(file) };
        let spawned = Command::new(program).arg("-c").stdin(Stdio::piped()).stdout(file).spawn();
        let mut child = spawned.map_err(|error| io::Error::other(format!("{program}: {error}")))?;
        let pipe = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        self.packer = Some(child);
        self.write_to(OwnedFd::from(pipe).into())
    }

    fn write_to(&mut self, file: File) -> io::Result<()> {
        let mut writer = Writer::new(Blocks::new(file), self.link, self.snap, self.nano)?;
        writer.flush()?;
        self.output = Output::Writing(Box::new(writer));
        Ok(())
    }

    /// The file, begun.
    fn writer(&mut self) -> io::Result<Option<&mut Dump>> {
        if let Output::Opened(_) = &self.output
            && let Output::Opened(file) = std::mem::replace(&mut self.output, Output::Closed)
        {
            self.begin_file(file)?;
        }
        match &mut self.output {
            Output::Writing(writer) => Ok(Some(writer)),
            _ => Ok(None),
        }
    }

    /// Writes a batch. What the file does not take is dropped, if it does not go on.
    fn write_batch(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        if batch.is_empty() {
            return;
        }
        let (written, done) = if self.active { self.try_write(batch, cx.now_ns()) } else { (0, Ok(())) };
        self.count += written;
        if let Err(error) = done {
            self.fail(cx, &error);
        }
        crate::file::account_for(cx, batch, written, NOT_WRITTEN);
    }

    /// How many packets the file took, and why it took no more.
    fn try_write(&mut self, batch: &Batch, now: i64) -> (u64, io::Result<()>) {
        let (extra, unbuffered) = (self.extra, self.unbuffered);
        let writer = match self.writer() {
            Ok(Some(writer)) => writer,
            Ok(None) => return (0, Ok(())),
            Err(error) => return (0, Err(error)),
        };
        put(writer, batch.iter(), |writer, packet| {
            let at = packet.annotations().timestamp_ns;
            let more = if extra { packet.u32_at(EXTRA_LENGTH) } else { 0 };
            let here = packet.total_len();
            let lengths = (here, (here as u32).saturating_add(more));
            writer.write(if at == 0 { now } else { at }, lengths, packet.segments().map(|s| &s[..]))?;
            if unbuffered { writer.flush() } else { Ok(()) }
        })
    }

    /// Nothing is written any more, and that is told once.
    fn fail(&mut self, cx: &Cx<'_>, error: &io::Error) {
        if std::mem::replace(&mut self.active, false) {
            cx.fail(&format!("ToDump({}): {error}\n", self.shown()));
        }
    }

    fn close(&mut self, cx: &Cx<'_>) {
        let finished = match self.writer() {
            Ok(Some(writer)) => writer.flush(),
            Ok(None) => return,
            Err(error) => Err(error),
        };
        self.output = Output::Closed;
        let packed = self.packer.take().map_or(Ok(()), |mut child| match child.wait() {
            Ok(status) if !status.success() => Err(io::Error::other(format!("packing failed: {status}"))),
            other => other.map(|_| ()),
        });
        if let Err(error) = finished.and(packed) {
            self.fail(cx, &error);
        }
    }
}

impl Element for ToDump {
    fn check_names(&self, named: &Named<'_>) -> Result<(), String> {
        self.from.iter().try_for_each(|element| {
            named.find(element).ok_or_else(|| format!("no element named '{element}'"))?;
            let handler = named.handler_of_element(element, ENCAP).ok().filter(|handler| handler.read);
            handler.map(drop).ok_or_else(|| format!("'{element}' has no '{ENCAP}' read handler"))
        })
    }

    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.ask_link(cx)?;
        // A process that gave up what it needed for that has the file open.
        if !self.continues {
            self.open().map_err(|e| {
                let text = e.to_string();
                format!("{}: {}", self.shown(), text.split(" (os error").next().unwrap_or(&text))
            })?;
        }
        if cx.is_pull_input(0) && cx.outputs() == 0 {
            let task = cx.new_task();
            self.packets = cx.upstream(0, Some(task));
            self.task = Some(task);
            cx.schedule(task);
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: &mut Batch) -> Next {
        self.write_batch(cx, batch);
        if cx.outputs() > 0 { Next::Push(0) } else { Next::Done }
    }

    fn run(&mut self, cx: &mut Cx<'_>, task: TaskId, batch: &mut Batch) -> Ran {
        if !self.active {
            return Ran::IDLE;
        }
        let worked = cx.pull(0, batch) > 0;
        if worked || self.packets.any() {
            cx.schedule(task);
        }
        self.write_batch(cx, batch);
        Ran::done(worked)
    }

    fn take_over(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) {
        let Some(old) = (old as &mut dyn std::any::Any).downcast_mut::<ToDump>() else { return };
        let same = (&old.path, old.link, old.nano) == (&self.path, self.link, self.nano);
        if same && !matches!(old.output, Output::Closed) {
            self.output = std::mem::replace(&mut old.output, Output::Closed);
            (self.packer, self.count, self.active) = (old.packer.take(), old.count, old.active);
        }
    }

    /// A program that packs is started before a process gives up starting any. What should have been
    /// taken over and was not, for other elements say now what packets begin with, is opened.
    fn begin(&mut self, cx: &mut Cx<'_>) {
        let opened = match self.output {
            Output::Closed if self.continues => self.open(),
            _ => Ok(()),
        };
        let is_packed = packing(&self.path).is_some();
        let begun = opened.and_then(|()| if is_packed { self.writer().map(drop) } else { Ok(()) });
        if let Err(error) = begun {
            self.fail(cx, &error);
        }
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        self.close(cx);
    }
}

impl Drop for ToDump {
    /// A router that never ran is not cleaned up; its packer would write to the file
    /// after whoever opens it next.
    fn drop(&mut self) {
        self.output = Output::Closed;
        if let Some(mut packer) = self.packer.take() {
            let _ = packer.wait();
        }
    }
}
