//! What a router or an overlay counted up to a moment: read from the `figures` handler, or
//! from metrics.

use std::collections::HashMap;
use std::time::Instant;

/// What was counted for one element.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    /// The element's name.
    pub name: String,
    /// The name of the element's class.
    pub class: String,
    /// Packets that came in.
    pub packets: u64,
    /// Batches that came in.
    pub batches: u64,
    /// TSC cycles spent in it.
    pub cycles: u64,
    /// How often it was timed for that.
    pub timings: u64,
    /// Drops by reason.
    pub drops: Vec<(String, u64)>,
}

/// What was counted for a port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortRow {
    /// The port's name.
    pub name: String,
    /// Whether its link is up; `None` where that is not told.
    pub up: Option<bool>,
    /// The link's speed in Mbit/s; 0 where it has none.
    pub speed_mbps: u32,
    /// Packets that each receive queue gave to the router.
    pub rx: Vec<u64>,
    /// Packets that each transmit queue took.
    pub tx: Vec<u64>,
    /// Packets lost, by reason.
    pub losses: Vec<(String, u64)>,
}

impl PortRow {
    /// Adds losses under a name.
    fn lose(&mut self, reason: String, count: u64) {
        match self.losses.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, sum)) => *sum = sum.saturating_add(count),
            None => self.losses.push((reason, count)),
        }
    }
}

/// What was counted of a far end of a network's tunnels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TunnelRow {
    /// The number of the network.
    pub network: String,
    /// The far end's address.
    pub far_end: String,
    /// Entries that lead there; `None` where that is not told.
    pub entries: Option<u64>,
    /// Packets that went there.
    pub packets: u64,
    /// Their bytes, without outer headers.
    pub bytes: u64,
}

/// What was counted for all of them.
#[derive(Debug, Clone)]
pub struct Sample {
    /// When it was read.
    pub taken: Instant,
    /// The router's time stamp counter then.
    pub tsc: u64,
    /// How many threads the router has.
    pub threads: usize,
    /// Whether packets and cycles are counted.
    pub measured: bool,
    /// What each element counted.
    pub rows: Vec<Row>,
    /// What each port counted.
    pub ports: Vec<PortRow>,
    /// Far ends of tunnels, where it is an overlay.
    pub tunnels: Option<Vec<TunnelRow>>,
    /// Entries of an overlay's networks.
    pub entries: u64,
}

/// The most ports of a router, and queues of a port, that are shown.
const PORTS: usize = 1024;
const QUEUES: usize = 1024;

impl Sample {
    /// Reads what the handler `figures` says; `None` when it is something else.
    pub fn of_figures(text: &str) -> Option<Sample> {
        let mut lines = text.lines();
        let mut sample = Sample::empty();
        for field in lines.next()?.split('\t') {
            match field.split_once('=')? {
                ("tsc", value) => sample.tsc = value.parse().ok()?,
                ("threads", value) => sample.threads = value.parse().ok()?,
                ("measured", value) => sample.measured = value == "true",
                _ => {} // a newer router's
            }
        }
        let row = |line: &str| {
            let mut fields = line.split('\t');
            let (name, class) = (fields.next()?.to_string(), fields.next()?.to_string());
            let mut number = || fields.next()?.parse::<u64>().ok();
            let (packets, batches, cycles, timings) = (number()?, number()?, number()?, number()?);
            let drop = |field: &str| {
                let (reason, count) = field.rsplit_once('=')?;
                Some((reason.to_string(), count.parse().ok()?))
            };
            Some(Row {
                name,
                class,
                packets,
                batches,
                cycles,
                timings,
                drops: fields.filter_map(drop).collect(),
            })
        };
        sample.rows = lines.map(row).collect::<Option<Vec<Row>>>()?;
        Some(sample)
    }

    /// Reads metrics in Prometheus's text format; `None` when they are neither a router's nor an
    /// overlay's.
    pub fn of_metrics(text: &str) -> Option<Sample> {
        Sample::of_series(text).filter(|sample| sample.tsc > 0 || sample.tunnels.is_some())
    }

