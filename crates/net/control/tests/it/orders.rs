//! Random histories of a network, told by the kernel alone or by the kernel and FRR in two
//! streams that overtake each other: MACs that move, devices that flap, come and go, far ends
//! that share a segment, neighbours, routes and nexthop objects that change, messages that are lost,
//! FRR that is restarted with its entries or without them, and streams that end. What the overlay
//! has in the end, and with one stream after each message, is what a simple model of the network says.

mod restart;
mod world;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use control::{Binding, Generation, Key, Mirror, Options, Origin, Owner, Program, Value};
use netlink_packet_route::RouteNetlinkMessage;
use overlay::{Overlay, Target};
use wire::MacAddress;

use world::{HostTarget, Told, Vtep, World};

use crate::messages::{Device, Fdb, Nexthop, bytes, neighbor, new_neighbor, new_route, route};

const HISTORIES: u64 = 10_000;
const EVENTS: usize = 40;
const VNIS: [u32; 3] = [10, 20, 30];
const HOSTS: u8 = 4;
const FARS: u8 = 4;
const GROUPS: [u32; 2] = [500, 501];
const UNDERLAY: u32 = 2;
/// A nexthop object on the underlay's device.
const OBJECT: u32 = 60;

/// Numbers that look random (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }
}

fn far(number: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, 10 + number])
}

fn mac(number: u8) -> [u8; 6] {
    [2, 0, 0, 0, 1, number]
}

fn prefix(number: u8) -> (IpAddr, u8) {
    (IpAddr::from([10, number, 0, 0]), 16)
}

#[derive(Debug, Clone, Copy)]
enum Object {
    Underlay,
    Vtep(u32),
    Neighbor(u8),
    Route(u8),
    Nexthop,
    Member(u32),
    Group(u32),
    Host(u32, u8),
    Flood(u32, IpAddr),
}

/// What follows the network.
struct Follower {
    mirror: Mirror,
    kernel: Generation,
    fpm: Generation,
    program: Program,
    overlay: Overlay,
}

impl Follower {
    fn new(entries: Origin) -> Follower {
        let ports = vec![Binding { link: "eth1".into(), port: 0, vlan: None, mtu: None }];
        let mut mirror = Mirror::new(Options { ports, entries, ..Options::default() });
        let (kernel, fpm) = (mirror.begin(Origin::Kernel), mirror.begin(Origin::Fpm));
        Follower { mirror, kernel, fpm, program: Program::new(), overlay: Overlay::new() }
    }

    fn take(&mut self, origin: Origin, bytes: &[u8]) {
        let generation = if origin == Origin::Kernel { self.kernel } else { self.fpm };
        self.mirror.apply_bytes(generation, bytes);
    }

    fn converge(&mut self) {
        let changes = self.mirror.changes();
        self.program.apply(&mut self.overlay, Owner::Kernel, changes, 0);
        self.overlay.publish();
        assert_eq!(self.program.refused().len(), 0, "{:?}", self.program.refused());
        assert_eq!(self.program.compare_table(&self.overlay), []);
    }

    /// The far ends to which the overlay's entry leads.
    fn remotes(&self, vni: u32, bits: u128) -> Vec<IpAddr> {
        match self.overlay.entry(vni, bits).map(|entry| entry.target) {
            Some(Target::Tunnel(tunnel)) => vec![tunnel.remote],
            Some(Target::Group(number)) => {
                self.overlay.group(*number).unwrap().iter().map(|member| member.tunnel.remote).collect()
            }
            None => vec![],
        }
    }

