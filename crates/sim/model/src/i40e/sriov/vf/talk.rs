//! What the driver of a virtual function says to the physical one, and what it waits for: resets, answers,
//! queues (datasheet 332464, chapter 4; document 331954, chapter 6). Nothing here changes what the device
//! does.

use regs::i40e::{PFINT_DYN_CTLN, reset_state};
use regs::iavf::*;
use regs::virtchnl::message::{Resources, Select};
use regs::virtchnl::{op, status};

use super::super::super::admin::Message;
use super::super::super::host::Counters;
use super::super::super::lint::{Location, Rule};
use super::said::Said;

/// Messages on whose answers what follows relies.
const ABOUT_QUEUES: [u32; 4] =
    [op::CONFIG_VSI_QUEUES, op::CONFIG_IRQ_MAP, op::ENABLE_QUEUES, op::DISABLE_QUEUES];
/// What Linux's driver says without the answer to [`op::ENABLE_QUEUES`] when its interface is taken down
/// meanwhile: what it takes back relies on no answer.
const TAKES_BACK: [u32; 3] = [op::DEL_ETH_ADDR, op::DEL_VLAN, op::DISABLE_QUEUES];
/// After how long without an answer another message is no fault of the driver.
const ANSWER_NS: u64 = 1_000_000_000;
/// Descriptors that a driver may give to a queue before it was told that it runs. Linux's lets packets
/// go for a moment between its own start and the answer.
const EARLY: u32 = 32;
/// After which a driver should have noticed a reset: those that look now and then do so every few seconds.
const NOTICE_NS: u64 = 10_000_000_000;

/// What was said since the last reset, unless another time is told.
#[derive(Debug, Default)]
pub(super) struct Talk {
    /// A version was agreed on, at any time since the device was handed to its driver.
    version: bool,
    resources: Option<Resources>,
    /// Queues of which the driver has told, those that it was last to have started, and those that have
    /// run, a bit each: receive, transmit.
    configured: [u32; 2],
    starting: [u32; 2],
    started: [u32; 2],
    /// Vectors that have queues, a bit each.
    vectors: u64,
    /// A message about queues without an answer, and when it was sent.
    owed: Option<(u32, u64)>,
    /// Tails of transmit queues as they were looked at last (what is left there of before is none of this
    /// time's), and descriptors that were given while no answer told the queue to run.
    tails: [(u32, u32); QUEUES],
    /// What the driver has read of VFGEN_RSTAT since it knows of the last reset.
    state: Option<u32>,
    /// The driver has asked for a reset, and not seen one since.
    reset_asked: bool,
    /// When the function was reset last.
    reset_ns: u64,
}

/// The kind and the status of a message.
fn kind_of(message: &Message) -> (u32, i32) {
    (message.cookie as u32, (message.cookie >> 32) as i32)
}

impl Talk {
    /// The function was reset.
    pub fn reset(&mut self, now_ns: u64) {
        let Talk { version, state, reset_asked, .. } = *self;
        *self = Talk { version, state, reset_asked, reset_ns: now_ns, ..Talk::default() };
    }

    /// The driver has read a register that tells of resets; `unseen` if it could not know of the last
    /// one before.
    pub fn note_read(&mut self, id: Id, value: u32, unseen: bool) {
        if unseen {
            (self.state, self.reset_asked) = (None, false);
        }
        if id == VFGEN_RSTAT::ID {
            self.state = Some(value & VFGEN_RSTAT::VFR_STATE_MASK);
        }
    }

    /// The driver enables the mailbox.
    pub fn check_enabled(&mut self, counters: &mut Counters) {
        let place = Location::VfRegister(VFGEN_RSTAT::ID, 0);
        if std::mem::take(&mut self.reset_asked) {
            counters.report(Rule::FunctionResetNotAwaited, place, 0);
        }
        let may_work = [reset_state::ACTIVE, reset_state::COMPLETED];
        if !self.state.is_some_and(|state| may_work.contains(&state)) {
            counters.report(Rule::FunctionNotActive, place, self.state.unwrap_or(0).into());
        }
    }

    /// The driver moves the tail of a mailbox that a reset has taken away, and cannot know of that.
    pub fn check_unseen(&self, now_ns: u64, counters: &mut Counters) {
        if now_ns.saturating_sub(self.reset_ns) >= NOTICE_NS {
            counters.report(Rule::ResetUnnoticed, Location::VfRegister(VF_ATQT1::ID, 0), 0);
        }
    }

    /// The driver enables a vector.
    pub fn check_vector(&self, vector: usize, control: u32, counters: &mut Counters) {
        let enables =
            control & (PFINT_DYN_CTLN::INTENA | PFINT_DYN_CTLN::INTENA_MSK) == PFINT_DYN_CTLN::INTENA;
        let has_queue = self.vectors >> vector & 1 != 0;
        if enables && !has_queue && self.started != [0; 2] {
            let place = Location::VfRegister(VFINT_DYN_CTLN1::ID, vector as u16 - 1);
            counters.report(Rule::VectorUnmapped, place, vector as u64);
        }
    }

