//! Random small graphs and random packets, for tests that run a graph in two ways.
//!
//! A graph is told by a few numbers ([`Node`]), so that one that went wrong can be made
//! smaller. What packets went through stands in their annotations: a byte for each node,
//! set where they leave it.

use std::fmt::Write;

use memory::Packet;

/// Sources, and as many threads.
pub const THREADS: usize = 4;
const SINKS: usize = 3;
/// The most nodes: a packet has an annotation for each.
pub const MOST: usize = 12;

/// The annotations that tell the way of a packet: that of its entry, one for each node. No
/// element of [`NODES`] writes them (`Pad` writes the extra length, before them).
pub const WAY: std::ops::Range<usize> = 32..32 + 1 + MOST;

/// The way of a packet.
pub fn way(packet: &mut Packet) -> Vec<u8> {
    packet.annotations().area[WAY].to_vec()
}

/// Elements between a node's input and its outputs, and how many of those it has. They
/// see packets that begin with an IP header which was checked. `$n` is a number of the
/// node's own, 1 to 4; `u$` a name of its own.
pub const NODES: &[(&str, usize)] = &[
    ("Null", 1),
    ("PushNull", 1),
    ("Counter", 1),
    ("Paint($n)", 1),
    ("Paint(4)", 1),
    ("CheckPaint($n)", 2),
    ("PaintSwitch", 5),
    ("PaintTee($n)", 2),
    ("PaintTee(0)", 2),
    ("Tee(2)", 2),
    ("Tee(3)", 3),
    ("Switch(1)", 2),
    ("Switch(-1)", 1),
    ("StaticSwitch(1)", 2),
    ("HashSwitch(12, 4)", 3),
    ("HashSwitch(9, 1)", 5),
    ("Strip(4) -> Unstrip(4)", 1),
    ("Strip($n) -> Unstrip($n)", 1),
    ("Truncate(4$n)", 1),
    ("Align(4, 0)", 1),
    ("EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> EtherMirror -> Strip(14)", 1),
    ("EtherEncap(0x0800, 1:1:1:1:1:$n, $n:2:2:2:2:2) -> Strip(14)", 1),
    (
        "EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> EtherRewrite(3:3:3:3:3:3, 4:4:4:4:4:$n) -> Strip(14)",
        1,
    ),
    ("EtherVLANEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2, $n) -> StripEtherVLANHeader", 1),
    ("Unstrip(14) -> VLANEncap($n) -> SetVLANAnno -> VLANDecap -> Strip(14)", 1),
    ("Unstrip(14) -> MarkMACHeader -> Strip(14)", 1),
    ("Unstrip(14) -> HostEtherFilter(AB:AB:AB:AB:AB:AB)", 2),
    ("DecIPTTL", 2),
    ("CheckIPHeader", 2),
    ("CheckIPHeader(INTERFACES 10.$n.0.1/16, CHECKSUM false)", 2),
    ("CheckIPHeader2(10.$n.0.1)", 2),
    ("CheckIP6Header", 2),
    ("MarkIP6Header -> DecIP6HLIM", 2),
    ("GetIP6Address(4) -> SetIP6Address(fe80::$n)", 1),
    ("IPClassifier(udp, tcp, -)", 3),
    ("IPFilter(allow udp && src port > 30000, 1 ttl < $n, deny all)", 2),
    ("Classifier(9/11, 0/45, -)", 3),
    ("Classifier(12/0a, -)", 2),
    ("Classifier(13/0$n%07, -, 8/0$n)", 3),
    ("IPClassifier(dst net 10.1.0.0/16, ip frag, -)", 3),
    ("IPClassifier(src or dst net 10.$n.0.0/16, icmp type echo || tcp opt ack, ip vers 4)", 3),
    ("StaticIPLookup(10.1.0.0/16 0, 10.2.0.0/16 1, 0/0 2)", 3),
    ("StaticIPLookup(10.$n.0.0/16 10.9.9.$n 1, 10.0.0.0/8 0)", 2),
    ("LookupIPRouteMP(10.$n.0.0/255.255.0.0 0, 10.0.0.0/255.0.0.0 1)", 2),
    ("GetIPAddress(16)", 1),
    ("GetIPAddress(12) -> StoreIPAddress(16)", 1),
    ("StoreIPAddress(10.1.$n.3, src)", 1),
    ("SetIPAddress(10.1.2.3)", 1),
    ("SetIPDSCP($n)", 1),
    ("SetIPECN(ect1)", 1),
    ("MarkIPCE", 1),
    ("SetIPChecksum", 1),
    ("SetUDPChecksum", 1),
    ("SetTCPChecksum", 1),
    ("IPMirror", 1),
    ("FixIPSrc(10.9.9.$n)", 1),
    ("DropBroadcasts", 1),
    ("IPGWOptions(10.0.0.$n)", 2),
    ("IPFragmenter(96)", 2),
    ("IPFragmenter(12$n, true)", 1),
    ("StripIPHeader -> UnstripIPHeader", 1),
    ("Strip(0) -> StripToNetworkHeader", 1),
    ("CheckLength(100)", 2),
    ("CheckLength(8$n)", 2),
    ("SetAnnoByte(PAINT, $n)", 1),
    ("Queue(100000) -> u$ :: Unqueue(7)", 1),
    ("Queue(100000) -> Counter -> u$ :: Unqueue(32)", 1),
    ("SimpleQueue(100000) -> Strip(0) -> u$ :: Unqueue", 1),
    ("Pad(80)", 1),
    ("Pad(9$n)", 1),
    ("CheckARPHeader", 2),
    ("Unstrip(14) -> ARPResponder(10.0.0.0/8 1:1:1:1:1:1)", 1),
    ("SetCRC32 -> CheckCRC32", 1),
    ("Truncate(4$n) -> CheckCRC32", 1),
    ("EnsureEther(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:$n) -> Strip(14)", 1),
    ("ExactPaintSwitch(PAINT, MAP 1, MAP $n)", 3),
    ("SetEtherAddress(1:1:1:1:1:$n, 0) -> GetEtherAddress(8, 2)", 1),
    ("Unstrip(14) -> StoreEtherAddress(1:1:1:1:1:$n, src) -> Strip(14)", 1),
    ("StoreData(9, \\<$n1>)", 1),
    ("ICMPPingResponder", 2),
    ("Unstrip(14) -> IPInputCombo($n)", 1),
    ("IPOutputCombo($n, 10.0.0.$n, 9$n)", 5),
    ("SetPacketType(BROADCAST) -> DropBroadcasts", 1),
    ("SetPacketType(HOST)", 1),
    ("TruncateIPPayload(1$n, true, EXTRA_LENGTH false)", 1),
    ("Paint(255) -> PaintSwitch", 3),
    ("Paint($n) -> CheckPaint(2)", 2),
    ("MarkIPHeader", 1),
];

