//! What is agreed on with the physical function (82599 datasheet 7.10.2.9): the messages' version, how
//! many queues there are, and how flows are spread over them.

use port::Options;
use regs::ixgbevf::VFPSRTYPE;
use regs::ixgbevf::message::{self, kind, queues, version};

use super::function::{Spread, nonsense};
use super::{Chip, VfFault};
use crate::intel::vf::Words;
use crate::{Error, Result};

/// Versions that are spoken, the latest first.
const SPOKEN: [u32; 3] = [version::V1_3, version::V1_2, version::V1_1];

/// The latest version that both speak. One that refuses to negotiate speaks 1.0.
pub(super) fn agree_on_version(chip: &Chip) -> Result<()> {
    for spoken in SPOKEN {
        match chip.ask(&[kind::API_NEGOTIATE, spoken]) {
            Ok(_) => {
                chip.state().own.version = spoken;
                break;
            }
            Err(Error::Vf(VfFault::Refused { .. })) => {}
            Err(other) => return Err(other),
        }
    }
    Ok(())
}

/// Makes sure of as many queues as the options ask for, and spreads flows over them.
pub(super) fn take_queues(chip: &Chip, options: &Options) -> Result<()> {
    let (has, transparent) = ask_for_queues(chip)?;
    let wanted = options.rx_queues.max(options.tx_queues);
    if has < wanted {
        return Err(VfFault::FewQueues { device: chip.name.clone(), has, wanted }.into());
    }
    chip.state().own.transparent = transparent;
    spread_flows(chip, options.rx_queues)
}

/// Queues of each kind, and whether frames have a tag of the port's outside.
fn ask_for_queues(chip: &Chip) -> Result<(usize, bool)> {
    if chip.state().own.version < version::V1_1 {
        return Ok((1, false));
    }
    let answer = chip.ask(&[kind::GET_QUEUES, 0, 0, 0, 0])?;
    let has = answer[queues::RX].min(answer[queues::TX]) as usize;
    match has {
        0 => Err(nonsense(chip, kind::GET_QUEUES, "there are no queues")),
        has => Ok((has, answer[queues::TRANSPARENT_VLAN] != 0)),
    }
}

/// Several queues have flows by the port's key and table, of whose entries so many bits count as
/// VFPSRTYPE tells.
fn spread_flows(chip: &Chip, queues: usize) -> Result<()> {
    if queues > 1 {
        if !queues.is_power_of_two() {
            let what = "spreading flows over a number of queues that is no power of two";
            return Err(chip.not_offered(what, "open 1, 2 or 4"));
        }
        if chip.state().own.version < version::V1_2 {
            let what = "telling the hash's key and table (mailbox version 1.2)";
            return Err(chip.not_offered(what, "open it with one receive queue"));
        }
        let table = ask_for_hash(chip, kind::GET_RETA)?;
        let key = ask_for_hash(chip, kind::GET_RSS_KEY)?;
        let words = |from: usize| table.get(from).copied().unwrap_or(0);
        let entries = message::reta_of(&std::array::from_fn(|n| words(n + 1)));
        let mut bytes = [0; 40];
        for (part, word) in bytes.chunks_exact_mut(4).zip(&key[1..]) {
            part.copy_from_slice(&word.to_le_bytes());
        }
        chip.state().own.spread = Some(Spread { key: bytes, table: Box::new(entries) });
    }
    chip.bar.write32(VFPSRTYPE::AT, queues.trailing_zeros() << VFPSRTYPE::RQPL_SHIFT);
    Ok(())
}

/// A part of how flows are spread, which Linux's ixgbe tells when its administrator lets it.
fn ask_for_hash(chip: &Chip, kind: u32) -> Result<Words> {
    match chip.ask_whether(&[kind])? {
        (true, answer) => Ok(answer),
        (false, _) => {
            let fix = "allow it (ip link set … vf N query_rss on), or open it with one receive queue";
            Err(chip.not_offered("telling the hash's key and table", fix))
        }
    }
}