    /// Reads series of metrics, some or all.
    fn of_series(text: &str) -> Option<Sample> {
        let mut sample = Sample::empty();
        let (mut places, mut far_ends) = (HashMap::new(), HashMap::new());
        for line in text.lines().filter(|line| line.starts_with("ixora_")) {
            let (series, value) = line.rsplit_once(' ')?;
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            let Ok(value) = value.parse::<u64>() else { continue };
            match name {
                "ixora_tsc_ticks_total" => sample.tsc = value,
                "ixora_threads" => sample.threads = value as usize,
                _ => {}
            }
            let labels = labels_of(labels);
            let label = |key: &str| labels.iter().find(|(k, _)| k == key).map(|(_, value)| value.clone());
            if name.starts_with("ixora_overlay_") {
                sample.add_of_overlay(name, label, value, &mut far_ends);
                continue;
            }
            if let Some(port) = label("port") {
                sample.add_of_port(&port, name, label, value);
                continue;
            }
            let Some(element) = label("element") else { continue };
            let place = *places.entry(element.clone()).or_insert_with(|| {
                let class = label("class").unwrap_or_default();
                sample.rows.push(Row { name: element, class, ..Row::default() });
                sample.rows.len() - 1
            });
            let row = &mut sample.rows[place];
            match name {
                "ixora_element_packets_total" => (row.packets, sample.measured) = (value, true),
                "ixora_element_batches_total" => row.batches = value,
                "ixora_element_cycles_total" => row.cycles = value,
                "ixora_element_timings_total" => row.timings = value,
                "ixora_element_drops_total" => row.drops.push((label("reason").unwrap_or_default(), value)),
                _ => {}
            }
        }
        Some(sample)
    }

    /// Adds what the handler `ports` says: series of metrics.
    pub fn add_ports(&mut self, text: &str) {
        self.ports = Sample::of_series(text).map(|read| read.ports).unwrap_or_default();
    }

    /// Adds a value of an overlay's series. A network's port receives what goes into tunnels, a
    /// port of the underlay what comes out of them. `far_ends` are the places of far ends that are
    /// there, by network and address.
    fn add_of_overlay(
        &mut self,
        series: &str,
        label: impl Fn(&str) -> Option<String>,
        value: u64,
        far_ends: &mut HashMap<(String, String), usize>,
    ) {
        let tunnels = self.tunnels.get_or_insert_default();
        if let Some(far_end) = label("far_end") {
            let network = label("network").unwrap_or_default();
            let place = *far_ends.entry((network.clone(), far_end.clone())).or_insert_with(|| {
                tunnels.push(TunnelRow { network, far_end, ..TunnelRow::default() });
                tunnels.len() - 1
            });
            match series {
                "ixora_overlay_far_end_entries" => tunnels[place].entries = Some(value),
                "ixora_overlay_far_end_packets_total" => tunnels[place].packets = value,
                "ixora_overlay_far_end_bytes_total" => tunnels[place].bytes = value,
                _ => {}
            }
            return;
        }
        if series == "ixora_overlay_entries" {
            self.entries = self.entries.saturating_add(value);
            return;
        }
        let network = label("network").map(|network| format!("network {network}"));
        let Some(name) = network.or_else(|| label("underlay")) else { return };
        let Some(row) = self.port_named(&name) else { return };
        match series {
            "ixora_overlay_port_up" => row.up = Some(value == 1),
            "ixora_overlay_received_packets_total" => row.rx = vec![value],
            "ixora_overlay_forwarded_packets_total" => row.tx = vec![value],
            "ixora_overlay_drops_total" => row.lose(label("reason").unwrap_or_default(), value),
            _ => {}
        }
    }

    /// A port by its name, which is made where it is not there yet; none beyond the most that there are.
    fn port_named(&mut self, name: &str) -> Option<&mut PortRow> {
        let place = self.ports.iter().position(|row| row.name == name).unwrap_or(self.ports.len());
        if place == self.ports.len() && place < PORTS {
            self.ports.push(PortRow { name: name.to_owned(), ..PortRow::default() });
        }
        self.ports.get_mut(place)
    }

    /// Adds a value of a port's series.
    fn add_of_port(&mut self, port: &str, series: &str, label: impl Fn(&str) -> Option<String>, value: u64) {
        let Some(row) = self.port_named(port) else { return };
        let queue = || label("queue").and_then(|n| n.parse::<usize>().ok()).filter(|n| *n < QUEUES);
        let of_queue = |queues: &mut Vec<u64>| {
            if let Some(queue) = queue() {
                queues.resize(queues.len().max(queue + 1), 0);
                queues[queue] = value;
            }
        };
        match series {
            "ixora_port_up" => row.up = Some(value == 1),
            "ixora_port_speed_mbps" => row.speed_mbps = u32::try_from(value).unwrap_or(0),
            "ixora_queue_rx_packets_total" => of_queue(&mut row.rx),
            "ixora_queue_tx_packets_total" => of_queue(&mut row.tx),
            "ixora_port_losses_total" => row.lose(label("reason").unwrap_or_default(), value),
            _ => {}
        }
    }

    fn empty() -> Sample {
        let (rows, ports, tunnels) = (vec![], vec![], None);
        Sample {
            taken: Instant::now(),
            tsc: 0,
            threads: 0,
            measured: false,
            rows,
            ports,
            tunnels,
            entries: 0,
        }
    }
}

