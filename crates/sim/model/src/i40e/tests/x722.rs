//! What an X722 has of its own, under a driver played by hand: commands about the hash, classes of
//! packets, and what an XL710 has instead.

use regs::i40e::admin::{capability, hash};
use wire::ethernet::EtherType;
use wire::ip::Protocol;
use wire::tcp::Flags;
use wire::{ipv4, tcp};

use super::*;
use crate::headers::parse;
use crate::i40e::family::hashed_class;

/// A command about the hash of the function's own VSI.
fn about(opcode: u16, flags: u16) -> Descriptor {
    let mut command = Descriptor::new(opcode);
    command.set_param(hash::VSI, &hash::VSI_VALID.to_le_bytes());
    command.set_param(hash::FLAGS, &flags.to_le_bytes());
    command
}

fn set(guest: &mut Guest, command: Descriptor, bytes: &[u8]) -> u16 {
    guest.command(command, bytes, flag::BUF | flag::RD).retval
}

fn get(guest: &mut Guest, command: Descriptor, len: usize) -> Vec<u8> {
    let answer = guest.command(command, &vec![0xEE; len], flag::BUF);
    assert_eq!(answer.retval, 0);
    guest.memory.bytes(BUFFER, answer.datalen.into())
}

#[test]
fn keys_and_tables_are_set_and_read_by_commands() {
    let mut guest = Guest::of(Family::X722);
    guest.chip.write(PFQF_CTL_0::AT, PFQF_CTL_0::HASHLUTSIZE_512);
    let key: Vec<u8> = (1..=hash::KEY as u8).collect();
    let table: Vec<u8> = (0..512).map(|n| n as u8 & 0x7F).collect();
    let own = [3; hash::VSI_TABLE];
    for (to_set, to_get, flags, bytes) in [
        (opcode::SET_RSS_KEY, opcode::GET_RSS_KEY, 0, &key[..]),
        (opcode::SET_RSS_LUT, opcode::GET_RSS_LUT, hash::TABLE_PF, &table),
        (opcode::SET_RSS_LUT, opcode::GET_RSS_LUT, 0, &own),
    ] {
        assert_eq!(set(&mut guest, about(to_set, flags), bytes), 0);
        assert_eq!(get(&mut guest, about(to_get, flags), bytes.len()), bytes);
    }
    assert_eq!(guest.chip.read(PFQF_HLUT::at(1)), 0x0706_0504, "the function's table, either way");
    assert_eq!(guest.chip.read(PFQF_HKEY::at(0)), 0, "the key is the VSI's");
    assert!(guest.chip.lint().is_empty(), "{}", guest.chip.lint());

    let wrong = [
        (about(opcode::SET_RSS_KEY, 0), &key[..40], error::EINVAL),
        (about(opcode::SET_RSS_LUT, hash::TABLE_PF), &table[..128], error::EINVAL),
        (about(opcode::SET_RSS_LUT, 0), &table[..], error::EINVAL),
        (Descriptor::new(opcode::SET_RSS_KEY), &key[..], error::ENOENT),
    ];
    for (command, bytes, answer) in wrong {
        assert_eq!(set(&mut guest, command, bytes), answer);
    }
    assert_eq!(guest.broke(Rule::AdminArgumentInvalid), 4);
    // A table of 128 entries is the other size that there is, and a reset forgets all.
    guest.chip.write(PFQF_CTL_0::AT, 0);
    assert_eq!(set(&mut guest, about(opcode::SET_RSS_LUT, hash::TABLE_PF), &table[..128]), 0);
    guest.chip.write(PFGEN_CTRL::AT, PFGEN_CTRL::PFSWR);
    assert_eq!(guest.chip.switch.key, [0; 13]);
}

#[test]
fn each_family_refuses_the_others_commands() {
    let mut guest = Guest::new();
    assert_eq!(set(&mut guest, about(opcode::SET_RSS_KEY, 0), &[1; hash::KEY]), error::ESRCH);
    let mut guest = Guest::of(Family::X722);
    let mut register = Descriptor::new(opcode::RX_CTL_REG_WRITE);
    register.set_param(4, &PFQF_CTL_0::AT.to_le_bytes());
    assert_eq!(guest.command(register, &[], 0).retval, error::ESRCH);
    assert_eq!(guest.broke(Rule::AdminUnknownCommand), 1);
}

#[test]
fn its_port_and_table_are_told() {
    let mut guest = Guest::of(Family::X722);
    let status = guest.plain(opcode::GET_LINK_STATUS);
    assert_eq!(status.params[admin::link::SPEED], admin::link::SPEED_10G);
    let told = get(&mut guest, Descriptor::new(opcode::LIST_FUNC_CAPABILITIES), 512);
    let of = |one: &&[u8]| one[..2] == capability::RSS.to_le_bytes();
    let rss = told.chunks(capability::LEN).find(of).expect("it tells of its table");
    assert_eq!((rss[capability::NUMBER + 1], rss[capability::LOGICAL]), (2, 7), "512 entries of 7 bits");
}

/// A frame of TCP over IPv4 with these flags, or of UDP.
fn frame(protocol: Protocol, to: [u8; 6], flags: Flags) -> Vec<u8> {
    let mut network = ipv4::Header::zeroed();
    ipv4::Repr::between([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), protocol, 20).write(&mut network);
    let mut transport = tcp::Header::zeroed();
    transport.set_header_len(tcp::HEADER_LEN);
    transport.set_flags(flags);
    [&to[..], &[2; 6], &EtherType::IPV4.0.to_be_bytes(), &network.into_inner(), &transport.into_inner()]
        .concat()
}

#[test]
fn packets_of_tcp_and_udp_have_more_classes() {
    let group = [1, 0, 0x5E, 0, 0, 1];
    for (protocol, to, flags, x722, xl710) in [
        (Protocol::TCP, MAC, Flags::SYN, class::IPV4_TCP_SYN, class::IPV4_TCP),
        (Protocol::TCP, MAC, Flags(Flags::SYN.0 | Flags::ACK.0), class::IPV4_TCP, class::IPV4_TCP),
        (Protocol::UDP, MAC, Flags(0), class::IPV4_UDP_UNICAST, class::IPV4_UDP),
        (Protocol::UDP, group, Flags(0), class::IPV4_UDP_MULTICAST, class::IPV4_UDP),
    ] {
        let frame = frame(protocol, to, flags);
        let headers = parse(&frame, 1, |_| false);
        let classes = [Family::X722, Family::Xl710].map(|family| hashed_class(family, &frame, &headers));
        assert_eq!(classes, [Some(x722), Some(xl710)], "{protocol:?} {flags:?}");
        let told = Guest::of(Family::X722).chip.read(GLQF_FD_PCTYPES::at(x722 as usize));
        assert_eq!(told, xl710, "Flow Director has the fewer ones");
    }
}
