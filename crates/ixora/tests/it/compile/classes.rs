// Made by `ixora compile`: do not change it, change the configuration.

use element::kernels;
use graph::fused::{Exit, Members, Program, Region, EntryState, ask};
use graph::{Cx, Each, Element, Action, Next, PerPacket};
use memory::{Batch, Packet};

/// The parts of the configuration that became programs.
pub static REGIONS: &[Region] = &[R0::REGION, R1::REGION, ];

/// A region's elements.
pub struct R0 {
    g0: Each<kernels::CheckLength>,
    g1: Each<kernels::Pass>,
    g2: Each<kernels::MarkMacHeader>,
    g3: Each<kernels::HostEtherFilter>,
    g4: kernels::Counter,
    g5: Each<kernels::Classifier>,
    g6: Each<kernels::StripVlanHeader>,
    g7: Each<kernels::Strip>,
    g8: Each<kernels::CheckIp6Header>,
    g9: Each<kernels::GetIp6Address>,
    g10: Each<kernels::DecIp6Hlim>,
    g11: Each<kernels::Strip>,
    g12: Each<kernels::MarkIpHeader>,
    g13: Each<kernels::CheckIpHeader>,
    g14: Each<kernels::GetIpAddress>,
    g15: Each<kernels::IpFilter>,
    g16: Each<kernels::IpFilter>,
    g17: Each<kernels::SetTos>,
    g18: Each<kernels::SetTcpChecksum>,
    g19: kernels::Null,
    g20: Each<kernels::Hash>,
    g21: Each<kernels::EtherEncap>,
    g22: Each<kernels::VlanEncap>,
    g23: Each<kernels::Switch>,
    g24: Each<kernels::StaticSwitch>,
    g25: Each<kernels::StoreIpAddress>,
    g26: Each<kernels::SetIpAddress>,
    g27: Each<kernels::StripIpHeader>,
    g28: Each<kernels::StripIpHeader>,
    g29: Each<kernels::Truncate>,
    g30: Each<kernels::Unstrip>,
    g31: Each<kernels::EtherMirror>,
    g32: Each<kernels::IpMirror>,
    g33: Each<kernels::SetIpChecksum>,
    g34: Each<kernels::SetTos>,
    g35: Each<kernels::SetUdpChecksum>,
    g36: Each<kernels::SetAnnoByte>,
    g37: Each<kernels::EtherRewrite>,
    g38: Each<kernels::EtherVlanEncap>,
}

impl R0 {
    const REGION: Region = Region {
        members: &[
            (1, "len"),
            (2, "Align@3"),
            (3, "MarkMACHeader@4"),
            (4, "hf"),
            (5, "in"),
            (6, "c"),
            (8, "StripEtherVLANHeader@9"),
            (10, "Strip@11"),
            (11, "k6"),
            (12, "GetIP6Address@13"),
            (13, "hl"),
            (16, "Strip@17"),
            (17, "MarkIPHeader@18"),
            (18, "k"),
            (19, "GetIPAddress@20"),
            (20, "f"),
            (21, "ic"),
            (30, "dscp"),
            (31, "SetTCPChecksum@32"),
            (32, "j"),
            (38, "h"),
            (39, "e0"),
            (40, "VLANEncap@41"),
            (42, "sw"),
            (44, "x"),
            (47, "StoreIPAddress@48"),
            (48, "SetIPAddress@49"),
            (49, "StripIPHeader@50"),
            (50, "UnstripIPHeader@51"),
            (51, "Truncate@52"),
            (52, "Unstrip@53"),
            (53, "EtherMirror@54"),
            (33, "IPMirror@34"),
            (34, "SetIPChecksum@35"),
            (35, "SetIPDSCP@36"),
            (36, "SetUDPChecksum@37"),
            (37, "SetAnnoByte@38"),
            (55, "EtherRewrite@56"),
            (56, "EtherVLANEncap@57"),
        ],
        entries: &[(1, 0)],
        exits: &[(9, 0), (14, 0), (15, 0), (41, 0), (43, 0), (45, 0), (46, 0), (54, 0), (23, 0), (22, 0), (57, 0), (7, 0)],
        emitters: &[],
        fixed: &[6, 10, 16, 18, 20, 21],
        make: Self::make,
    };

