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
    g2: [Each<kernels::Strip>; 2],
    g3: [Each<kernels::CheckIpHeader>; 2],
    g4: kernels::Lookup,
    g5: [kernels::PaintTee; 3],
    g6: [Each<kernels::DecIpTtl>; 3],
    g7: [Each<kernels::EtherEncap>; 3],
    g8: Each<kernels::Hash>,
    g9: [kernels::Lookup; 2],
}

impl R0 {
    const REGION: Region = Region {
        members: &[
            (16, "i0/c"),
            (20, "i1/c"),
            (17, "i0/Paint@2"),
            (21, "i1/Paint@2"),
            (18, "i0/Strip@3"),
            (22, "i1/Strip@3"),
            (19, "i0/k"),
            (23, "i1/k"),
            (4, "rt"),
            (24, "o0/pt"),
            (27, "o1/pt"),
            (30, "o2/pt"),
            (25, "o0/ttl"),
            (28, "o1/ttl"),
            (31, "o2/ttl"),
            (26, "o0/EtherEncap@3"),
            (29, "o1/EtherEncap@3"),
            (32, "o2/EtherEncap@3"),
            (7, "h"),
            (8, "l0"),
            (10, "l1"),
        ],
        entries: &[(16, 0), (20, 0)],
        exits: &[(5, 0), (12, 0), (14, 0), (6, 0), (13, 0), (15, 0), (9, 0), (11, 0), (2, 0), (3, 0)],
        emitters: &[24, 27, 30],
        fixed: &[16, 20, 18, 22, 19, 23, 4],
        make: Self::make,
    };

    fn make(members: &mut Members) -> Option<Box<dyn Program>> {
        Some(Box::new(R0 {
            g0: [members.take(0)?, members.take(1)?],
            g1: [members.take(2)?, members.take(3)?],
            g2: [members.take(4)?, members.take(5)?],
            g3: [members.take(6)?, members.take(7)?],
            g4: members.take(8)?,
            g5: [members.take(9)?, members.take(10)?, members.take(11)?],
            g6: [members.take(12)?, members.take(13)?, members.take(14)?],
            g7: [members.take(15)?, members.take(16)?, members.take(17)?],
            g8: members.take(18)?,
            g9: [members.take(19)?, members.take(20)?],
        }))
    }

