//! Why an overlay drops packets: one list of reasons with stable names, and a counter for
//! each.

use std::fmt;

macro_rules! reasons {
    ($($reason:ident $name:literal $what:literal;)*) => {
        /// A reason for which an overlay drops packets.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason { $(#[doc = $what] $reason),* }

        impl Reason {
            /// All reasons, those of sending first.
            pub const ALL: &[Reason] = &[$(Reason::$reason),*];

            /// The stable name, as in `--json` and metrics.
            pub const fn name(self) -> &'static str {
                match self { $(Reason::$reason => $name),* }
            }

            /// What happened, in a sentence's words.
            pub const fn what(self) -> &'static str {
                match self { $(Reason::$reason => $what),* }
            }
        }
    };
}

reasons! {
    UnknownNetwork "overlay_unknown_network" "packets to send of a virtual network that does not exist";
    NoKey "overlay_no_key" "packets to send that end before the identifier of their network";
    UnknownKey "overlay_unknown_key" "packets to send whose identifier no entry of their network has";
    NoIp "overlay_no_ip" "packets to send that are no IP packets, in a network of IP packets";
    NoRoute "overlay_no_route" "packets to a tunnel's end to which there is no route";
    NoNeighbor "overlay_no_neighbor" "packets to a tunnel's end whose next hop has no known Ethernet address";
    LinkDown "overlay_link_down" "packets to a tunnel's end by a port that is down";
    BadTunnel "overlay_bad_tunnel" "packets to a tunnel whose headers cannot be made";
    TooLong "overlay_too_long" "packets that are too long for the underlay with the tunnel's headers";
    NoHeadroom "overlay_no_headroom" "packets whose buffers have no room for the tunnel's headers";
    ServiceTtl "overlay_service_ttl" "packets to send that have visited as many service functions as they may";
    Offload "overlay_offload" "packets to send that wait for what cannot be done in their tunnel, or whose headers are not where they say";
    OuterMalformed "overlay_outer_malformed" "received packets whose outer headers contradict themselves";
    OuterChecksum "overlay_outer_checksum" "received packets with a wrong checksum in an outer header";
    OuterFragment "overlay_outer_fragment" "received fragments of tunnels' packets";
    ZeroChecksum "overlay_zero_checksum" "received packets over IPv6 without a UDP checksum, from a tunnel that must have one";
    TunnelMalformed "overlay_tunnel_malformed" "received packets whose tunnel's header contradicts itself or must not be ignored";
    CriticalOption "overlay_critical_option" "received packets with an option that must be known and is not";
    UnknownEnd "overlay_unknown_end" "received packets of a tunnel that does not end here";
    WrongPayload "overlay_wrong_payload" "received packets that carry what their network does not have";
    Congestion "overlay_congestion" "received packets that met congestion and whose senders cannot be told";
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How many packets were dropped for each reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drops([u64; Reason::ALL.len()]);

impl Default for Drops {
    fn default() -> Self {
        Drops([0; Reason::ALL.len()])
    }
}

impl Drops {
    /// One packet more was dropped.
    #[inline]
    pub fn count(&mut self, reason: Reason) {
        self.0[reason as usize] += 1;
    }

    /// Packets that were dropped for this reason.
    pub fn of(&self, reason: Reason) -> u64 {
        self.0[reason as usize]
    }

    /// The reasons for which packets were dropped, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, u64)> + '_ {
        Reason::ALL
            .iter()
            .zip(self.0)
            .filter(|(_, count)| *count != 0)
            .map(|(reason, count)| (*reason, count))
    }

    /// Packets that were dropped.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}
