//! TCP segments that are answered without a state, and numbers that go from one way to
//! another.

use super::bench::{bench, hex, ip, is_sound, unhex};

/// A segment from port 10 to port 20, sequence 100, acknowledgement 200.
fn segment(flags: u8, data: &[u8]) -> Vec<u8> {
    let mut tcp = unhex("000a 0014 00000064 000000c8 50 00 1000 0000 0000");
    tcp[13] = flags;
    tcp.extend(data);
    ip(6, 9, &[], &tcp)
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const PSH: u8 = 8;
const ACK: u8 = 16;

#[test]
fn segments_are_answered() {
    let packets = [segment(SYN, &[]), segment(PSH | ACK, b"hello"), segment(FIN | ACK, &[])];
    let unanswered =
        [segment(RST, &[]), segment(ACK, &[]), segment(SYN | ACK, &[]), ip(17, 9, &[], &[0; 20])];
    let short = segment(ACK, &[])[..30].to_vec();
    let all = packets.iter().chain(&unanswered).chain([&short]).map(|packet| hex(packet)).collect::<Vec<_>>();
    let mut b = bench(&format!("Feed({}) -> r :: TCPReflector -> a :: Catch", all.join(", ")));
    assert_eq!(b.drops(1), [1, 1, 3]);
    let answers = b.at("a");
    let words =
        |answer: &[u8]| [24, 28].map(|at| u32::from_be_bytes(answer[at..at + 4].try_into().expect("four")));
    let expected = [(SYN | ACK, 101, 0), (ACK, 105, 5), (FIN | ACK, 101, 0)];
    for (answer, (flags, acknowledgement, data)) in answers.iter().zip(expected) {
        assert!(is_sound(answer));
        assert_eq!(
            (answer[8], &answer[12..20], &answer[20..24]),
            (250, &unhex("0a000102 0a000001")[..], &unhex("0014 000a")[..])
        );
        assert_eq!((answer[33], words(answer)[1], answer.len()), (flags, acknowledgement, 40 + data));
        assert_eq!(answer[34..36], [0xF0, 0]);
        let view = wire::ipv4::Packet::new_checked(&answer[..]).expect("a packet");
        assert!(
            wire::tcp::Segment::new_checked(view.payload())
                .expect("a segment")
                .verify_checksum(view.addresses())
        );
    }
    assert_eq!((answers.len(), words(&answers[1])[0]), (3, 200));
}

#[test]
fn what_one_way_tells_is_written_on_the_other() {
    let mut first = segment(ACK, &[]);
    first[12..20].copy_from_slice(&unhex("01000001 02000002"));
    first[20..24].copy_from_slice(&unhex("1111 2222"));
    first[24..28].copy_from_slice(&unhex("ffffff00"));
    let (first, other) = (hex(&first), hex(&segment(ACK, &[])));
    let short = hex(&ip(6, 9, &[], &[1, 2]));
    let mut b = bench(&format!(
        "Feed({first}, {other}, {short}) -> MarkIPHeader -> [0] c :: CopyFlowID [0] -> [0] s :: CopyTCPSeq [0] -> a :: Catch; \
         Feed({other}, {short}) -> MarkIPHeader -> [1] c [1] -> [1] s [1] -> b :: Catch"
    ));
    assert_eq!(b.at("a").len(), 2);
    let written = b.at("b").remove(0);
    assert_eq!(written[12..28], unhex("01000001 02000002 1111 2222 00000064"), "100 is behind 2^32 - 256");
    assert_eq!((b.write("c.reset", ""), b.write("s.reset", "")), (String::new(), String::new()));
}