    /// Compares the overlay's table with the network, for everything that could be there.
    fn check(&self, world: &World) {
        for vni in VNIS {
            let vtep = world.vteps.get(&vni).filter(|vtep| vtep.up);
            let has_network = vtep.is_some_and(Vtep::has_network);
            assert_eq!(self.program.value(&Key::Network(vni)).is_some(), has_network, "network {vni}");
            for host in 0..HOSTS {
                let place = vtep.and_then(|vtep| vtep.hosts.get(&host));
                let remotes: Vec<IpAddr> = match place {
                    Some(HostTarget::Far(remote)) => vec![*remote],
                    Some(HostTarget::Group(id)) => {
                        let members = world.groups[id].iter();
                        members.filter_map(|member| world.members.get(member).copied()).collect()
                    }
                    None => vec![],
                };
                let bits = mac(host).iter().fold(0, |bits, byte| bits << 8 | u128::from(*byte));
                let is: BTreeSet<IpAddr> = self.remotes(vni, bits).into_iter().collect();
                let remotes: BTreeSet<IpAddr> = remotes.into_iter().collect();
                assert_eq!(is, remotes, "stale or missing: {host} in {vni}");
                let claimed = self.program.value(&Key::Entry(vni, MacAddress(mac(host)))).is_some();
                assert_eq!(claimed, !remotes.is_empty(), "{host} in {vni}");
            }
            let flood = match self.program.value(&Key::Flood(vni)) {
                Some(Value::Flood(fars)) => fars.iter().map(|far| far.remote).collect(),
                _ => BTreeSet::new(),
            };
            assert_eq!(
                flood,
                vtep.map_or_else(BTreeSet::new, |vtep| vtep.flood.clone()),
                "flood list of {vni}"
            );
        }
        for number in 0..4u8 {
            let gateway = IpAddr::from([192, 0, 2, 100 + number]);
            let mac = world.neighbors.get(&number).map(|mac| Value::Neighbor(MacAddress(*mac)));
            assert_eq!(self.program.value(&Key::Neighbor(0, gateway)), mac.as_ref(), "neighbour {gateway}");
            let route = world.routes.get(&number).map(|gateway| gateway.or(world.object));
            let route = route.map(|gateway| Value::Route(overlay::Route { port: 0, gateway }));
            assert_eq!(self.program.value(&Key::Route(prefix(number))), route.as_ref(), "route {number}");
        }
    }
}

fn named<T>(seed: u64, history: impl FnOnce() -> T + std::panic::UnwindSafe) {
    if let Err(panic) = std::panic::catch_unwind(history) {
        eprintln!("history {seed} went wrong");
        std::panic::resume_unwind(panic);
    }
}

/// The kernel tells of everything, in its order; the table is right after each message's
/// event. Some messages are lost, after which everything is asked for again, in any order and
/// with events in between.
fn follow_kernel(seed: u64) {
    let random = &mut Random(seed);
    let (mut world, mut follower, mut told) =
        (World::default(), Follower::new(Origin::Kernel), Told::default());
    follower.take(Origin::Kernel, &world.underlay().added());
    let step =
        |world: &mut World, follower: &mut Follower, random: &mut Random, told: &mut Told, lost: bool| {
            world.event(random, told);
            let all: Vec<_> = told.fpm.drain(..).chain(told.kernel.drain(..)).collect();
            all.iter().filter(|_| !lost).for_each(|message| follower.take(Origin::Kernel, message));
        };
    for _ in 0..EVENTS {
        if !random.one_in(10) {
            step(&mut world, &mut follower, random, &mut told, false);
            follower.converge();
            follower.check(&world);
            continue;
        }
        for _ in 0..random.below(6) {
            step(&mut world, &mut follower, random, &mut told, true);
        }
        follower.kernel = follower.mirror.begin(Origin::Kernel);
        let mut objects = [world.objects(Origin::Kernel), world.objects(Origin::Fpm)].concat();
        while !objects.is_empty() {
            if random.one_in(6) {
                step(&mut world, &mut follower, random, &mut told, false);
            }
            let object = objects.swap_remove(random.below(objects.len()));
            world.tell(object).into_iter().for_each(|message| follower.take(Origin::Kernel, &message));
        }
        follower.mirror.sweep(Origin::Kernel, &[follower.kernel]);
        follower.converge();
        follower.check(&world);
    }
}

