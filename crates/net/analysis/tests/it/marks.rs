//! What Click's `handlers` lists of elements of traffic analysis, with its marks.

use crate::Rig;

/// Elements, and handlers as Click lists them.
const LISTED: &[(&str, &str)] = &[
    ("AverageCounter", "reset:wb byte_rate:r rate:r byte_count:r count:r"),
    ("Print", "active:rw.c config:rw."),
    ("IPPrint", "active:rw.c config:r."),
    ("TimeRange", "reset:wb last:r first:r"),
    ("TimestampAccum", "reset_counts:wb average_time:r time:r count:r"),
    ("SetTimestampDelta", "reset:wb first:r"),
    (
        "AggregateCounter",
        "nagg:r count:r count_call:rw aggregate_call:rw clear:w banner:rw% counts_pdf:w reaggregate_counts:w \
         stop:wb active:rwc freeze:rwc write_pdf_file:w write_ip_file:w write_file:w write_ascii_file:w \
         write_text_file:w",
    ),
];

#[test]
fn handlers_are_listed_with_clicks_marks() {
    for (class, wanted) in LISTED {
        let config = format!("Idle -> x :: {class} -> Idle");
        let mut rig = Rig::new(&config).unwrap_or_else(|problems| panic!("{config}: {problems}"));
        let listed = rig.read("x.handlers").replace('\t', ":");
        let wanted: Vec<&str> = wanted.split_whitespace().collect();
        let name = |line: &str| line.split(':').next().map(str::to_owned);
        let is_wanted = |line: &&str| wanted.iter().any(|one| name(one) == name(line));
        assert_eq!(listed.lines().filter(is_wanted).collect::<Vec<_>>(), wanted, "{config}");
    }
}
