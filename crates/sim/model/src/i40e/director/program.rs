//! What a descriptor says that programs a filter (datasheet 332464, chapters 7 and 8).

use regs::i40e::descriptor::filter;

use crate::i40e::lint::Rule;

/// What is done with the filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Add,
    Remove,
}

/// Where the packets go that a filter matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// They are dropped.
    Nowhere,
    /// To a queue, counted from the VSI's first.
    Queue(u16),
    /// Where they would go without the filter.
    Elsewhere,
}

/// A filter, but for what it compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filter {
    pub target: Target,
    /// Which counter counts what it matches.
    pub counter: Option<u16>,
    /// Its own number, as the driver gave it.
    pub id: u32,
    /// Packets tell its number.
    pub tells_id: bool,
}

/// A descriptor that programs a filter.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    pub change: Change,
    pub class: u32,
    pub vsi: u16,
    pub filter: Filter,
}

impl Program {
    /// Reads both words.
    ///
    /// # Errors
    /// The rule that is broken by what makes no sense in itself.
    pub fn of([low, high]: [u64; 2]) -> Result<Program, Rule> {
        let change = match high & filter::PCMD_MASK {
            filter::PCMD_ADD => Change::Add,
            filter::PCMD_REMOVE => Change::Remove,
            _ => return Err(Rule::FilterCommandInvalid),
        };
        let target = match high & filter::DEST_MASK {
            filter::DEST_DROP => Target::Nowhere,
            filter::DEST_QUEUE => Target::Queue((low & filter::QINDEX_MASK) as u16),
            filter::DEST_OTHER => Target::Elsewhere,
            _ => return Err(Rule::FilterCommandInvalid),
        };
        let counter = ((high & filter::CNTINDEX_MASK) >> filter::CNTINDEX_SHIFT) as u16;
        Ok(Program {
            change,
            class: ((low & filter::PCTYPE_MASK) >> filter::PCTYPE_SHIFT) as u32,
            vsi: ((low & filter::DEST_VSI_MASK) >> filter::DEST_VSI_SHIFT) as u16,
            filter: Filter {
                target,
                counter: (high & filter::CNT_ENA != 0).then_some(counter),
                id: (high >> filter::FD_ID_SHIFT) as u32,
                tells_id: high & filter::FD_STATUS_MASK == filter::FD_STATUS_FD_ID,
            },
        })
    }
}