/// What is under way in FRR's stream.
enum Streamed {
    Message(Vec<u8>),
    /// It has told of everything: what an earlier stream said and it did not goes.
    All,
}

/// The two streams, as far as they are not read yet.
struct Streams {
    kernel: VecDeque<Vec<u8>>,
    fpm: VecDeque<Streamed>,
    is_connected: bool,
}

impl Streams {
    fn take(&mut self, told: &mut Told) {
        self.kernel.extend(told.kernel.drain(..));
        let of_frr = told.fpm.drain(..).map(Streamed::Message);
        // Nobody hears what it says without a connection.
        self.fpm.extend(of_frr.filter(|_| self.is_connected));
    }

    /// The connection ends: what was not read of it is lost, and what was is given up when it does
    /// not come again in time.
    fn disconnect(&mut self, random: &mut Random, follower: &mut Follower) {
        self.fpm.clear();
        self.is_connected = false;
        if random.one_in(3) {
            follower.mirror.sweep(Origin::Fpm, &[]);
        }
    }

    /// FRR connects and tells of everything, in any order.
    fn connect(&mut self, random: &mut Random, follower: &mut Follower, world: &World) {
        self.is_connected = true;
        follower.fpm = follower.mirror.begin(Origin::Fpm);
        let mut objects = world.objects(Origin::Fpm);
        while !objects.is_empty() {
            let object = objects.swap_remove(random.below(objects.len()));
            self.fpm.extend(world.tell(object).map(Streamed::Message));
        }
        self.fpm.push_back(Streamed::All);
    }

    /// The next message of one of them, if it has one.
    fn deliver(&mut self, random: &mut Random, follower: &mut Follower) {
        match random.one_in(2) {
            true => {
                self.kernel
                    .pop_front()
                    .into_iter()
                    .for_each(|message| follower.take(Origin::Kernel, &message));
            }
            false => match self.fpm.pop_front() {
                Some(Streamed::Message(message)) => follower.take(Origin::Fpm, &message),
                Some(Streamed::All) => follower.mirror.sweep(Origin::Fpm, &[follower.fpm]),
                None => {}
            },
        }
    }
}

/// FRR tells of entries and segments in a stream of its own, which runs ahead of the kernel's
/// messages or behind them; it is restarted, or its connection ends, and tells of everything again,
/// in any order.
fn follow_both(seed: u64) {
    let random = &mut Random(seed);
    let (mut world, mut follower, mut told) = (World::default(), Follower::new(Origin::Fpm), Told::default());
    let kernel = VecDeque::from([world.underlay().added()]);
    let mut streams = Streams { kernel, fpm: VecDeque::new(), is_connected: true };
    for _ in 0..EVENTS {
        world.event(random, &mut told);
        streams.take(&mut told);
        if streams.is_connected && random.one_in(16) {
            streams.disconnect(random, &mut follower);
        }
        if !streams.is_connected && random.one_in(2) {
            streams.connect(random, &mut follower, &world);
        }
        for _ in 0..random.below(4) {
            streams.deliver(random, &mut follower);
        }
        follower.converge();
    }
    if !streams.is_connected {
        streams.connect(random, &mut follower, &world);
    }
    while !(streams.kernel.is_empty() && streams.fpm.is_empty()) {
        streams.deliver(random, &mut follower);
        if random.one_in(3) {
            follower.converge();
        }
    }
    follower.converge();
    follower.check(&world);
}

#[test]
fn random_histories_told_by_the_kernel_leave_nothing_stale_and_nothing_missing() {
    (0..HISTORIES / 2).for_each(|seed| named(seed, || follow_kernel(seed)));
}

#[test]
fn random_histories_told_in_two_streams_leave_nothing_stale_and_nothing_missing() {
    (0..HISTORIES / 2).for_each(|seed| named(seed, || follow_both(seed)));
}
