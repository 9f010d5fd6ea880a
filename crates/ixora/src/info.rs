//! `ixora info`: what this build drives and how ports are written; what each driver offers, and what shows
//! that it does; or, with a port, what that port can do.

mod drivers;

use clap::Args;
use port::{Capabilities, Feature, Limits};
use serde_json::{Value, json};
use testbed::MODELS;

use crate::cli::PortOptions;
use crate::open::{self, model_form};
use crate::{Failure, signal};

#[derive(Args, Debug)]
pub struct Info {
    /// A port, which is opened for it.
    #[arg(value_name = "PORT", conflicts_with = "drivers")]
    pub name: Option<String>,
    /// What each driver offers: queues, limits, features and the test that shows each, counters.
    #[arg(long)]
    pub drivers: bool,
    #[command(flatten)]
    pub port: PortOptions,
}

/// Prints what this build drives, or what the named port can do.
pub fn run(info: &Info) -> Result<(), Failure> {
    match &info.name {
        Some(name) => port(name, info),
        None if info.drivers => {
            drivers::print(info.port.json);
            Ok(())
        }
        None => {
            build(info.port.json);
            Ok(())
        }
    }
}

fn build(json: bool) {
    let known = ports::FORMS.iter().map(|form| (form.syntax(), form.about.to_owned()));
    let forms: Vec<(String, String)> = known.chain([model_form()]).collect();
    if json {
        let drivers = ports::DRIVERS.iter().map(|driver| {
            json!({ "name": driver.name, "drives": driver.drives, "most_queues": driver.most_queues })
        });
        let forms = forms.iter().map(|(syntax, about)| json!({ "syntax": syntax, "about": about }));
        let models = MODELS.iter().map(|model| {
            json!({ "name": model.name, "about": model.about, "has": model.capabilities(), "faults": model.faults })
        });
        let losses = port::Reason::ALL.iter().map(|reason| {
            let by: Vec<String> = reason.counted_by().iter().map(ToString::to_string).collect();
            json!({ "name": reason.name(), "what": reason.what(), "counted_by": by })
        });
        print(&json!({
            "drivers": drivers.collect::<Vec<_>>(),
            "ports": forms.collect::<Vec<_>>(),
            "models": models.collect::<Vec<_>>(),
            "losses": losses.collect::<Vec<_>>(),
        }));
        return;
    }
    println!("Drivers:");
    for driver in ports::DRIVERS {
        println!("  {:<10} {}", driver.name, driver.drives);
    }
    println!("Ports:");
    for (syntax, about) in &forms {
        println!("  {syntax:<30} {about}");
    }
    println!("Models:");
    for model in MODELS {
        println!("  {:<12} {} ({})", model.name, model.about, model.capabilities().join(", "));
    }
    println!("Losses:");
    for reason in port::Reason::ALL {
        let by: Vec<String> = reason.counted_by().iter().map(ToString::to_string).collect();
        println!("  {:<24} {} ({})", reason.name(), reason.what(), by.join(", "));
    }
}

fn port(name: &str, info: &Info) -> Result<(), Failure> {
    let stop = signal::stop_flag()?;
    let ports = open::ports(&[name], &info.port, &stop)?;
    let port = &ports.list[0];
    let can = port.capabilities();
    if info.port.json {
        print(&as_json(port.name(), &can));
        return Ok(());
    }
    println!("{} ({}), link {}", port.name(), can.driver, port.link());
    println!(
        "opened with {} rx and {} tx queues, frames to {} bytes",
        can.rx_queues, can.tx_queues, can.max_frame
    );
    if !can.firmware.is_empty() {
        println!("firmware:");
    }
    for (what, told) in &can.firmware {
        println!("  {what:<18} {told}");
    }
    println!("limits:");
    for (what, limit) in limits(&can.limits) {
        println!("  {what:<18} {limit}");
    }
    println!("features:");
    for feature in Feature::ALL {
        println!("  {:<18} {:<4} {}", feature.name(), can.support(feature), feature.asked_by());
    }
    Ok(())
}

/// The limits by name, those that the port has.
fn limits(limits: &Limits) -> Vec<(&'static str, usize)> {
    all_limits(limits).into_iter().filter(|(_, limit)| *limit > 0).collect()
}

/// All limits by name; zero of what a port does not have.
fn all_limits(limits: &Limits) -> [(&'static str, usize); 11] {
    [
        ("rx_queues", limits.rx_queues),
        ("tx_queues", limits.tx_queues),
        ("rss_queues", limits.rss_queues),
        ("rss_table", limits.rss_table),
        ("ring_min", limits.ring.0),
        ("ring_max", limits.ring.1),
        ("max_frame", limits.max_frame),
        ("tx_segments", limits.tx_segments),
        ("unicast_addresses", limits.unicast_addresses),
        ("flow_filters", limits.flow_filters),
        ("vectors", limits.vectors),
    ]
}

fn as_json(name: &str, can: &Capabilities) -> Value {
    let features =
        Feature::ALL.map(|feature| (feature.name().to_owned(), json!(can.support(feature).to_string())));
    let limits = limits(&can.limits).into_iter().map(|(what, limit)| (what.to_owned(), json!(limit)));
    let firmware = can.firmware.iter().map(|(what, told)| ((*what).to_owned(), json!(told)));
    json!({
        "port": name,
        "driver": can.driver,
        "rx_queues": can.rx_queues,
        "tx_queues": can.tx_queues,
        "max_frame": can.max_frame,
        "firmware": firmware.collect::<serde_json::Map<_, _>>(),
        "limits": limits.collect::<serde_json::Map<_, _>>(),
        "features": features.into_iter().collect::<serde_json::Map<_, _>>(),
    })
}

fn print(value: &Value) {
    // A closed pipe is the reader's choice.
    let _ = serde_json::to_writer_pretty(std::io::stdout().lock(), value);
    println!();
}
