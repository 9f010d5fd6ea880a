// Made by `ixora compile`: do not change it, change the configuration.

use element::kernels;
use graph::fused::{Exit, Members, Program, Region, EntryState, ask};
use graph::{Cx, Each, Element, Action, Next, PerPacket};
use memory::{Batch, Packet};

/// The parts of the configuration that became programs.
pub static REGIONS: &[Region] = &[R0::REGION, ];

/// A region's elements.
pub struct R0 {
    g0: [Each<kernels::Classifier>; 2],
    g1: [Each<kernels::Paint>; 2],
    g2: Each<kernels::Strip>,
    g3: Each<kernels::CheckIpHeader>,
    g4: kernels::Counter,
    g5: kernels::Lookup,
    g6: [Each<kernels::DropBroadcasts>; 4],
    g7: [kernels::PaintTee; 4],
    g8: [Each<kernels::IpGwOptions>; 4],
    g9: [Each<kernels::FixIpSrc>; 4],
    g10: [Each<kernels::DecIpTtl>; 4],
    g12: [Each<kernels::EtherEncap>; 4],
}

impl R0 {
    const REGION: Region = Region {
        members: &[
            (1, "c0"),
            (3, "c1"),
            (6, "Paint@7"),
            (11, "Paint@12"),
            (7, "ip"),
            (8, "k"),
            (9, "n"),
            (10, "rt"),
            (19, "o0/DropBroadcasts@1"),
            (29, "o1/DropBroadcasts@1"),
            (39, "o2/DropBroadcasts@1"),
            (49, "o3/DropBroadcasts@1"),
            (20, "o0/pt"),
            (30, "o1/pt"),
            (40, "o2/pt"),
            (50, "o3/pt"),
            (21, "o0/gw"),
            (31, "o1/gw"),
            (41, "o2/gw"),
            (51, "o3/gw"),
            (22, "o0/FixIPSrc@4"),
            (32, "o1/FixIPSrc@4"),
            (42, "o2/FixIPSrc@4"),
            (52, "o3/FixIPSrc@4"),
            (23, "o0/ttl"),
            (33, "o1/ttl"),
            (43, "o2/ttl"),
            (53, "o3/ttl"),
            (25, "o0/EtherEncap@7"),
            (35, "o1/EtherEncap@7"),
            (45, "o2/EtherEncap@7"),
            (55, "o3/EtherEncap@7"),
        ],
        entries: &[(1, 0), (3, 0), (10, 0), (25, 0), (35, 0), (45, 0), (55, 0)],
        exits: &[(4, 0), (24, 0), (34, 0), (44, 0), (54, 0), (13, 0), (14, 0), (15, 0), (16, 0), (27, 0), (37, 0), (47, 0), (57, 0), (26, 0), (36, 0), (46, 0), (56, 0), (17, 0), (12, 0), (5, 0)],
        emitters: &[20, 30, 40, 50],
        fixed: &[1, 3, 7, 8, 10, 24, 34, 44, 54],
        make: Self::make,
    };

    fn make(members: &mut Members) -> Option<Box<dyn Program>> {
        Some(Box::new(R0 {
            g0: [members.take(0)?, members.take(1)?],
            g1: [members.take(2)?, members.take(3)?],
            g2: members.take(4)?,
            g3: members.take(5)?,
            g4: members.take(6)?,
            g5: members.take(7)?,
            g6: [members.take(8)?, members.take(9)?, members.take(10)?, members.take(11)?],
            g7: [members.take(12)?, members.take(13)?, members.take(14)?, members.take(15)?],
            g8: [members.take(16)?, members.take(17)?, members.take(18)?, members.take(19)?],
            g9: [members.take(20)?, members.take(21)?, members.take(22)?, members.take(23)?],
            g10: [members.take(24)?, members.take(25)?, members.take(26)?, members.take(27)?],
            g12: [members.take(28)?, members.take(29)?, members.take(30)?, members.take(31)?],
        }))
    }

