//! Random histories of a network, told by the kernel alone or by the kernel and FRR in two
//! streams that overtake each other: MACs that move, devices that flap, come and go, far ends
//! that share a segment, neighbours, routes and nexthop objects that change, messages that are lost,
//! FRR that is restarted with its entries or without them, and streams that end. What the overlay has in the end, and with one stream after each message,
//! is what a simple model of the network says.

mod restart;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use control::{Binding, Generation, Key, Mirror, Options, Origin, Owner, Program, Value};
use netlink_packet_route::RouteNetlinkMessage;
use overlay::{Overlay, Target};
use wire::MacAddress;

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

#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    Far(IpAddr),
    Group(u32),
}

/// A network device of a virtual network, with its forwarding database.
#[derive(Debug, Clone)]
struct Vtep {
    index: u32,
    up: bool,
    /// Whether it is a device for all networks, of which it has one by its entries.
    external: bool,
    hosts: BTreeMap<u8, Place>,
    flood: BTreeSet<IpAddr>,
}

impl Vtep {
    /// Whether its network is there.
    fn has_network(&self) -> bool {
        self.up && !(self.external && self.hosts.is_empty() && self.flood.is_empty())
    }

    /// An entry of its forwarding database.
    fn entry(&self, vni: u32, mac: [u8; 6], place: Place) -> Fdb {
        let named = self.external.then_some(vni);
        let fdb = Fdb { src_vni: named, vni: named, ..Fdb::to(self.index, mac, far(0)) };
        match place {
            Place::Far(dst) => Fdb { dst: Some(dst), ..fdb },
            Place::Group(id) => Fdb { dst: None, vni: None, nexthop: Some(id), ..fdb },
        }
    }

    fn host(&self, vni: u32, host: u8, place: Place) -> Fdb {
        self.entry(vni, mac(host), place)
    }
}

/// The network as it is.
#[derive(Debug, Default, Clone)]
struct World {
    vteps: BTreeMap<u32, Vtep>,
    last_index: u32,
    members: BTreeMap<u32, IpAddr>,
    groups: BTreeMap<u32, BTreeSet<u32>>,
    underlay_up: bool,
    neighbors: BTreeMap<u8, [u8; 6]>,
    routes: BTreeMap<u8, Option<IpAddr>>,
    object: Option<IpAddr>,
}

/// Messages of the kernel, and of FRR where it has a stream of its own.
#[derive(Debug, Default)]
struct Told {
    kernel: Vec<Vec<u8>>,
    fpm: Vec<Vec<u8>>,
}

impl World {
    fn device(&self, vni: u32) -> Device {
        let vtep = &self.vteps[&vni];
        let (vni, local) = (if vtep.external { 0 } else { vni }, Some(IpAddr::from([192, 0, 2, 1])));
        let vxlan = Some((vni, local, vtep.external));
        Device { index: vtep.index, name: "vx", up: vtep.up, vxlan, mtu: 1450 }
    }

    fn underlay(&self) -> Device {
        Device { index: UNDERLAY, name: "eth1", up: self.underlay_up, vxlan: None, mtu: 1500 }
    }

    fn route(&self, number: u8) -> Vec<u8> {
        let message = match self.routes[&number] {
            Some(gateway) => route(prefix(number), 20, (Some(UNDERLAY), Some(gateway)), None),
            None => route(prefix(number), 20, (None, None), Some(OBJECT)),
        };
        new_route(message)
    }

    fn object(&self) -> Nexthop {
        Nexthop { id: OBJECT, link: Some(UNDERLAY), gateway: self.object, ..Nexthop::default() }
    }

