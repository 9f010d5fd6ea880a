//! The arguments of `ixora pf`.

use std::str::FromStr;

use clap::Args;
use driver::vf_host::Policy;
use wire::MacAddress;

use crate::cli::PortOptions;

#[derive(Args, Debug)]
pub struct Pf {
    /// The port, an 82599, an XL710, or one of their families: a PCI address, or vfio-user:SOCKET.
    pub a: String,
    /// How many virtual functions to host; the device must have them.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=128))]
    pub vfs: u16,
    /// What one may: N,mac=ADDRESS,vlan=ID,trust[=off],spoofcheck[=off],rate=MBIT. Others have an address
    /// of their own, no VLAN, no trust, their senders' addresses checked, and no limit of what they send.
    /// An XL710 keeps a rate in steps of 50 Mbit/s, the next below but one at least; 0 is no limit. Each
    /// is given once, with all its words.
    #[arg(long, value_name = "N,…")]
    pub vf: Vec<VfPolicy>,
    #[command(flatten)]
    pub port: PortOptions,
}

/// A policy, and whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VfPolicy {
    pub vf: usize,
    pub policy: Policy,
}

impl FromStr for VfPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<VfPolicy, String> {
        let mut words = text.split(',');
        let number = words.next().unwrap_or_default();
        let vf = number
            .parse()
            .map_err(|_| format!("{number:?} is no number of a virtual function: write 0,…"))?;
        let (mut policy, mut keys) = (Policy::default(), Vec::new());
        for word in words {
            let (key, value) = word.split_once('=').map_or((word, None), |(key, value)| (key, Some(value)));
            if keys.contains(&key) {
                return Err(format!("{key} is given twice: leave one of them out"));
            }
            keys.push(key);
            match (key, value) {
                ("mac", Some(mac)) => policy.mac = Some(address(mac)?),
                ("vlan", Some(vlan)) => policy.vlan = Some(vlan_of(vlan)?),
                ("rate", Some(rate)) => policy.rate_mbps = rate_of(rate)?,
                ("trust", value) => policy.trust = is_on(key, value)?,
                ("spoofcheck", value) => policy.spoof_check = is_on(key, value)?,
                _ => {
                    return Err(format!(
                        "{word:?} is unknown: write mac=…, vlan=…, trust, spoofcheck=off or rate=…"
                    ));
                }
            }
        }
        Ok(VfPolicy { vf, policy })
    }
}

fn address(text: &str) -> Result<[u8; 6], String> {
    let mac: MacAddress = text.parse().map_err(|_| format!("{text:?} is no Ethernet address"))?;
    mac.is_station().then_some(mac.0).ok_or_else(|| format!("{text} is no address of a single station"))
}

fn vlan_of(text: &str) -> Result<u16, String> {
    let vlan = text.parse().ok().filter(|vlan| (1..4095).contains(vlan));
    vlan.ok_or_else(|| format!("{text:?} is no VLAN: write 1 to 4094"))
}

/// Mbit/s; zero is no limit, as with `ip link set … vf … max_tx_rate`.
fn rate_of(text: &str) -> Result<Option<u32>, String> {
    let rate: u32 = text.parse().map_err(|_| format!("{text:?} is no rate: write Mbit/s, as rate=500"))?;
    Ok((rate > 0).then_some(rate))
}

fn is_on(key: &str, value: Option<&str>) -> Result<bool, String> {
    match value {
        None | Some("on") => Ok(true),
        Some("off") => Ok(false),
        Some(other) => Err(format!("{key}={other} is unknown: write {key}=on or {key}=off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_read_and_what_makes_no_sense_is_refused() {
        let of = |text: &str| text.parse::<VfPolicy>();
        let plain = Policy::default();
        assert_eq!(of("3"), Ok(VfPolicy { vf: 3, policy: plain }));
        let mac = Some([2, 0, 0, 0, 0, 1]);
        let policy = Policy { mac, vlan: Some(7), trust: true, spoof_check: false, rate_mbps: Some(500) };
        let all = "0,mac=02:00:00:00:00:01,vlan=7,trust,spoofcheck=off,rate=500";
        assert_eq!(of("3,rate=0"), of("3"));
        assert_eq!(of(all), Ok(VfPolicy { vf: 0, policy }));
        let words =
            ["", "x", "0,mac", "0,mac=01:00:00:00:00:01", "0,vlan=4095", "0,trust=maybe", "0,rate=fast"];
        for wrong in words {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        let twice = of("0,trust,rate=50,trust=off");
        assert_eq!(twice, Err("trust is given twice: leave one of them out".to_owned()));
    }
}
