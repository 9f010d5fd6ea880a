//! What FastClick's users give DPDK: numbers for ports, and the options of its environment
//! (`--dpdk … --`), of which those are read that say which ports and threads there are.

use std::collections::BTreeMap;
use std::str::FromStr;

use bus::VfToken;
use element::io::PortNumbers;

use super::Click;
use crate::Failure;

/// A port of the command line: `0=0000:03:00.0`. Nothing for one to listen at.
pub fn numbered(text: &str) -> Option<(u32, &str)> {
    let (number, name) = text.split_once('=')?;
    Some((number.parse().ok()?, name)).filter(|(_, name)| !name.is_empty())
}

/// What DPDK's options say.
#[derive(Debug, PartialEq, Eq, Default)]
struct Environment {
    /// Ports in the order of their numbers.
    ports: Vec<String>,
    /// The token of virtual functions.
    token: Option<VfToken>,
    /// The cores that threads run on.
    cores: Option<Vec<usize>>,
    /// Options that were read and mean nothing here.
    ignored: Vec<String>,
}

impl Environment {
    /// Reads the words after `--dpdk`.
    ///
    /// # Errors
    /// An option without its value, cores that are none, and a core that is named twice.
    fn read(words: &[String]) -> Result<Environment, String> {
        let (mut pci, mut others) = (vec![], vec![]);
        let mut environment = Environment::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (option, value) = split(word);
            let mut value = || {
                let next = || words.next().map(String::as_str);
                value.or_else(next).ok_or_else(|| format!("--dpdk: {option} needs a value"))
            };
            match option {
                // What DPDK looks for at an address may have words of its driver's behind it.
                "-a" | "-w" | "--allow" | "--whitelist" | "--pci-whitelist" => {
                    let name = value()?;
                    match bus::Address::from_str(name.split(',').next().unwrap_or(name)) {
                        Ok(address) => pci.push(address),
                        Err(_) => others.push(name.to_string()),
                    }
                }
                "--vdev" => others.push(value()?.to_string()),
                "--vfio-vf-token" => {
                    let given = value()?.parse::<VfToken>().map_err(|error| format!("--dpdk: {error}"))?;
                    environment.token = Some(given);
                }
                "-l" | "--lcores" => environment.cores = Some(list(value()?)?),
                "-c" => environment.cores = Some(mask(value()?)?),
                // Values of what is ignored stand alone, and are none of these.
                option if option.starts_with('-') => environment.ignored.push(option.to_string()),
                _ => {}
            }
        }
        // DPDK numbers them by their addresses, and then its virtual devices.
        pci.sort_unstable();
        environment.ports = pci.iter().map(bus::Address::to_string).chain(others).collect();
        Ok(environment)
    }

    /// Gives the token to the ports that `take` one: DPDK opens the others without it.
    fn give_token(&mut self, take: impl Fn(bus::Address) -> bool) {
        let Some(token) = &self.token else { return };
        for port in &mut self.ports {
            if bus::Address::from_str(port).is_ok_and(&take) {
                *port = format!("{port},vf_token={token}");
            }
        }
    }
}

/// An option and the value that is written with it: `-l0-3`, `--vdev=net_tap0`.
fn split(word: &str) -> (&str, Option<&str>) {
    match word.split_once('=') {
        Some((option, value)) if option.starts_with("--") => (option, Some(value)),
        _ if word.starts_with('-')
            && !word.starts_with("--")
            && word.len() > 2
            && word.is_char_boundary(2) =>
        {
            (&word[..2], Some(&word[2..]))
        }
        _ => (word, None),
    }
}

/// Cores as `0-3,8`.
fn list(text: &str) -> Result<Vec<usize>, String> {
    let wrong = || format!("--dpdk: expected cores such as 0-3,8 below {MOST_CORES}, not '{text}'");
    let core = |text: &str| text.trim().parse::<usize>().ok().filter(|core| *core < MOST_CORES);
    let mut cores = vec![];
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Some(first), Some(last)) = (core(first), core(last)) else { return Err(wrong()) };
        cores.extend(first..=last);
    }
    cores.sort_unstable();
    cores.dedup();
    if cores.is_empty() { Err(wrong()) } else { Ok(cores) }
}

