//! The statistics that clients are told, by the names of memcached's `doc/protocol.txt`. All items
//! are of one class, for there are no slabs.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use super::command::{ERROR, MOST_CLASSES, VERSION};
use super::dump::{Dump, Form};
use super::flags::FORMAT;
use super::{Memcached, Session, State, Traffic};
use crate::output::Output;
use crate::text::{unsigned, words};

/// Names and values.
pub type Statistics = Vec<(String, String)>;

/// Bytes of a page, as tools of memcached count memory.
const PAGE: u64 = 1 << 20;

/// Where clients reach a server, and how many of them: what its host was given.
#[derive(Debug, Clone)]
pub struct Listening {
    /// Its addresses, in words.
    pub addresses: String,
    /// The TCP port.
    pub tcp_port: u16,
    /// The port of datagrams, if there is one.
    pub udp_port: Option<u16>,
    /// How many connections there may be.
    pub connections: u64,
    /// How many of them may have begun.
    pub half_open: u64,
}

impl Memcached {
    /// The command `stats`.
    pub fn stats(&mut self, session: &mut Session, arguments: &[u8], output: &mut impl Output) {
        let mut words = words(arguments);
        let (kind, first, second) = (words.next().unwrap_or_default(), words.next(), words.next());
        match kind {
            b"reset" => {
                self.reset();
                return output.put(b"RESET\r\n");
            }
            b"cachedump" => {
                let Some((class, count)) = first.zip(second) else {
                    return self.refuse(b"CLIENT_ERROR bad command line\r\n", output);
                };
                let (Some(number), Some(count)) = (unsigned(class), unsigned(count)) else {
                    return self.refuse(FORMAT, output);
                };
                if number > MOST_CLASSES {
                    return self.refuse(b"CLIENT_ERROR Illegal slab id\r\n", output);
                }
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
            // Sizes are not counted. memcached ends these with no line of their own.
            b"sizes_enable" | b"sizes_disable" => return output.put(b"STAT sizes_status disabled\r\n"),
            // Nothing is counted for prefixes of keys.
            b"detail" => match first {
                Some(b"on" | b"off") => return output.put(b"OK\r\n"),
                Some(b"dump") => {}
                _ => return self.refuse(b"CLIENT_ERROR usage: stats detail on|off|dump\r\n", output),
            },
            kind => match self.statistics(kind, output) {
                Some(all) => all.iter().for_each(|(name, value)| put(name, value, output)),
                None => return self.refuse(ERROR, output),
            },
        }
        output.put(b"END\r\n");
    }

    /// The statistics of a kind, the general ones of none.
    pub fn statistics(&self, kind: &[u8], output: &impl Output) -> Option<Statistics> {
        let all = match kind {
            b"" => self.general(output),
            b"settings" => self.settings(output),
            b"items" => self.items(output),
            b"slabs" => self.slabs(),
            b"sizes" => vec![("sizes_status".into(), "disabled".into())],
            // A protocol knows of its own connection only.
            b"conns" => vec![],
            // Nothing is kept beside memory.
            b"extstore" => vec![],
            _ => return None,
        };
        Some(all)
    }

    /// Counts from zero again what is counted of requests and connections. What connections carry is
    /// their threads' to count, which go on.
    pub fn reset(&self) {
        self.shared.store.reset_stats();
        let Traffic { opened, bytes_read, bytes_written, .. } = &self.shared.reset;
        opened.store(self.carried(|traffic| &traffic.opened), Relaxed);
        bytes_read.store(self.carried(|traffic| &traffic.bytes_read), Relaxed);
        bytes_written.store(self.carried(|traffic| &traffic.bytes_written), Relaxed);
    }

    /// What all threads counted of connections.
    fn carried(&self, of: fn(&Traffic) -> &AtomicU64) -> u64 {
        self.shared.traffic.iter().map(|traffic| of(traffic).load(Relaxed)).fold(0, u64::wrapping_add)
    }

    /// The same since it was counted from zero.
    fn carried_since(&self, of: fn(&Traffic) -> &AtomicU64) -> u64 {
        // Another thread may count from zero meanwhile.
        self.carried(of).saturating_sub(of(&self.shared.reset).load(Relaxed))
    }

    fn general(&self, output: &impl Output) -> Statistics {
        let shared = &self.shared;
        let now_s = self.now_s(output);
        let totals = shared.store.totals();
        let connections = self.carried(|traffic| &traffic.connections);
        let numbers = [
            ("pid", u64::from(std::process::id())),
            ("uptime", (now_s - shared.started_s) as u64),
            ("time", now_s as u64),
            ("pointer_size", usize::BITS.into()),
            ("curr_connections", connections),
            ("total_connections", self.carried_since(|traffic| &traffic.opened)),
            ("connection_structures", connections),
            ("bytes_read", self.carried_since(|traffic| &traffic.bytes_read)),
            ("bytes_written", self.carried_since(|traffic| &traffic.bytes_written)),
            ("curr_items", totals.items as u64),
            ("bytes", totals.bytes as u64),
            ("limit_maxbytes", totals.memory as u64),
            ("threads", shared.store.limits().threads as u64),
            ("hash_power_level", totals.buckets.max(1).ilog2().into()),
            ("hash_bytes", (totals.buckets * size_of::<u32>()) as u64),
            ("hash_is_expanding", 0),
            ("accepting_conns", 1),
        ];
        let most = self.listening.iter().map(|listening| ("max_connections", listening.connections));
        let nothing = NEVER_HAPPENS.map(|name| (name, 0));
        let mut all: Statistics =
            named(numbers.into_iter().chain(most).chain(totals.stats.all()).chain(nothing)).collect();
        all.insert(3, ("version".to_owned(), VERSION.to_owned()));
        // Of a host's own program: others get the same answers whenever they ask.
        all.extend(self.listening.iter().flat_map(|_| processor_times()));
        all
    }

    fn settings(&self, output: &impl Output) -> Statistics {
        let limits = self.shared.store.limits();
        let totals = self.shared.store.totals();
        let listening = self.listening.as_deref();
        let udp_port = listening.and_then(|listening| listening.udp_port);
        let numbers = [
            ("maxbytes", totals.memory as u64),
            ("udpport", udp_port.unwrap_or(0).into()),
            ("verbosity", 0),
            ("oldest", totals.age_s(self.now_s(output))),
            ("num_threads", limits.threads as u64),
            ("item_size_max", limits.value as u64),
            ("client_flags_size", size_of::<u32>() as u64),
            ("tail_repair_time", 0),
            // Connections without a request stay open.
            ("idle_timeout", 0),
        ];
        let place = listening.into_iter().flat_map(|listening| {
            let numbers = [
                ("maxconns", listening.connections),
                ("tcpport", listening.tcp_port.into()),
                ("tcp_backlog", listening.half_open),
            ];
            named(numbers).chain([("inter".to_owned(), listening.addresses.clone())])
        });
        let shutdown = if self.shutdown.is_some() { "yes" } else { "no" };
        let words = SETTINGS.into_iter().chain([("shutdown_command", shutdown)]);
        let words = words.map(|(name, word)| (name.to_owned(), word.to_owned()));
        named(numbers).chain(place).chain(words).collect()
    }

    fn items(&self, output: &impl Output) -> Statistics {
        let totals = self.shared.store.totals();
        if totals.items == 0 {
            return vec![];
        }
        let stats = &totals.stats;
        let numbers = [
            ("number", totals.items as u64),
            ("number_hot", 0),
            ("number_warm", 0),
            // Where memcached has items that are in one list.
            ("number_cold", totals.items as u64),
            ("age_hot", 0),
            ("age_warm", 0),
            ("age", totals.age_s(self.now_s(output))),
            ("mem_requested", totals.bytes as u64),
            ("evicted", stats.evictions),
            ("evicted_nonzero", stats.evicted_nonzero),
            ("evicted_time", totals.evicted_s.max(0) as u64),
            ("outofmemory", stats.store_no_memory),
            ("reclaimed", stats.reclaimed),
            ("expired_unfetched", stats.expired_unfetched),
            ("evicted_unfetched", stats.evicted_unfetched),
        ];
        let nothing = ITEMS_NEVER.map(|name| (name, 0));
        named(numbers.into_iter().chain(nothing))
            .map(|(name, value)| (format!("items:1:{name}"), value))
            .collect()
    }

    /// The one class of all items: a chunk is what an item takes in the mean, and there are pages for
    /// what all of them take.
    fn slabs(&self) -> Statistics {
        let totals = self.shared.store.totals();
        let stats = &totals.stats;
        let (items, bytes) = (totals.items as u64, totals.bytes as u64);
        let chunk = bytes.div_ceil(items.max(1));
        let (pages, per_page) = (bytes.div_ceil(PAGE), (PAGE / chunk.max(1)).max(1));
        let chunks = (pages * per_page).max(items);
        let class = [
            ("chunk_size", chunk),
            ("chunks_per_page", per_page),
            ("total_pages", pages),
            ("total_chunks", chunks),
            ("used_chunks", items),
            ("free_chunks", chunks - items),
            ("free_chunks_end", 0),
            ("mem_requested", bytes),
            ("get_hits", stats.get_hits),
            ("cmd_set", stats.cmd_set),
            ("delete_hits", stats.delete_hits),
            ("incr_hits", stats.incr_hits),
            ("decr_hits", stats.decr_hits),
            ("cas_hits", stats.cas_hits),
            ("cas_badval", stats.cas_badval),
            ("touch_hits", stats.touch_hits),
        ];
        let is_any = items > 0;
        let class = named(class).filter(|_| is_any).map(|(name, value)| (format!("1:{name}"), value));
        let all = [("active_slabs", is_any.into()), ("total_malloced", bytes)];
        class.chain(named(all)).collect()
    }
}

/// How long the program has run on processors, itself and in the kernel.
fn processor_times() -> impl Iterator<Item = (String, String)> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok();
    let text = |time: TimeVal| format!("{}.{:06}", time.tv_sec(), time.tv_usec());
    let times =
        usage.map(|usage| [("rusage_user", usage.user_time()), ("rusage_system", usage.system_time())]);
    times.into_iter().flatten().map(move |(name, time)| (name.to_owned(), text(time)))
}

