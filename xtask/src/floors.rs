//! Crates stand on floors, and a crate depends only on crates of floors before its
//! own, or on those that stand before it on its own floor. Dependencies of tests
//! are not checked: the other side of a driver is its model.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::step::{Failure, cargo};

/// The floors from the top, each with its crates in the order in which they may use
/// each other. A crate that stands in none of them is an error.
const FLOORS: &[(&str, &[&str])] = &[
    ("base", &["wire", "regs", "fib"]),
    ("nic", &["bus", "memory", "port", "driver", "interface", "ports"]),
    (
        "net",
        &[
            "runtime", "neighbor", "tcp", "service", "socket", "app", "overlay", "control", "vtep", "graph",
            "element", "analysis",
        ],
    ),
    ("sim", &["model", "testbed", "lab", "bench", "packetdrill"]),
];
/// The command line, below all floors.
const PROGRAM: &str = "ixora";
/// The models depend on the first floor only: they must not share code with the
/// drivers that they check.
const MODELS: &str = "ixora-model";

/// A crate's place: the number of its floor, and its number on the floor.
type FloorNumber = (usize, usize);

/// Checks the dependencies of every crate.
pub fn check() -> Result<(), Failure> {
    println!("==> floors");
    let output = cargo(&["metadata", "--no-deps", "--format-version", "1", "--locked"])
        .output()
        .map_err(|e| format!("cannot start cargo: {e}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let metadata: Value =
        serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
    let wrong = against(metadata["packages"].as_array().map_or(&[], Vec::as_slice))?;
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("\n")),
    }
}

/// The dependencies that go against the floors, a sentence each.
fn against(packages: &[Value]) -> Result<Vec<String>, Failure> {
    let mut places = BTreeMap::new();
    for package in packages {
        let (name, manifest) = (text(&package["name"]), text(&package["manifest_path"]));
        if let Some(place) = place_of(manifest)? {
            places.insert(name, place);
        }
    }
    let mut wrong = Vec::new();
    for package in packages {
        let Some(&here) = places.get(text(&package["name"])) else { continue };
        let limit = if text(&package["name"]) == MODELS { (1, 0) } else { here };
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        for dependency in dependencies.filter(|dependency| dependency["kind"] != "dev") {
            let name = text(&dependency["name"]);
            if places.get(name).is_some_and(|there| *there >= limit) {
                wrong.push(format!(
                    "{} must not depend on {name}, which comes after it in the order of the floors \
                     (ARCHITECTURE.md draws them, xtask/src/floors.rs lists them)",
                    text(&package["name"]),
                ));
            }
        }
    }
    Ok(wrong)
}

/// The place of a crate by the path of its manifest, `crates/FLOOR/NAME/Cargo.toml`;
/// none for what is no part of the house.
fn place_of(manifest: &str) -> Result<Option<FloorNumber>, Failure> {
    let mut parts = manifest.rsplit('/').skip(1);
    let (name, floor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    if floor == "crates" && name == PROGRAM {
        return Ok(Some((FLOORS.len(), 0)));
    }
    if parts.next() != Some("crates") {
        return Ok(None);
    }
    let place = FLOORS.iter().enumerate().find_map(|(number, (floor_name, crates))| {
        let at = crates.iter().position(|it| *it == name)?;
        (*floor_name == floor).then_some((number, at))
    });
    let unknown = || format!("{manifest} stands on no floor: put it into the list in xtask/src/floors.rs");
    place.map(Some).ok_or_else(unknown)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(floor: &str, name: &str, dependencies: &[(&str, Option<&str>)]) -> Value {
        let dependency =
            |(name, kind): &(&str, Option<&str>)| json!({ "name": format!("ixora-{name}"), "kind": kind });
        let dependencies: Vec<Value> = dependencies.iter().map(dependency).collect();
        let manifest = format!("/somewhere/crates/{floor}/{name}/Cargo.toml");
        json!({ "name": format!("ixora-{name}"), "manifest_path": manifest, "dependencies": dependencies })
    }

    #[test]
    fn an_import_against_the_floors_is_refused_and_one_of_tests_is_not() {
        let tests_only = package("nic", "driver", &[("regs", None), ("model", Some("dev"))]);
        let upwards = package("sim", "model", &[("regs", None)]);
        let regs = package("base", "regs", &[]);
        assert_eq!(against(&[tests_only, upwards, regs.clone()]), Ok(vec![]));
        let downwards = package("nic", "driver", &[("model", None)]);
        let sideways = package("base", "regs", &[("fib", None)]);
        let model_of_the_driver = package("sim", "model", &[("driver", None)]);
        let fib = package("base", "fib", &[]);
        let wrong = against(&[downwards, sideways, model_of_the_driver, fib]).expect("all are known");
        assert_eq!(wrong.len(), 3);
        assert!(wrong[0].contains("ixora-driver must not depend on ixora-model"), "{wrong:?}");
        assert!(wrong[2].contains("ixora-model must not depend on ixora-driver"), "{wrong:?}");
        assert!(against(&[package("nic", "nothing", &[])]).is_err(), "a crate on no floor");
    }
}
