//! Hosts that do not answer: whoever sends them something is told that they cannot be
//! reached (RFC 1812, 3.3.2 and 4.3.3.1; RFC 4861, 7.2.2; RFC 4443, 3.1).

use super::dual::{Host, between};
use super::frame::{ICMP6, Ip4, UDP, ip6, udp};
use super::rig::{Hosts, conf};

/// How often somebody is asked for at this cable until nobody is any more: frames of
/// ARP, and neighbour solicitations.
fn asked(wire: &Hosts) -> (usize, usize) {
    let (mut arp, mut nd) = (0, 0);
    while let Some(frame) = wire.hear(1500) {
        match frame[12..14] {
            [8, 6] => arp += usize::from(frame[21] == 1),
            [0x86, 0xDD] => nd += usize::from(frame[20] == ICMP6 && frame[54] == 135),
            _ => {}
        }
        assert!(arp + nd < 1000, "they are asked for without an end");
    }
    (arp, nd)
}

#[test]
fn senders_to_hosts_that_are_not_there_are_told() {
    let data = udp(1024, 33434, &[7; 40]);
    let rig = between(&conf("dual.click"), ["P0", "P1"], 2, |sender, other| {
        let lost = Ip4::new("10.0.1.2", "10.0.2.77", UDP, &data).bytes();
        sender.send(&lost);
        let nobody = "2001:db8:2::77".parse().expect("an address");
        let lost6 = ip6(sender.ip6, nobody, UDP, 64, &data);
        sender.send(&lost6);
        assert_eq!(asked(other.wire), (3, 3));
        told(&sender, &lost, &lost6);
    });
    assert_eq!(rig.findings().len(), 0);
}

/// Both answers, in whatever order they come.
fn told(sender: &Host<'_>, lost: &[u8], lost6: &[u8]) {
    let (mut heard4, mut heard6) = (false, false);
    for _ in 0..100 {
        if heard4 && heard6 {
            return;
        }
        let frame = sender.next();
        if frame[12..14] == [8, 0] {
            let told = super::frame::heard4(&frame);
            // The packet that is quoted went through the router: one hop less.
            assert_eq!(&told.payload[..2], [3, 1], "host unreachable");
            assert_eq!(told.dst(), sender.ip);
            assert_eq!(told.payload[8 + 12..8 + 20], lost[12..20], "about the packet that it sent");
            heard4 = true;
        } else {
            let told = super::frame::heard6(&frame);
            assert_eq!(&told.payload[..2], [1, 3], "address unreachable");
            assert_eq!(told.payload[8 + 24..8 + 40], lost6[24..40]);
            heard6 = true;
        }
    }
    panic!("100 frames came, and not both answers: {heard4} {heard6}");
}
