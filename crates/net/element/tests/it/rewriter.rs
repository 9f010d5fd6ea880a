//! Address translation: mappings, checksums, bounds, errors, FTP.

use crate::Rig;
use proptest::prelude::*;
use wire::checksum;

fn rig(config: &str) -> Rig {
    Rig::new(config).unwrap_or_else(|error| panic!("{error}"))
}

/// An IPv4 packet with right checksums.
fn ip(protocol: u8, src: [u8; 4], dst: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len()) as u16;
    let mut bytes = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, protocol, 0, 0];
    bytes[2..4].copy_from_slice(&length.to_be_bytes());
    bytes.extend(src);
    bytes.extend(dst);
    let sum = checksum::of(&bytes);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes.extend(payload);
    if let Some(at) = sum_at(protocol) {
        let sum = if protocol == 1 { checksum::of(&bytes[20..]) } else { !transport_sum(&bytes) };
        bytes[20 + at..22 + at].copy_from_slice(&sum.to_be_bytes());
    }
    bytes
}

fn sum_at(protocol: u8) -> Option<usize> {
    match protocol {
        1 => Some(2),
        6 => Some(16),
        17 => Some(6),
        _ => None,
    }
}

fn transport_sum(packet: &[u8]) -> u16 {
    let address = |at: usize| <[u8; 4]>::try_from(&packet[at..at + 4]).expect("four").into();
    let length = packet.len() as u32 - 20;
    let pseudo = checksum::pseudo_header_v4(address(12), address(16), packet[9], length);
    checksum::combine(pseudo, checksum::sum(&packet[20..]))
}

fn udp(src: ([u8; 4], u16), dst: ([u8; 4], u16)) -> Vec<u8> {
    let mut payload = [src.1.to_be_bytes(), dst.1.to_be_bytes(), 12u16.to_be_bytes(), [0; 2]].concat();
    payload.extend(b"data");
    ip(17, src.0, dst.0, &payload)
}

fn tcp(src: ([u8; 4], u16), dst: ([u8; 4], u16), seq: u32, ack: u32, data: &[u8]) -> Vec<u8> {
    let mut payload = [src.1.to_be_bytes(), dst.1.to_be_bytes()].concat();
    payload.extend(seq.to_be_bytes());
    payload.extend(ack.to_be_bytes());
    payload.extend([0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    payload.extend(data);
    ip(6, src.0, dst.0, &payload)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// A source of one packet, to `port`.
fn source(bytes: &[u8], port: &str) -> String {
    format!("InfiniteSource(DATA \\<{}>, LIMIT 1, STOP false) -> MarkIPHeader -> {port};\n", hex(bytes))
}

const PRINT: &str =
    "rw[0] -> Print(fwd, MAXLENGTH 200) -> Discard; rw[1] -> Print(rep, MAXLENGTH 200) -> Discard;\n";
const IN: ([u8; 4], u16) = ([10, 0, 0, 1], 1000);
const OUT: ([u8; 4], u16) = ([1, 0, 0, 1], 5000);
const SERVER: ([u8; 4], u16) = ([2, 0, 0, 2], 53);

/// Packets as they were printed: the label, and the bytes.
fn printed(rig: &Rig) -> Vec<(String, Vec<u8>)> {
    let bytes = |text: &str| {
        let digits: String = text.split_whitespace().collect();
        (0..digits.len() / 2)
            .map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).expect("hex"))
            .collect()
    };
    let line = |line: &str| {
        let (label, rest) = line.split_once(':')?;
        let (_, data) = rest.split_once('|')?;
        Some((label.to_string(), bytes(data)))
    };
    rig.printed().lines().filter_map(line).collect()
}

/// Steps, one source after the other.
fn run(rig: &mut Rig) {
    rig.router.lanes_mut()[0].step(200);
}

fn assert_sums(packet: &[u8]) {
    assert_eq!(checksum::of(&packet[..20]), 0, "the IP header's sum");
    match packet[9] {
        1 => assert_eq!(checksum::of(&packet[20..]), 0, "ICMP's sum"),
        _ => assert_eq!(transport_sum(packet), 0xFFFF, "the transport's sum"),
    }
}

#[test]
fn udp_goes_out_and_comes_back() {
    let config = "rw :: IPRewriter(pattern 1.0.0.1 5000-6000# - - 0 1, drop, REAP_INTERVAL 0);\n".to_string()
        + PRINT
        + &source(&udp(IN, SERVER), "[0]rw")
        + &source(&udp(SERVER, OUT), "[1]rw")
        + &source(&udp(SERVER, (OUT.0, 77)), "[1]rw");
    let mut rig = rig(&config);
    run(&mut rig);
    let got = printed(&rig);
    assert_eq!(got, [("fwd".into(), udp(OUT, SERVER)), ("rep".into(), udp(SERVER, IN))]);
    let table = rig.read("rw.udp_table");
    let mut lines: Vec<&str> = table.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "(10.0.0.1, 1000, 2.0.0.2, 53) => (1.0.0.1, 5000, 2.0.0.2, 53) [*0 1] i0 exp300",
            "(2.0.0.2, 53, 1.0.0.1, 5000) => (2.0.0.2, 53, 10.0.0.1, 1000) [0 *1] i0 exp300"
        ]
    );
    assert_eq!(rig.read("rw.patterns"), "1.0.0.1 5000-6000 - - [1]\n<drop>\n");
    assert_eq!((rig.read("rw.table_size"), rig.read("rw.tcp_table")), ("1".into(), String::new()));
    rig.write("rw.clear", "").expect("it clears");
    assert_eq!((rig.read("rw.size"), rig.read("rw.udp_table")), ("0".into(), String::new()));
}

