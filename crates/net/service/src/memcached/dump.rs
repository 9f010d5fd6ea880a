//! Lists of all items: `lru_crawler metadump`, `mgdump` and `stats cachedump`. A list goes on as
//! its client takes it, and holds no lock meanwhile: what is stored and what goes in the course of
//! it may be in it or not. As in memcached, there is one at a time: each looks at many slots in
//! every turn, and costs its client next to nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::flags::push_key;
use super::slots::Item;
use super::store::NEVER_S;
use super::{Memcached, Session, SharedCache, State};
use crate::output::Output;
use crate::text::push_number;

/// How often slots are looked at in a turn: where no items are there to be told, no answer that is
/// full would end it.
const MAX_SLOTS: usize = 32;

/// What is told of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// All that is known but the value, as `key=value` pairs.
    Metadump,
    /// A line that asks for it.
    Mgdump,
    /// The key, the value's length and when it expires, for so many items at most.
    Cachedump(u64),
}

/// A list that is being sent.
#[derive(Debug)]
pub struct Dump {
    form: Form,
    /// What is next: a shard, and a slot of it.
    shard: u32,
    at: u32,
    _only: Only,
}

/// The only list of a cache: another may begin when this is dropped.
#[derive(Debug)]
struct Only(Arc<SharedCache>);

impl Drop for Only {
    fn drop(&mut self) {
        self.0.is_listed.store(false, Relaxed);
    }
}

impl Dump {
    /// A list from the beginning; `None` while another is being sent.
    pub fn begin(form: Form, shared: &Arc<SharedCache>) -> Option<Dump> {
        let is_listed = shared.is_listed.swap(true, Relaxed);
        (!is_listed).then(|| Dump { form, shard: 0, at: 0, _only: Only(shared.clone()) })
    }
}

impl Memcached {
    /// Goes on with a list, as far as there is room, and no further than some slots.
    pub fn more_items(&mut self, session: &mut Session, output: &mut impl Output) {
        let State::Dump(dump) = &mut session.state else { return };
        let now_s = self.now_s(output);
        let (store, lines) = (&self.shared.store, &mut self.scratch);
        let mut looks = 0;
        while dump.shard < store.shards() && dump.form != Form::Cachedump(0) {
            if looks == MAX_SLOTS {
                return;
            }
            looks += 1;
            lines.clear();
            let form = &mut dump.form;
            let next = store.visit(dump.shard, dump.at, now_s, |item| push(item, form, lines));
            (dump.shard, dump.at) = next.map_or((dump.shard + 1, 0), |at| (dump.shard, at));
            output.put(lines);
            if output.is_full() {
                return;
            }
        }
        output.put(if dump.form == Form::Mgdump { b"EN\r\n" } else { b"END\r\n" });
        session.state = State::Line;
    }
}

/// Appends an item's line.
fn push(item: &Item, form: &mut Form, to: &mut Vec<u8>) {
    match form {
        Form::Metadump => push_metadump(item, to),
        Form::Mgdump => {
            to.extend_from_slice(b"mg ");
            push_key(item.key(), item.is_binary, to);
            to.extend_from_slice(if item.is_binary { b" b\r\n" } else { b"\r\n" });
        }
        Form::Cachedump(0) => {}
        Form::Cachedump(left) => {
            *left -= 1;
            to.extend_from_slice(b"ITEM ");
            push_key(item.key(), item.is_binary, to);
            to.extend_from_slice(b" [");
            push_number(to, item.value().len() as u64);
            to.extend_from_slice(b" b; ");
            push_number(to, if item.expires_s == NEVER_S { 0 } else { item.expires_s as u64 });
            to.extend_from_slice(b" s]\r\n");
        }
    }
}

fn push_metadump(item: &Item, to: &mut Vec<u8>) {
    to.extend_from_slice(b"key=");
    for byte in item.key() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => to.push(*byte),
            byte => to.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    let expires = if item.expires_s == NEVER_S { -1 } else { item.expires_s };
    let fetched = if item.is_fetched { "yes" } else { "no" };
    let (used, cas, size) = (item.used_s, item.cas, item.size());
    let text = format!(" exp={expires} la={used} cas={cas} fetch={fetched} cls=1 size={size}\n");
    to.extend_from_slice(text.as_bytes());
}
