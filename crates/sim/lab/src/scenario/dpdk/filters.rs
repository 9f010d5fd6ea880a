//! Which frames a port takes: by address and by VLAN.

use super::frames::{Flow, tagged, udp};
use super::rig::Rig;
use crate::Result;

const OWN: [u8; 6] = [0x02, 0x49, 0x58, 0, 0, 1];
const OTHER: [u8; 6] = [0x02, 0, 0, 0, 0, 0x77];
const GROUP: [u8; 6] = [0x01, 0x00, 0x5E, 0, 0, 0x77];
const EVERYONE: [u8; 6] = [0xFF; 6];

fn to(address: [u8; 6]) -> Vec<Vec<u8>> {
    vec![udp(Flow { to: address, port: 7000 }, 200)]
}

/// By destination address.
pub fn addresses(rig: &mut Rig<'_>) -> Result<()> {
    let same = <[u8]>::to_vec;
    rig.say("set promisc all off")?;
    rig.all_pass("its own address", 0, &to(OWN), same);
    rig.all_pass("broadcast", 0, &to(EVERYONE), same);
    rig.none_pass("another's address", 0, &to(OTHER));
    rig.none_pass("a group nobody joined", 0, &to(GROUP));
    rig.say("mac_addr add 0 02:00:00:00:00:77")?;
    rig.all_pass("an address that was added", 0, &to(OTHER), same);
    rig.say("mac_addr remove 0 02:00:00:00:00:77")?;
    rig.none_pass("an address that was removed", 0, &to(OTHER));
    rig.say("set allmulti 0 on")?;
    rig.all_pass("all groups", 0, &to(GROUP), same);
    rig.none_pass("but not another's address", 0, &to(OTHER));
    rig.say_all(&["set allmulti 0 off", "set promisc all on"])?;
    rig.all_pass("promiscuous", 0, &to(OTHER), same);
    Ok(())
}

/// By groups that were joined.
pub fn groups(rig: &mut Rig<'_>) -> Result<()> {
    let same = <[u8]>::to_vec;
    rig.say("set promisc all off")?;
    rig.say("mcast_addr add 0 01:00:5e:00:00:77")?;
    rig.all_pass("a group that was joined", 0, &to(GROUP), same);
    rig.say("mcast_addr remove 0 01:00:5e:00:00:77")?;
    rig.none_pass("a group that was left", 0, &to(GROUP));
    rig.say("set promisc all on").map(drop)
}

/// Checks which VLANs pass with the filter on, and with it off.
pub fn vlans(rig: &mut Rig<'_>) -> Result<()> {
    let same = <[u8]>::to_vec;
    let of = |vlan| to(OWN).iter().map(|frame| tagged(frame, vlan)).collect::<Vec<_>>();
    rig.say_all(&["set promisc all off", "vlan set filter on 0"])?;
    rig.none_pass("a VLAN nobody joined", 0, &of(42));
    rig.say("rx_vlan add 42 0")?;
    rig.all_pass("a VLAN that was joined", 0, &of(42), same);
    rig.none_pass("the next one", 0, &of(43));
    rig.all_pass("no VLAN", 0, &to(OWN), same);
    rig.say("rx_vlan rm 42 0")?;
    rig.none_pass("a VLAN that was left", 0, &of(42));
    rig.say_all(&["vlan set filter off 0", "set promisc all on"])?;
    rig.all_pass("all VLANs", 0, &of(43), same);
    Ok(())
}