    // c0 :: Classifier(12/0806, 12/0800, -)
    // c1 :: Classifier(12/0806, 12/0800, -)
    #[inline(always)]
    fn g0<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet, row: usize) -> Exit {
        let element = const { &[1, 3] }[row];
        if COUNTS {
            cx.count(element);
        }
        let action = {
            if kernels::holds(packet, 12, 0xffff0000, 0x8060000) { Action::out(0) } else { if kernels::holds(packet, 12, 0xffff0000, 0x8000000) { Action::out(1) } else { Action::out(2) } }
        };
        match action.output() {
            0 => Exit::to(0),
            1 => self.g1::<COUNTS>(cx, packet, row),
            2 => Exit::to(19),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // Paint@7 :: Paint(1)
    // Paint@12 :: Paint(2)
    #[inline(always)]
    fn g1<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet, row: usize) -> Exit {
        let element = const { &[6, 11] }[row];
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g1[row], cx, element, 0, packet);
        match action.output() {
            0 => self.g2::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // ip :: Strip(14)
    #[inline(always)]
    fn g2<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 7;
        if COUNTS {
            cx.count(element);
        }
        let action = {
            if !kernels::Strip::with(14).fast_path(packet) { kernels::Strip::with(14).strip(&mut cx.at(element), packet); } Action::ON
        };
        match action.output() {
            0 => self.g3::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // k :: CheckIPHeader(INTERFACES 10.0.0.1/24 10.1.0.1/24)
    #[inline(always)]
    fn g3<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 8;
        if COUNTS {
            cx.count(element);
        }
        let action = {
            let kernel = &mut self.g3;
            if kernel.0.passes_plain(packet, kernels::Checks { offset: 0, checksum: true, sources: true }) { Action::ON } else { kernel.0.check_any(&mut cx.at(element), packet) }
        };
        match action.output() {
            0 => self.g4::<COUNTS>(cx, packet),
            1 => Exit::to(18),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // n :: Counter()
    #[inline(always)]
    fn g4<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 9;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g4, cx, element, 0, packet);
        match action.output() {
            0 => self.g5::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // rt :: StaticIPLookup(…)
    #[inline(always)]
    fn g5<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 10;
        if COUNTS {
            cx.count(element);
        }
        let action = {
            let kernel = &mut self.g5;
            match kernels::route(const { &[kernels::Fixed { prefix: 0xa000000, mask: 0xffff0000, port: 0, gateway: 0x0 }, kernels::Fixed { prefix: 0xa010000, mask: 0xffff0000, port: 1, gateway: 0x0 }, kernels::Fixed { prefix: 0xa020000, mask: 0xffff0000, port: 2, gateway: 0xa020009 }, kernels::Fixed { prefix: 0xa030000, mask: 0xffff0000, port: 3, gateway: 0x0 }, kernels::Fixed { prefix: 0xa030700, mask: 0xffffff00, port: 4, gateway: 0x0 }] }, packet) { Some(action) => action, None => kernel.miss(&mut cx.at(element), packet) }
        };
        match action.output() {
            4 => Exit::to(17),
            row @ 0..=3 => self.g6::<COUNTS>(cx, packet, row),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // o0/DropBroadcasts@1 :: DropBroadcasts()
    // o1/DropBroadcasts@1 :: DropBroadcasts()
    // o2/DropBroadcasts@1 :: DropBroadcasts()
    // o3/DropBroadcasts@1 :: DropBroadcasts()
    #[inline(always)]
    fn g6<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet, row: usize) -> Exit {
        let element = const { &[19, 29, 39, 49] }[row];
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g6[row], cx, element, 0, packet);
        match action.output() {
            0 => self.g7::<COUNTS>(cx, packet, row),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // o0/pt :: PaintTee(1)
    // o1/pt :: PaintTee(2)
    // o2/pt :: PaintTee(3)
    // o3/pt :: PaintTee(4)
    #[inline(always)]
    fn g7<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet, row: usize) -> Exit {
        let element = const { &[20, 30, 40, 50] }[row];
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g7[row], cx, element, 0, packet);
        match action.output() {
            0 => self.g8::<COUNTS>(cx, packet, row),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // o0/gw :: IPGWOptions(10.0.0.1)
    // o1/gw :: IPGWOptions(10.1.0.1)
    // o2/gw :: IPGWOptions(10.2.0.1)
    // o3/gw :: IPGWOptions(10.3.0.1)
    #[inline(always)]
    fn g8<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet, row: usize) -> Exit {
        let element = const { &[21, 31, 41, 51] }[row];
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g8[row], cx, element, 0, packet);
        match action.output() {
            0 => self.g9::<COUNTS>(cx, packet, row),
            1 => Exit::to(const { &[13, 14, 15, 16] }[row]),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // o0/FixIPSrc@4 :: FixIPSrc(10.0.0.1)
    // o1/FixIPSrc@4 :: FixIPSrc(10.1.0.1)
    // o2/FixIPSrc@4 :: FixIPSrc(10.2.0.1)
    // o3/FixIPSrc@4 :: FixIPSrc(10.3.0.1)
    #[inline(always)]
    fn g9<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet, row: usize) -> Exit {
        let element = const { &[22, 32, 42, 52] }[row];
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g9[row], cx, element, 0, packet);
        match action.output() {
            0 => self.g10::<COUNTS>(cx, packet, row),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // o0/ttl :: DecIPTTL()
    // o1/ttl :: DecIPTTL()
    // o2/ttl :: DecIPTTL()
    // o3/ttl :: DecIPTTL()
    #[inline(always)]
    fn g10<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet, row: usize) -> Exit {
        let element = const { &[23, 33, 43, 53] }[row];
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g10[row], cx, element, 0, packet);
        match action.output() {
            0 => self.g11::<COUNTS>(cx, packet, row),
            1 => Exit::to(const { &[9, 10, 11, 12] }[row]),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // o0/frag :: IPFragmenter(576)
    // o1/frag :: IPFragmenter(576)
    // o2/frag :: IPFragmenter(576)
    // o3/frag :: IPFragmenter(576)
    #[inline(always)]
    fn g11<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet, row: usize) -> Exit {
        let element = const { &[24, 34, 44, 54] }[row];
        let Some(action) = kernels::fits(packet, 576).then_some(Action::ON) else {
            return Exit::aside(const { &[1, 2, 3, 4] }[row]);
        };
        if COUNTS {
            cx.count(element);
        }
        match action.output() {
            0 => self.g12::<COUNTS>(cx, packet, row),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // o0/EtherEncap@7 :: EtherEncap(0x0800, 02:00:00:00:01:01, 02:00:00:00:02:00)
    // o1/EtherEncap@7 :: EtherEncap(0x0800, 02:00:00:00:01:01, 02:00:00:00:02:01)
    // o2/EtherEncap@7 :: EtherEncap(0x0800, 02:00:00:00:01:01, 02:00:00:00:02:02)
    // o3/EtherEncap@7 :: EtherEncap(0x0800, 02:00:00:00:01:01, 02:00:00:00:02:03)
    #[inline(always)]
    fn g12<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet, row: usize) -> Exit {
        let element = const { &[25, 35, 45, 55] }[row];
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g12[row], cx, element, 0, packet);
        match action.output() {
            0 => Exit::to(const { &[5, 6, 7, 8] }[row]),
            _ => Exit::drop(element, action.reason()),
        }
    }
}

impl R0 {
    #[inline(never)]
    fn carry<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, entry: usize, batch: &mut Batch, way: &mut EntryState) -> Next {
        match entry {
            0 | 1 => {
                let row = match entry { 0 => 0, _ => 1 };
                way.carry(self, cx, batch, |program, cx, packet| program.g0::<COUNTS>(cx, packet, row))
            }
            _ => way.carry(self, cx, batch, |program, cx, packet| program.enter::<COUNTS>(cx, packet, entry)),
        }
    }

    #[inline(never)]
    fn enter<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet, entry: usize) -> Exit {
        match entry {
            2 => self.g5::<COUNTS>(cx, packet),
            3 => self.g12::<COUNTS>(cx, packet, 0),
            4 => self.g12::<COUNTS>(cx, packet, 1),
            5 => self.g12::<COUNTS>(cx, packet, 2),
            _ => self.g12::<COUNTS>(cx, packet, 3),
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
            0..2 => &mut self.g0[place - 0],
            2..4 => &mut self.g1[place - 2],
            4 => &mut self.g2,
            5 => &mut self.g3,
            6 => &mut self.g4,
            7 => &mut self.g5,
            8..12 => &mut self.g6[place - 8],
            12..16 => &mut self.g7[place - 12],
            16..20 => &mut self.g8[place - 16],
            20..24 => &mut self.g9[place - 20],
            24..28 => &mut self.g10[place - 24],
            28..32 => &mut self.g12[place - 28],
            _ => return None,
        })
    }

    fn dissolve(self: Box<Self>) -> Vec<Box<dyn Element>> {
        let mut all: Vec<Box<dyn Element>> = vec![];
        self.g0.into_iter().for_each(|element| all.push(Box::new(element)));
        self.g1.into_iter().for_each(|element| all.push(Box::new(element)));
        all.push(Box::new(self.g2));
        all.push(Box::new(self.g3));
        all.push(Box::new(self.g4));
        all.push(Box::new(self.g5));
        self.g6.into_iter().for_each(|element| all.push(Box::new(element)));
        self.g7.into_iter().for_each(|element| all.push(Box::new(element)));
        self.g8.into_iter().for_each(|element| all.push(Box::new(element)));
        self.g9.into_iter().for_each(|element| all.push(Box::new(element)));
        self.g10.into_iter().for_each(|element| all.push(Box::new(element)));
        self.g12.into_iter().for_each(|element| all.push(Box::new(element)));
        all
    }
}
