//! Hosts the virtual functions of a port: brings them up, answers their drivers until it is told to
//! stop, and tells what it counted of each. SIGUSR1 has it reset them all.

pub mod arguments;

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use driver::vf_host::{Policy, VfCounters};
use serde_json::json;
use signal_hook::consts::SIGUSR1;
use wire::MacAddress;

use crate::{Failure, open, signal};
use arguments::{Pf, VfPolicy};

/// How long nothing is looked at when there was nothing to do.
const PAUSE: Duration = Duration::from_millis(1);

/// `ixora pf A`.
pub fn run(arguments: &Pf) -> Result<(), Failure> {
    let policies = policies(arguments)?;
    let (stop, reset) = (signal::stop_flag()?, signal::flag_of(SIGUSR1)?);
    let options = &arguments.port;
    let (pci, mut opened) = open::device(&arguments.a, options, &stop)?;
    // The port itself is for other uses than this: it receives what is its own.
    let asked = port::Options { promiscuous: false, link_wait_ms: 0, ..options.open.0.clone() };
    let mut host = ports::host(pci, &opened.dma, asked, &policies)?;
    let confinement = opened.confine(options, None)?;
    confinement.complete()?;
    if !options.json && !options.quiet {
        for n in 0..policies.len() {
            let mac = host.mac(n).map(MacAddress).map_or_else(String::new, |mac| mac.to_string());
            eprintln!("hosting virtual function {n} with address {mac}");
        }
    }
    let end = options.duration.map(|duration| Instant::now() + duration);
    while !stop.load(Ordering::Relaxed) && end.is_none_or(|end| Instant::now() < end) {
        if reset.swap(false, Ordering::Relaxed) {
            (0..policies.len()).try_for_each(|n| host.reset(n)).map_err(port::Error::from)?;
        }
        if host.poll().map_err(port::Error::from)? == 0 {
            thread::sleep(PAUSE);
        }
    }
    let counters: Vec<VfCounters> = (0..policies.len()).map(|n| host.counters(n)).collect();
    let lost = host.lost();
    drop(host);
    print(&counters, lost, options.json);
    Ok(())
}

/// The policy of each virtual function; none of two that contradict each other is taken.
fn policies(arguments: &Pf) -> Result<Vec<Policy>, Failure> {
    let mut policies = vec![Policy::default(); arguments.vfs.into()];
    for (place, given) in arguments.vf.iter().enumerate() {
        let before = &arguments.vf[..place];
        if before.iter().any(|other| other.vf == given.vf) {
            return Err(Failure::usage(format!("--vf {} is given twice", given.vf))
                .fix("write all its words behind one --vf, as 0,trust,rate=500"));
        }
        let same = |other: &&VfPolicy| other.policy.mac.is_some() && other.policy.mac == given.policy.mac;
        if let (Some(other), Some(mac)) = (before.iter().find(same), given.policy.mac) {
            let (vf, other, mac) = (given.vf, other.vf, MacAddress(mac));
            return Err(Failure::usage(format!("--vf {other} and --vf {vf} have the same address {mac}"))
                .fix("give each its own, or trust them, and have a driver add the other's address"));
        }
        let Some(policy) = policies.get_mut(given.vf) else {
            let (vf, vfs) = (given.vf, arguments.vfs);
            return Err(Failure::usage(format!("--vf {vf} is given, and {vfs} are hosted"))
                .fix(format!("write --vfs {} or leave it out", vf + 1)));
        };
        *policy = given.policy;
    }
    Ok(policies)
}

fn print(counters: &[VfCounters], lost: u64, json: bool) {
    let named = |one: &VfCounters| {
        [
            ("messages", one.messages),
            ("refused", one.refused),
            ("unsent", one.unsent),
            ("discarded", one.discarded),
            ("messages_lost", one.messages_lost),
            ("not_trusted", one.not_trusted),
            ("resets", one.resets),
            ("not_brought_up", one.not_brought_up),
        ]
    };
    if json {
        let vfs: Vec<serde_json::Map<_, _>> = counters
            .iter()
            .map(|one| named(one).into_iter().map(|(name, count)| (name.to_owned(), json!(count))).collect())
            .collect();
        println!("{}", json!({ "vfs": vfs, "messages_lost": lost }));
        return;
    }
    for (n, one) in counters.iter().enumerate() {
        let words: Vec<String> = named(one).iter().map(|(name, count)| format!("{name} {count}")).collect();
        println!("vf {n}: {}", words.join(", "));
    }
    if lost > 0 {
        println!("messages lost: {lost}");
    }
}