#[test]
fn a_full_table_refuses_guaranteed_flows_and_gives_up_others() {
    let many: String = (0..4).map(|i| source(&udp((IN.0, 1000 + i), SERVER), "[0]rw")).collect();
    let config = |guarantee: u32| {
        format!(
            "rw :: UDPRewriter(pattern 1.0.0.1 5000-6000# - - 0 1, drop, MAPPING_CAPACITY 2, GUARANTEE {guarantee}, REAP_INTERVAL 0);\n Idle -> [1]rw;"
        ) + PRINT
            + &many
    };
    let mut full = rig(&config(5));
    run(&mut full);
    assert_eq!((full.read("rw.size"), full.read("rw.mapping_failures")), ("2".into(), "2".into()));
    assert_eq!(printed(&full).len(), 2);
    let mut makes_place = rig(&config(0));
    run(&mut makes_place);
    assert_eq!((makes_place.read("rw.size"), makes_place.read("rw.evictions")), ("2".into(), "2".into()));
    assert_eq!(printed(&makes_place).len(), 4);
}

#[test]
fn no_port_is_given_twice() {
    let config =
        "rw :: UDPRewriter(pattern 1.0.0.1 5000-5001 - - 0 1, drop, REAP_INTERVAL 0); Idle -> [1]rw;\n"
            .to_string()
            + PRINT
            + &(1..4).map(|i| source(&udp(([10, 0, 0, i], 5000), SERVER), "[0]rw")).collect::<String>();
    let mut rig = rig(&config);
    run(&mut rig);
    let mut ports: Vec<Vec<u8>> =
        printed(&rig).into_iter().map(|(_, bytes)| bytes[20..22].to_vec()).collect();
    assert_eq!(ports[0], 5000u16.to_be_bytes(), "its own if that is free");
    ports.sort();
    assert_eq!(ports, [5000u16.to_be_bytes(), 5001u16.to_be_bytes()]);
    assert_eq!(rig.read("rw.mapping_failures"), "1");
}

#[test]
fn addresses_alone() {
    let config = "rw :: IPAddrRewriter(pattern 1.0.0.1-1.0.0.9# - 0 1, drop, REAP_INTERVAL 0);\n".to_string()
        + PRINT
        + &source(&udp(IN, SERVER), "[0]rw")
        + &source(&tcp(SERVER, (OUT.0, 1000), 1, 2, b""), "[1]rw");
    let mut rig = rig(&config);
    run(&mut rig);
    let want = [("fwd".into(), udp((OUT.0, 1000), SERVER)), ("rep".into(), tcp(SERVER, IN, 1, 2, b""))];
    assert_eq!(printed(&rig), want);
    assert!(rig.read("rw.table").contains("10.0.0.1 => 1.0.0.1 [*0 1] i0 exp7200\n"));
}

fn echo(kind: u8, src: [u8; 4], dst: [u8; 4], identifier: u16) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0];
    message.extend(identifier.to_be_bytes());
    message.extend([0, 1, 9, 9]);
    ip(1, src, dst, &message)
}

