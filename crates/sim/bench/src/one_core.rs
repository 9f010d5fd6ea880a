//! One core: the model steps between the driver's calls, which alone are timed.

use crate::Setting;
use crate::figures::{Row, Spread};
use crate::rig::{Done, Rig};
use crate::{Error, Result};
use runtime::cores::pin;

/// Packets in a window, and windows.
const PACKETS: u64 = 400_000;
const WINDOWS: usize = 5;

/// Measures one setting.
pub fn measure(setting: &Setting, core: Option<usize>) -> Result<Row> {
    if let Some(core) = core {
        pin(core);
    }
    let mut rig = Rig::new(setting)?;
    let mut all = Done::default();
    let mut cycles = Vec::with_capacity(WINDOWS);
    window(&mut rig, setting, PACKETS / 4)?; // fills rings and caches
    for _ in 0..WINDOWS {
        let (ticks, done) = window(&mut rig, setting, PACKETS)?;
        cycles.push(ticks as f64 / done.packets as f64);
        all.packets += done.packets;
        all.calls += done.calls;
        all.empty += done.empty;
    }
    let cycles_per_packet = Spread::of(cycles);
    Ok(Row {
        setting: *setting,
        cores: 1,
        cycles_per_packet,
        mpps: bus::tsc::hz() as f64 / cycles_per_packet.median / 1e6,
        empty_polls: all.empty as f64 / all.calls as f64,
        device_limits: false,
        device_idle: None,
        batch_fill: all.packets as f64 / (all.calls - all.empty).max(1) as f64,
        instructions_per_packet: None,
        windows: WINDOWS,
        near_windows: 0,
        distance: None,
    })
}

/// Moves so many packets untimed: for callgrind.
pub fn run_packets(setting: &Setting, packets: u64) -> Result<()> {
    let mut rig = Rig::new(setting)?;
    window(&mut rig, setting, packets).map(|_| ())
}

fn window(rig: &mut Rig, setting: &Setting, packets: u64) -> Result<(u64, Done)> {
    // A step of the model moves up to 64 packets or so; as many calls follow.
    let calls = (64 / setting.batch).clamp(1, 64);
    let (mut ticks, mut done) = (0, Done::default());
    let mut idle = 0;
    while done.packets < packets {
        rig.step();
        let before = done.packets;
        let start = bus::tsc::now();
        for _ in 0..calls {
            rig.driver_calls(&mut done);
        }
        ticks += bus::tsc::now() - start;
        idle = if done.packets == before { idle + 1 } else { 0 };
        if idle > 1_000_000 {
            return Err(Error::new("the model moves no packets: nothing can be measured"));
        }
    }
    Ok((ticks, done))
}