/// What packets leave by in the middle of a program, or beside it: in every other graph
/// all packets come to one of these first.
const APART: [&str; 6] = ["IPFragmenter", "Paint(255)", "PaintTee(0)", "Tee", "IPOutputCombo", "PaintSwitch"];

/// A node: which of [`NODES`], and where its outputs lead.
pub type Node = (usize, [usize; 5]);

/// The graph that nodes describe: each leads to later ones, or to a sink. Sources send
/// `burst` packets at a time.
pub fn text(nodes: &[Node], burst: usize) -> String {
    let mut graph = Graph { text: String::new(), threads: String::new(), wires: String::new() };
    let mut used = vec![false; nodes.len()];
    used[0] = true;
    let mut sinks = [false; SINKS];
    graph.begin(burst);
    sinks[0] = true;
    for (n, (kind, leads)) in nodes.iter().enumerate() {
        if !used[n] {
            continue;
        }
        let (outputs, last) = graph.node(n, *kind, leads[0]);
        for (output, lead) in leads.iter().enumerate().take(outputs) {
            let later = nodes.len() - n - 1;
            let target = match lead % (later + SINKS) {
                to if to < later => {
                    used[n + 1 + to] = true;
                    format!("n{}", n + 1 + to)
                }
                to => {
                    sinks[to - later] = true;
                    format!("s{}", to - later)
                }
            };
            graph.wire(&format!("{last}[{output}]"), 1 + n, output + 1, &target);
        }
    }
    let idle = (0..SINKS).filter(|sink| !sinks[*sink]).map(|sink| format!("Idle -> s{sink};\n"));
    let Graph { text, threads, wires } = &graph;
    let idle: String = idle.collect();
    format!("{text}{wires}{idle}StaticThreadSched({});", threads.trim_end_matches(", "))
}

struct Graph {
    text: String,
    wires: String,
    threads: String,
}

impl Graph {
    fn begin(&mut self, burst: usize) {
        self.text += "c :: Classifier(12/0800, -); k :: CheckIPHeader; c -> Strip(14) -> k;\n";
        self.wire("k", 0, 1, "n0");
        self.wire("c[1]", 0, 2, "s0");
        self.wire("k[1]", 0, 3, "s0");
        for source in 0..THREADS {
            let _ = writeln!(self.text, "f{source} :: Feed({source}, {burst}) -> c;");
            let _ = write!(self.threads, "f{source} {source}, ");
        }
        for sink in 0..SINKS {
            let _ = writeln!(self.text, "s{sink} :: Keep({sink});");
        }
    }