#[test]
fn pings_and_errors_about_them() {
    let out = echo(8, OUT.0, SERVER.0, 700);
    let error = |dst, quoted: &[u8]| ip(1, [9, 9, 9, 9], dst, &[&[11, 0, 0, 0, 0, 0, 0, 0], quoted].concat());
    let config = "rw :: ICMPPingRewriter(pattern 1.0.0.1 700-800# - - 0 1, drop, REAP_INTERVAL 0); e :: ICMPRewriter(rw) -> Print(err, MAXLENGTH 200) -> Discard;\n".to_string()
        + PRINT
        + &source(&echo(8, IN.0, SERVER.0, 5), "[0]rw")
        + &source(&echo(0, SERVER.0, OUT.0, 700), "[1]rw")
        + &source(&echo(0, SERVER.0, OUT.0, 701), "[1]rw")
        + &source(&error(OUT.0, &out), "e");
    let mut rig = rig(&config);
    run(&mut rig);
    let want = [
        ("fwd".into(), out),
        ("rep".into(), echo(0, SERVER.0, IN.0, 5)),
        ("err".into(), error(IN.0, &echo(8, IN.0, SERVER.0, 5))),
    ];
    assert_eq!(printed(&rig), want);
    assert!(
        rig.read("rw.table").contains("(10.0.0.1, 2.0.0.2, 5) => (1.0.0.1, 2.0.0.2, 700) [*0 1] i0 exp300\n")
    );
}

#[test]
fn an_error_about_udp_goes_to_who_sent_it() {
    let error = |dst, quoted: &[u8]| ip(1, [9, 9, 9, 9], dst, &[&[3, 1, 0, 0, 0, 0, 0, 0], quoted].concat());
    let config = "rw :: IPRewriter(pattern 1.0.0.1 5000-6000# - - 0 1, drop, REAP_INTERVAL 0); Idle -> [1]rw; e :: ICMPRewriter(rw) -> Print(err, MAXLENGTH 200) -> Discard;\n".to_string()
        + PRINT
        + &source(&udp(IN, SERVER), "[0]rw")
        + &source(&error(OUT.0, &udp(OUT, SERVER)), "e");
    let mut rig = rig(&config);
    run(&mut rig);
    assert_eq!(printed(&rig)[1], ("err".into(), error(IN.0, &udp(IN, SERVER))));
}

#[test]
fn ftp_commands_name_the_outside_port_and_numbers_shift() {
    let (client, server) = (([10, 0, 0, 1], 6587), ([2, 0, 0, 2], 21));
    let command = b"PORT 10,0,0,1,3,9\r\n";
    let config = "rw :: IPRewriter(pattern 1.0.0.1 9000-9999# - - 0 1, drop, REAP_INTERVAL 0);\n f :: FTPPortMapper(rw, rw, 0) -> [0]rw;".to_string()
        + PRINT
        + &source(&tcp(client, server, 50, 1, b"USER\r\n"), "f")
        + &source(&tcp(client, server, 100, 1, command), "f")
        + &source(&tcp(client, server, 119, 1, b"NOOP\r\n"), "f")
        + &source(&tcp(server, ([1, 0, 0, 1], 9000), 1, 120, b""), "[1]rw");
    let mut rig = rig(&config);
    run(&mut rig);
    let got = printed(&rig);
    let outside = ([1, 0, 0, 1], 9000);
    // Port 9001 is 35 * 256 + 41; the command grows by one byte.
    assert_eq!(got[1].1, tcp(outside, server, 100, 1, b"PORT 1,0,0,1,35,41\r\n"));
    assert_eq!(got[2].1, tcp(outside, server, 120, 1, b"NOOP\r\n"));
    assert_eq!(got[3].1, tcp(server, client, 1, 119, b""));
    assert!(rig.read("rw.tcp_table").contains(" seq +1 [*0 1]"));
    assert_eq!(
        rig.router.read("rw.tcp_lookup", "10.0.0.1 777 2.0.0.2 20"),
        Ok("1.0.0.1 9001 2.0.0.2 20".into())
    );
}

#[test]
fn mappers_and_named_patterns() {
    let config = "IPRewriterPatterns(one - - 7.0.0.1 -); m :: RoundRobinIPMapper(one 0 1, - - 7.0.0.2 - 0 1);
         rw :: IPRewriter(m, drop); Idle -> [1]rw;\n"
        .to_string()
        + PRINT
        + &(1..4).map(|i| source(&udp(([10, 0, 0, i], 5000), SERVER), "[0]rw")).collect::<String>();
    let mut rig = rig(&config);
    run(&mut rig);
    let last: Vec<u8> = printed(&rig).iter().map(|(_, bytes)| bytes[19]).collect();
    assert_eq!(last, [1, 2, 1]);
}

