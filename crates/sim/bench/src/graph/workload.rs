//! What routers are measured with: configurations, and what feeds them.

use std::path::Path;

use graph::value::Prefix4;

use crate::{Error, Result};

/// The source of workloads from memory; handlers say how many packets at a time, and
/// in all.
const SOURCE: &str = "FlowSource(4096, LENGTH 60, LIMIT 0, STOP true, \
                      DST \"10.0.0.0/16 10.1.0.0/16 10.2.0.0/16 10.3.0.0/16\")";

/// The paper's router, with one input, `c`, and four nets; all ways end in `d`.
pub(crate) const ROUTER: &str = "
elementclass Out { $colour, $ip, $eth |
  input -> DropBroadcasts -> pt :: PaintTee($colour) -> gw :: IPGWOptions($ip) -> FixIPSrc($ip)
  -> ttl :: DecIPTTL -> frag :: IPFragmenter(1500) -> EtherEncap(0x0800, 02:00:00:00:01:01, $eth) -> output;
  pt[1] -> Discard; gw[1] -> Discard; ttl[1] -> Discard; frag[1] -> Discard;
}
c :: Classifier(12/0800, -) -> Paint(9) -> Strip(14) -> CheckIPHeader
  -> rt :: StaticIPLookup(10.0.0.0/16 0, 10.1.0.0/16 1, 10.2.0.0/16 2, 10.3.0.0/16 3);
c[1] -> Discard;
rt[0] -> Out(1, 10.0.0.1, 02:00:00:00:02:00) -> d :: Discard;
rt[1] -> Out(2, 10.1.0.1, 02:00:00:00:02:01) -> d;
rt[2] -> Out(3, 10.2.0.1, 02:00:00:00:02:02) -> d;
rt[3] -> Out(4, 10.3.0.1, 02:00:00:00:02:03) -> d;";

/// The paper's configurations, as users have them.
const FORWARDER_ON_PORTS: &str = include_str!("../../../../../conf/forwarder.click");
const ROUTER_ON_PORTS: &str = include_str!("../../../../../conf/router.click");

/// A workload from memory for so many threads, each with a source of its own.
///
/// # Errors
/// When there is none of this name.
pub fn from_memory(name: &str, threads: usize) -> Result<String> {
    let (first, rest) = match name {
        "source" => ("c :: Counter", "c -> Discard;".to_string()),
        "forward" => ("m :: EtherMirror", "m -> Counter -> Discard;".to_string()),
        "null8" => ("n :: Null", format!("n {} -> Counter -> Discard;", "-> Null ".repeat(7))),
        "router" => ("c", ROUTER.to_string()),
        "router4" => ("c", ROUTER.replace("-> d :: Discard;", "-> Discard;").replace("-> d;", "-> Discard;")),
        other => {
            return Err(Error::usage(
                format!("there is no workload {other:?}"),
                "write source, forward, null8, router or router4",
            ));
        }
    };
    let mut text = String::new();
    if !name.starts_with("router") {
        text += &format!("{first};\n");
    }
    text += &rest;
    let first = first.split(' ').next().unwrap_or(first);
    for thread in 0..threads {
        text += &format!("\nsrc{thread} :: {SOURCE} -> {first};\nStaticThreadSched(src{thread} {thread});");
    }
    text += &format!("\nDriverManager(wait_stop {threads});"); // until the last has sent all
    Ok(text)
}

/// Writes 4,096 frames of the source's flows to a file.
pub fn capture(path: &Path) -> String {
    let source = SOURCE.replace("LIMIT 0", "LIMIT 4096");
    format!("{source} -> ToDump({});", path.display())
}

/// Where the packets of a workload come from that other programs run as well.
#[derive(Debug, Clone, Copy)]
pub enum Feed<'a> {
    /// Four sources of 1,024 flows each, one for each of the router's nets, that make each packet
    /// anew.
    Flows,
    /// A capture, for ever.
    Replay(&'a Path),
}

impl Feed<'_> {
    /// As elements in front of `path`, with `batch` packets at a time.
    fn before(self, path: &str, batch: usize) -> String {
        let flows = |net: usize| {
            format!(
                "FastUDPFlows(0, -1, 60, 02:00:00:00:00:01, 10.9.0.{}, 02:00:00:00:00:02, 10.{net}.0.9, 1024, \
                 1000000000, BURST {batch}, DUPLICATE true) -> {path};\n",
                net + 1
            )
        };
        match self {
            Feed::Flows => (0..4).map(flows).collect(),
            Feed::Replay(capture) => format!(
                "FromDump({}, STOP false, TIMING false) -> ReplayUnqueue(STOP -1, BURST {batch}) -> {path};\n",
                capture.display()
            ),
        }
    }
}

