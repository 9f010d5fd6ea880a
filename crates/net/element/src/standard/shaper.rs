//! `Shaper`, `BandwidthShaper`: packets held back to a rate.

use graph::class::{Handlers, action, both, mandatory};
use graph::clock::SECOND_NS;
use graph::value::Bandwidth;
use graph::{Class, ConfFault, Cx, Element, Refused};
use memory::Batch;

use super::parsed;

/// Packets a second.
pub static SHAPER: Class = Class {
    name: "Shaper",
    brief: "lets packets through at a rate",
    doc: "At most RATE packets a second can be pulled at output 0, evenly spread. At output 1, if there is \
          one, packets can be pulled when output 0 may have none now.",
    ports: "1/1-2",
    processing: "l/l",
    arguments: &[mandatory("RATE", "packets a second")],
    handlers: &Handlers::<Shaper>(&[
        both("rate", "packets a second", Shaper::rate, Shaper::set_rate),
        action("reset", "forgets what went through", |shaper, _| shaper.gap.second = None),
    ]),
    live: true,
    config_changes: true,
    example: "Queue -> Shaper(1000) -> Unqueue",
    see: &["BandwidthShaper", "RatedUnqueue", "RatedSplitter"],
    make: |_, conf| {
        let rate = conf.mandatory("RATE")?;
        conf.complete()?;
        Ok(Box::new(Shaper { gap: Gap::new(rate), bytes: false }))
    },
    ..Class::BASE
};

/// Bytes a second.
pub static BANDWIDTH: Class = Class {
    name: "BandwidthShaper",
    brief: "lets packets through at a rate of bytes",
    doc: "Packets of at most RATE bytes a second in all can be pulled, evenly spread.",
    arguments: &[mandatory("RATE", "bytes a second; 10Mbps and the like are understood")],
    handlers: &Handlers::<Shaper>(&[
        both("rate", "bytes a second", Shaper::rate, Shaper::set_rate),
        action("reset", "forgets what went through", |shaper, _| shaper.gap.second = None),
    ]),
    example: "Queue -> BandwidthShaper(1Mbps) -> Unqueue",
    see: &["Shaper", "BandwidthRatedUnqueue"],
    make: |_, conf| {
        let rate: Bandwidth = conf.mandatory("RATE")?;
        conf.complete()?;
        let rate =
            u32::try_from(rate.0).map_err(|_| ConfFault::new("RATE: out of range, bound 4294967295"))?;
        Ok(Box::new(Shaper { gap: Gap::new(rate), bytes: true }))
    },
    ..SHAPER
};

/// How much may have gone through in the current second, and how much did.
#[derive(Debug)]
struct Gap {
    rate: i64,
    second: Option<i64>,
    count: i64,
}

impl Gap {
    /// More is not told apart.
    const MAX_RATE: u32 = 1_000_000 << 12;

    fn new(rate: u32) -> Gap {
        Gap { rate: i64::from(rate.min(Self::MAX_RATE)), second: None, count: 0 }
    }

    /// What may have gone through until now, and whether most of one more may.
    fn due(&self, now_ns: i64) -> (i64, bool) {
        let micros = i128::from(now_ns.rem_euclid(SECOND_NS) / 1000);
        let share = micros * i128::from(self.rate);
        ((share / 1_000_000) as i64, share % 1_000_000 > 500_000)
    }

    /// Whether one more may go.
    fn may(&mut self, now_ns: i64) -> bool {
        let second = now_ns.div_euclid(SECOND_NS);
        let (due, most) = self.due(now_ns);
        match self.second {
            // The first may usually go at once, unless the rate is nothing.
            None => {
                self.count = due + i64::from(most || self.rate == 0);
                self.second = Some(second);
            }
            Some(last) if second > last => {
                self.second = Some(second);
                if self.count > 0 {
                    self.count -= self.rate;
                }
            }
            Some(_) => {}
        }
        due >= self.count && self.rate > 0
    }

    fn set_rate(&mut self, rate: u32, now_ns: i64) {
        let rate = i64::from(rate.min(Self::MAX_RATE));
        if rate != self.rate {
            self.rate = rate;
            self.count = self.due(now_ns).0;
        }
    }
}

/// A `Shaper` or `BandwidthShaper` element; [`SHAPER`] says what it does.
#[derive(Debug)]
pub struct Shaper {
    gap: Gap,
    bytes: bool,
}

impl Shaper {
    fn rate(&self) -> String {
        if self.bytes { super::bandwidth(self.gap.rate as u32) } else { self.gap.rate.to_string() }
    }

    fn set_rate(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), Refused> {
        let rate = match self.bytes {
            true => {
                u32::try_from(parsed::<Bandwidth>(value)?.0).map_err(|_| Refused::from("out of range"))?
            }
            false => parsed(value)?,
        };
        self.gap.set_rate(rate, cx.now_ns());
        cx.set_config(self.rate());
        Ok(())
    }
}

impl Element for Shaper {
    fn init(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.set_config(self.rate());
        Ok(())
    }

    fn pull(&mut self, cx: &mut Cx<'_>, output: usize, batch: &mut Batch) {
        while batch.room() > 0 {
            let may = self.gap.may(cx.now_ns());
            if may != (output == 0) {
                return;
            }
            let Some(packet) = cx.pull_one(0) else { return };
            if output == 0 {
                self.gap.count += if self.bytes { packet.total_len() as i64 } else { 1 };
            }
            batch.push(packet);
        }
    }

    fn reconfigure(&mut self, cx: &mut Cx<'_>, new: Box<dyn Element>) -> Result<(), Refused> {
        if let Ok(new) = (new as Box<dyn std::any::Any>).downcast::<Shaper>() {
            self.gap.set_rate(new.gap.rate as u32, cx.now_ns());
        }
        Ok(())
    }

    /// What went through in this second counts, or there would be a burst.
    fn take_over(&mut self, _: &mut Cx<'_>, old: &mut dyn Element) {
        if let Some(old) = (old as &mut dyn std::any::Any).downcast_mut::<Shaper>()
            && old.gap.rate == self.gap.rate
        {
            (self.gap.second, self.gap.count) = (old.gap.second, old.gap.count);
        }
    }
}