#[test]
fn what_is_wrong_is_said() {
    let wrong = |specs: &str| {
        Rig::new(&format!("Idle -> rw :: IPRewriter({specs}) -> Discard;")).err().unwrap_or_default()
    };
    for (specs, message) in [
        ("drop, drop", "need 1 arguments, one per input port"),
        ("pattern 1.0.0.1 x - - 0 0", "input spec 0: bad source port"),
        ("pattern 1.0.0.1-1.0.0.9 1024 - - 0 0", "input spec 0: bad source address"),
        ("pattern 10.0.0.0/8 1024-2048 - - 0 0", "input spec 0: bad source address"),
        ("pattern 1.0.0.1 1 - - 0 1", "input spec 0: output port out of range"),
        ("pattern nobody 0 0", "no such pattern 'nobody'"),
        ("what", "input spec 0: unknown specification"),
        ("drop, MAPPING_CAPACITY nobody", "bad MAPPING_CAPACITY"),
    ] {
        assert!(wrong(specs).contains(message), "{specs}: {}", wrong(specs));
    }
}

#[test]
fn rewriters_share_a_capacity() {
    let config = "a :: UDPRewriter(pattern 1.0.0.1 5000-6000# - - 0 0, MAPPING_CAPACITY b, REAP_INTERVAL 0); b :: UDPRewriter(keep 0 0, CAPACITY 7, REAP_INTERVAL 0);
         a -> Discard; b -> Discard;\n"
        .to_string()
        + &source(&udp(IN, SERVER), "a")
        + &source(&udp(IN, SERVER), "b");
    let mut rig = rig(&config);
    run(&mut rig);
    assert_eq!(
        (rig.read("a.capacity"), rig.read("a.size"), rig.read("b.size")),
        ("7".into(), "2".into(), "2".into())
    );
    assert_eq!((rig.read("a.table_size"), rig.read("b.table_size")), ("1".into(), "1".into()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn hostile_packets(kind in 0usize..4, cut in 0usize..60, noise in proptest::collection::vec((0usize..60, any::<u8>()), 0..6)) {
        let inner = udp(OUT, SERVER);
        let whole = [
            udp(IN, SERVER),
            tcp(IN, ([2, 0, 0, 2], 21), 1, 2, b"PORT 1,2,3,4,5,6\r\n"),
            echo(8, IN.0, SERVER.0, 3),
            ip(1, [9; 4], OUT.0, &[&[3, 1, 0, 0, 0, 0, 0, 0], &inner[..]].concat()),
        ];
        let mut bytes = whole[kind].clone();
        for (at, value) in noise {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        bytes.truncate(bytes.len().saturating_sub(cut).max(1));
        let config = "t :: Tee(8);
            rw :: IPRewriter(pattern 1.0.0.1 5000-6000# - - 0 0); t[0] -> rw -> Discard;
            ud :: UDPRewriter(keep 0 0); t[1] -> ud -> Discard;
            tc :: TCPRewriter(keep 0 0); t[2] -> tc -> Discard;
            ad :: IPAddrRewriter(pattern 1.0.0.0/24 - 0 0); t[3] -> ad -> Discard;
            pa :: IPAddrPairRewriter(pattern 1.0.0.0/24 - 0 0); t[4] -> pa -> Discard;
            pi :: ICMPPingRewriter(pattern 1.0.0.1 1-9 - - 0 0); t[5] -> pi -> Discard;
            t[6] -> ICMPRewriter(rw ud ad pi) -> Discard;
            t[7] -> FTPPortMapper(rw, rw, 0) -> Null -> Discard;\n".to_string() + &source(&udp(OUT, SERVER), "t") + &source(&bytes, "t");
        run(&mut rig(&config));
    }
}

#[test]
fn sums_stay_right_whatever_the_addresses() {
    for host in 0..=255u8 {
        let config =
            "rw :: IPRewriter(pattern 1.0.0.1 5000-6000? - - 0 1, drop, REAP_INTERVAL 0); Idle -> [1]rw;\n"
                .to_string()
                + PRINT
                + &source(&udp(([10, host, 255 - host, host], u16::from(host) * 257), SERVER), "[0]rw");
        let mut rig = rig(&config);
        run(&mut rig);
        assert_sums(&printed(&rig)[0].1);
    }
}