/// The labels of a series: `a="x",b="y"}`, with backslashes before quotes,
/// backslashes and `n`.
fn labels_of(text: &str) -> Vec<(String, String)> {
    let mut labels = vec![];
    let mut rest = text;
    while let Some((key, value)) = rest.split_once("=\"") {
        let (mut out, mut escaped, mut end) = (String::new(), false, value.len());
        for (at, c) in value.char_indices() {
            match c {
                'n' if escaped => out.push('\n'),
                _ if escaped => out.push(c),
                '\\' => {}
                '"' => {
                    end = at + 1;
                    break;
                }
                _ => out.push(c),
            }
            escaped = c == '\\' && !escaped;
        }
        labels.push((key.trim_start_matches(',').to_string(), out));
        rest = &value[end.min(value.len())..];
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_of_ports_and_queues_is_not_believed() {
        let line = |n: usize| format!("ixora_queue_rx_packets_total{{port=\"p{n}\",queue=\"{n}\"}} 1\n");
        let mut sample = Sample::empty();
        sample.add_ports(&(0..3 * PORTS).map(line).collect::<String>());
        assert_eq!(sample.ports.len(), PORTS);
        assert!(sample.ports.iter().all(|port| port.rx.len() <= QUEUES));
    }

    #[test]
    fn figures_are_read() {
        let text = "tsc=100\ttime_ns=5\tthreads=2\tmeasured=true\n\
                    a\tStrip\t10\t2\t300\t5\ttoo short=4\nb\tQueue\t1\t1\t1\t1\tqueue full=0\treset=7\n";
        let sample = Sample::of_figures(text).expect("figures");
        assert_eq!((sample.tsc, sample.threads, sample.measured), (100, 2, true));
        assert_eq!(sample.rows[0].drops, [("too short".to_string(), 4)]);
        assert_eq!((sample.rows[1].cycles, sample.rows[1].drops[1].1), (1, 7));
        assert!(Sample::of_figures("200 OK").is_none());
        assert!(Sample::of_figures("").is_none());
    }

    #[test]
    fn an_overlays_metrics_are_read() {
        let text = "ixora_overlay_port_up{underlay=\"up0\"} 1\n\
            ixora_overlay_received_packets_total{network=\"100\"} 7\n\
            ixora_overlay_forwarded_packets_total{network=\"100\"} 5\n\
            ixora_overlay_drops_total{network=\"100\",reason=\"overlay_link_down\"} 2\n\
            ixora_overlay_far_end_entries{network=\"100\",far_end=\"192.0.2.2\"} 3\n\
            ixora_overlay_far_end_packets_total{network=\"100\",far_end=\"192.0.2.2\"} 5\n\
            ixora_overlay_far_end_packets_total{network=\"101\",far_end=\"192.0.2.2\"} 6\n\
            ixora_overlay_entries{network=\"100\"} 3\nixora_overlay_entries{network=\"101\"} 20000\n";
        let sample = Sample::of_metrics(text).expect("metrics");
        let [up0, network] = &sample.ports[..] else { panic!("{:?}", sample.ports) };
        assert_eq!((up0.up, up0.name.as_str()), (Some(true), "up0"));
        assert_eq!(network.up, None, "nothing is told of its link");
        assert_eq!(
            (network.name.as_str(), &network.rx[..], &network.tx[..]),
            ("network 100", &[7][..], &[5][..])
        );
        assert_eq!(network.losses, [("overlay_link_down".to_string(), 2)]);
        let tunnels = sample.tunnels.expect("an overlay");
        assert_eq!((tunnels.len(), tunnels[0].entries, tunnels[0].packets), (2, Some(3), 5));
        assert_eq!((tunnels[1].entries, tunnels[1].packets, sample.entries), (None, 6, 20_003));
        // One without entries is one as well.
        assert_eq!(Sample::of_metrics("ixora_overlay_tunnels 0\n").and_then(|it| it.tunnels), Some(vec![]));
    }

    #[test]
    fn metrics_are_read_with_any_name() {
        let text = "# TYPE x counter\nixora_threads 3\nixora_tsc_ticks_total 9\n\
            ixora_element_packets_total{element=\"a\\\"b,\\\\\",class=\"Strip\"} 7\n\
            ixora_element_drops_total{element=\"a\\\"b,\\\\\",class=\"Strip\",reason=\"too short\"} 2\n";
        let sample = Sample::of_metrics(text).expect("metrics");
        assert_eq!((sample.threads, sample.measured), (3, true));
        assert_eq!((sample.rows[0].name.as_str(), sample.rows[0].packets), ("a\"b,\\", 7));
        assert_eq!(sample.rows[0].drops, [("too short".to_string(), 2)]);
        assert!(Sample::of_metrics("up 1\n").is_none());
    }
}