    /// One event of the network happens, and is told.
    fn event(&mut self, random: &mut Random, told: &mut Told) {
        let vni = random.of(&VNIS);
        let Some(vtep) = self.vteps.get_mut(&vni) else {
            self.last_index += 1;
            let (index, up, external) = (100 + self.last_index, !random.one_in(4), random.one_in(2));
            let (hosts, flood) = (BTreeMap::new(), BTreeSet::new());
            self.vteps.insert(vni, Vtep { index, up, external, hosts, flood });
            return told.kernel.push(self.device(vni).added());
        };
        match random.below(17) {
            0 => {
                // The kernel tells of the entries that go, or of the device alone.
                for (host, place) in vtep.hosts.iter().filter(|_| random.one_in(2)) {
                    told.fpm.push(vtep.host(vni, *host, *place).removed());
                }
                told.kernel.push(self.device(vni).removed());
                self.vteps.remove(&vni);
            }
            1 => {
                vtep.up = !vtep.up;
                told.kernel.push(self.device(vni).added());
            }
            2 => {
                for _ in 0..6 {
                    let vtep = self.vteps.get_mut(&vni).unwrap();
                    vtep.up = !vtep.up;
                    told.kernel.push(self.device(vni).added());
                }
            }
            3..=7 => self.host_moves(vni, random, told),
            8 | 9 => {
                let remote = far(random.below(FARS.into()) as u8);
                let message = vtep.entry(vni, [0; 6], Place::Far(remote));
                let is_new = vtep.flood.insert(remote);
                if !is_new {
                    vtep.flood.remove(&remote);
                }
                told.fpm.push(if is_new { message.added() } else { message.removed() });
            }
            10 | 11 => self.segment_changes(random, told),
            12 => self.frr_restarts(random, told),
            _ => self.underlay_changes(random, told),
        }
    }

    fn host_moves(&mut self, vni: u32, random: &mut Random, told: &mut Told) {
        let groups: Vec<u32> = self.groups.keys().copied().collect();
        let vtep = self.vteps.get_mut(&vni).unwrap();
        let host = random.below(HOSTS.into()) as u8;
        let old = vtep.hosts.get(&host).copied();
        if let Some(old) = old.filter(|_| random.one_in(4)) {
            vtep.hosts.remove(&host);
            return told.fpm.push(vtep.host(vni, host, old).removed());
        }
        let place = match groups.as_slice() {
            [_, ..] if random.one_in(3) => Place::Group(random.of(&groups)),
            _ => Place::Far(far(random.below(FARS.into()) as u8)),
        };
        if let Some(old) = old.filter(|_| random.one_in(3)) {
            told.fpm.push(vtep.host(vni, host, old).removed());
        }
        vtep.hosts.insert(host, place);
        told.fpm.push(vtep.host(vni, host, place).added());
    }

    fn segment_changes(&mut self, random: &mut Random, told: &mut Told) {
        let id = 1 + random.below(FARS.into()) as u32;
        let group = random.of(&GROUPS);
        match random.below(4) {
            0 => {
                self.members.insert(id, far(id as u8 - 1));
                told.fpm.push(Nexthop::far(id, far(id as u8 - 1)).added());
            }
            1 if self.members.remove(&id).is_some() => {
                told.fpm.push(Nexthop::far(id, far(id as u8 - 1)).removed());
                for members in self.groups.values_mut() {
                    members.remove(&id);
                }
                let empty: Vec<u32> =
                    self.groups.iter().filter(|(_, members)| members.is_empty()).map(|(id, _)| *id).collect();
                empty.into_iter().for_each(|group| self.remove_group(group));
            }
            2 if self.groups.contains_key(&group) => {
                told.fpm.push(Nexthop::group(group, &[1]).removed());
                self.remove_group(group);
            }
            _ if !self.members.is_empty() => {
                let members: Vec<u32> = self.members.keys().copied().filter(|_| random.one_in(2)).collect();
                let members =
                    if members.is_empty() { self.members.keys().copied().collect() } else { members };
                told.fpm.push(Nexthop::group(group, &members).added());
                self.groups.insert(group, members.into_iter().collect());
            }
            _ => {}
        }
    }

    /// Linux removes a group with the entries that name it, and does not tell of those.
    fn remove_group(&mut self, group: u32) {
        self.groups.remove(&group);
        for vtep in self.vteps.values_mut() {
            vtep.hosts.retain(|_, place| *place != Place::Group(group));
        }
    }

