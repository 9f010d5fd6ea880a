//! What Click's `handlers` lists of elements, in its order and with its marks.

use crate::Rig;

/// Elements, and handlers as Click lists them, those left out that there are not here.
const LISTED: &[(&str, &str)] = &[
    ("Queue", "reset:wb reset_counts:wb drops:r capacity:rw. highwater_length:r length:r"),
    ("SimpleQueue", "reset:wb reset_counts:wb drops:r capacity:rw. highwater_length:r length:r"),
    (
        "Counter",
        "byte_count_call:w count_call:rw reset_counts:wUb reset:wb byte_rate:r bit_rate:r rate:r byte_count:r \
         count:r",
    ),
    ("Unqueue", "reset_counts:wUb reset:wb limit:rw burst:rw count:r active:rwc"),
    ("RatedUnqueue(1)", "active:rwc rate:rw calls:r config:rw"),
    ("RatedSplitter(1)", "rate:rw config:rw"),
    ("Shaper(1)", "reset:w rate:rw config:rw"),
    ("PullSwitch", "switch:rw config:rw"),
    ("StrideSched(1)", "tickets0:rw config:rw"),
    ("SimplePullSwitch", "switch:rw config:rw"),
    ("Switch", "switch:rw handlers:r. ports:r. config:rw class:r. name:r."),
    ("InputSwitch", "switch:rw config:rw"),
    ("RandomSample(0)", "drop_prob:rw drops:r active:rwc sampling_prob:rw config:rw"),
    ("Suppressor", "active0:rwc"),
    ("DelayShaper(0)", "delay:rw."),
    ("DelayUnqueue(0)", "delay:rw"),
    ("StaticIPLookup", "table:r"),
    ("LinkUnqueue(1s, 1kBps)", "reset:wb size:r bandwidth:rw. latency:rw."),
    ("Classifier(-)", "program:r. handlers:r. ports:r. config:rw. class:r. name:r."),
    ("IPClassifier(-)", "pattern0:rw program:r handlers:r. ports:r. config:rw. class:r. name:r."),
    ("WifiEncap(0)", "bssid:rw mode:rw debug:rw config:r."),
    ("WifiDecap", "debug:rw config:r."),
    ("WifiDupeFilter", "stats:r reset:wb drops:r dupes:r debug:rw config:r."),
    ("IPRateMonitor(PACKETS, 1, 5)", "reset:wb anno_level:w memmax:rw mem:r look:r thresh:r config:r."),
    ("DecIPTTL", "active:rwc drops:r config:r."),
    ("IPEncap(6, 1.2.3.4, 5.6.7.8)", "dst:rw. src:rw. config:rw."),
    ("SetIP6DSCP(0)", "dscp:rw. config:rw."),
    ("EtherEncap(0x800, 1:2:3:4:5:6, 1:2:3:4:5:7)", "etht:rwD ethertype:rw dst:rw src:rw config:rw."),
    ("VLANEncap(1)", "ethertype:rw native_vlan:rw vlan_pcp:rw vlan_id:rw vlan_tci:rw config:rw."),
    ("SetIPDSCP(0)", "dscp:rw. config:rw."),
    ("SetIPECN(0)", "ecn:rw. config:rw."),
    ("RadixIPLookup", "flush:wb lookup:r+ table:r$ ctrl:w remove:w set:w add:w"),
    ("LookupIP6Route", "table:r ctrl:w remove:w add:w"),
    ("ARPResponder", "remove:w add:w lookup:r+ table:r handlers:r. ports:r. config:rw. class:r. name:r."),
    (
        "TCPRewriter(pass)",
        "clear:w capacity:rw size:r patterns:r mapping_failures:r nmappings:rD table_size:r lookup:r+ \
         mappings:rD table:r",
    ),
    ("Paint(0)", "color:rw handlers:r. ports:r. config:rw. class:r. name:r."),
];

/// Sources, as the others.
const SOURCES: &[(&str, &str)] = &[
    (
        "InfiniteSource",
        "datasize:rw.D burstsize:rw.D length:rw. reset:wb count:r active:rwc burst:rw. limit:rw. data:rw%. \
         config:rw.",
    ),
    ("RatedSource", "datasize:rwD length:rw reset:wb count:r active:rwc limit:rw. rate:rw data:rw%."),
    ("TimedSource", "reset:wb headroom:rw. count:r active:rw.c interval:rw. limit:rw. data:rw%."),
    ("RandomSource(1)", "length:rw. reset:wb count:r active:rwc burst:rw. limit:rw. config:rw."),
];

/// Those without ports, as the others.
const ALONE: &[(&str, &str)] = &[
    ("RandomSeed(1)", "seed:rw. config:rw."),
    ("ARPTable", "config:rw."),
    (
        "Script(TYPE PROXY, export n 1)",
        "n:r *:w shift:r+ set:w get:r+ ntohl:r+ ntohs:r+ htonl:r+ htons:r+ unquote:r+ length:r+ writable:r+ \
         readable:r+ now:r in:r+ if:r+ nor:r+ nand:r+ or:r+ and:r+ random:r+ first:r+ sprintf:r+ not:r+ le:r+ \
         lt:r+ ge:r+ gt:r+ ne:r+ eq:r+ abs:r+ neg:r+ rem:r+ mod:r+ idiv:r+ div:r+ mul:r+ max:r+ min:r+ sub:r+ \
         add:r+ run:rw+ goto:w step:w handlers:r. ports:r. config:r. class:r. name:r.",
    ),
];

/// Sinks, as the others.
const SINKS: &[(&str, &str)] = &[("Discard", "reset_counts:wb count:r"), ("TimedSink", "interval:rw.")];

/// That what is listed of `x` has these lines, in this order.
fn check(config: &str, wanted: &str) {
    let mut rig = Rig::new(config).unwrap_or_else(|problems| panic!("{config}: {problems}"));
    let listed = rig.read("x.handlers").replace('\t', ":");
    let wanted: Vec<&str> = wanted.split_whitespace().collect();
    let is_wanted = |line: &&str| {
        let name = |line: &str| line.split(':').next().map(str::to_owned);
        wanted.iter().any(|one| name(one) == name(line))
    };
    let found: Vec<&str> = listed.lines().filter(is_wanted).collect();
    assert_eq!(found, wanted, "{config}");
}

#[test]
fn handlers_are_listed_with_clicks_marks_in_clicks_order() {
    for (class, wanted) in LISTED {
        check(&format!("Idle -> x :: {class} -> Idle"), wanted);
    }
    for (class, wanted) in SOURCES {
        check(&format!("x :: {class} -> Idle"), wanted);
    }
    for (class, wanted) in ALONE {
        check(&format!("x :: {class}"), wanted);
    }
    for (class, wanted) in SINKS {
        check(&format!("Idle -> x :: {class}"), wanted);
    }
}
