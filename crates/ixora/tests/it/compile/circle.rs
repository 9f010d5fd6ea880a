// Made by `ixora compile`: do not change it, change the configuration.

use element::kernels;
use graph::fused::{Exit, Members, Program, Region, EntryState, ask};
use graph::{Cx, Each, Element, Action, Next, PerPacket};
use memory::{Batch, Packet};

/// The parts of the configuration that became programs.
pub static REGIONS: &[Region] = &[R0::REGION, ];

/// A region's elements.
pub struct R0 {
    g0: Each<kernels::Strip>,
    g1: Each<kernels::CheckIpHeader>,
    g2: kernels::Counter,
    g3: Each<kernels::DecIpTtl>,
    g4: Each<kernels::IpFilter>,
    g5: kernels::Counter,
}

impl R0 {
    const REGION: Region = Region {
        members: &[
            (1, "Strip@2"),
            (2, "k"),
            (3, "in"),
            (4, "d"),
            (5, "c"),
            (6, "round"),
        ],
        entries: &[(1, 0), (3, 0)],
        exits: &[(3, 0), (7, 0), (8, 0), (9, 0), (10, 0)],
        emitters: &[],
        fixed: &[1, 2, 5],
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
        }))
    }

    // Strip@2 :: Strip(14)
    #[inline(always)]
    fn g0<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 1;
        if COUNTS {
            cx.count(element);
        }
        let action = {
            if !kernels::Strip::with(14).fast_path(packet) { kernels::Strip::with(14).strip(&mut cx.at(element), packet); } Action::ON
        };
        match action.output() {
            0 => self.g1::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // k :: CheckIPHeader()
    #[inline(always)]
    fn g1<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 2;
        if COUNTS {
            cx.count(element);
        }
        let action = {
            let kernel = &mut self.g1;
            if kernel.0.passes_plain(packet, kernels::Checks { offset: 0, checksum: true, sources: false }) { Action::ON } else { kernel.0.check_any(&mut cx.at(element), packet) }
        };
        match action.output() {
            0 => self.g2::<COUNTS>(cx, packet),
            1 => Exit::to(4),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // in :: Counter()
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

    // d :: DecIPTTL()
    #[inline(always)]
    fn g3<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 4;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g3, cx, element, 0, packet);
        match action.output() {
            0 => self.g4::<COUNTS>(cx, packet),
            1 => Exit::to(3),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // c :: IPClassifier(ip ttl > 5, ip ttl > 3, -)
    #[inline(always)]
    fn g4<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 5;
        if COUNTS {
            cx.count(element);
        }
        let action = {
            { let (network, _) = kernels::headers(packet); if kernels::holds_in(network, 8, 0xf8000000, 0x0, true) { if kernels::holds_in(network, 8, 0x6000000, 0x6000000, false) { Action::out(0) } else { if kernels::holds_in(network, 8, 0xfc000000, 0x0, true) { Action::out(2) } else { Action::out(1) } } } else { Action::out(0) } }
        };
        match action.output() {
            0 => self.g5::<COUNTS>(cx, packet),
            1 => Exit::to(1),
            2 => Exit::to(2),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // round :: Counter()
    #[inline(always)]
    fn g5<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 6;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g5, cx, element, 0, packet);
        match action.output() {
            0 => Exit::to(0),
            _ => Exit::drop(element, action.reason()),
        }
    }
}

impl R0 {
    #[inline(never)]
    fn carry<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, entry: usize, batch: &mut Batch, way: &mut EntryState) -> Next {
        match entry {
            0 => way.carry(self, cx, batch, |program, cx, packet| program.g0::<COUNTS>(cx, packet)),
            _ => way.carry(self, cx, batch, |program, cx, packet| program.enter::<COUNTS>(cx, packet, entry)),
        }
    }

    #[inline(never)]
    fn enter<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet, entry: usize) -> Exit {
        match entry {
            _ => self.g2::<COUNTS>(cx, packet),
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
        all
    }
}
