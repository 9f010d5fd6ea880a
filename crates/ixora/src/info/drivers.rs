//! `ixora info --drivers`: one table of what each driver offers on the device that has the most, and what
//! shows that a port of its has each feature: a test, or a scenario of the lab.

use port::{Feature, Offers};
use ports::{DRIVERS, Driver};
use serde_json::{Map, Value, json};

use super::all_limits;

/// Prints the table, as text or as JSON.
pub fn print(json: bool) {
    let all: Vec<(&Driver, Offers)> = DRIVERS.iter().map(|driver| (driver, (driver.offers)())).collect();
    match json {
        true => super::print(&json!({ "drivers": all.iter().map(as_json).collect::<Vec<_>>() })),
        false => print!("{}", text(&all)),
    }
}

fn as_json((driver, offers): &(&Driver, Offers)) -> Value {
    let limits =
        super::limits(&offers.limits).into_iter().map(|(name, limit)| (name.to_owned(), json!(limit)));
    let shown = |feature: &Feature| (feature.name().to_owned(), json!(driver.shown_by(*feature)));
    json!({
        "name": driver.name,
        "drives": driver.drives,
        "hosts_virtual_functions": driver.host.is_some(),
        "limits": limits.collect::<Map<_, _>>(),
        "features": offers.features.iter().map(shown).collect::<Map<_, _>>(),
        "counters": offers.counters,
    })
}

fn text(all: &[(&Driver, Offers)]) -> String {
    let row = |name: &str, cells: Vec<String>| {
        let cells: String = cells.iter().map(|cell| format!(" {cell:>8}")).collect();
        format!("{name:<18}{cells}\n")
    };
    let of = |each: &dyn Fn(&Driver, &Offers) -> String| -> Vec<String> {
        all.iter().map(|(driver, offers)| each(driver, offers)).collect()
    };
    let mut text = row("", of(&|driver, _| driver.name.to_owned()));
    for (n, (name, _)) in all_limits(&Default::default()).into_iter().enumerate() {
        let limit = |offers: &Offers| all_limits(&offers.limits)[n].1;
        text += &row(
            name,
            of(&|_, offers| Some(limit(offers)).filter(|n| *n > 0).map_or("-".to_owned(), |n| n.to_string())),
        );
    }
    for feature in Feature::ALL {
        let has = |offers: &Offers| if offers.features.contains(&feature) { "yes" } else { "-" };
        text += &row(feature.name(), of(&|_, offers| has(offers).to_owned()));
    }
    text += &row("hosts VFs", of(&|driver, _| if driver.host.is_some() { "yes" } else { "-" }.to_owned()));
    text += &row("counters", of(&|_, offers| offers.counters.len().to_string()));
    text += "\nWhat depends on the device, too, is -; `ixora info PORT` tells it.\n\n";
    text += "What shows a feature: a test (cargo test -p ixora-testbed --test it NAME), or a scenario\n";
    text += "(cargo xtask lab NAME).\n";
    for (driver, offers) in all {
        text += &format!("{}: {}\n", driver.name, driver.drives);
        for (by, features) in shown(driver, offers) {
            text += &format!("  {by}\n      {}\n", features.join(", "));
        }
        text += &format!("  counters\n      {}\n", offers.counters.join(", "));
    }
    text
}

/// What shows features of a driver, each with those that it shows.
fn shown(driver: &Driver, offers: &Offers) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut shown: Vec<(&str, Vec<&str>)> = Vec::new();
    for (feature, by) in offers.features.iter().filter_map(|one| Some((one, driver.shown_by(*one)?))) {
        match shown.iter_mut().find(|(other, _)| *other == by) {
            Some((_, features)) => features.push(feature.name()),
            None => shown.push((by, vec![feature.name()])),
        }
    }
    shown
}