    /// Writes a node; how many outputs it has, and the name of its last element, whose
    /// they are.
    fn node(&mut self, n: usize, kind: usize, thread: usize) -> (usize, String) {
        let (chain, outputs) = NODES[kind];
        let chain = chain.replace("u$", &format!("u{n}")).replace("$n", &(n % 4 + 1).to_string());
        if chain.contains("Unqueue") {
            let _ = write!(self.threads, "u{n} {}, ", thread % THREADS);
        }
        let (front, last) = chain.rsplit_once(" -> ").unwrap_or(("", &chain));
        let last = if last.contains(" :: ") { last.to_string() } else { format!("e{n} :: {last}") };
        let front = if front.is_empty() { String::new() } else { format!("{front} -> ") };
        let _ = writeln!(self.text, "n{n} :: Null -> {front}{last};");
        (outputs, last.split(' ').next().unwrap_or_default().to_string())
    }

    fn wire(&mut self, from: &str, mark: usize, value: usize, to: &str) {
        let _ = writeln!(self.wires, "{from} -> SetAnnoByte({}, {value}) -> {to};", WAY.start + mark);
    }
}

/// Numbers that are random enough, the same for the same seed.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((u128::from(z ^ (z >> 31)) * bound as u128) >> 64) as usize
    }

    /// Nodes of a few kinds, so that ways are alike now and then.
    pub fn nodes(&mut self) -> Vec<Node> {
        let kinds: Vec<usize> = (0..1 + self.below(6)).map(|_| self.below(NODES.len())).collect();
        let count = 1 + self.below(MOST);
        let node = |_| (kinds[self.below(kinds.len())], [0; 5].map(|_| self.below(1000)));
        let mut nodes: Vec<Node> = (0..count).map(node).collect();
        let apart = |kind: &usize| APART.iter().any(|name| NODES[*kind].0.starts_with(name));
        let apart: Vec<usize> = (0..NODES.len()).filter(apart).collect();
        if self.below(2) == 0 {
            nodes[0].0 = apart[self.below(apart.len())];
        }
        nodes
    }

    /// The packets of each source.
    pub fn frames(&mut self) -> Vec<Vec<Vec<u8>>> {
        let mut one = || {
            let numbers = (self.below(64) as u8, self.below(6) as u8, self.below(256) as u8);
            frame((numbers.0, numbers.1, numbers.2, self.below(65536) as u16, self.below(120)))
        };
        let counts = [150, 90, 40, 7];
        counts.iter().map(|count| (0..*count).map(|_| one()).collect()).collect()
    }
}

/// Options of IP headers, right and wrong.
const OPTIONS: &[&[u8]] = &[
    &[7, 7, 4, 0, 0, 0, 0, 0],  // a route to record
    &[68, 8, 9, 0, 0, 0, 0, 0], // times, and no room for another
    &[7, 200, 4, 0],            // too long
    &[1, 1, 68, 4, 1, 0, 0, 0], // a wrong place
    &[1, 1, 1, 0],
];

/// A frame of these few numbers: mostly IP, mostly right.
pub fn frame((kind, ttl, to, port, length): (u8, u8, u8, u16, usize)) -> Vec<u8> {
    let options = OPTIONS.get(usize::from(kind.wrapping_sub(50))).copied().unwrap_or(&[]);
    let header = 20 + options.len();
    let mut frame = vec![0xAB; 14 + header + 8 + length];
    frame[12..14].copy_from_slice(if kind == 0 { &[8, 6] } else { &[8, 0] });
    let ip = &mut frame[14..];
    let total = ip.len() as u16;
    ip[..2].copy_from_slice(&[0x40 | (header / 4) as u8, kind]);
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    ip[4..8].copy_from_slice(&[0, 7, if kind & 8 == 0 { 0 } else { 0x40 }, 0]);
    ip[8..10].copy_from_slice(&[ttl, [17, 6, 1, 200][usize::from(kind) % 4]]);
    ip[12..16].copy_from_slice(&[10, to, 0, 1]);
    ip[16..20].copy_from_slice(&[10, to % 3, 7, if kind & 16 == 0 { 9 } else { 255 }]);
    ip[20..header].copy_from_slice(options);
    ip[header..header + 2].copy_from_slice(&port.to_be_bytes());
    ip[header + 2..header + 4].copy_from_slice(&53u16.to_be_bytes());
    ip[header + 4..header + 6].copy_from_slice(&(total - header as u16).to_be_bytes());
    ip[10..12].fill(0);
    let sum = wire::checksum::of(&ip[..header]);
    ip[10..12].copy_from_slice(&if kind == 63 { [1, 2] } else { sum.to_be_bytes() });
    if kind == 62 {
        frame.truncate(14 + length % 30); // cut off on its way
    }
    frame
}
