//! Devices that misreport their table: bounds are kept, and an answer that there is not is an error.

use std::sync::{Arc, Mutex};

use bus::{Addressing, Backend, BarKind, BarLayout, DmaRange};

use super::*;

/// A device whose capability, BAR and answers are what a test says.
#[derive(Debug)]
struct BadDevice {
    config: [u8; 256],
    bar_len: u64,
    /// What registers read, in place of zero.
    words: Vec<(u32, u32)>,
    /// How many commands it counts for each that it is given.
    counts: u32,
    commands: Mutex<u32>,
    /// Reads of the first counter before it goes from all ones of its lower half on to the upper one.
    carries_after: Mutex<Option<u32>>,
}

impl BadDevice {
    fn new() -> BadDevice {
        let mut config = [0; 256];
        config[0x06] = 1 << 4; // there are capabilities
        config[0x34] = 0x40;
        let mut put =
            |at: u16, bytes: &[u8]| config[0x40 + usize::from(at)..][..bytes.len()].copy_from_slice(bytes);
        put(0, &[capability::ID, 0]);
        put(capability::LEN, &[capability::BYTES as u8]);
        put(capability::KIND, &[capability::IS_KIND]);
        put(capability::SIGNATURE, &capability::IS_SIGNATURE);
        put(capability::BAR, &[2, capability::IS_VERSION]);
        put(capability::LENGTH, &reg::LEN.to_le_bytes());
        let signature = u32::from_le_bytes(capability::IS_SIGNATURE);
        let words = vec![(reg::SIGNATURE, signature)];
        BadDevice {
            config,
            bar_len: reg::LEN.into(),
            words,
            counts: 1,
            commands: Mutex::default(),
            carries_after: Mutex::default(),
        }
    }

    fn with(mut self, register: u32, value: u32) -> BadDevice {
        self.words.insert(0, (register, value));
        self
    }

    fn found(self) -> Option<Encap> {
        Encap::find(&Pci::new(Arc::new(self)))
    }

    fn table(self) -> Box<dyn EncapOffload> {
        self.found().expect("it has a table").table()
    }
}

impl Backend for BadDevice {
    fn name(&self) -> String {
        "bad".to_owned()
    }

    fn read_config(&self, offset: u16, data: &mut [u8]) -> bus::Result<()> {
        for (n, byte) in data.iter_mut().enumerate() {
            *byte = self.config.get(usize::from(offset) + n).copied().unwrap_or(0xFF);
        }
        Ok(())
    }

    fn write_config(&self, _offset: u16, _data: &[u8]) -> bus::Result<()> {
        Ok(())
    }

    fn bar_layout(&self, _index: usize) -> bus::Result<BarLayout> {
        Ok(BarLayout { size: self.bar_len, kind: BarKind::Memory, mapped: Vec::new() })
    }

    fn read_bar(&self, _index: usize, offset: u32, data: &mut [u8]) -> bus::Result<()> {
        let told = self.words.iter().find(|(register, _)| *register == offset).map(|(_, value)| *value);
        if let (Some(reads), 0..8) =
            (&mut *self.carries_after.lock().unwrap(), offset.wrapping_sub(reg::COUNTERS))
        {
            let value: u64 = if *reads == 0 { 1 << 32 } else { u32::MAX.into() };
            *reads = reads.saturating_sub(1);
            let half = if offset == reg::COUNTERS { value } else { value >> 32 };
            data.copy_from_slice(&(half as u32).to_le_bytes()[..data.len()]);
            return Ok(());
        }
        let counted = || if offset == reg::COMMANDS { *self.commands.lock().unwrap() } else { 0 };
        data.copy_from_slice(&told.unwrap_or_else(counted).to_le_bytes()[..data.len()]);
        Ok(())
    }

    fn write_bar(&self, _index: usize, offset: u32, data: &[u8]) -> bus::Result<()> {
        if offset == reg::COMMAND {
            let mut commands = self.commands.lock().unwrap();
            let is_reset = data == command::RESET.to_le_bytes();
            *commands = self.counts + if is_reset { 0 } else { *commands };
        }
        Ok(())
    }

