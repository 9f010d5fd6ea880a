//! Who is told when an aggregate has ended: no more packets of it will come.

use std::sync::{Arc, Mutex, PoisonError};

use graph::well_known::HandlerName;
use graph::{Cx, Named};

/// The handler by which those who listen are told to look now.
pub(super) const SWEEP: HandlerName = HandlerName::new("sweep");

/// The most ends that wait for somebody to look.
const MOST: usize = 1 << 20;

/// The aggregates that ended, for one who listens.
#[derive(Debug, Default)]
pub(super) struct Ended(Mutex<Vec<u32>>);

impl Ended {
    /// All that ended since the last time.
    pub(super) fn take(&self) -> Vec<u32> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What an element that makes aggregates shares with those that listen.
#[derive(Debug, Default)]
pub(super) struct Notifier(Mutex<Vec<(String, Arc<Ended>)>>);

impl Notifier {
    /// Tells `listener` from now on, an element with the handler [`SWEEP`].
    pub(super) fn listen(&self, listener: &str) -> Arc<Ended> {
        let ended = Arc::new(Ended::default());
        let mut listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.push((listener.to_string(), ended.clone()));
        ended
    }

    /// An aggregate has ended. Those who listen see it when the packets that were
    /// sent before have come to them.
    pub(super) fn end(&self, aggregate: u32) {
        for (_, ended) in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let mut ended = ended.0.lock().unwrap_or_else(PoisonError::into_inner);
            if ended.len() < MOST {
                ended.push(aggregate);
            }
        }
    }

    /// Has those who listen look now: no packets are on their way to them.
    pub(super) fn sweep(&self, cx: &mut Cx<'_>) {
        let listeners: Vec<String> = {
            let listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            listeners.iter().map(|(name, _)| name.clone()).collect()
        };
        for name in listeners {
            if let Err(error) = cx.write_of(&name, SWEEP, "") {
                cx.say(&format!("{}: {error}\n", cx.name()));
            }
        }
    }
}

/// The notifier of a name.
pub(super) fn notifier(named: &Named<'_>, name: Option<&str>) -> Result<Option<Arc<Notifier>>, String> {
    let Some(name) = name else { return Ok(None) };
    if named.find(name).is_none() {
        return Err("NOTIFIER: does not name an element".into());
    }
    named.shared::<Notifier>(name).ok_or(format!("{name} is not an AggregateNotifier")).map(Some)
}

/// Listens to the element of a name.
pub(super) fn subscribe(cx: &Cx<'_>, name: Option<&str>) -> Result<Option<Arc<Ended>>, String> {
    Ok(notifier(&cx.named(), name)?.map(|notifier| notifier.listen(cx.name())))
}
