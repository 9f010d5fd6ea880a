//! What our drivers of Intel's NICs say that a port can do, shown feature by feature on our models.

use crate::common::promises::all;
use crate::common::{Bench, devices_of, i40e, i40e_vf, ixgbe_vf};
use port::{Feature, Options, Port as _, Support};
use testbed::ixgbe::{DEVICE_SFP, DEVICE_X550};

macro_rules! promises {
    ($($test:ident: $driver:literal $ports:ty;)*) => {
        $(
            #[test]
            fn $test() {
                all::<$ports>($driver, concat!("promises::", stringify!($test)));
            }
        )*
    };
}

promises! {
    what_the_driver_of_the_82599_says: "ixgbe" crate::common::Bench;
    what_the_driver_of_the_82599s_virtual_functions_says: "ixgbevf" ixgbe_vf::Pair;
    what_the_driver_of_the_xl710_says: "i40e" i40e::Bench;
    what_the_driver_of_the_xl710s_virtual_functions_says: "iavf" i40e_vf::Pair;
}

#[test]
fn what_the_driver_of_the_82599_says_of_an_x550() {
    let says = |id| {
        let bench = Bench::over(devices_of(&["sink"], id), &Options::default(), 1024);
        let can = bench.sides[0].device.capabilities();
        bench.finish();
        Feature::ALL.map(|feature| can.support(feature) != Support::No)
    };
    let (of_82599, of_x550) = (says(DEVICE_SFP), says(DEVICE_X550));
    let more = Feature::ALL.into_iter().filter(|f| of_82599[*f as usize] != of_x550[*f as usize]);
    assert_eq!(more.collect::<Vec<_>>(), [Feature::Timestamps]);
}

/// What `ixora info --drivers` says of each feature can be run.
#[test]
fn what_shows_a_feature_is_there() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    for driver in ports::DRIVERS {
        for (feature, by) in Feature::ALL.into_iter().filter_map(|one| Some((one, driver.shown_by(one)?))) {
            let is_there = match (by.strip_prefix("lab "), by.split_once("::")) {
                (Some(name), _) => lab::scenario::ALL.iter().any(|scenario| scenario.name == name),
                (None, Some((file, test))) => {
                    let text = std::fs::read_to_string(folder.join(format!("{file}.rs"))).unwrap();
                    text.contains(&format!("fn {test}()")) || text.contains(&format!("    {test}: "))
                }
                (None, None) => false,
            };
            assert!(is_there, "{}: {}: there is no {by}", driver.name, feature.name());
        }
    }
}
