//! What the kernel has, as a test knows it, and how it tells of it.

use super::*;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum HostTarget {
    Far(IpAddr),
    Group(u32),
}

/// A network device of a virtual network, with its forwarding database.
#[derive(Debug, Clone)]
pub(super) struct Vtep {
    pub(super) index: u32,
    pub(super) up: bool,
    /// Whether it is a device for all networks, of which it has one by its entries.
    pub(super) external: bool,
    pub(super) hosts: BTreeMap<u8, HostTarget>,
    pub(super) flood: BTreeSet<IpAddr>,
}

impl Vtep {
    /// Whether its network is there.
    pub(super) fn has_network(&self) -> bool {
        self.up && !(self.external && self.hosts.is_empty() && self.flood.is_empty())
    }

    /// An entry of its forwarding database.
    pub(super) fn entry(&self, vni: u32, mac: [u8; 6], place: HostTarget) -> Fdb {
        let named = self.external.then_some(vni);
        let fdb = Fdb { src_vni: named, vni: named, ..Fdb::to(self.index, mac, far(0)) };
        match place {
            HostTarget::Far(dst) => Fdb { dst: Some(dst), ..fdb },
            HostTarget::Group(id) => Fdb { dst: None, vni: None, nexthop: Some(id), ..fdb },
        }
    }

    pub(super) fn host(&self, vni: u32, host: u8, place: HostTarget) -> Fdb {
        self.entry(vni, mac(host), place)
    }
}

/// The network as it is.
#[derive(Debug, Default, Clone)]
pub(super) struct World {
    pub(super) vteps: BTreeMap<u32, Vtep>,
    pub(super) last_index: u32,
    pub(super) members: BTreeMap<u32, IpAddr>,
    pub(super) groups: BTreeMap<u32, BTreeSet<u32>>,
    pub(super) underlay_up: bool,
    pub(super) neighbors: BTreeMap<u8, [u8; 6]>,
    pub(super) routes: BTreeMap<u8, Option<IpAddr>>,
    pub(super) object: Option<IpAddr>,
}

/// Messages of the kernel, and of FRR where it has a stream of its own.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) kernel: Vec<Vec<u8>>,
    pub(super) fpm: Vec<Vec<u8>>,
}

impl World {
    pub(super) fn device(&self, vni: u32) -> Device {
        let vtep = &self.vteps[&vni];
        let (vni, local) = (if vtep.external { 0 } else { vni }, Some(IpAddr::from([192, 0, 2, 1])));
        let vxlan = Some((vni, local, vtep.external));
        Device { index: vtep.index, name: "vx", up: vtep.up, vxlan, mtu: 1450 }
    }

    pub(super) fn underlay(&self) -> Device {
        Device { index: UNDERLAY, name: "eth1", up: self.underlay_up, vxlan: None, mtu: 1500 }
    }

    pub(super) fn route(&self, number: u8) -> Vec<u8> {
        let message = match self.routes[&number] {
            Some(gateway) => route(prefix(number), 20, (Some(UNDERLAY), Some(gateway)), None),
            None => route(prefix(number), 20, (None, None), Some(OBJECT)),
        };
        new_route(message)
    }

    pub(super) fn object(&self) -> Nexthop {
        Nexthop { id: OBJECT, link: Some(UNDERLAY), gateway: self.object, ..Nexthop::default() }
    }

    /// One event of the network happens, and is told.
    pub(super) fn event(&mut self, random: &mut Random, told: &mut Told) {
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
                let message = vtep.entry(vni, [0; 6], HostTarget::Far(remote));
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

    pub(super) fn host_moves(&mut self, vni: u32, random: &mut Random, told: &mut Told) {
        let groups: Vec<u32> = self.groups.keys().copied().collect();
        let vtep = self.vteps.get_mut(&vni).unwrap();
        let host = random.below(HOSTS.into()) as u8;
        let old = vtep.hosts.get(&host).copied();
        if let Some(old) = old.filter(|_| random.one_in(4)) {
            vtep.hosts.remove(&host);
            return told.fpm.push(vtep.host(vni, host, old).removed());
        }
        let place = match groups.as_slice() {
            [_, ..] if random.one_in(3) => HostTarget::Group(random.of(&groups)),
            _ => HostTarget::Far(far(random.below(FARS.into()) as u8)),
        };
        if let Some(old) = old.filter(|_| random.one_in(3)) {
            told.fpm.push(vtep.host(vni, host, old).removed());
        }
        vtep.hosts.insert(host, place);
        told.fpm.push(vtep.host(vni, host, place).added());
    }

    pub(super) fn segment_changes(&mut self, random: &mut Random, told: &mut Told) {
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
    pub(super) fn remove_group(&mut self, group: u32) {
        self.groups.remove(&group);
        for vtep in self.vteps.values_mut() {
            vtep.hosts.retain(|_, place| *place != HostTarget::Group(group));
        }
    }

    pub(super) fn underlay_changes(&mut self, random: &mut Random, told: &mut Told) {
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
    pub(super) fn objects(&self, of: Origin) -> Vec<Object> {
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

    pub(super) fn tell(&self, object: Object) -> Option<Vec<u8>> {
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
                vtep.entry(vni, [0; 6], HostTarget::Far(remote)).added()
            }
        })
    }
}