    fn make(members: &mut Members) -> Option<Box<dyn Program>> {
        Some(Box::new(R0 {
            g0: members.take(0)?,
            g1: members.take(1)?,
            g2: members.take(2)?,
            g3: members.take(3)?,
            g4: members.take(4)?,
            g5: members.take(5)?,
            g6: members.take(6)?,
            g7: members.take(7)?,
            g8: members.take(8)?,
            g9: members.take(9)?,
            g10: members.take(10)?,
            g11: members.take(11)?,
            g12: members.take(12)?,
            g13: members.take(13)?,
            g14: members.take(14)?,
            g15: members.take(15)?,
            g16: members.take(16)?,
            g17: members.take(17)?,
            g18: members.take(18)?,
            g19: members.take(19)?,
            g20: members.take(20)?,
            g21: members.take(21)?,
            g22: members.take(22)?,
            g23: members.take(23)?,
            g24: members.take(24)?,
            g25: members.take(25)?,
            g26: members.take(26)?,
            g27: members.take(27)?,
            g28: members.take(28)?,
            g29: members.take(29)?,
            g30: members.take(30)?,
            g31: members.take(31)?,
            g32: members.take(32)?,
            g33: members.take(33)?,
            g34: members.take(34)?,
            g35: members.take(35)?,
            g36: members.take(36)?,
            g37: members.take(37)?,
            g38: members.take(38)?,
        }))
    }

