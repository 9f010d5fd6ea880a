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
    g1: kernels::Counter,
    g2: Each<kernels::Paint>,
    g3: kernels::PaintTee,
    g4: Each<kernels::Unstrip>,
    g5: Each<kernels::CheckLength>,
    g6: kernels::Null,
}

impl R0 {
    const REGION: Region = Region {
        members: &[
            (1, "a"),
            (2, "m"),
            (3, "p"),
            (4, "t"),
            (5, "Unstrip@6"),
            (9, "b"),
            (10, "n"),
        ],
        entries: &[(1, 0), (9, 0)],
        exits: &[(6, 0), (11, 0)],
        emitters: &[4],
        fixed: &[1],
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
        }))
    }

    // a :: Strip(4)
    #[inline(always)]
    fn g0<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 1;
        if COUNTS {
            cx.count(element);
        }
        let action = {
            if !kernels::Strip::with(4).fast_path(packet) { kernels::Strip::with(4).strip(&mut cx.at(element), packet); } Action::ON
        };
        match action.output() {
            0 => self.g1::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // m :: Counter()
    #[inline]
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

    // p :: Paint(4)
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

    // t :: PaintTee(4)
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

    // Unstrip@6 :: Unstrip(2)
    #[inline(always)]
    fn g4<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 5;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g4, cx, element, 0, packet);
        match action.output() {
            0 => Exit::to(0),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // b :: CheckLength(60)
    #[inline(always)]
    fn g5<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 9;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g5, cx, element, 0, packet);
        match action.output() {
            0 => self.g6::<COUNTS>(cx, packet),
            1 => Exit::to(1),
            _ => Exit::drop(element, action.reason()),
        }
    }

    // n :: Null()
    #[inline(always)]
    fn g6<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Exit {
        let element = 10;
        if COUNTS {
            cx.count(element);
        }
        let action = ask(&mut self.g6, cx, element, 0, packet);
        match action.output() {
            0 => self.g1::<COUNTS>(cx, packet),
            _ => Exit::drop(element, action.reason()),
        }
    }
}

impl R0 {
    #[inline(never)]
    fn carry<const COUNTS: bool>(&mut self, cx: &mut Cx<'_>, entry: usize, batch: &mut Batch, way: &mut EntryState) -> Next {
        match entry {
            0 => way.carry(self, cx, batch, |program, cx, packet| program.g0::<COUNTS>(cx, packet)),
            1 => way.carry(self, cx, batch, |program, cx, packet| program.g5::<COUNTS>(cx, packet)),
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
        all
    }
}
