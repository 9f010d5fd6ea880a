//! The arguments that say how ports are opened: one for each row of the table of
//! settings that has a name on the command line.

use std::ops::{Deref, DerefMut};

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use port::Options;
use port::setting::{Field, SETTINGS, Setting, Value};

/// The options that ports are opened with.
#[derive(Debug, Clone, Default)]
pub struct Settings(pub Options);

impl Deref for Settings {
    type Target = Options;

    fn deref(&self) -> &Options {
        &self.0
    }
}

impl DerefMut for Settings {
    fn deref_mut(&mut self) -> &mut Options {
        &mut self.0
    }
}

/// The rows with a name here.
fn named() -> impl Iterator<Item = (&'static str, &'static Setting)> {
    SETTINGS.iter().filter_map(|setting| Some((setting.argument?, setting)))
}

fn argument(name: &'static str, setting: &Setting) -> Arg {
    let help = match setting.tells_default {
        true => format!("{} [default: {}]", setting.about, setting.get(&Options::default())),
        false => setting.about.to_owned(),
    };
    let argument = Arg::new(name).long(name).help(help);
    match setting.field {
        Field::Number { numbers, .. } => {
            argument.value_name("NUMBER").value_parser(move |text: &str| numbers.parse(text))
        }
        Field::Flag { .. } => {
            let opposite = named().find(|(other, _)| other.strip_prefix("no-") == Some(name));
            let argument = argument.action(ArgAction::SetTrue);
            opposite.into_iter().fold(argument, |argument, (opposite, _)| argument.overrides_with(opposite))
        }
    }
}

impl Args for Settings {
    fn augment_args(command: Command) -> Command {
        command.args(named().map(|(name, setting)| argument(name, setting)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Settings::augment_args(command)
    }
}

impl FromArgMatches for Settings {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Settings, Error> {
        let mut settings = Settings::default();
        settings.update_from_arg_matches(matches)?;
        Ok(settings)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.tx_queues = self.rx_queues;
        for (name, setting) in named() {
            let value = match setting.field {
                Field::Number { .. } => matches.get_one(name).copied().map(Value::Number),
                Field::Flag { .. } => matches.get_flag(name).then_some(Value::Flag(true)),
            };
            if let Some(value) = value {
                setting.set(self, value);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use port::{Completion, Offload};

    use super::*;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        settings: Settings,
    }

    fn read(words: &str) -> Result<Options, String> {
        let words = ["ixora"].into_iter().chain(words.split_whitespace());
        Words::try_parse_from(words).map(|words| words.settings.0).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_said_is_the_usual() {
        assert_eq!(read("").expect("good words"), Options::default().filled_in());
    }

    #[test]
    fn each_argument_sets_its_option() {
        let options = read("--ring 1024 --tx-ring 64 --queues 4 --max-frame 9000 --no-promiscuous")
            .expect("good words");
        assert_eq!((options.rx_ring, options.tx_ring), (1024, 64));
        assert_eq!((options.rx_queues, options.tx_queues, options.max_frame), (4, 4, 9000));
        assert!(!options.promiscuous && !options.interrupts);
        let options = read("--interrupts --head-writeback --vlan-strip --checksums").expect("good words");
        assert!(options.interrupts && options.vlan_strip && options.promiscuous);
        assert_eq!(options.completion, Completion::Head);
        assert_eq!((options.rx_checksum, options.tx_checksum), (Offload::On, Offload::On));
    }

    #[test]
    fn the_last_word_on_promiscuous_mode_counts() {
        assert!(read("--no-promiscuous --promiscuous").expect("good words").promiscuous);
        assert!(!read("--promiscuous --no-promiscuous").expect("good words").promiscuous);
    }

    #[test]
    fn what_no_port_takes_is_refused() {
        let most = driver::ixgbe::MOST_QUEUES;
        assert!(read(&format!("--queues {most}")).is_ok());
        assert!(
            read(&format!("--queues {}", most + 1)).expect_err("it is refused").contains("write 1 to 128")
        );
        assert!(
            read("--rx-ring 100")
                .expect_err("it is refused")
                .contains("write a power of two from 64 to 4096")
        );
    }
}
