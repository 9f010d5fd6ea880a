//! The DPDK to meet: the one a variable names, the one installed, or Debian's
//! packages, unpacked beside the system. Where none can be had a test fails;
//! `IXORA_OFFLINE` leaves such tests out.

use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lab::packages::{DPDK, Packages, Suite};
use testbed::testpmd::Dpdk;

/// It and a test's turn: each polls on two cores.
pub struct Turn {
    dpdk: Dpdk,
    _turn: MutexGuard<'static, ()>,
}

impl Deref for Turn {
    type Target = Dpdk;

    fn deref(&self) -> &Dpdk {
        &self.dpdk
    }
}

/// `None` where the user said that no registry is to be asked.
pub fn find() -> Option<Turn> {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let found = Dpdk::find().map_or_else(unpack, Ok);
    match found {
        Ok(dpdk) => Some(Turn { dpdk, _turn }),
        Err(why) if std::env::var_os("IXORA_OFFLINE").is_some() => {
            println!("passed over: {why}");
            None
        }
        Err(why) => panic!("no DPDK: {why}; IXORA_OFFLINE=1 leaves this test out"),
    }
}

fn unpack() -> Result<Dpdk, String> {
    let packages = Packages::open().map_err(|error| error.to_string())?;
    let tree = packages.tree(DPDK, Suite::BOOKWORM).map_err(|error| error.to_string())?;
    Dpdk::at(tree.root()).map_err(|error| error.to_string())
}