    // i0/c :: Classifier(12/0800, -)
    // i1/c :: Classifier(12/0800, -)
    #[inline(always)]
    fn g0<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet, row: usize) -> Exit {
        let element = const { &[16, 20] }[row];
        if COUNTS {
            cx.count(element);
        }
        let action = {
            if kernels::holds(packet, 12, 0xffff0000, 0x8000000) { Action::out(0) } else { Action::out(1) }
        };
        match action.output() {
            0 => self.g1::<COUNTS>(cx, packet, row),
            1 => Exit::to(const { &[8, 9] }[row]),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // i0/Paint@2 :: Paint(1)
    // i1/Paint@2 :: Paint(2)
    #[inline(always)]
    fn g1<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet, row: usize) -> Exit {
        let element = const { &[17, 21] }[row];
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g1[row], cx, element, 0, packet);
        match action.output() {
            0 => self.g2::<COUNTS>(cx, packet, row),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // i0/Strip@3 :: Strip(14)
    // i1/Strip@3 :: Strip(14)
    #[inline(always)]
    fn g2<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet, row: usize) -> Exit {
        let element = const { &[18, 22] }[row];
        if COUNTS {
            cx.count(element);
        }
        let action = {
            if !kernels::Strip::with(14).fast_path(packet) { kernels::Strip::with(14).strip(&mut cx.at(element), packet); } Action::ON
        };
        match action.output() {
            0 => self.g3::<COUNTS>(cx, packet, row),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // i0/k :: CheckIPHeader()
    // i1/k :: CheckIPHeader()
    #[inline(always)]
    fn g3<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet, row: usize) -> Exit {
        let element = const { &[19, 23] }[row];
        if COUNTS {
            cx.count(element);
        }
        let action = {
            let kernel = &mut self.g3[row];
            if kernel.0.passes_plain(packet, kernels::Checks { offset: 0, checksum: true, sources: false }) { Action::ON } else { kernel.0.check_any(&mut cx.at(element), packet) }
        };
        match action.output() {
            0 => self.g4::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // rt :: StaticIPLookup(10.0.0.0/16 0, 10.1.0.0/16 2, 10.2.0.0/16 3, 0/0 1)
    #[inline(always)]
    fn g4<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 4;
        if COUNTS {
            cx.count(element);
        }
        let action = {
            let kernel = &mut self.g4;
            match kernels::route(const { &[kernels::Fixed { prefix: 0x0, mask: 0x0, port: 1, gateway: 0x0 }, kernels::Fixed { prefix: 0xa000000, mask: 0xffff0000, port: 0, gateway: 0x0 }, kernels::Fixed { prefix: 0xa010000, mask: 0xffff0000, port: 2, gateway: 0x0 }, kernels::Fixed { prefix: 0xa020000, mask: 0xffff0000, port: 3, gateway: 0x0 }] }, packet) { Some(action) => action, None => kernel.miss(&mut cx.at(element), packet) }
        };
        match action.output() {
            1 => self.g8::<COUNTS>(cx, packet),
            output @ (0 | 2 | 3) => {
                let row = match output { 0 => 0, 2 => 1, _ => 2 };
                self.g5::<COUNTS>(cx, packet, row)
            }
            _ => Exit::drop(element, action.reason()),
        }
    }

    // o0/pt :: PaintTee(1)
    // o1/pt :: PaintTee(2)
    // o2/pt :: PaintTee(3)
    #[inline(always)]
    fn g5<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet, row: usize) -> Exit {
        let element = const { &[24, 27, 30] }[row];
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g5[row], cx, element, 0, packet);
        match action.output() {
            0 => self.g6::<COUNTS>(cx, packet, row),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // o0/ttl :: DecIPTTL()
    // o1/ttl :: DecIPTTL()
    // o2/ttl :: DecIPTTL()
    #[inline(always)]
    fn g6<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet, row: usize) -> Exit {
        let element = const { &[25, 28, 31] }[row];
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g6[row], cx, element, 0, packet);
        match action.output() {
            0 => self.g7::<COUNTS>(cx, packet, row),
            1 => Exit::to(const { &[3, 4, 5] }[row]),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // o0/EtherEncap@3 :: EtherEncap(0x0800, 02:00:00:00:01:01, 02:00:00:00:02:00)
    // o1/EtherEncap@3 :: EtherEncap(0x0800, 02:00:00:00:01:01, 02:00:00:00:02:01)
    // o2/EtherEncap@3 :: EtherEncap(0x0800, 02:00:00:00:01:01, 02:00:00:00:02:02)
    #[inline(always)]
    fn g7<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet, row: usize) -> Exit {
        let element = const { &[26, 29, 32] }[row];
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g7[row], cx, element, 0, packet);
        match action.output() {
            0 => Exit::to(const { &[0, 1, 2] }[row]),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // h :: HashSwitch(12, 4)
    #[inline(always)]
    fn g8<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 7;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g8, cx, element, 0, packet);
        match action.output() {
            row @ 0..=1 => self.g9::<COUNTS>(cx, packet, row),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // l0 :: StaticIPLookup(11.0.0.0/8 0, 10.4.0.0/16 10.4.0.1 0)
    // l1 :: StaticIPLookup(10.4.0.0/15 0)
    #[inline(always)]
    fn g9<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet, row: usize) -> Exit {
        let element = const { &[8, 10] }[row];
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g9[row], cx, element, 0, packet);
        match action.output() {
            0 => Exit::to(const { &[6, 7] }[row]),
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
            0..2 => &mut self.g0[place - 0],
            2..4 => &mut self.g1[place - 2],
            4..6 => &mut self.g2[place - 4],
            6..8 => &mut self.g3[place - 6],
            8 => &mut self.g4,
            9..12 => &mut self.g5[place - 9],
            12..15 => &mut self.g6[place - 12],
            15..18 => &mut self.g7[place - 15],
            18 => &mut self.g8,
            19..21 => &mut self.g9[place - 19],
            _ => return None,
        })
    }

    fn dissolve(self: Box<Self>) -> Vec<Box<dyn Element>> {
        let mut all: Vec<Box<dyn Element>> = vec![];
        self.g0.into_iter().for_each(|element| all.push(Box::new(element)));
        self.g1.into_iter().for_each(|element| all.push(Box::new(element)));
        self.g2.into_iter().for_each(|element| all.push(Box::new(element)));
        self.g3.into_iter().for_each(|element| all.push(Box::new(element)));
        all.push(Box::new(self.g4));
        self.g5.into_iter().for_each(|element| all.push(Box::new(element)));
        self.g6.into_iter().for_each(|element| all.push(Box::new(element)));
        self.g7.into_iter().for_each(|element| all.push(Box::new(element)));
        all.push(Box::new(self.g8));
        self.g9.into_iter().for_each(|element| all.push(Box::new(element)));
        all
    }
}
