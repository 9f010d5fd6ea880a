//! bgp_evpn_rt5: two edges behind a route reflector, each with a tenant's VRF, which is a network
//! namespace (`zebra -n`), and prefixes (type 5) in it. The tenant's kernel routes by what FRR wrote, and
//! what it would hand to its VXLAN device goes to the endpoint instead.

use super::*;

const NETWORK: u32 = 101;
const VRF: &str = "vrf-101";

/// An edge: FRR is in the one namespace, the tenant and the endpoint are in the other.
struct Side {
    number: usize,
    host: Host,
    tenant: Host,
    place: PathBuf,
    router: Option<Router>,
    endpoint: Option<Running>,
}

/// The outer address of a side's tunnels.
fn local(side: usize) -> String {
    format!("192.168.0.{side}")
}

/// The prefix of the tenant's, an address.
fn prefix(side: usize) -> &'static str {
    ["10.0.101.1", "10.0.101.2"][side - 1]
}

impl Side {
    fn new(number: usize, reflector: &Host, place: &Path) -> Side {
        let (host, tenant, place) = (Host::new(), Host::new(), place.join(format!("side{number}")));
        std::fs::create_dir(&place).expect("a directory");
        let port = ["d1", "d2"][number - 1];
        cable(&host, UPLINK, reflector, port);
        cable(&host, "vrf0", &tenant, "base0");
        let (other, own) = (local(3 - number), local(number));
        reflector.run({
            let own = own.clone();
            move || {
                ip(&format!("addr add 192.168.{number}.101/24 dev {port}"));
                ip(&format!("route add {own}/32 via 192.168.{number}.{number}"));
                std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("root may");
            }
        });
        host.run(move || {
            ip("link set lo up");
            ip(&format!("addr add 192.168.{number}.{number}/24 dev {UPLINK}"));
            ip(&format!("addr add 10.254.{number}.1/24 dev vrf0"));
            ip(&format!("route add {own}/32 via 10.254.{number}.2"));
            ip(&format!("route add {other}/32 via 192.168.{number}.101"));
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("root may");
        });
        let side = Side { number, host, tenant, place, router: None, endpoint: None };
        side.make_tenant();
        side
    }

    /// The tenant's bridge is its router's interface, and the VXLAN device is where FRR writes.
    fn make_tenant(&self) {
        let (number, tenant) = (self.number, self.tenant.id);
        // FRR takes a device only whose tunnels would leave by the namespace in which BGP is.
        for command in [
            format!(
                "link add vxlan101 type vxlan id {NETWORK} local {} dstport 4789 nolearning",
                local(number)
            ),
            format!("link set vxlan101 netns {tenant}"),
        ] {
            self.host.run(move || ip(&command));
        }
        for command in [
            "link set lo up".to_owned(),
            format!("addr add 10.254.{number}.2/24 dev base0"),
            format!("route add {}/32 via 10.254.{number}.1", local(3 - number)),
            "link add br101 type bridge".to_owned(),
            format!("link set br101 address {} addrgenmode none up", router(number, 0)),
            format!("addr add {}/32 dev br101", prefix(number)),
            "link set vxlan101 master br101 addrgenmode none".to_owned(),
            "link set vxlan101 up".to_owned(),
            "link add out0 type veth peer name in0".to_owned(),
            "link set out0 master br101 addrgenmode none mtu 1400 up".to_owned(),
            "link set in0 addrgenmode none mtu 1400 up".to_owned(),
        ] {
            self.tenant.run(move || ip(&command));
        }
        for device in ["vxlan101", "out0"] {
            let command =
                format!("link set dev {device} learning off flood off mcast_flood off bcast_flood off");
            run(&self.tenant, "bridge", command);
        }
        run(&self.tenant, "tc", "qdisc add dev vxlan101 clsact".to_owned());
        let redirect = "filter add dev vxlan101 egress protocol all prio 1 u32 match u32 0 0 action mirred \
                        egress redirect dev out0";
        run(&self.tenant, "tc", redirect.to_owned());
    }

