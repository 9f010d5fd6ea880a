//! What elements say of their ports' options: keywords of the table that the command
//! line is made of as well ([`port::setting`]).

use graph::{Conf, ConfFault};
use port::setting::{Field, SETTINGS, Setting, Value};
use port::{Capabilities, Options};

/// A setting that an element names, and its value there.
#[derive(Debug, Clone, Copy)]
pub struct Said {
    keyword: &'static str,
    setting: &'static Setting,
    value: Value,
}

/// Reads the keywords of an element, those that `keyword` has a name for.
pub(in crate::io) fn read(
    conf: &mut Conf<'_>,
    keyword: fn(&Setting) -> Option<&'static str>,
) -> Result<Vec<Said>, ConfFault> {
    let mut all = vec![];
    for setting in SETTINGS {
        let Some(keyword) = keyword(setting) else { continue };
        let value = match setting.field {
            Field::Flag { .. } => conf.keyword(keyword)?.map(Value::Flag),
            Field::Number { .. } => conf.keyword(keyword)?.map(Value::Number),
        };
        all.extend(value.map(|value| Said { keyword, setting, value }));
    }
    Ok(all)
}

/// The keyword of an option that each receiver has for itself.
const PROMISC: &str = "PROMISC";

/// What [`read`] finds where the keyword `PROMISC` is.
pub(in crate::io) fn promiscuous(value: bool) -> Option<Said> {
    let setting = SETTINGS.iter().find(|setting| setting.rx_keyword == Some(PROMISC))?;
    Some(Said { keyword: PROMISC, setting, value: Value::Flag(value) })
}

/// What all elements of a port say, with their names.
#[derive(Debug, Clone, Default)]
pub(super) struct AllSaid(Vec<(String, Said)>);

impl AllSaid {
    /// An element says something more of the port called `name`.
    ///
    /// # Errors
    /// When another element says something else.
    pub(super) fn add(&mut self, name: &str, element: &str, said: &[Said]) -> Result<(), String> {
        for said in said {
            // One that wants all frames gets them, whatever others want.
            if said.keyword == PROMISC {
                self.0.push((element.to_owned(), *said));
                continue;
            }
            let same = |other: &Said| std::ptr::eq(other.setting, said.setting);
            if let Some((other, is)) = self.0.iter().find(|(_, is)| same(is) && is.value != said.value) {
                let Said { keyword, value, .. } = said;
                return Err(format!(
                    "{name} is opened once: {element} says {keyword} {value} and {other} says {keyword} {}; \
                     say the same in both, or leave one out",
                    is.value
                ));
            }
            self.0.push((element.to_owned(), *said));
        }
        Ok(())
    }

    /// Changes the options as the elements say, of which so many receive. The port is
    /// promiscuous if one of them asks for it, or says nothing and that is usual.
    pub(super) fn apply(&self, options: &mut Options, receivers: usize) {
        let usual = options.promiscuous;
        self.0.iter().for_each(|(_, said)| said.setting.set(options, said.value));
        let mut asked = 0;
        let wants = self.0.iter().filter(|(_, said)| said.keyword == PROMISC);
        let wanted =
            wants.inspect(|_| asked += 1).filter(|(_, said)| said.value == Value::Flag(true)).count();
        options.promiscuous = wanted > 0 || usual && receivers > asked;
    }

    /// Checks that an open port has what they say.
    ///
    /// # Errors
    /// When it has not.
    pub(super) fn check(&self, name: &str, can: &Capabilities) -> Result<(), String> {
        let Some((element, said)) = self.0.iter().find(|(_, s)| !s.setting.is_granted(s.value, can)) else {
            return Ok(());
        };
        let Said { keyword, setting, value } = said;
        let has =
            (setting.granted)(can).map_or(String::new(), |has| format!(" ({keyword} {has} is possible)"));
        Err(format!(
            "{name}: {element} says {keyword} {value}, which this {} port cannot do{has}: leave {keyword} out, \
             or see what ports can do: ixora info '{name}'",
            can.driver
        ))
    }
}

/// Checks that an open port has the options that elements can name as they are wanted
/// now; promiscuous mode can be changed.
///
/// # Errors
/// When it has others.
pub(super) fn check_open(name: &str, open: &Options, wanted: &Options) -> Result<(), String> {
    let fixed =
        SETTINGS.iter().filter_map(|setting| Some((setting.rx_keyword.or(setting.tx_keyword)?, setting)));
    let mut fixed = fixed.filter(|(keyword, _)| *keyword != PROMISC);
    let Some((keyword, setting)) = fixed.find(|(_, setting)| setting.get(open) != setting.get(wanted)) else {
        return Ok(());
    };
    let (is, wanted) = (setting.get(open), setting.get(wanted));
    Err(format!(
        "{name} is open with {keyword} {is}, and {keyword} {wanted} is wanted: an open port keeps its \
         options; say {keyword} {is}, or start the router anew"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::Feature;

    fn said(keyword: &'static str, value: Value) -> Said {
        let setting = SETTINGS.iter().find(|s| s.rx_keyword == Some(keyword)).expect("a keyword");
        Said { keyword, setting, value }
    }

    #[test]
    fn two_elements_that_disagree_are_named() {
        let mut all = AllSaid::default();
        all.add("p", "from", &[said("MTU", Value::Number(1500)), said("PROMISC", Value::Flag(false))])
            .expect("the first");
        all.add("p", "other", &[said("MTU", Value::Number(1500))]).expect("the same");
        let error = all.add("p", "to", &[said("MTU", Value::Number(9000))]).expect_err("it is refused");
        for word in ["from", "to", "MTU 1500", "MTU 9000"] {
            assert!(error.contains(word), "{word}: {error}");
        }
        let applied = |all: &AllSaid, receivers: usize| {
            let mut options = Options::default();
            all.apply(&mut options, receivers);
            (options.max_frame, options.promiscuous)
        };
        assert_eq!((applied(&all, 1), applied(&all, 2)), ((1514, false), (1514, true)));
        all.add("p", "other", &[said("PROMISC", Value::Flag(true))]).expect("each has its own");
        assert_eq!((applied(&all, 2), applied(&AllSaid::default(), 0).1), ((1514, true), false));
    }

    #[test]
    fn what_a_port_cannot_do_is_refused() {
        let mut all = AllSaid::default();
        all.add("tap:x", "from", &[said("VLAN_STRIP", Value::Flag(true))]).expect("the first");
        let can = Capabilities { driver: "tap".into(), ..Capabilities::default() };
        let error = all.check("tap:x", &can).expect_err("it is refused");
        assert!(error.contains("from says VLAN_STRIP true") && error.contains("tap port"), "{error}");
        let features = [(Feature::VlanStrip, port::Support::On)].into();
        assert_eq!(all.check("tap:x", &Capabilities { features, ..can }), Ok(()));
    }

    #[test]
    fn an_open_port_keeps_its_options() {
        let open = Options::default();
        let queues = Options { rx_queues: 4, tx_queues: 4, promiscuous: false, ..Options::default() };
        assert_eq!(check_open("p", &open, &queues), Ok(()), "these change");
        let error = check_open("p", &open, &Options { rx_ring: 64, ..Options::default() })
            .expect_err("it is refused");
        assert!(error.contains("NDESC 512") && error.contains("NDESC 64"), "{error}");
        assert!(check_open("p", &open, &Options { vlan_strip: true, ..Options::default() }).is_err());
    }
}
