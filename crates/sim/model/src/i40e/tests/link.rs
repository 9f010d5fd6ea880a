//! The link under a driver played by hand: what the PHY can do, and what it was told to.

use regs::i40e::admin::link;

use super::*;

impl Guest {
    /// The PHY's types, speeds and flags.
    fn phy(&mut self, report: u32) -> (u32, u8, u8) {
        let mut command = Descriptor::new(opcode::GET_PHY_ABILITIES);
        command.set_param(0, &report.to_le_bytes());
        assert_eq!(self.command(command, &[0; link::ABILITIES_LEN], flag::BUF).retval, 0);
        let words = self.memory.load(BUFFER);
        (words as u32, (words >> 32) as u8, (words >> 40) as u8)
    }

    fn set_phy(&mut self, types: u32, speeds: u8, flags: u8) {
        let mut command = Descriptor::new(opcode::SET_PHY_CONFIG);
        command.set_param(0, &types.to_le_bytes());
        command.set_param(link::ABILITIES_SPEED, &[speeds, flags | link::ATOMIC]);
        assert_eq!(self.command(command, &[], 0).retval, 0);
    }

    fn is_up(&mut self) -> bool {
        self.plain(opcode::GET_LINK_STATUS).params[link::INFO] & link::UP != 0
    }
}

/// DPDK's driver takes a link down by taking its types away, and brings it up again only when it
/// is told that there are none.
#[test]
fn what_the_phy_was_told_is_told_and_what_it_can_do_when_asked_for() {
    const ALL: u32 = u32::MAX >> 1;
    let mut guest = Guest::new();
    let can = (1 << link::PHY_40GBASE_SR4, link::SPEED_40G, link::ENABLED);
    assert_eq!((guest.phy(0), guest.phy(link::REPORT_INITIAL), guest.is_up()), (can, can, true));
    guest.set_phy(0, link::SPEED_40G, 0);
    assert_eq!((guest.phy(0), guest.is_up()), ((0, link::SPEED_40G, 0), false));
    assert_eq!(guest.phy(link::REPORT_INITIAL), (can.0, can.1, 0));
    for (types, speeds, up) in
        [(0, link::SPEED_40G, false), (ALL, 1, false), (ALL & !can.0, u8::MAX, false), (ALL, u8::MAX, true)]
    {
        guest.set_phy(types, speeds, link::ENABLED);
        assert_eq!(guest.is_up(), up, "{types:#x} {speeds:#x}");
    }
    assert_eq!(guest.phy(0), can);
}
