//! Compares what the overlay has with what the kernel has now, asked afresh, and names each
//! difference; and compares what should be in the table with what is.

use std::collections::BTreeMap;

use overlay::Overlay;
use serde_json::{Value as Json, json};

use crate::json;
use crate::kernel::{Kernel, KernelError, RECEIVE_BUFFER};
use crate::mirror::{Mirror, Options, Origin};
use crate::program::{Owner, Program};
use crate::state::{Change, Key, Value};

/// Turns in which the kernel is asked and listened to, at most.
const TURNS: usize = 64;
/// Datagrams that are taken in a turn, at most.
const DATAGRAMS: usize = 1 << 16;

/// Something that is here and not there, there and not here, or not the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Where it is.
    pub key: Key,
    /// What is followed here.
    pub here: Option<Value>,
    /// What the kernel has.
    pub there: Option<Value>,
}

impl Difference {
    /// What kind of difference it is, in a word.
    pub fn kind(&self) -> &'static str {
        match (&self.here, &self.there) {
            (None, _) => "missing",
            (_, None) => "stale",
            _ => "different",
        }
    }
}

/// All differences.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Between what is followed and what the kernel has.
    pub kernel: Vec<Difference>,
    /// What is in the table otherwise than all owners together want it, with a sentence each.
    pub table: Vec<(Key, String)>,
    /// Places that were compared.
    pub compared: usize,
}

/// What an overlay should have by this machine's kernel, asked for now, in this thread's
/// network namespace.
///
/// # Errors
/// When the kernel does not tell, or its tables change all the time.
pub fn kernel_now(options: &Options) -> Result<BTreeMap<Key, Value>, KernelError> {
    let mut mirror = Mirror::new(Options { entries: Origin::Kernel, ..options.clone() });
    let mut kernel = Kernel::open(&mut mirror, RECEIVE_BUFFER)?;
    let mut turns = (0..TURNS).map(|_| kernel.turn(&mut mirror, DATAGRAMS));
    // The last turn is the one behind which nothing waits.
    while turns.next().ok_or(KernelError::Restless)?? {}
    drop(turns);
    let changes = mirror.changes().into_iter();
    Ok(changes.filter_map(|Change { key, value }| Some((key, value?))).collect())
}

/// Compares what an owner wants with what the kernel has, and the table with what all want.
pub fn compare(program: &Program, owner: Owner, overlay: &Overlay, now: &BTreeMap<Key, Value>) -> Report {
    let claims = program.claims(owner);
    let here: BTreeMap<Key, Value> = claims.iter().map(|(key, claim)| (*key, claim.value.clone())).collect();
    let difference = |change: Change| {
        let here = here.get(&change.key).cloned();
        Difference { key: change.key, here, there: change.value }
    };
    let kernel: Vec<Difference> = Change::between(&here, now).into_iter().map(difference).collect();
    let missing = kernel.iter().filter(|difference| difference.here.is_none()).count();
    Report { compared: here.len() + missing, kernel, table: program.compare_table(overlay) }
}

/// Mends what is different, as if the kernel had just told of it, and puts into the table once
/// more what is not so there; how many places that are.
pub fn fix(
    program: &mut Program,
    owner: Owner,
    overlay: &mut Overlay,
    report: &Report,
    now_ns: i64,
) -> usize {
    let changes = report.kernel.iter().map(|it| Change { key: it.key, value: it.there.clone() });
    let mut changes: Vec<Change> = changes.collect();
    changes.sort_by_key(|change| change.key);
    let mut changed = program.apply(overlay, owner, changes, now_ns);
    for (key, _) in &report.table {
        changed += usize::from(program.put_again(overlay, *key));
    }
    overlay.publish();
    changed
}

impl Report {
    /// Whether all is the same.
    pub fn is_clean(&self) -> bool {
        self.kernel.is_empty() && self.table.is_empty()
    }

    /// The differences, one a line, and how many there are.
    pub fn text(&self) -> String {
        let shown = |value: &Option<Value>| value.as_ref().map_or("nothing".into(), Value::to_string);
        let mut lines: Vec<String> = Vec::new();
        for difference in &self.kernel {
            let Difference { key, here, there } = difference;
            lines.push(format!(
                "{}: {key}: here {}; kernel {}",
                difference.kind(),
                shown(here),
                shown(there)
            ));
        }
        lines.extend(self.table.iter().map(|(_, what)| format!("table: {what}")));
        let differences = lines.len();
        lines.push(format!("{} places compared, {differences} differences", self.compared));
        lines.join("\n") + "\n"
    }

    /// The same for programs.
    pub fn json(&self) -> Json {
        let kernel = self.kernel.iter().map(|difference| {
            json!({
                "kind": difference.kind(),
                "at": json::key(&difference.key),
                "here": json::value(difference.here.as_ref()),
                "kernel": json::value(difference.there.as_ref()),
            })
        });
        json!({
            "compared": self.compared,
            "differences": kernel.collect::<Vec<_>>(),
            "table": self.table.iter().map(|(_, what)| what).collect::<Vec<_>>(),
        })
    }
}
