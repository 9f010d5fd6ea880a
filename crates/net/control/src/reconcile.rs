//! Compares what the overlay has with what the kernel has now, asked afresh, and names each
//! difference; and compares what should be in the table with what is.

use std::collections::BTreeMap;

use overlay::{Overlay, Owner};
use serde_json::{Value as Json, json};

use crate::json;
use crate::kernel::{Kernel, KernelError};
use crate::mirror::{Mirror, Options, Origin};
use crate::program::{OWNERS, Program};
use crate::state::{Change, Far, Key, Value};

/// Something that is here and not there, there and not here, or not the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The place at which both differ.
    pub key: Key,
    /// What is wanted here.
    pub here: Option<Value>,
    /// Who wants that.
    pub owner: Option<Owner>,
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

/// All differences that were found at one comparison.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Between what is wanted here and what the kernel has.
    pub kernel: Vec<Difference>,
    /// What is in the table otherwise than all owners together want it, with a sentence each.
    pub table: Vec<(Key, String)>,
    /// Places that were compared.
    pub compared: usize,
}

/// Asks this machine's kernel, as often as that is wanted.
#[derive(Debug)]
pub struct Asker(Kernel);

impl Asker {
    /// Opens what is asked later, in this thread's network namespace.
    ///
    /// # Errors
    /// When there is no socket to be had.
    pub fn open() -> Result<Asker, KernelError> {
        Ok(Asker(Kernel::open_to_ask(&mut Mirror::new(Options::default()))?))
    }

    /// What an overlay should have by the kernel, asked for now.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn now(&mut self, options: &Options) -> Result<BTreeMap<Key, Value>, KernelError> {
        let mut mirror = Mirror::new(Options { entries: Origin::Kernel, ..options.clone() });
        self.0.ask(&mut mirror)?;
        let changes = mirror.changes().into_iter();
        let all = changes.filter_map(|Change { key, value }| Some((key, value?)));
        Ok(all.filter(|(key, _)| is_told(key, options)).collect())
    }
}

/// Whether the kernel is the one who tells what is at a place.
fn is_told(key: &Key, options: &Options) -> bool {
    match key {
        Key::Port(port) | Key::Neighbor(port, _) => options.ports.iter().any(|bound| bound.port == *port),
        Key::Route(_) => !options.ports.is_empty(),
        Key::Network(_) => true,
        Key::Entry(..) | Key::Flood(_) => options.entries == Origin::Kernel,
        Key::Other(..) | Key::Prefix(..) | Key::Segment(_) => false,
    }
}

/// Whether a place of the underlay is as the file has it, whatever the kernel says.
fn is_of_file(program: &Program, key: &Key) -> bool {
    key.network().is_none() && program.claim(key).is_some_and(|(owner, _)| owner == Owner::Static)
}

/// What all owners want that the kernel could have, as the kernel would have it. Networks that
/// are not VXLAN's are not among that.
fn wanted(program: &Program, options: &Options) -> BTreeMap<Key, (Owner, Value)> {
    let keys = OWNERS.into_iter().flat_map(|owner| program.claims(owner).keys().copied());
    let keys = keys.filter(|key| is_told(key, options) && !is_of_file(program, key));
    let claims = keys.filter_map(|key| Some((key, program.claim(&key)?)));
    claims.filter_map(|(key, (owner, claim))| Some((key, (owner, as_kernel(&claim.value)?)))).collect()
}

/// A value without what only the configuration can say.
fn as_kernel(value: &Value) -> Option<Value> {
    let far = |tunnel: &overlay::Tunnel| {
        let overlay::Tunnel { remote, local, port, .. } = *tunnel;
        let vni = tunnel.identifier.filter(|_| tunnel.protocol.name == "vxlan")?;
        Some(Far { remote, local, vni, port })
    };
    match value {
        Value::Settings(settings) => {
            let (tunnel, _) = settings.ends.first().filter(|_| settings.has_macs())?;
            far(tunnel).and_then(|_| settings.end()).map(Value::Network)
        }
        Value::Tunnel(tunnel) => far(tunnel).map(Value::Entry),
        // The kernel's groups have numbers and no names.
        Value::Several(_) => None,
        Value::Tunnels(tunnels) => {
            let mut fars = tunnels.iter().map(far).collect::<Option<Vec<Far>>>()?;
            fars.sort_unstable();
            fars.dedup();
            Some(Value::Flood(fars))
        }
        _ => Some(value.clone()),
    }
}

/// Compares what all owners want with what the kernel has, and the table with what they want.
pub fn compare(
    program: &Program,
    overlay: &Overlay,
    options: &Options,
    now: &BTreeMap<Key, Value>,
) -> Report {
    let here = wanted(program, options);
    let values: BTreeMap<Key, Value> = here.iter().map(|(key, (_, value))| (*key, value.clone())).collect();
    let difference = |change: Change| {
        let (owner, here) = here.get(&change.key).cloned().unzip();
        Difference { key: change.key, here, owner, there: change.value }
    };
    let now = now.iter().filter(|(key, _)| !is_of_file(program, key));
    let now = now.map(|(key, value)| (*key, value.clone())).collect();
    let kernel: Vec<Difference> = Change::between(&values, &now).into_iter().map(difference).collect();
    let missing = kernel.iter().filter(|difference| difference.here.is_none()).count();
    Report { compared: values.len() + missing, kernel, table: program.compare_table(overlay) }
}

/// Mends what is different, as if the kernel had just told of it, and puts into the table once
/// more what is not so there; how many places that are. What another owner wants otherwise
/// stays so.
pub fn fix(program: &mut Program, overlay: &mut Overlay, report: &Report, now_ns: i64) -> usize {
    let changes = report.kernel.iter().map(|it| Change { key: it.key, value: it.there.clone() });
    let mut changes: Vec<Change> = changes.collect();
    changes.sort_by_key(|change| change.key);
    let mut changed = program.apply(overlay, Owner::Kernel, changes, now_ns);
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
            let Difference { key, here, there, owner } = difference;
            let other = owner.filter(|owner| *owner != Owner::Kernel);
            let other = other.map(|owner| format!(" by owner {owner}")).unwrap_or_default();
            let (kind, here, there) = (difference.kind(), shown(here), shown(there));
            lines.push(format!("{kind}: {key}: here {here}{other}; kernel {there}"));
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
                "owner": difference.owner.map(Owner::name),
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
