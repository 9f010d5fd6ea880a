//! The statistics that clients are told, by the names of memcached's `doc/protocol.txt`. All items
//! are of one class, for there are no slabs.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::command::VERSION;
use super::dump::{Dump, Form};
use super::flags::FORMAT;
use super::{Memcached, Session, State, Traffic};
use crate::output::Output;
use crate::text::{unsigned, words};

/// Names and values.
pub type Statistics = Vec<(String, String)>;

impl Memcached {
    /// The command `stats`.
    pub fn stats(&mut self, session: &mut Session, arguments: &[u8], output: &mut impl Output) {
        let mut words = words(arguments);
        let (kind, first, second) = (words.next().unwrap_or_default(), words.next(), words.next());
        match kind {
            b"reset" => {
                self.shared.store.reset_stats();
                return output.put(b"RESET\r\n");
            }
            b"cachedump" => {
                let Some((class, count)) = first.zip(second) else {
                    return self.refuse(b"CLIENT_ERROR bad command line\r\n", output);
                };
                let (Some(_), Some(count)) = (unsigned(class), unsigned(count)) else {
                    return self.refuse(FORMAT, output);
                };
                // As in memcached, none stands for all.
                let form = Form::Cachedump(if count == 0 { u64::MAX } else { count });
                if class == b"1" {
                    match Dump::begin(form, &self.shared) {
                        Some(dump) => session.state = State::Dump(dump),
                        None => output.put(b"SERVER_ERROR another list is being sent: ask again\r\n"),
                    }
                    return;
                }
            }
            // Nothing is counted for prefixes of keys.
            b"detail" => match first {
                Some(b"on" | b"off") => return output.put(b"OK\r\n"),
                Some(b"dump") => {}
                _ => return self.refuse(b"CLIENT_ERROR usage: stats detail on|off|dump\r\n", output),
            },
            kind => match self.statistics(kind, output) {
                Some(all) => all.iter().for_each(|(name, value)| put(name, value, output)),
                None => return self.refuse(b"ERROR\r\n", output),
            },
        }
        output.put(b"END\r\n");
    }

    /// The statistics of a kind, the general ones of none.
    pub fn statistics(&self, kind: &[u8], output: &impl Output) -> Option<Statistics> {
        let all = match kind {
            b"" => self.general(output),
            b"settings" => self.settings(),
            b"items" => self.items(output),
            b"slabs" => self.slabs(),
            b"sizes" => vec![("sizes_status".into(), "disabled".into())],
            // A protocol knows of its own connection only.
            b"conns" => vec![],
            _ => return None,
        };
        Some(all)
    }

    fn general(&self, output: &impl Output) -> Statistics {
        let shared = &self.shared;
        let now_s = self.now_s(output);
        let totals = shared.store.totals();
        let sum = |of: fn(&Traffic) -> &AtomicU64| {
            shared.traffic.iter().map(|traffic| of(traffic).load(Relaxed)).fold(0, u64::wrapping_add)
        };
        let connections = sum(|traffic| &traffic.connections);
        let numbers = [
            ("pid", u64::from(std::process::id())),
            ("uptime", (now_s - shared.started_s) as u64),
            ("time", now_s as u64),
            ("pointer_size", usize::BITS.into()),
            ("curr_connections", connections),
            ("total_connections", sum(|traffic| &traffic.opened)),
            ("connection_structures", connections),
            ("bytes_read", sum(|traffic| &traffic.bytes_read)),
            ("bytes_written", sum(|traffic| &traffic.bytes_written)),
            ("curr_items", totals.items as u64),
            ("bytes", totals.bytes as u64),
            ("limit_maxbytes", totals.memory as u64),
            ("threads", shared.store.limits().threads as u64),
            ("hash_power_level", totals.buckets.max(1).ilog2().into()),
            ("hash_bytes", (totals.buckets * size_of::<u32>()) as u64),
            ("hash_is_expanding", 0),
            ("accepting_conns", 1),
        ];
        let nothing = NEVER_HAPPENS.map(|name| (name, 0));
        let mut all: Statistics =
            named(numbers.into_iter().chain(totals.stats.all()).chain(nothing)).collect();
        all.insert(3, ("version".to_owned(), VERSION.to_owned()));
        all
    }

