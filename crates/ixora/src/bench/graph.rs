//! `ixora bench graph`: what a router costs, in cycles per packet on one core.
//!
//! Packets come from memory (`FlowSource`, 4,096 random flows of 60-byte frames) and
//! end in a `Discard`, so that nothing is measured but the graph, its elements and
//! the pool. Each window runs a number of packets through a fresh router.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use clap::Args;
use graph::lang::{self, Source};
use graph::{Console, Router};
use serde::Serialize;

use super::conditions::{Conditions, pin};
use super::report::Spread;
use crate::Failure;

/// The source of every workload: `$burst` packets at a time, `$limit` in all.
const SOURCE: &str = "FlowSource(4096, LENGTH 60, BURST $burst, LIMIT $limit, STOP true, \
                      DST \"10.0.0.0/16 10.1.0.0/16 10.2.0.0/16 10.3.0.0/16\")";

/// The paper's router, with one input and four nets.
const ROUTER: &str = "
elementclass Out { $colour, $ip, $eth |
  input -> DropBroadcasts -> pt :: PaintTee($colour) -> gw :: IPGWOptions($ip) -> FixIPSrc($ip)
  -> ttl :: DecIPTTL -> frag :: IPFragmenter(1500) -> EtherEncap(0x0800, 02:00:00:00:01:01, $eth) -> output;
  pt[1] -> Discard; gw[1] -> Discard; ttl[1] -> Discard; frag[1] -> Discard;
}
src -> c :: Classifier(12/0800, -) -> Paint(9) -> Strip(14) -> CheckIPHeader
  -> rt :: StaticIPLookup(10.0.0.0/16 0, 10.1.0.0/16 1, 10.2.0.0/16 2, 10.3.0.0/16 3);
c[1] -> Discard;
rt[0] -> Out(1, 10.0.0.1, 02:00:00:00:02:00) -> d :: Discard;
rt[1] -> Out(2, 10.1.0.1, 02:00:00:00:02:01) -> d;
rt[2] -> Out(3, 10.2.0.1, 02:00:00:00:02:02) -> d;
rt[3] -> Out(4, 10.3.0.1, 02:00:00:00:02:03) -> d;";

/// How to measure.
#[derive(Args, Debug, Clone)]
pub struct Arguments {
    /// Workloads, separated by commas: source, forward, null8, router.
    #[arg(long, value_delimiter = ',', default_value = "source,forward,null8,router")]
    workload: Vec<String>,
    /// Batch sizes, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "1,8,32,64,256")]
    batch: Vec<usize>,
    /// Packets in a window.
    #[arg(long, default_value_t = 2_000_000)]
    packets: u64,
    /// Windows for each row.
    #[arg(long, default_value_t = 7)]
    windows: usize,
    /// The core to measure on.
    #[arg(long, default_value_t = 0)]
    cpu: usize,
    /// Write the rows and their conditions here as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Row {
    workload: String,
    batch: usize,
    cycles_per_packet: Spread,
    mpps: f64,
}

fn configuration(workload: &str) -> Result<String, Failure> {
    let rest = match workload {
        "source" => "src -> Counter -> Discard;".to_string(),
        "forward" => "src -> EtherMirror -> Counter -> Discard;".to_string(),
        "null8" => format!("src {} -> Counter -> Discard;", "-> Null ".repeat(8)),
        "router" => ROUTER.to_string(),
        other => {
            return Err(Failure::usage(format!("there is no workload {other:?}"))
                .fix("write source, forward, null8 or router"));
        }
    };
    Ok(format!("src :: {SOURCE};\n{rest}"))
}

/// Builds the router of a workload.
fn build(workload: &str, batch: usize, packets: u64) -> Result<Router, Failure> {
    let registry = element::registry();
    let options = lang::Options {
        defines: vec![("burst".into(), batch.to_string()), ("limit".into(), packets.to_string())],
        known_class: &|name| registry.find(name).is_some(),
        ..lang::Options::default()
    };
    let text = configuration(workload)?;
    let flat = lang::read(vec![Source::new("bench", text.as_str())], &options)
        .map_err(|problems| Failure::new(problems.to_string()))?;
    let console = Console::Memory(Arc::new(Mutex::new(String::new())));
    let options = graph::Options { console, ..graph::Options::default() };
    Router::build(&text, flat, &registry, options).map_err(|problems| {
        Failure::new(problems.iter().map(|p| format!("{}\n", p.message)).collect::<String>())
    })
}

/// One window: cycles per packet.
fn window(workload: &str, batch: usize, packets: u64) -> Result<f64, Failure> {
    let mut router = build(workload, batch, packets)?;
    let start = bus::tsc::now();
    router.run();
    let ticks = bus::tsc::now().wrapping_sub(start);
    let sent = router.read("src.count", "").unwrap_or_default();
    if sent != packets.to_string() {
        return Err(Failure::new(format!("{workload}: {sent} packets of {packets} went through")));
    }
    Ok(ticks as f64 / packets as f64)
}

/// Measures and prints.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    pin(arguments.cpu);
    let conditions = Conditions::now();
    let mut rows = vec![];
    println!("{:10} {:>5}  {:>24}  {:>8}", "WORKLOAD", "BATCH", "TSC CYCLES/PACKET", "MPPS");
    for workload in &arguments.workload {
        for &batch in &arguments.batch {
            window(workload, batch, arguments.packets / 10)?; // warms up
            let cycles = (0..arguments.windows.max(1)).map(|_| window(workload, batch, arguments.packets));
            let spread = Spread::of(cycles.collect::<Result<Vec<f64>, Failure>>()?);
            let mpps = conditions.tsc_hz as f64 / spread.median / 1e6;
            let range = format!("{:.1} ({:.1} to {:.1})", spread.median, spread.min, spread.max);
            println!("{workload:10} {batch:>5}  {range:>24}  {mpps:>8.1}");
            rows.push(Row { workload: workload.clone(), batch, cycles_per_packet: spread, mpps });
        }
    }
    println!(
        "\n{} ({} cores), TSC {:.3} GHz",
        conditions.cpu,
        conditions.cores,
        conditions.tsc_hz as f64 / 1e9
    );
    if let Some(path) = &arguments.json {
        let json = serde_json::json!({ "conditions": conditions, "rows": rows });
        let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", path.display()));
        std::fs::write(path, format!("{json:#}\n")).map_err(failed)?;
    }
    Ok(())
}
