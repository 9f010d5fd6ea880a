//! An element with another configuration, while its router runs: what writing its
//! `config` handler does.
//!
//! A fresh element is made of the new configuration, by which it is checked; then each
//! copy takes over what was configured, in its own lane. Nothing changes when anything
//! is wrong with it.

use crate::element::class::Setting;
use crate::element::conf::Conf;
use crate::element::value::Scope;
use crate::element::{Element, Refused};
use crate::lang::args;
use crate::plan::setup::{Services, Setup, Shares};
use crate::run::lane::Lane;

/// A configuration with another value for an argument: where it stands, if it stands in
/// its place, or has no keyword; else by keyword, behind all others. A value that would be
/// more than its argument, or less, is quoted.
pub(crate) fn with_argument(config: &str, place: usize, key: &str, value: &str) -> String {
    let value = value.trim();
    let names_another = || !key.is_empty() && args::keyword(value).is_some();
    let is_one = args::split(&format!("{value}, 0")) == [value, "0"] && !names_another();
    let value = if is_one || value.is_empty() { value } else { &args::quote(value.as_bytes()) };
    let mut arguments = args::split(config);
    let is_keyword = |argument: &String| args::keyword(argument).is_some_and(|(word, _)| word == key);
    let named = arguments.iter().any(is_keyword);
    let stands = |argument: &&mut String| key.is_empty() || !named && args::keyword(argument).is_none();
    match arguments.get_mut(place).filter(stands) {
        Some(argument) => *argument = value.to_string(),
        None => {
            arguments.retain(|argument| !is_keyword(argument));
            arguments.push(format!("{key} {value}"));
        }
    }
    args::join(&arguments)
}

impl Lane {
    /// Gives an argument of an element another value.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn change(&mut self, element: usize, setting: Setting, value: &str) -> Result<(), Refused> {
        let with = |config: &str| with_argument(config, setting.place, setting.key, value);
        let shown = with(&self.shared.config(element));
        let config = with(&self.shared.real_config(element));
        let done = self.reconfigure(element, &config, setting.is_told.then_some(&shown));
        done.map_err(|refused| match refused {
            // A datum has no keyword, in Click's words.
            Refused::Failed(text) if !setting.is_told => {
                let text = text.strip_prefix(&format!("{}: ", setting.key)).unwrap_or(&text);
                Refused::Failed(text.replace("invalid number", "expected integer"))
            }
            refused => refused,
        })
    }

    /// Gives an element another configuration, in all lanes; its `config` handler reads
    /// `shown` from now on, if that is given.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn reconfigure(
        &mut self,
        element: usize,
        config: &str,
        shown: Option<&str>,
    ) -> Result<(), Refused> {
        let shared = self.shared.clone();
        let planned = &shared.plan.elements[element];
        let all = planned.lanes | u64::from(planned.lanes == 0);
        let lanes: Vec<usize> = (0..shared.mailboxes.len()).filter(|lane| all >> lane & 1 == 1).collect();
        let lanes = if planned.locked { vec![planned.lanes.trailing_zeros() as usize] } else { lanes };
        let copies = self.copies(element, config, lanes.len())?;
        if let Err((changed, refused)) = self.give(element, &lanes, copies) {
            // Those that took it are given back what they had.
            return Err(match self.restore(element, &lanes[..changed]) {
                Ok(()) => refused,
                Err(kept) => {
                    Refused::Failed(format!("{refused}; and a copy keeps the new configuration: {kept}"))
                }
            });
        }
        let shown = shown.map_or_else(|| shared.config(element), str::to_string);
        let differs = shown != config;
        shared.set_config(element, shown);
        if differs {
            shared.set_real_config(element, config.to_string());
        }
        Ok(())
    }

    /// Gives an element back what it was configured with before, in some lanes.
    fn restore(&mut self, element: usize, lanes: &[usize]) -> Result<(), Refused> {
        if lanes.is_empty() {
            return Ok(());
        }
        let before = self.copies(element, &self.shared.real_config(element), lanes.len())?;
        self.give(element, lanes, before).map_err(|(_, refused)| refused)
    }

    /// So many fresh elements of a configuration.
    fn copies(&self, element: usize, config: &str, count: usize) -> Result<Vec<Box<dyn Element>>, Refused> {
        let shared = &self.shared;
        let planned = &shared.plan.elements[element];
        let (services, mut shares) = (Services::default(), Shares::default());
        let mut setup = Setup {
            name: &planned.name,
            class: &planned.class,
            inputs: planned.pull_inputs.len(),
            outputs: planned.pull_outputs.len(),
            index: element,
            shares: &mut shares,
            threads: shared.mailboxes.len(),
            dma: &shared.dma,
            services: &services,
            elements: &shared.plan.elements,
            requests: vec![],
        };
        let scope = Scope { element: &planned.name, names: &shared.names };
        let new = (planned.kind.make)(&mut setup, &mut Conf::new(planned.kind, config, scope))?;
        let mut copies: Vec<Box<dyn Element>> = (1..count).filter_map(|_| new.replicate()).collect();
        if copies.len() + 1 < count {
            return Err(Refused::Failed(format!("cannot reconfigure {} on several threads", planned.name)));
        }
        copies.push(new);
        Ok(copies)
    }

    /// Has an element take the configuration of another one, in each of these lanes; how many
    /// did before one refused.
    fn give(
        &mut self,
        element: usize,
        lanes: &[usize],
        copies: Vec<Box<dyn Element>>,
    ) -> Result<(), (usize, Refused)> {
        for (done, (&lane, copy)) in lanes.iter().zip(copies.into_iter().rev()).enumerate() {
            let given = self.in_lane(lane, move |lane| {
                lane.take_apart(element);
                let taken = lane.with_real(element, |old, cx| old.reconfigure(cx, copy));
                lane.deliver(element);
                lane.link_again();
                taken.unwrap_or_else(|| Err(Refused::Busy(lane.shared.name(element).to_string())))
            });
            given.and_then(|given| given).map_err(|refused| (done, refused))?;
        }
        Ok(())
    }
}
