//! DIR-24-8, as a peer: one entry for each /24, and 256 more for each that has longer
//! routes. Built once; it cannot be changed.

use fib::lpm::Route;

/// An entry: the value + 1, or the index of 256 more entries.
pub trait Entry: Copy + Default {
    const LONG: u32;
    fn wrap(entry: u32) -> Self;
    fn open(self) -> u32;
}

macro_rules! entry {
    ($int:ty) => {
        impl Entry for $int {
            const LONG: u32 = 1 << (<$int>::BITS - 1);
            fn wrap(entry: u32) -> Self {
                entry.try_into().expect("the value fits an entry")
            }
            fn open(self) -> u32 {
                self.into()
            }
        }
    };
}
entry!(u16);
entry!(u32);

pub struct Dir24<E> {
    first: Box<[E; 1 << 24]>,
    more: Vec<[E; 256]>,
}

impl<E: Entry> Dir24<E> {
    pub fn new(routes: &[Route<u32>]) -> Self {
        let mut sorted = routes.to_vec();
        sorted.sort_by_key(|route| route.len);
        let first =
            vec![E::default(); 1 << 24].into_boxed_slice().try_into().unwrap_or_else(|_| unreachable!());
        let mut table = Dir24 { first, more: Vec::new() };
        for route in sorted {
            let entry = E::wrap(route.value + 1);
            let at = (route.prefix >> 8) as usize;
            if route.len <= 24 {
                table.first[at..][..1 << (24 - route.len)].fill(entry);
                continue;
            }
            if table.first[at].open() & E::LONG == 0 {
                table.more.push([table.first[at]; 256]);
                table.first[at] = E::wrap(E::LONG | (table.more.len() - 1) as u32);
            }
            let more = &mut table.more[(table.first[at].open() & !E::LONG) as usize];
            more[route.prefix as usize & 255..][..1 << (32 - route.len)].fill(entry);
        }
        table
    }

    pub fn bytes(&self) -> usize {
        (self.more.len() * 256 + (1 << 24)) * size_of::<E>()
    }

    pub fn lookup_batch(&self, addrs: &[u32], values: &mut [u32]) {
        for (addrs, values) in addrs.chunks(32).zip(values.chunks_mut(32)) {
            let mut any = 0;
            for (&addr, value) in addrs.iter().zip(values.iter_mut()) {
                *value = self.first[(addr >> 8) as usize].open();
                any |= *value;
            }
            for (&addr, value) in addrs.iter().zip(values) {
                if any & E::LONG != 0 && *value & E::LONG != 0 {
                    *value = self.more[(*value & !E::LONG) as usize][addr as usize & 255].open();
                }
                *value = value.wrapping_sub(1);
            }
        }
    }
}
