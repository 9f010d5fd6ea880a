#![allow(clippy::unwrap_used)]

use super::*;
use crate::device::BarContent;

fn device(model: &'static Model, setup: &Setup) -> Result<Device, ModelError> {
    model.open(setup, Cable::open(&"sink".parse().unwrap()).unwrap())
}

fn with_fault(fault: &str) -> Setup {
    Setup { fault: Some(fault.parse().unwrap()), ..Setup::default() }
}

#[test]
fn each_model_is_what_its_row_says() {
    for model in MODELS {
        let mut device = device(model, &Setup::default()).unwrap();
        assert_eq!(device.report().chip, model.name);
        assert_eq!(device.rings().is_some(), model.has_vhost_user, "{}", model.name);
        let window = device.shape().bars.iter().any(|bar| bar.content == BarContent::RegisterWindow);
        assert_eq!(window, model.has_register_window, "{}", model.name);
        let table = device.shape().bars.iter().find(|bar| bar.content == BarContent::MsixTable).unwrap();
        assert!(table.size >= 16 * u32::from(device.shape().vectors), "{}", model.name);
        let registers = device.shape().bars.iter().filter(|bar| bar.content == BarContent::Registers);
        assert_eq!(registers.count(), 1, "{}", model.name);
    }
}

#[test]
fn each_device_id_can_be_had_and_no_other() {
    for model in MODELS {
        let ids = |device: &mut Device| {
            let mut ids = [0; 4];
            device.read_config(0, &mut ids);
            (u16::from_le_bytes([ids[0], ids[1]]), u16::from_le_bytes([ids[2], ids[3]]))
        };
        let mut first = device(model, &Setup::default()).unwrap();
        assert_eq!(ids(&mut first), (model.vendor, model.devices[0].id));
        for id in model.devices.iter().map(|device| device.id).filter(|_| model.devices.len() > 1) {
            let mut other = device(model, &Setup { device_id: Some(id), ..Setup::default() }).unwrap();
            assert_eq!(ids(&mut other), (model.vendor, id));
        }
        assert!(device(model, &Setup { device_id: Some(0xFFFF), ..Setup::default() }).is_err());
    }
}

#[test]
fn a_model_takes_its_own_faults_and_those_of_others_only_beside_them() {
    for model in MODELS {
        for fault in model.faults {
            assert_eq!(format!("{fault}=1").parse::<fault::Spec>().unwrap().device_faults(), [*fault]);
            assert!(device(model, &with_fault(&format!("{fault}=0.5"))).is_ok(), "{} {fault}", model.name);
        }
        assert!(device(model, &with_fault("drop=0.5")).is_ok(), "the cable's");
    }
    let virtio = Model::named("virtio-net").unwrap();
    let error = device(virtio, &with_fault("late=0.5")).unwrap_err();
    assert_eq!(error.to_string(), "virtio-net has no such faults");
    assert_eq!(
        error.fix().unwrap(),
        "its faults are jump, foreign, twice, lap, length and garbage; others go to the wire"
    );
    assert!(device(virtio, &with_fault("late=0.5,lap=0.5")).is_ok());
    assert!(device(Model::named("82599").unwrap(), &with_fault("jump=0.5")).is_err());
}

#[test]
fn names_and_aliases_are_found_and_told_apart() {
    let mut all: Vec<&str> = Vec::new();
    for model in MODELS {
        for name in model.aliases.iter().chain([&model.name]) {
            assert_eq!(Model::named(name).unwrap().name, model.name);
            assert!(!all.contains(name), "{name} is two models");
            all.push(name);
        }
    }
    let error = Model::named("486").unwrap_err();
    assert_eq!(error.to_string(), "there is no model of \"486\"");
    assert_eq!(error.fix().unwrap(), "use 82599, virtio-net or xl710");
    assert_eq!(
        device_ids(),
        "10fb (SFP+), 10f7 (backplane, KX4), 1563 (X550, timestamps), 1583 (QSFP+), 1572 (X710, SFP+) \
         or 37d0 (X722, SFP+)"
    );
}

/// The table of models in docs/model.md.
#[test]
fn the_documents_have_each_model() {
    let text = include_str!("../../../../../docs/model.md");
    for model in MODELS {
        let has = model.capabilities().join(", ");
        let ids: Vec<_> = model.devices.iter().map(|device| format!("`{:04x}`", device.id)).collect();
        let faults: Vec<_> = model.faults.iter().map(|fault| format!("`{fault}`")).collect();
        let row = format!(
            "| `{}` | {} | {} | {has} | {} |",
            model.name,
            model.about,
            ids.join(", "),
            faults.join(", ")
        );
        assert!(text.contains(&row), "docs/model.md lacks: {row}");
    }
}