/// Cores as bits of a hexadecimal number.
fn mask(text: &str) -> Result<Vec<usize>, String> {
    let digits = text.trim_start_matches("0x").trim_start_matches("0X");
    let bits = u128::from_str_radix(digits, 16).ok().filter(|bits| *bits != 0);
    let bits = bits.ok_or_else(|| format!("--dpdk: expected a mask of cores such as 0xf, not '{text}'"))?;
    Ok((0..MOST_CORES).filter(|core| bits >> core & 1 == 1).collect())
}

/// One more than the last core that can be named, as many as a mask has bits.
const MOST_CORES: usize = u128::BITS as usize;

impl Click {
    /// The same, with what was given for DPDK read: packet ports have their numbers, and
    /// threads are as many as its cores, bound to them where they follow one another, unless
    /// other options say so.
    ///
    /// # Errors
    /// What makes no sense.
    pub fn with_ports_numbered(&self) -> Result<Click, Failure> {
        let mut click = self.clone();
        let mut environment = Environment::read(&self.dpdk).map_err(Failure::usage)?;
        environment.give_token(bus::Pci::takes_token);
        let Environment { ports, cores, ignored, .. } = environment;
        let mut numbers: BTreeMap<u32, String> = (0..).zip(ports).collect();
        for (number, name) in self.port.iter().filter_map(|port| numbered(port)) {
            if numbers.insert(number, name.to_string()).is_some() {
                return Err(Failure::usage(format!("packet port {number} is given twice")));
            }
        }
        click.numbers = PortNumbers(numbers);
        click.port.retain(|port| numbered(port).is_none());
        let mut notes = vec![];
        if let Some(cores) = cores.filter(|_| self.threads == 1) {
            let follow = cores.iter().zip(cores[0]..).all(|(core, next)| *core == next);
            click.affinity = self.affinity.or(follow.then_some(cores[0]));
            if click.affinity.is_none() {
                notes.push("threads are not bound to cores that do not follow one another".to_string());
            }
            click.threads = cores.len();
        }
        if !ignored.is_empty() {
            let verb = if ignored.len() == 1 { "means" } else { "mean" };
            notes.push(format!("{} {verb} nothing here", ignored.join(", ")));
        }
        if !self.no_warnings {
            notes.iter().for_each(|note| eprintln!("--dpdk: note: {note}"));
        }
        Ok(click)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Environment, String> {
        Environment::read(&text.split_whitespace().map(str::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn ports_have_the_numbers_that_dpdk_gives_them() {
        let text = "-l 0-1,4 -n 4 -a 0000:04:00.0,rx_vec=1 --allow=0000:03:00.1 -a af_xdp:eth1,generic \
                    --vdev net_af_packet0,iface=eth2 --file-prefix mine --no-huge";
        let found = read(text).expect("it makes sense");
        let ports = ["0000:03:00.1", "0000:04:00.0", "af_xdp:eth1,generic", "net_af_packet0,iface=eth2"];
        assert_eq!((found.ports, found.cores), (ports.map(str::to_string).to_vec(), Some(vec![0, 1, 4])));
        assert_eq!(found.ignored, ["-n", "--file-prefix", "--no-huge"]);
        assert_eq!(
            read("-c 0x5 -wmodel:82599").map(|e| (e.cores, e.ports)),
            Ok((Some(vec![0, 2]), vec!["model:82599".into()]))
        );
    }

    #[test]
    fn the_token_of_virtual_functions_is_given_to_ports_that_take_one() {
        let token = "14d63f20-8445-11ea-8900-1f9ce7d5650d";
        let words = format!("-a 03:02.0 -a 04:00.0 --vdev tap:x --vfio-vf-token={token}");
        let mut found = read(&words).expect("it makes sense");
        found.give_token(|address| address.to_string() == "0000:03:02.0");
        let wanted = [format!("0000:03:02.0,vf_token={token}"), "0000:04:00.0".into(), "tap:x".into()];
        assert_eq!(found.ports, wanted);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (text, part) in [
            ("-a", "-a needs a value"),
            ("-l 3-x", "'3-x'"),
            ("-l 5-2", "'5-2'"),
            ("-l 0-4000000000", "below 128"),
            ("-c 0", "'0'"),
            ("-c zz", "'zz'"),
            ("--vfio-vf-token 7", "write a UUID"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_number_before_a_name_is_a_port_of_dpdk() {
        assert_eq!(numbered("0=model:82599,wire=loop"), Some((0, "model:82599,wire=loop")));
        for other in ["7777", "127.0.0.1:7777", "0=", "x=model:82599", "7777+"] {
            assert_eq!(numbered(other), None, "{other}");
        }
    }
}