    // len :: CheckLength(1400)
    #[inline(always)]
    fn g0<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 1;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g0, cx, element, 0, packet);
        match action.output() {
            0 => self.g1::<COUNTS>(cx, packet),
            1 => Exit::to(11),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // Align@3 :: Align(4, 0)
    #[inline(always)]
    fn g1<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 2;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g1, cx, element, 0, packet);
        match action.output() {
            0 => self.g2::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // MarkMACHeader@4 :: MarkMACHeader()
    #[inline(always)]
    fn g2<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 3;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g2, cx, element, 0, packet);
        match action.output() {
            0 => self.g3::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // hf :: HostEtherFilter(02:00:00:00:00:02, DROP_OTHER false)
    #[inline(always)]
    fn g3<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 4;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g3, cx, element, 0, packet);
        match action.output() {
            0 => self.g4::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // in :: Counter()
    #[inline(always)]
    fn g4<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 5;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g4, cx, element, 0, packet);
        match action.output() {
            0 => self.g5::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // c :: Classifier(12/8100, 12/86dd, 12/0800, -)
    #[inline(always)]
    fn g5<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 6;
        if COUNTS {
            cx.count(element);
        }
        let action = {
            if kernels::holds(packet, 12, 0xffff0000, 0x81000000) { Action::out(0) } else { if kernels::holds(packet, 12, 0xffff0000, 0x86dd0000) { Action::out(1) } else { if kernels::holds(packet, 12, 0xffff0000, 0x8000000) { Action::out(2) } else { Action::out(3) } } }
        };
        match action.output() {
            0 => self.g6::<COUNTS>(cx, packet),
            1 => self.g7::<COUNTS>(cx, packet),
            2 => self.g11::<COUNTS>(cx, packet),
            3 => self.g37::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // StripEtherVLANHeader@9 :: StripEtherVLANHeader()
    #[inline(always)]
    fn g6<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 8;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g6, cx, element, 0, packet);
        match action.output() {
            0 => Exit::to(0),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // Strip@11 :: Strip(14)
    #[inline(always)]
    fn g7<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 10;
        if COUNTS {
            cx.count(element);
        }
        let action = {
            if !kernels::Strip::with(14).fast_path(packet) { kernels::Strip::with(14).strip(&mut cx.at(element), packet); } Action::ON
        };
        match action.output() {
            0 => self.g8::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // k6 :: CheckIP6Header()
    #[inline(always)]
    fn g8<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 11;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g8, cx, element, 0, packet);
        match action.output() {
            0 => self.g9::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // GetIP6Address@13 :: GetIP6Address(24)
    #[inline(always)]
    fn g9<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 12;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g9, cx, element, 0, packet);
        match action.output() {
            0 => self.g10::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // hl :: DecIP6HLIM()
    #[inline(always)]
    fn g10<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 13;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g10, cx, element, 0, packet);
        match action.output() {
            0 => Exit::to(1),
            1 => Exit::to(2),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // Strip@17 :: Strip(14)
    #[inline(always)]
    fn g11<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 16;
        if COUNTS {
            cx.count(element);
        }
        let action = {
            if !kernels::Strip::with(14).fast_path(packet) { kernels::Strip::with(14).strip(&mut cx.at(element), packet); } Action::ON
        };
        match action.output() {
            0 => self.g12::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // MarkIPHeader@18 :: MarkIPHeader()
    #[inline(always)]
    fn g12<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 17;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g12, cx, element, 0, packet);
        match action.output() {
            0 => self.g13::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // k :: CheckIPHeader2()
    #[inline(always)]
    fn g13<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 18;
        if COUNTS {
            cx.count(element);
        }
        let action = {
            let kernel = &mut self.g13;
            if kernel.0.passes_plain(packet, kernels::Checks { offset: 0, checksum: false, sources: false }) { Action::ON } else { kernel.0.check_any(&mut cx.at(element), packet) }
        };
        match action.output() {
            0 => self.g14::<COUNTS>(cx, packet),
            1 => Exit::to(9),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // GetIPAddress@20 :: GetIPAddress(16)
    #[inline(always)]
    fn g14<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 19;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g14, cx, element, 0, packet);
        match action.output() {
            0 => self.g15::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // f :: IPFilter(…)
    #[inline(always)]
    fn g15<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 20;
        if COUNTS {
            cx.count(element);
        }
        let action = {
            { let (network, transport) = kernels::headers(packet); if kernels::holds_in(network, 12, 0xffff0000, 0xa030000, false) { Action::drop(0) } else { if kernels::holds_in(network, 8, 0xff0000, 0x110000, false) { if kernels::holds_in(network, 4, 0x1fff, 0x0, false) { if kernels::holds_in(transport, 0, 0x8000, 0x0, true) { if kernels::holds_in(transport, 0, 0x7000, 0x7000, false) { if kernels::holds_in(transport, 0, 0x800, 0x0, true) { if kernels::holds_in(transport, 0, 0x400, 0x400, false) { if kernels::holds_in(transport, 0, 0x200, 0x0, true) { if kernels::holds_in(transport, 0, 0x100, 0x100, false) { if kernels::holds_in(transport, 0, 0xc0, 0x0, true) { if kernels::holds_in(transport, 0, 0x30, 0x30, false) { if kernels::holds_in(transport, 0, 0xf, 0x0, true) { Action::out(0) } else { Action::out(1) } } else { Action::out(0) } } else { Action::out(1) } } else { Action::out(0) } } else { Action::out(1) } } else { Action::out(0) } } else { Action::out(1) } } else { Action::out(0) } } else { Action::out(1) } } else { Action::out(0) } } else { Action::out(0) } } }
        };
        match action.output() {
            0 => self.g16::<COUNTS>(cx, packet),
            1 => Exit::to(8),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // ic :: IPClassifier(tcp, icmp, udp, -)
    #[inline(always)]
    fn g16<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 21;
        if COUNTS {
            cx.count(element);
        }
        let action = {
            { let (network, _) = kernels::headers(packet); if kernels::holds_in(network, 8, 0xff0000, 0x60000, false) { Action::out(0) } else { if kernels::holds_in(network, 8, 0xff0000, 0x10000, false) { Action::out(1) } else { if kernels::holds_in(network, 8, 0xff0000, 0x110000, false) { Action::out(2) } else { Action::out(3) } } } }
        };
        match action.output() {
            0 => self.g17::<COUNTS>(cx, packet),
            1 => self.g32::<COUNTS>(cx, packet),
            2 => self.g34::<COUNTS>(cx, packet),
            3 => self.g36::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // dscp :: SetIPDSCP(10)
    #[inline(always)]
    fn g17<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 30;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g17, cx, element, 0, packet);
        match action.output() {
            0 => self.g18::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // SetTCPChecksum@32 :: SetTCPChecksum()
    #[inline(always)]
    fn g18<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 31;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g18, cx, element, 0, packet);
        match action.output() {
            0 => self.g19::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // j :: Null()
    #[inline]
    fn g19<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 32;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g19, cx, element, 0, packet);
        match action.output() {
            0 => self.g20::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // h :: HashSwitch(12, 4)
    #[inline(always)]
    fn g20<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 38;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g20, cx, element, 0, packet);
        match action.output() {
            0 => self.g21::<COUNTS>(cx, packet),
            1 => self.g23::<COUNTS>(cx, packet),
            2 => self.g25::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // e0 :: EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2)
    #[inline(always)]
    fn g21<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 39;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g21, cx, element, 0, packet);
        match action.output() {
            0 => self.g22::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // VLANEncap@41 :: VLANEncap(5)
    #[inline(always)]
    fn g22<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 40;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g22, cx, element, 0, packet);
        match action.output() {
            0 => Exit::to(3),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // sw :: Switch(1)
    #[inline(always)]
    fn g23<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 42;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g23, cx, element, 0, packet);
        match action.output() {
            0 => Exit::to(4),
            1 => self.g24::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // x :: StaticSwitch(0)
    #[inline(always)]
    fn g24<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 44;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g24, cx, element, 0, packet);
        match action.output() {
            0 => Exit::to(5),
            1 => Exit::to(6),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // StoreIPAddress@48 :: StoreIPAddress(10.9.9.9, src)
    #[inline(always)]
    fn g25<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 47;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g25, cx, element, 0, packet);
        match action.output() {
            0 => self.g26::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // SetIPAddress@49 :: SetIPAddress(10.1.1.1)
    #[inline(always)]
    fn g26<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 48;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g26, cx, element, 0, packet);
        match action.output() {
            0 => self.g27::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // StripIPHeader@50 :: StripIPHeader()
    #[inline(always)]
    fn g27<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 49;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g27, cx, element, 0, packet);
        match action.output() {
            0 => self.g28::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // UnstripIPHeader@51 :: UnstripIPHeader()
    #[inline(always)]
    fn g28<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 50;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g28, cx, element, 0, packet);
        match action.output() {
            0 => self.g29::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // Truncate@52 :: Truncate(30)
    #[inline(always)]
    fn g29<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 51;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g29, cx, element, 0, packet);
        match action.output() {
            0 => self.g30::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // Unstrip@53 :: Unstrip(4)
    #[inline(always)]
    fn g30<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 52;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g30, cx, element, 0, packet);
        match action.output() {
            0 => self.g31::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // EtherMirror@54 :: EtherMirror()
    #[inline(always)]
    fn g31<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 53;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g31, cx, element, 0, packet);
        match action.output() {
            0 => Exit::to(7),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // IPMirror@34 :: IPMirror()
    #[inline(always)]
    fn g32<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 33;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g32, cx, element, 0, packet);
        match action.output() {
            0 => self.g33::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // SetIPChecksum@35 :: SetIPChecksum()
    #[inline(always)]
    fn g33<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 34;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g33, cx, element, 0, packet);
        match action.output() {
            0 => self.g19::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // SetIPDSCP@36 :: SetIPDSCP(11)
    #[inline(always)]
    fn g34<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 35;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g34, cx, element, 0, packet);
        match action.output() {
            0 => self.g35::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // SetUDPChecksum@37 :: SetUDPChecksum()
    #[inline(always)]
    fn g35<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 36;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g35, cx, element, 0, packet);
        match action.output() {
            0 => self.g19::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // SetAnnoByte@38 :: SetAnnoByte(PAINT, 9)
    #[inline(always)]
    fn g36<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 37;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g36, cx, element, 0, packet);
        match action.output() {
            0 => self.g19::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // EtherRewrite@56 :: EtherRewrite(1:1:1:1:1:1, 3:3:3:3:3:3)
    #[inline(always)]
    fn g37<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 55;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g37, cx, element, 0, packet);
        match action.output() {
            0 => self.g38::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // EtherVLANEncap@57 :: EtherVLANEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2, 7)
    #[inline(always)]
    fn g38<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 56;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g38, cx, element, 0, packet);
        match action.output() {
            0 => Exit::to(10),
            _ => Exit::drop(element, action.reason()),
        }
    }
}

impl R0 {
    #[inline(never)]
    fn carry<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, entry: usize, batch: &mut Batch, way: &mut EntryState) -> Next {
        match entry {
            0 => way.carry(self, cx, batch, |program, cx, packet| program.g0::<COUNTS>(cx, packet)),
            _ => Next::Done,
        }
    }
}

impl Program for R0 {
    fn push(&mut self, cx: &mut Cx<'_>, entry: usize, batch: &mut Batch, way: &mut EntryState) -> Next {
        match cx.is_measured() {
            false => self.carry::<false>(cx, entry, batch, way),
            true => self.carry::<true>(cx, entry, batch, way),
        }
    }

    fn member(&mut self, place: usize) -> Option<&mut dyn Element> {
        Some(match place {
            0 => &mut self.g0,
            1 => &mut self.g1,
            2 => &mut self.g2,
            3 => &mut self.g3,
            4 => &mut self.g4,
            5 => &mut self.g5,
            6 => &mut self.g6,
            7 => &mut self.g7,
            8 => &mut self.g8,
            9 => &mut self.g9,
            10 => &mut self.g10,
            11 => &mut self.g11,
            12 => &mut self.g12,
            13 => &mut self.g13,
            14 => &mut self.g14,
            15 => &mut self.g15,
            16 => &mut self.g16,
            17 => &mut self.g17,
            18 => &mut self.g18,
            19 => &mut self.g19,
            20 => &mut self.g20,
            21 => &mut self.g21,
            22 => &mut self.g22,
            23 => &mut self.g23,
            24 => &mut self.g24,
            25 => &mut self.g25,
            26 => &mut self.g26,
            27 => &mut self.g27,
            28 => &mut self.g28,
            29 => &mut self.g29,
            30 => &mut self.g30,
            31 => &mut self.g31,
            32 => &mut self.g32,
            33 => &mut self.g33,
            34 => &mut self.g34,
            35 => &mut self.g35,
            36 => &mut self.g36,
            37 => &mut self.g37,
            38 => &mut self.g38,
            _ => return None,
        })
    }

    fn dissolve(self: Box<Self>) -> Vec<Box<dyn Element>> {
        let mut all: Vec<Box<dyn Element>> = vec![];
        all.push(Box::new(self.g0));
        all.push(Box::new(self.g1));
        all.push(Box::new(self.g2));
        all.push(Box::new(self.g3));
        all.push(Box::new(self.g4));
        all.push(Box::new(self.g5));
        all.push(Box::new(self.g6));
        all.push(Box::new(self.g7));
        all.push(Box::new(self.g8));
        all.push(Box::new(self.g9));
        all.push(Box::new(self.g10));
        all.push(Box::new(self.g11));
        all.push(Box::new(self.g12));
        all.push(Box::new(self.g13));
        all.push(Box::new(self.g14));
        all.push(Box::new(self.g15));
        all.push(Box::new(self.g16));
        all.push(Box::new(self.g17));
        all.push(Box::new(self.g18));
        all.push(Box::new(self.g19));
        all.push(Box::new(self.g20));
        all.push(Box::new(self.g21));
        all.push(Box::new(self.g22));
        all.push(Box::new(self.g23));
        all.push(Box::new(self.g24));
        all.push(Box::new(self.g25));
        all.push(Box::new(self.g26));
        all.push(Box::new(self.g27));
        all.push(Box::new(self.g28));
        all.push(Box::new(self.g29));
        all.push(Box::new(self.g30));
        all.push(Box::new(self.g31));
        all.push(Box::new(self.g32));
        all.push(Box::new(self.g33));
        all.push(Box::new(self.g34));
        all.push(Box::new(self.g35));
        all.push(Box::new(self.g36));
        all.push(Box::new(self.g37));
        all.push(Box::new(self.g38));
        all
    }
}

/// A region's elements.
pub struct R1 {
    g0: Each<kernels::Paint>,
    g1: kernels::Counter,
    g2: Each<kernels::CheckPaint>,
}

impl R1 {
    const REGION: Region = Region {
        members: &[
            (25, "p"),
            (26, "after"),
            (27, "cp"),
        ],
        entries: &[(25, 0)],
        exits: &[(28, 0), (29, 0)],
        emitters: &[],
        fixed: &[],
        make: Self::make,
    };

    fn make(members: &mut Members) -> Option<Box<dyn Program>> {
        Some(Box::new(R1 {
            g0: members.take(0)?,
            g1: members.take(1)?,
            g2: members.take(2)?,
        }))
    }

    // p :: Paint(3)
    #[inline(always)]
    fn g0<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 25;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g0, cx, element, 0, packet);
        match action.output() {
            0 => self.g1::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // after :: Counter()
    #[inline(always)]
    fn g1<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 26;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g1, cx, element, 0, packet);
        match action.output() {
            0 => self.g2::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // cp :: CheckPaint(3)
    #[inline(always)]
    fn g2<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 27;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g2, cx, element, 0, packet);
        match action.output() {
            0 => Exit::to(0),
            1 => Exit::to(1),
            _ => Exit::drop(element, action.reason()),
        }
    }
}

impl R1 {
    #[inline(never)]
    fn carry<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, entry: usize, batch: &mut Batch, way: &mut EntryState) -> Next {
        match entry {
            0 => way.carry(self, cx, batch, |program, cx, packet| program.g0::<COUNTS>(cx, packet)),
            _ => Next::Done,
        }
    }
}

impl Program for R1 {
    fn push(&mut self, cx: &mut Cx<'_>, entry: usize, batch: &mut Batch, way: &mut EntryState) -> Next {
        match cx.is_measured() {
            false => self.carry::<false>(cx, entry, batch, way),
            true => self.carry::<true>(cx, entry, batch, way),
        }
    }

    fn member(&mut self, place: usize) -> Option<&mut dyn Element> {
        Some(match place {
            0 => &mut self.g0,
            1 => &mut self.g1,
            2 => &mut self.g2,
            _ => return None,
        })
    }

    fn dissolve(self: Box<Self>) -> Vec<Box<dyn Element>> {
        let mut all: Vec<Box<dyn Element>> = vec![];
        all.push(Box::new(self.g0));
        all.push(Box::new(self.g1));
        all.push(Box::new(self.g2));
        all
    }
}