    /// Looks at the tails of transmit queues that no answer told to run: drivers leave them alone, but
    /// for a moment.
    pub fn check_tails(&mut self, tail: impl Fn(usize) -> u32, counters: &mut Counters) {
        let Some(Resources { queues, .. }) = self.resources else { return };
        let queues = usize::from(queues).min(QUEUES);
        if self.started[1].trailing_ones() as usize >= queues {
            return;
        }
        for (n, (seen, early)) in self.tails.iter_mut().enumerate().take(queues) {
            let now = tail(n);
            let before = std::mem::replace(seen, now);
            if before == now || now == 0 || self.started[1] >> n & 1 != 0 {
                continue;
            }
            // How long the ring is may not have been told: behind its end the tail counts from zero.
            *early = early.saturating_add(now.checked_sub(before).unwrap_or(now));
            if *early >= EARLY {
                counters.report(Rule::TxTailBeforeEnable, Location::Tx(n as u16), now.into());
            }
        }
    }

    /// The driver sends a message; the queues that it wants to be stopped.
    pub fn says(&mut self, message: &Message, now_ns: u64, counters: &mut Counters) -> Option<Select> {
        let (kind, status) = kind_of(message);
        let place = Location::Message(kind);
        if kind == 0 || kind == op::EVENT || status != 0 {
            counters.report(Rule::MessageUnknown, place, message.cookie);
            return None;
        }
        if kind == op::RESET_VF {
            (self.reset_asked, self.owed) = (true, None);
            return None;
        }
        if let Some((owed, since_ns)) = self.owed.take() {
            let takes_back = owed == op::ENABLE_QUEUES && TAKES_BACK.contains(&kind);
            if !takes_back && now_ns.saturating_sub(since_ns) < ANSWER_NS {
                counters.report(Rule::AnswerNotAwaited, place, kind.into());
            }
        }
        let Some(said) = Said::of(kind, &message.bytes) else {
            counters.report(Rule::MessageLengthInvalid, place, message.bytes.len() as u64);
            return None;
        };
        let is_first = [op::VERSION, op::GET_VF_RESOURCES].contains(&kind);
        let has = self.resources.filter(|_| !is_first);
        if kind != op::VERSION && !self.version || !is_first && has.is_none() {
            counters.report(Rule::MessageTooEarly, place, kind.into());
            return None;
        }
        said.check(place, has.as_ref(), counters);
        self.note(kind, said, now_ns, counters)
    }

    /// Remembers what a message says; the queues that are to be stopped.
    fn note(&mut self, kind: u32, said: Said, now_ns: u64, counters: &mut Counters) -> Option<Select> {
        self.owed = ABOUT_QUEUES.contains(&kind).then_some((kind, now_ns));
        match said {
            Said::Queues(queues) => {
                for pair in queues.pairs {
                    let bit =
                        |len: u32| if len > 0 { 1u32.checked_shl(pair.queue.into()).unwrap_or(0) } else { 0 };
                    self.configured[0] |= bit(pair.rx_len);
                    self.configured[1] |= bit(pair.tx_len.into());
                }
            }
            Said::Vectors(map) => {
                for one in map.vectors {
                    let bit = 1u64.checked_shl(one.vector.into()).unwrap_or(0);
                    self.vectors =
                        if one.rx | one.tx == 0 { self.vectors & !bit } else { self.vectors | bit };
                }
            }
            Said::Select(select) if kind == op::ENABLE_QUEUES => {
                self.starting = [select.rx, select.tx];
                let untold = select.rx & !self.configured[0] | select.tx & !self.configured[1];
                if untold != 0 {
                    counters.report(Rule::MessageTooEarly, Location::Message(kind), untold.into());
                }
            }
            Said::Select(select) if kind == op::DISABLE_QUEUES => return Some(select),
            _ => {}
        }
        None
    }

    /// The driver has been given a message: an answer, if it asked for one; its kind. `tail` tells the
    /// tails of transmit queues.
    pub fn hears(&mut self, message: &Message, tail: impl Fn(usize) -> u32) -> u32 {
        let (kind, status) = kind_of(message);
        self.owed.take_if(|(owed, _)| *owed == kind);
        match kind {
            _ if status != status::SUCCESS => {}
            op::VERSION => self.version = true,
            op::GET_VF_RESOURCES => {
                (self.resources, self.tails) =
                    (Resources::decode(&message.bytes), std::array::from_fn(|n| (tail(n), 0)));
            }
            op::ENABLE_QUEUES => {
                self.started.iter_mut().zip(self.starting).for_each(|(started, bits)| *started |= bits);
            }
            _ => {}
        }
        kind
    }
}