/// A workload that is fed for ever, and says after some seconds how many packets came to its
/// end in how many seconds. Nothing in it is ours alone.
///
/// # Errors
/// When there is none of this name.
pub fn fed(name: &str, feed: Feed<'_>, batch: usize, warm: f64, window: f64) -> Result<String> {
    let (before, path) = match name {
        "source" => (String::new(), "end".to_string()),
        "forward" => ("m :: EtherMirror -> end;".to_string(), "m".to_string()),
        "null8" => (format!("n :: Null -> {}end;", "Null -> ".repeat(7)), "n".to_string()),
        "router" => (ROUTER.replace("d :: Discard;", "end;").replace("-> d;", "-> end;"), "c".to_string()),
        other => {
            return Err(Error::usage(
                format!("there is no workload {other:?} to run beside another program"),
                "write source, forward, null8 or router",
            ));
        }
    };
    Ok(format!(
        "end :: Counter -> Discard;{before}
{}DriverManager(wait {warm}s, set c $(end.count), set t $(now), wait {window}s,
              set d $(end.count), set u $(now), print \"$(sub $d $c) $(sub $u $t)\", stop);",
        feed.before(&path, batch)
    ))
}

/// A workload on ports: `forward` with two, `router` with four.
#[derive(Debug, Clone)]
pub struct OnPorts {
    /// The text of the configuration.
    pub text: String,
    /// Its variables, beside `burst`.
    pub defines: Vec<(String, String)>,
    /// How many ports.
    pub ports: usize,
    router: bool,
}

impl OnPorts {
    /// As it stands in conf/, with `burst` packets received at a time.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn new(name: &str, burst: usize) -> Result<OnPorts> {
        let (text, names): (&str, &[&str]) = match name {
            "forward" => (FORWARDER_ON_PORTS, &["A", "B"]),
            "router" => (ROUTER_ON_PORTS, &["P0", "P1", "P2", "P3"]),
            _ => {
                return Err(Error::usage(
                    format!("there is no workload {name:?} on ports"),
                    "write forward or router",
                ));
            }
        };
        let define = |(n, name): (usize, &&str)| (name.to_string(), format!("minimal:{n}"));
        let defines = names.iter().enumerate().map(define).collect();
        let burst = format!(", BURST {burst})");
        let text = received_by(text, |from| from.replace(')', &burst));
        Ok(OnPorts { text, defines, ports: names.len(), router: name == "router" })
    }

    /// The same with this in front of each `ToDevice`, such as `Queue(1024)`.
    pub fn before_sending(mut self, elements: &str) -> OnPorts {
        self.text = self.text.replace("-> ToDevice(", &format!("-> {elements} -> ToDevice("));
        self
    }

    /// The same with all of the router's receiving on the first thread, and what is
    /// called `sender` in front of each port, or `td`, the `ToDevice` itself, on the
    /// second.
    pub fn apart(mut self, sender: &str) -> OnPorts {
        self.text = received_by(&self.text, |from| from.replace(')', ", THREADS 0)"));
        self.text = self.text.replace("-> ToDevice(", "-> td :: ToDevice(");
        for port in 0..self.ports {
            self.text += &format!("StaticThreadSched(o{port}/{sender} 1);\n");
        }
        self
    }

    /// Frames of `length` bytes for each port, in trains of the paper's generator, all
    /// to other ports than they come from.
    pub fn frames(&self, length: usize) -> Vec<Vec<Vec<u8>>> {
        let net = |n: usize| Prefix4 { address: [10, n as u8, 0, 0].into(), mask: [255, 255, 0, 0].into() };
        let nets = if self.router { 4 } else { 1 };
        let frames = |port: usize| {
            let others: Vec<Prefix4> = (0..nets).filter(|n| *n != port || nets == 1).map(net).collect();
            element::io::flow_source::trains(4096, 4096, length, &others, 1 + port as u64)
        };
        (0..self.ports).map(frames).collect()
    }
}

/// Changes each `FromDevice(…)` of a configuration.
fn received_by(text: &str, change: impl Fn(&str) -> String) -> String {
    let mut parts = text.split("FromDevice(");
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let end = part.find(')').map_or(part.len(), |at| at + 1);
        out += "FromDevice(";
        out += &change(&part[..end]);
        out += &part[end..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::OnPorts;

    #[test]
    fn bursts_and_queues_are_put_into_the_configurations() {
        let on = OnPorts::new("forward", 7).expect("a workload").before_sending("Queue(9)");
        assert!(
            on.text.contains("FromDevice(\"$A\", BURST 7) -> EtherMirror -> Queue(9) -> ToDevice(\"$B\")")
        );
        let on = OnPorts::new("router", 8).expect("a workload");
        assert_eq!(on.text.matches(", BURST 8)").count(), on.text.matches("FromDevice(").count());
        let frames = on.frames(60);
        let destination = |frame: &Vec<u8>| frame[31];
        assert!(frames.iter().enumerate().all(|(n, f)| f.iter().all(|f| destination(f) != n as u8)));
    }
}