    fn underlay_changes(&mut self, random: &mut Random, told: &mut Told) {
        let number = random.below(4) as u8;
        let gateway = IpAddr::from([192, 0, 2, 100 + number]);
        match random.below(5) {
            0 => {
                self.underlay_up = !self.underlay_up;
                told.kernel.push(self.underlay().added());
                if !self.underlay_up {
                    for (number, mac) in std::mem::take(&mut self.neighbors) {
                        let gone = neighbor(UNDERLAY, IpAddr::from([192, 0, 2, 100 + number]), Some(mac));
                        told.kernel.push(bytes(RouteNetlinkMessage::DelNeighbour(gone), 0));
                    }
                    self.routes.clear();
                    self.object = None;
                }
            }
            _ if !self.underlay_up => {}
            1 => {
                let mac = (!random.one_in(3)).then(|| [2, 0, 0, 0, 9, random.below(200) as u8]);
                match mac {
                    Some(mac) => drop(self.neighbors.insert(number, mac)),
                    None => drop(self.neighbors.remove(&number)),
                }
                told.kernel.push(new_neighbor(UNDERLAY, gateway, mac));
            }
            2 => {
                self.object = Some(gateway);
                told.kernel.push(self.object().added());
            }
            3 if self.routes.contains_key(&number) => {
                let gone = route(prefix(number), 20, (None, None), None);
                told.kernel.push(bytes(RouteNetlinkMessage::DelRoute(gone), 0));
                self.routes.remove(&number);
            }
            _ => {
                let by_object = self.object.is_some() && random.one_in(2);
                self.routes.insert(number, (!by_object).then_some(gateway));
                told.kernel.push(self.route(number));
            }
        }
    }

    /// All objects, each as a function that tells of it if it is still there.
    fn objects(&self, of: Origin) -> Vec<Object> {
        let mut objects = vec![];
        if of == Origin::Kernel {
            objects.push(Object::Underlay);
            objects.extend(self.vteps.keys().map(|vni| Object::Vtep(*vni)));
            objects.extend(self.neighbors.keys().map(|number| Object::Neighbor(*number)));
            objects.extend(self.routes.keys().map(|number| Object::Route(*number)));
            objects.push(Object::Nexthop);
        } else {
            objects.extend(self.members.keys().map(|id| Object::Member(*id)));
            objects.extend(self.groups.keys().map(|id| Object::Group(*id)));
            for (vni, vtep) in &self.vteps {
                objects.extend(vtep.hosts.keys().map(|host| Object::Host(*vni, *host)));
                objects.extend(vtep.flood.iter().map(|remote| Object::Flood(*vni, *remote)));
            }
        }
        objects
    }

    fn tell(&self, object: Object) -> Option<Vec<u8>> {
        Some(match object {
            Object::Underlay => self.underlay().added(),
            Object::Vtep(vni) => self.vteps.contains_key(&vni).then(|| self.device(vni).added())?,
            Object::Neighbor(number) => new_neighbor(
                UNDERLAY,
                IpAddr::from([192, 0, 2, 100 + number]),
                Some(*self.neighbors.get(&number)?),
            ),
            Object::Route(number) => self.routes.contains_key(&number).then(|| self.route(number))?,
            Object::Nexthop => self.object.map(|_| self.object().added())?,
            Object::Member(id) => Nexthop::far(id, *self.members.get(&id)?).added(),
            Object::Group(id) => {
                let members: Vec<u32> = self.groups.get(&id)?.iter().copied().collect();
                Nexthop::group(id, &members).added()
            }
            Object::Host(vni, host) => {
                let vtep = self.vteps.get(&vni)?;
                vtep.host(vni, host, *vtep.hosts.get(&host)?).added()
            }
            Object::Flood(vni, remote) => {
                let vtep = self.vteps.get(&vni).filter(|vtep| vtep.flood.contains(&remote))?;
                vtep.entry(vni, [0; 6], Place::Far(remote)).added()
            }
        })
    }
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

    fn settle(&mut self) {
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
                    Some(Place::Far(remote)) => vec![*remote],
                    Some(Place::Group(id)) => {
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
            follower.settle();
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
        follower.settle();
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
        follower.settle();
    }
    if !streams.is_connected {
        streams.connect(random, &mut follower, &world);
    }
    while !(streams.kernel.is_empty() && streams.fpm.is_empty()) {
        streams.deliver(random, &mut follower);
        if random.one_in(3) {
            follower.settle();
        }
    }
    follower.settle();
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
