//! The meta commands.

use super::client::{Client, dialogue};

#[test]
fn meta_get_returns_what_its_flags_ask_for() {
    let mut client = Client::new();
    client.ask("set a 5 100 3\r\nxyz\r\nset b 0 0 1\r\nx\r\n");
    client.wait_s(10);
    dialogue(
        &mut client,
        &[
            ("mn", "MN\r\n"),
            ("mg nothing v", "EN\r\n"),
            ("mg nothing v q", ""),
            ("mg nothing k O77", "EN knothing O77\r\n"),
            ("mg a", "HD\r\n"),
            ("mg b h l u", "HD h0 l10\r\n"),
            ("mg a s v t f", "VA 3 s3 t90 f5\r\nxyz\r\n"),
            ("mg b k h t Oabc c", "HD kb h0 t-1 Oabc c2\r\n"),
            ("mg b h l", "HD h1 l0\r\n"),
            ("mg a T50 t v q", "VA 3 t50\r\nxyz\r\n"),
            ("mg a C1 v c", "HD c1\r\n"),
            ("mg a C7 v c", "VA 3 c1\r\nxyz\r\n"),
            ("mg a Lpath/ Pfoo s", "HD s3\r\n"),
            // In their order: what stands in front of T sees the time that was left.
            ("mg a t T30", "HD t50\r\n"),
            ("mg a T60 t", "HD t60\r\n"),
            ("mg a T300 R70", "HD\r\n"),
            ("mg a T60 R20", "HD\r\n"),
            ("mg a R70 T300", "HD W\r\n"),
        ],
    );
}

#[test]
fn meta_set_has_modes_and_conditions() {
    dialogue(
        &mut Client::new(),
        &[
            ("ms a 3 T50 F9 c k Oq1\r\nabc", "HD c1 ka Oq1\r\n"),
            ("mg a v t f", "VA 3 t50 f9\r\nabc\r\n"),
            ("ms a 1 ME\r\nx", "NS\r\n"),
            ("ms b 1 MR k\r\nx", "NS kb\r\n"),
            ("ms a 2 MA s\r\nde", "HD s5\r\n"),
            ("ms a 1 MP\r\n_", "HD\r\n"),
            ("mg a v f", "VA 6 f9\r\n_abcde\r\n"),
            ("ms b 1 MA\r\nx", "NS\r\n"),
            ("ms b 1 MA N0\r\nx", "HD\r\n"),
            ("ms b 1 C99\r\ny", "EX\r\n"),
            ("ms c 1 C99\r\ny", "NF\r\n"),
            ("ms b 1 E1000 q\r\ny", ""),
            ("mg b c v", "VA 1 c1000\r\ny\r\n"),
            ("ms b 1 C900 I q\r\nz", ""),
            ("mg b v", "VA 1 X W\r\nz\r\n"),
            ("mg b v", "VA 1 Z X\r\nz\r\n"),
            ("ms b 1 MX\r\nx", "CLIENT_ERROR invalid mode for ms M token\r\n"),
            ("ms b 1 T1 T2\r\nx", "CLIENT_ERROR duplicate flag\r\n"),
            ("ms b 1 Fx\r\nx", "CLIENT_ERROR bad command line format\r\n"),
            ("ms b 1\r\nxyz", "CLIENT_ERROR bad data chunk\r\nERROR\r\n"),
            ("ms b x", "CLIENT_ERROR bad command line format\r\n"),
            ("ms b", "CLIENT_ERROR bad command line format\r\n"),
            ("mn", "MN\r\n"),
        ],
    );
}

#[test]
fn one_client_is_told_to_renew_an_item() {
    let mut client = Client::new();
    dialogue(
        &mut client,
        &[
            ("mg a N30 v t", "VA 0 t30 W\r\n\r\n"),
            ("mg a N30 v t", "VA 0 t30 Z\r\n\r\n"),
            ("ms a 1 T60\r\nx", "HD\r\n"),
            ("mg a R30 v", "VA 1\r\nx\r\n"),
        ],
    );
    client.wait_s(40);
    dialogue(
        &mut client,
        &[
            ("mg a R30 v", "VA 1 W\r\nx\r\n"),
            ("mg a R30 v", "VA 1 Z\r\nx\r\n"),
            ("ms a 1 T60\r\ny", "HD\r\n"),
            ("md a I T20", "HD\r\n"),
            ("mg a v t", "VA 1 t20 X W\r\ny\r\n"),
            ("mg a v", "VA 1 Z X\r\ny\r\n"),
        ],
    );
}