    fn start(&mut self, tree: &Tree) {
        let number = self.number;
        let zebra = format!("hostname r{number}\nvrf {VRF}\n vni {NETWORK}\nexit-vrf\n");
        let reflector = format!("192.168.{number}.101");
        let mut bgpd =
            bgp("edge", (65000, &local(number)), &[(reflector, 65000)], "", "  advertise-all-vni\n");
        let _ = write!(
            bgpd,
            "router bgp 65000 vrf {VRF}\n bgp router-id {id}\n no bgp network import-check\n \
             address-family ipv4 unicast\n  network {id}/32\n exit-address-family\n \
             address-family l2vpn evpn\n  rd 65000:{number}\n  route-target both 65000:101\n  \
             advertise ipv4 unicast\n exit-address-family\n",
            id = prefix(number)
        );
        let (tree, directory) = (tree.clone(), self.place.join("frr"));
        let vrfs = vec![(VRF.to_owned(), self.tenant.id)];
        self.router = Some(self.host.run(move || {
            std::fs::create_dir(&directory).expect("a directory");
            Router::with_vrfs(tree, directory, (&zebra, &bgpd), vrfs).expect("FRR")
        }));
        let text = format!(
            "learn = \"kernel\"\n\
             [[underlay]]\nname = \"up\"\nport = \"af_packet:base0\"\nlink = \"base0\"\n\
             addresses = [\"10.254.{number}.2/24\"]\nmtu = 1700\n\
             [[network]]\nnumber = {NETWORK}\nprotocol = \"vxlan\"\ninner = \"af_packet:in0\"\nlocal = \"{}\"\n",
            local(number)
        );
        self.endpoint = Some(endpoint(&self.tenant, &self.place, &text));
    }

    /// Waits until the other side's router, by its Ethernet address, leads there, or nowhere.
    fn until_leads(&self, router: &str, to: Option<String>) {
        until(&format!("entry of {router} at {} to {to:?}", self.number), || {
            entry(&shown(&self.place), NETWORK, router) == to
        });
    }

    fn answers(&self, side: usize) -> bool {
        answers(&self.tenant, prefix(side), 56)
    }

    fn tell(&self, commands: &[&str]) {
        self.router.as_ref().expect("it runs").tell(commands).expect("FRR");
    }
}

/// The Ethernet address of a side's router (RMAC), and others that it has later.
fn router(side: usize, change: u8) -> String {
    format!("02:00:00:05:{change:02x}:{side:02x}")
}

/// Each side has the other's router in its table and prefix in its tenant's routes, and pings it; a
/// router that has another address is followed, and a prefix that is taken back is gone.
#[test]
fn bgp_evpn_rt5() {
    let Some(tree) = packages() else { return };
    let place = tempfile::tempdir().expect("a directory");
    let reflector = Host::new();
    let mut sides = [1, 2].map(|number| Side::new(number, &reflector, place.path()));
    let peers = [1, 2].map(|side| (format!("192.168.{side}.{side}"), 65000));
    let clients = peers.iter().map(|(peer, _)| format!("  neighbor {peer} route-reflector-client\n"));
    let text = bgp("reflector", (65000, "192.168.0.101"), &peers, "", &clients.collect::<String>());
    let (its_tree, directory) = (tree.clone(), place.path().join("reflector"));
    let _router = reflector.run(move || started(its_tree, directory, &text));
    sides.iter_mut().for_each(|side| side.start(&tree));
    let [first, second] = &sides;
    first.until_leads(&router(2, 0), Some(local(2)));
    second.until_leads(&router(1, 0), Some(local(1)));
    until("answer of the second side", || first.answers(2));
    until("answer of the first side", || second.answers(1));
    let address = format!("link set br101 address {}", router(2, 1));
    second.tenant.run(move || ["link set br101 down", &address, "link set br101 up"].map(ip));
    first.until_leads(&router(2, 1), Some(local(2)));
    first.until_leads(&router(2, 0), None);
    until("answer of the second side's other address", || first.answers(2));
    let vrf = format!("router bgp 65000 vrf {VRF}");
    let network = format!("network {}/32", prefix(2));
    let family = ["configure terminal", &vrf, "address-family ipv4 unicast"];
    second.tell(&[&family[..], &[&format!("no {network}")]].concat());
    first.until_leads(&router(2, 1), None);
    assert!(!first.answers(2), "the prefix is taken back");
    second.tell(&[&family[..], &[&network]].concat());
    first.until_leads(&router(2, 1), Some(local(2)));
    until("answer of the second side again", || first.answers(2));
    for side in &mut sides {
        end(side.endpoint.take().expect("it runs"));
    }
}