/// Settings that nobody can change.
const SETTINGS: [(&str, &str); 19] = [
    ("evictions", "on"),
    ("domain_socket", "NULL"),
    ("stat_key_prefix", ":"),
    ("detail_enabled", "no"),
    ("cas_enabled", "yes"),
    ("binding_protocol", "auto-negotiate"),
    ("auth_enabled_sasl", "no"),
    ("auth_enabled_ascii", "no"),
    ("flush_enabled", "yes"),
    ("dump_enabled", "yes"),
    ("hash_algorithm", "siphash"),
    ("slab_reassign", "no"),
    ("slab_automove", "0"),
    ("lru_crawler", "no"),
    ("lru_maintainer_thread", "no"),
    ("lru_segmented", "no"),
    ("temp_lru", "no"),
    ("track_sizes", "no"),
    ("ssl_enabled", "no"),
];

/// What memcached tells of a class, and never happens here.
const ITEMS_NEVER: [&str; 13] = [
    "tailrepairs",
    "evicted_active",
    "crawler_reclaimed",
    "crawler_items_checked",
    "lrutail_reflocked",
    "moves_to_cold",
    "moves_to_warm",
    "moves_within_lru",
    "direct_reclaims",
    "hits_to_hot",
    "hits_to_warm",
    "hits_to_cold",
    "hits_to_temp",
];

/// What memcached counts and this cache never does, for it has neither slabs, nor threads beside
/// those that serve, nor names of users. Tools that draw it look for the names.
const NEVER_HAPPENS: [&str; 43] = [
    "rejected_connections",
    "auth_cmds",
    "auth_errors",
    "listen_disabled_num",
    "time_in_listen_disabled_us",
    "conn_yields",
    "response_obj_oom",
    "response_obj_count",
    "response_obj_bytes",
    "read_buf_count",
    "read_buf_bytes",
    "read_buf_bytes_free",
    "read_buf_oom",
    "reserved_fds",
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
    "log_worker_written",
    "log_watcher_skipped",
    "log_watcher_sent",
    "log_watchers",
    "unexpected_napi_ids",
    "round_robin_fallback",
];

fn named(all: impl IntoIterator<Item = (&'static str, u64)>) -> impl Iterator<Item = (String, String)> {
    all.into_iter().map(|(name, value)| (name.to_owned(), value.to_string()))
}

fn put(name: &str, value: &str, output: &mut impl Output) {
    for part in ["STAT ", name, " ", value, "\r\n"] {
        output.put(part.as_bytes());
    }
}
