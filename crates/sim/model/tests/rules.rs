//! Each rule of the linters is raised somewhere: one that nothing raises would
//! promise what the model does not keep.

use std::fs;
use std::path::Path;

use model::lint::Rule;

/// All source of a chip, but for the rules' own words and tests.
fn source(directory: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(directory).expect("the model's sources").flatten() {
        let path = entry.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            text += &source(&path);
        } else if name.ends_with(".rs") && name != "rules.rs" && name != "tests.rs" {
            text += &fs::read_to_string(&path).expect("readable");
        }
    }
    text
}

/// The rules that `chip`'s source does not name.
fn idle<R: Rule + Copy + 'static>(chip: &str, rules: &[R]) -> Vec<&'static str> {
    let text = source(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(chip));
    rules.iter().map(|rule| rule.name()).filter(|name| !text.contains(&format!("Rule::{name}"))).collect()
}

#[test]
fn every_rule_is_raised_somewhere() {
    assert_eq!(idle("ixgbe", model::ixgbe::lint::Rule::ALL), Vec::<&str>::new());
    assert_eq!(idle("i40e", model::i40e::lint::Rule::ALL), Vec::<&str>::new());
    assert_eq!(idle("encap", model::encap::lint::Rule::ALL), Vec::<&str>::new());
    assert_eq!(idle("virtio", model::virtio::lint::Rule::ALL), Vec::<&str>::new());
}
