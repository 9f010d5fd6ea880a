//! What a cache counts, by the names that memcached's `doc/protocol.txt` gives it.

macro_rules! stats {
    ($($field:ident $what:literal;)*) => {
        /// What the shards of a cache counted.
        #[derive(Debug, Clone, Copy, Default)]
        pub struct Stats {
            $(#[doc = concat!("How many ", $what, ".")] pub $field: u64,)*
        }

        impl Stats {
            /// Adds what another shard counted.
            pub fn add(&mut self, other: &Stats) {
                $(self.$field += other.$field;)*
            }

            /// All names and values.
            pub fn all(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), self.$field)),*].into_iter()
            }

            /// All counters with what they mean, by names of their own among a program's.
            pub fn counters(&self) -> impl Iterator<Item = port::Counter> {
                [$(port::Counter::of(concat!("memcached_", stringify!($field)), self.$field, $what)),*]
                    .into_iter()
            }
        }
    };
}

stats! {
    total_items "items were stored";
    cmd_get "keys were asked for";
    cmd_set "requests were to store";
    cmd_flush "requests were to flush";
    cmd_touch "requests were to touch";
    cmd_meta "requests were meta commands without a value";
    get_hits "keys were asked for and there";
    get_misses "keys were asked for and not there";
    get_expired "keys were asked for that had expired";
    get_flushed "keys were asked for that had been flushed";
    delete_misses "keys were to be deleted and not there";
    delete_hits "keys were deleted";
    incr_misses "keys were to be incremented and not there";
    incr_hits "keys were incremented";
    decr_misses "keys were to be decremented and not there";
    decr_hits "keys were decremented";
    cas_misses "keys were to be compared and not there";
    cas_hits "keys were compared and stored";
    cas_badval "keys were compared and had changed";
    touch_hits "keys were touched";
    touch_misses "keys were to be touched and not there";
    store_too_large "values were too large";
    store_no_memory "values found no room";
    evictions "items went to make room for others";
    evicted_nonzero "items went to make room for others that would have expired";
    evicted_unfetched "items went that nobody had fetched";
    reclaimed "items that had expired went to make room for others";
    expired_unfetched "items expired that nobody had fetched";
    answers_copied "values were copied for clients that take them slowly, because too many were being sent";
    bad_requests "requests were refused because of their form";
}