#[test]
fn meta_delete_and_arithmetic() {
    dialogue(
        &mut Client::new(),
        &[
            ("md a k", "NF ka\r\n"),
            ("md a q", "NF\r\n"),
            ("ms a 1 F3\r\nx", "HD\r\n"),
            ("md a C99 O1", "EX O1\r\n"),
            ("md a x", "HD\r\n"),
            ("mg a v f", "VA 0 f0\r\n\r\n"),
            ("md a q", ""),
            ("mg a", "EN\r\n"),
            // Where nothing is, only those who store in place of it miss the number that it must have.
            ("ms a 1 ME C5\r\nx", "HD\r\n"),
            ("ms a 1 ME C5\r\nx", "NS\r\n"),
            ("ms b 1 MA C5\r\nx", "NS\r\n"),
            ("ms b 1 MR C5\r\nx", "NF\r\n"),
            ("ms b 1 C5\r\nx", "NF\r\n"),
            ("ma n", "NF\r\n"),
            ("ma n q", "NF\r\n"),
            ("ma made N0 T30 t", "HD t30\r\n"),
            ("mg made t", "HD t30\r\n"),
            ("ma other T30 N0 t", "HD t-1\r\n"),
            ("mg third N0 T30 t", "HD t30 W\r\n"),
            ("ma made T40 N0 t", "HD t40\r\n"),
            ("ma n N0 J10 v", "VA 2\r\n10\r\n"),
            ("ma n", "HD\r\n"),
            ("ma n D5 v t", "VA 2 t-1\r\n16\r\n"),
            ("ma n MD D9 v", "VA 1\r\n7\r\n"),
            ("ma n M- D9 v k", "VA 1 kn\r\n0\r\n"),
            ("ma n C1", "EX\r\n"),
            ("ma n E77 c T90", "HD c77\r\n"),
            ("mg n t", "HD t90\r\n"),
            ("ma n q", ""),
            ("ma n MX", "CLIENT_ERROR invalid mode for ma M token\r\n"),
            ("ma n Dx", "CLIENT_ERROR invalid or duplicate flag\r\n"),
            ("ms t 1\r\nx", "HD\r\n"),
            ("ma t", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"),
        ],
    );
}

#[test]
fn meta_keys_may_be_binary_and_wrong_flags_are_refused() {
    let long = "x".repeat(251);
    let mut client = Client::new();
    dialogue(
        &mut client,
        &[
            ("ms AAEC 2 b\r\nhi", "HD\r\n"),
            ("mg AAEC b k v", "VA 2 kAAEC b\r\nhi\r\n"),
            ("mg AAEC v", "EN\r\n"),
            ("mg AA=C b", "CLIENT_ERROR error decoding key\r\n"),
            ("mg", "ERROR\r\n"),
            ("md ", "ERROR\r\n"),
            ("ma", "ERROR\r\n"),
            ("ms", "ERROR\r\n"),
            ("me", "CLIENT_ERROR bad command line format\r\n"),
            (&format!("mg {long} v"), "CLIENT_ERROR bad command line format\r\n"),
            ("mg a !", "CLIENT_ERROR invalid flag\r\n"),
            ("mg a M", "CLIENT_ERROR incorrect length for M token\r\n"),
            ("mg a v v", "CLIENT_ERROR duplicate flag\r\n"),
            ("mg a Tx", "CLIENT_ERROR bad token in command line format\r\n"),
            ("mg a O123456789012345678901234567890123", "CLIENT_ERROR opaque token too long\r\n"),
            ("me nothing", "EN\r\n"),
        ],
    );
    let about = client.ask("me AAEC b\r\n");
    assert!(about.starts_with("ME AAEC exp=-1 la=0 cas=1 fetch=yes cls=1 size="), "{about}");
    assert_eq!(client.stat("cmd_meta"), 4);
}

/// What a stale value replaces keeps its time, and whether somebody renews it.
#[test]
fn a_stale_value_leaves_the_time_as_it_was() {
    dialogue(
        &mut Client::new(),
        &[
            ("set a 5 100 5\r\nhello", "STORED\r\n"),
            ("ms a 5 T100\r\nhello", "HD\r\n"),
            ("mg a c", "HD c2\r\n"),
            ("ms a 2 T50 F6 C0 I\r\nhi", "EX\r\n"),
            ("ms a 2 T50 F6 C1 I\r\nhi", "HD\r\n"),
            ("mg a v t f", "VA 2 t100 f6 X W\r\nhi\r\n"),
            ("ms a 2 MR C1 I\r\nho", "HD\r\n"),
            ("mg a v t", "VA 2 t100 Z X\r\nho\r\n"),
            // Nothing is appended to another value than the client knows.
            ("ms a 1 MA C1 I\r\n!", "EX\r\n"),
            ("ms a 1 MP C1 I\r\n!", "EX\r\n"),
            ("mg a v", "VA 2 Z X\r\nho\r\n"),
        ],
    );
}

/// The flags of another command change nothing, and are no error.
#[test]
fn flags_of_other_commands_are_left() {
    dialogue(
        &mut Client::new(),
        &[
            ("md a c f h l s t v u N30 R30 F5 D1 J1 M1", "NF\r\n"),
            ("ms a 2 f h l t v u R30 D4 J3\r\n10", "HD\r\n"),
            ("mg a t f v", "VA 2 t-1 f0\r\n10\r\n"),
            ("mg a M1 D5 J3 F4 I v", "VA 2\r\n10\r\n"),
            ("ma a f h l s u R30 I F5 v", "VA 2\r\n11\r\n"),
            ("ma b c", "NF\r\n"),
            ("ms a 1 F4294967297\r\n7", "HD\r\n"),
            ("mg a f", "HD f1\r\n"),
            ("md a N30 R30 q", ""),
            ("mg a", "EN\r\n"),
            // They are read nevertheless.
            ("md a Nx", "CLIENT_ERROR invalid or duplicate flag\r\n"),
            ("mg a D5x", "CLIENT_ERROR invalid numeric delta value\r\n"),
            ("mg a Jx", "CLIENT_ERROR invalid numeric initial value\r\n"),
            ("ms a 1 v v\r\n1", "CLIENT_ERROR duplicate flag\r\n"),
            ("ms a 1 !\r\n1", "CLIENT_ERROR invalid flag\r\n"),
            ("mg a O123456789012345678901234567890123 k O1", "CLIENT_ERROR duplicate flag\r\n"),
            ("ms a 1 b M\r\n1", "CLIENT_ERROR incorrect length for M token\r\n"),
        ],
    );
}