    fn addressing(&self) -> Addressing {
        Addressing::Virtual
    }

    fn map_dma(&self, _range: &DmaRange<'_>) -> bus::Result<()> {
        Ok(())
    }

    fn unmap_dma(&self, _iova: u64, _len: usize) -> bus::Result<()> {
        Ok(())
    }

    fn reset(&self) -> bus::Result<()> {
        Ok(())
    }
}

#[test]
fn a_table_is_where_its_capability_says_or_there_is_none() {
    assert!(BadDevice::new().found().is_some());
    // Each byte of the capability that must be as it is.
    for at in [0, 2, 3, 4, 7, 9] {
        let mut device = BadDevice::new();
        device.config[0x40 + at] = 1 ^ device.config[0x40 + at] & 1;
        assert!(device.found().is_none(), "{at}");
    }
    let other: [fn(&mut BadDevice); 5] = [
        |device| device.config[0x48] = 6,                  // no such BAR
        |device| device.bar_len = u64::from(reg::LEN) - 4, // which ends before
        |device| device.config[0x4C] = 4,                  // which the registers go beyond
        |device| device.config[0x4C..0x50].fill(0xFF),     // likewise, and around
        |device| device.words[0].1 = 0,                    // whose first register is another one
    ];
    for (n, change) in other.into_iter().enumerate() {
        let mut device = BadDevice::new();
        change(&mut device);
        assert!(device.found().is_none(), "{n}");
    }
    let mut looping = BadDevice::new();
    (looping.config[0x40], looping.config[0x41]) = (0x01, 0x40);
    assert!(looping.found().is_none(), "a chain that loops ends");
}

#[test]
fn what_a_device_says_to_have_has_bounds() {
    let sizes = [reg::NETWORKS, reg::HEADERS, reg::ENTRIES];
    let device = sizes.into_iter().fold(BadDevice::new(), |device, register| device.with(register, u32::MAX));
    assert_eq!(device.table().limits(), MOST);
}

#[test]
fn answers_that_there_are_not_are_errors() {
    let headers = EncapHeaders { bytes: vec![0; 14], patches: vec![], max_len: 9 };
    let all = |mut table: Box<dyn EncapOffload>| {
        let network = EncapNetwork { offset: 0, bits: 48, layer: EncapLayer::Ip, drops_unknown: false };
        [
            table.reset().is_ok(),
            table.set_network(1, Some(&network)).is_ok(),
            table.set_headers(0, true, &headers).is_ok(),
            table.insert(1, 2, 0).is_ok(),
            table.remove(1, 2).is_ok(),
            table.set_network(1, None).is_ok(),
        ]
    };
    assert_eq!(all(BadDevice::new().table()), [true; 6]);
    assert_eq!(all(BadDevice::new().with(reg::STATUS, 4).table()), [false; 6]);
    assert_eq!(all(BadDevice { counts: 0, ..BadDevice::new() }.table()), [false; 6]);
    assert_eq!(all(BadDevice { counts: 2, ..BadDevice::new() }.table()), [false; 6]);
    // What is not there is gone; all else that is refused is an error, and a full table one of its own.
    let refused = BadDevice::new().with(reg::STATUS, status::MISSING).table();
    assert_eq!(all(refused), [false, false, false, false, true, true]);
    let full = BadDevice::new().with(reg::STATUS, status::FULL).table().insert(1, 2, 0);
    assert!(matches!(full, Err(port::Error::TableFull { .. })), "{full:?}");
    let gone = BadDevice::new().with(reg::GENERATION, 7).table();
    assert_eq!(gone.generation().ok(), Some(7));
    let long = EncapHeaders { bytes: vec![0; 129], ..headers };
    assert!(BadDevice::new().table().set_headers(0, false, &long).is_err());
}

#[test]
fn a_counter_that_carries_between_two_reads_is_right() {
    for reads in 0..4 {
        let device = BadDevice { carries_after: Mutex::new(Some(reads)), ..BadDevice::new() };
        let sent = device.found().unwrap().counters()[0].value;
        assert!([u32::MAX.into(), 1 << 32].contains(&sent), "{sent:#x}, {reads} reads before");
    }
}