    fn settings(&self) -> Statistics {
        let limits = self.shared.store.limits();
        let numbers = [
            ("maxbytes", self.shared.store.totals().memory as u64),
            ("item_size_max", limits.value as u64),
            ("num_threads", limits.threads as u64),
            ("udpport", 0),
            ("verbosity", 0),
            ("client_flags_size", size_of::<u32>() as u64),
        ];
        let words = [
            ("evictions", "on"),
            ("cas_enabled", "yes"),
            ("shutdown_command", if self.shutdown.is_some() { "yes" } else { "no" }),
            ("auth_enabled_sasl", "no"),
            ("auth_enabled_ascii", "no"),
            ("binding_protocol", "auto-negotiate"),
            ("dump_enabled", "yes"),
            ("detail_enabled", "no"),
            ("slab_reassign", "no"),
            ("slab_automove", "no"),
            ("lru_crawler", "no"),
            ("lru_maintainer_thread", "no"),
            ("track_sizes", "no"),
        ];
        let words = words.map(|(name, word)| (name.to_owned(), word.to_owned()));
        named(numbers).chain(words).collect()
    }

    fn items(&self, output: &impl Output) -> Statistics {
        let totals = self.shared.store.totals();
        if totals.items == 0 {
            return vec![];
        }
        let stats = &totals.stats;
        let numbers = [
            ("number", totals.items as u64),
            ("age", (self.now_s(output) - totals.oldest_s).max(0) as u64),
            ("mem_requested", totals.bytes as u64),
            ("evicted", stats.evictions),
            ("evicted_time", totals.evicted_s.max(0) as u64),
            ("outofmemory", stats.store_no_memory),
            ("reclaimed", stats.reclaimed),
            ("expired_unfetched", stats.expired_unfetched),
            ("evicted_unfetched", stats.evicted_unfetched),
        ];
        named(numbers).map(|(name, value)| (format!("items:1:{name}"), value)).collect()
    }

    fn slabs(&self) -> Statistics {
        let totals = self.shared.store.totals();
        let stats = &totals.stats;
        let class = [
            ("used_chunks", totals.items as u64),
            ("mem_requested", totals.bytes as u64),
            ("get_hits", stats.get_hits),
            ("cmd_set", stats.cmd_set),
            ("delete_hits", stats.delete_hits),
            ("incr_hits", stats.incr_hits),
            ("decr_hits", stats.decr_hits),
            ("cas_hits", stats.cas_hits),
            ("cas_badval", stats.cas_badval),
            ("touch_hits", stats.touch_hits),
        ];
        let is_any = totals.items > 0;
        let class = named(class).filter(|_| is_any).map(|(name, value)| (format!("1:{name}"), value));
        let all = [("active_slabs", is_any.into()), ("total_malloced", totals.bytes as u64)];
        class.chain(named(all)).collect()
    }
}

/// What memcached counts and this cache never does, for it has neither slabs, nor threads beside
/// those that serve, nor names of users. Tools that draw it look for the names.
const NEVER_HAPPENS: [&str; 32] = [
    "rejected_connections",
    "auth_cmds",
    "auth_errors",
    "listen_disabled_num",
    "time_in_listen_disabled_us",
    "conn_yields",
    "response_obj_oom",
    "read_buf_oom",
    "malloc_fails",
    "slab_reassign_rescues",
    "slab_reassign_chunk_rescues",
    "slab_reassign_evictions_nomem",
    "slab_reassign_inline_reclaim",
    "slab_reassign_busy_items",
    "slab_reassign_busy_deletes",
    "slab_reassign_running",
    "slabs_moved",
    "slab_global_page_pool",
    "lru_crawler_running",
    "lru_crawler_starts",
    "lru_maintainer_juggles",
    "crawler_reclaimed",
    "crawler_items_checked",
    "lrutail_reflocked",
    "moves_to_cold",
    "moves_to_warm",
    "moves_within_lru",
    "direct_reclaims",
    "lru_bumps_dropped",
    "evicted_active",
    "log_worker_dropped",
    "log_watchers",
];

fn named(all: impl IntoIterator<Item = (&'static str, u64)>) -> impl Iterator<Item = (String, String)> {
    all.into_iter().map(|(name, value)| (name.to_owned(), value.to_string()))
}

fn put(name: &str, value: &str, output: &mut impl Output) {
    for part in ["STAT ", name, " ", value, "\r\n"] {
        output.put(part.as_bytes());
    }
}
