//! How an episode is drawn: from the seed and its number, nothing else.

use clap::ValueEnum;
use testbed::fault::Random;

use super::{Device, End, Episode, Limit, Models, Output, Peer, Round, Scene, SceneKind, Signal, Step, Who};

/// One episode in so many has two scenes at the same time.
const TWO: u64 = 4;
/// The longest capture that is waited for, in packets.
const MOST_COUNTED: u64 = 2000;
/// Configurations that come with the program, with their ports and how many.
const CONFIGURATIONS: [(&str, &[&str]); 7] = [
    ("forwarder.click", &["A", "B"]),
    ("router.click", &["P0", "P1", "P2", "P3"]),
    ("dual.click", &["P0", "P1"]),
    ("nat.click", &["IN", "OUT"]),
    ("balancer.click", &["IN", "OUT"]),
    ("firewall.click", &["IN", "OUT"]),
    ("proxy-arp.click", &["P0", "P1"]),
];

/// All kinds, or those that were asked for.
pub fn kinds(only: &[SceneKind]) -> Vec<SceneKind> {
    if only.is_empty() { SceneKind::value_variants().to_vec() } else { only.to_vec() }
}

/// Episode `number` of the run with this seed, of one of these kinds.
pub fn episode(seed: u64, number: u64, kinds: &[SceneKind]) -> Episode {
    // Mixed first: neighbours among seeds and numbers have nothing in common.
    let mixed = Random::new(seed).next() ^ Random::new(!number).next();
    let mut draw = Draw(Random::new(mixed));
    let scenes = if draw.one_in(TWO) { 2 } else { 1 };
    Episode { number, scenes: (0..scenes).map(|_| draw.scene(kinds)).collect() }
}

struct Draw(Random);

impl Draw {
    fn one_in(&mut self, n: u64) -> bool {
        self.0.below(n) == 0
    }

    fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.0.below(most - least + 1)
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.0.below(all.len() as u64) as usize].clone()
    }

    fn scene(&mut self, kinds: &[SceneKind]) -> Scene {
        let kind = self.of(kinds);
        match kind {
            SceneKind::Forward => self.served(kind, 2),
            SceneKind::Echo | SceneKind::Send | SceneKind::Capture => self.served(kind, 1),
            SceneKind::Router => self.router(),
            SceneKind::Demo => Scene { kind, models: None, rounds: vec![self.demo()] },
            SceneKind::Inside => Scene { kind, models: None, rounds: vec![self.inside()] },
            SceneKind::Peer => Scene { kind, models: None, rounds: vec![self.peer()] },
            SceneKind::Shortage => self.shortage(),
        }
    }

    /// Models, and one to four rounds of a program on them.
    fn served(&mut self, kind: SceneKind, ports: usize) -> Scene {
        let models = self.models(kind, ports);
        let count = self.between(1, 4);
        let rounds = (0..count).map(|n| self.round(kind, &models, n + 1 == count)).collect();
        Scene { kind, models: Some(models), rounds }
    }

    fn models(&mut self, kind: SceneKind, ports: usize) -> Models {
        let device = self.of(&[Device::Ixgbe, Device::Ixgbe, Device::Virtio, Device::Vhost]);
        let wire_faults = self.one_in(3);
        let wires = (0..ports).map(|_| self.wire(kind, wire_faults)).collect();
        let fault = self.one_in(6).then(|| self.device_fault(device));
        let trap = device == Device::Ixgbe && self.one_in(8);
        Models { device, wires, fault, trap }
    }

    fn wire(&mut self, kind: SceneKind, faults: bool) -> String {
        let mut wire = match kind {
            SceneKind::Send => "sink".to_owned(),
            _ => {
                let size = self.of(&["64", "64", "64-1518", "imix", "1518"]);
                let rate = self.of(&["2k", "20k", "50k", "200k", "1M", "max"]);
                let flows = self.of(&[1, 8, 64]);
                format!("gen:size={size},rate={rate},flows={flows},hold+sink:check")
            }
        };
        if faults {
            wire += &format!("+fault:{}", self.wire_fault());
        }
        wire
    }

    fn wire_fault(&mut self) -> String {
        let mut words = vec![format!("seed={}", self.0.below(1 << 32))];
        for name in ["drop", "corrupt", "crc", "truncate", "duplicate", "reorder"] {
            if self.one_in(2) {
                words.push(format!("{name}={}", self.of(&["0.001", "0.01", "0.1"])));
            }
        }
        if self.one_in(2) {
            let (period, down) = self.of(&[("300ms", "50ms"), ("1s", "100ms"), ("2s", "300ms")]);
            words.push(format!("flap={period}/{down}"));
        }
        words.join(",")
    }

    fn device_fault(&mut self, device: Device) -> String {
        let names: &[&str] = match device {
            Device::Ixgbe => &["late", "stuck", "length", "garbage"],
            Device::Virtio | Device::Vhost => &["jump", "foreign", "twice", "length", "garbage"],
        };
        let (name, chance) = (self.of(names), self.of(&["0.0001", "0.001", "0.01"]));
        format!("{name}={chance},seed={}", self.0.below(1 << 32))
    }

    /// A program on the models. Generators do not begin again once they were stopped,
    /// so only the last round may drain.
    fn round(&mut self, kind: SceneKind, models: &Models, last: bool) -> Round {
        let mut command = match kind {
            SceneKind::Forward => vec!["fwd", "@A", "@B"],
            SceneKind::Echo => vec!["echo", "@A"],
            SceneKind::Send => vec!["pktgen", "@A", "--size", self.of(&["64", "imix", "1518"])],
            _ => vec!["pcap", "@A", "@OUT"],
        };
        let (options, rx_descriptors, queues) = self.options(models, kind);
        command.extend(options.iter().map(String::as_str));
        let mut command: Vec<String> = command.into_iter().map(str::to_owned).collect();
        if kind == SceneKind::Send {
            let rate = self.of(&["1k", "50k", "500k", "max"]);
            command.extend(["--allow-short".to_owned(), "--rate".to_owned(), rate.to_owned()]);
        }
        let output = match kind {
            SceneKind::Capture => {
                self.of(&[Output::File, Output::File, Output::File, Output::Full, Output::Fifo])
            }
            _ => Output::File,
        };
        // Who receives nothing more, as a stuck device gives nothing, never finds out
        // that it cannot write.
        let output = if models.fault.is_some() { Output::File } else { output };
        let mut end = self.end(last && kind != SceneKind::Send);
        if output != Output::File {
            end = End::Error("cannot write".to_owned());
        }
        if end == End::Itself {
            command.extend(self.limit_of_run(models));
        }
        let steps = if output == Output::File { self.steps() } else { vec![] };
        let ordered = models.device == Device::Ixgbe || queues == 1;
        let forwards = matches!(kind, SceneKind::Forward | SceneKind::Echo);
        Round { command, steps, end, output, rx_descriptors, ordered, forwards, ..Round::NONE }
    }

    /// By time, or by count where faults do not keep packets away.
    fn limit_of_run(&mut self, models: &Models) -> [String; 2] {
        if models.fault.is_none() && self.one_in(2) {
            return ["--count".to_owned(), self.between(1, MOST_COUNTED).to_string()];
        }
        ["--duration".to_owned(), format!("{}ms", self.between(100, 2000))]
    }

    /// Options of a program on ports; the descriptors of its receive rings, and its
    /// queues.
    fn options(&mut self, models: &Models, kind: SceneKind) -> (Vec<String>, u64, u64) {
        // Over vhost-user a device cannot say how long its rings may be; ours has 1,024.
        let rings = [64, 128, 512, 512, 1024, 4096];
        let ring = self.of(if models.device == Device::Vhost { &rings[..5] } else { &rings });
        let queues = self.of(&[1, 1, 2, 4]);
        let threads = self.between(1, queues);
        let mut words: Vec<String> = ["--json", "--ring"].map(str::to_owned).into();
        words.push(ring.to_string());
        let mut add = |name: &str, value: u64| words.extend([name.to_owned(), value.to_string()]);
        add("--batch", self.of(&[1, 8, 32, 32, 64, 256]));
        add("--queues", queues);
        add("--threads", threads);
        if self.one_in(3) {
            words.push("--interrupts".to_owned());
        }
        if self.one_in(3) {
            words.extend(["--hugepages", "none"].map(str::to_owned));
        }
        if models.device == Device::Ixgbe && self.one_in(4) {
            words.push("--head-writeback".to_owned());
        }
        if kind == SceneKind::Forward && self.one_in(2) {
            words.push("--touch".to_owned());
        }
        if self.one_in(6) {
            words.extend(["--max-frame", "9000"].map(str::to_owned));
        }
        (words, ring * queues * models.wires.len() as u64, queues)
    }

    fn end(&mut self, may_drain: bool) -> End {
        let signal = self.signal();
        match self.0.below(if may_drain { 10 } else { 6 }) {
            0 => End::Itself,
            1 => End::KillProgram,
            2 => End::KillModels,
            3..=5 => End::Signal(signal),
            _ => End::Drained(signal),
        }
    }

    fn signal(&mut self) -> Signal {
        self.of(&[Signal::Int, Signal::Term, Signal::Hup])
    }

    fn steps(&mut self) -> Vec<Step> {
        let mut steps = vec![Step::Run(self.between(50, 800))];
        for _ in 0..self.0.below(3) {
            steps.push(match self.0.below(4) {
                0 => Step::Pause(Who::Program, self.between(10, 700)),
                1 => Step::Pause(Who::Models, self.between(10, 700)),
                2 => Step::Stranger(self.0.next()),
                _ => Step::Run(self.between(50, 800)),
            });
            steps.push(Step::Run(self.between(10, 300)));
        }
        steps
    }

    /// A router: one that comes with the program, or one that is replaced while it runs.
    fn router(&mut self) -> Scene {
        let swaps = !self.one_in(3);
        let (file, names) = self.of(&CONFIGURATIONS);
        let ports = if swaps { 2 } else { names.len() };
        let models = Models { fault: None, ..self.models(SceneKind::Router, ports) };
        let ring = self.of(if models.device == Device::Vhost { &[512, 1024] } else { &[512, 1024, 4096] });
        let threads = self.between(1, 3);
        let count = self.between(1, 2);
        let rounds = (0..count).map(|n| {
            let head = ["click", "-R", "-u", "@CONTROL", "-w", "--ring"].map(str::to_owned);
            let mut command = [&head[..], &[ring.to_string(), "-j".to_owned(), threads.to_string()]].concat();
            for handler in ["FromDevice.count", "ToDevice.count", "ToDevice.dropped"] {
                command.extend(["-h".to_owned(), handler.to_owned()]);
            }
            let queue = self.one_in(3);
            if swaps {
                command.extend(["-e".to_owned(), self.configuration(queue)]);
            } else {
                command.push(format!("@CONF/{file}"));
                command.extend(names.iter().zip('A'..).map(|(name, port)| format!("{name}=@{port}")));
            }
            let end = match self.end(n + 1 == count) {
                End::Itself => End::Signal(Signal::Term),
                end => end,
            };
            let steps = self.router_steps(swaps, queue);
            let rx_descriptors = ring * threads * ports as u64;
            let forwards = (swaps && !queue) || file == "forwarder.click" && !swaps;
            Round { command, steps, end, rx_descriptors, forwards, ..Round::NONE }
        });
        let rounds = rounds.collect();
        Scene { kind: SceneKind::Router, models: Some(models), rounds }
    }

    /// From each of two ports to the other. Ports keep their names, so that their
    /// counters go on in the next configuration.
    fn configuration(&mut self, queue: bool) -> String {
        let ways = [("f0", "@A", "t1", "@B"), ("f1", "@B", "t0", "@A")];
        let way = |(n, (from, a, to, b)): (usize, (&str, &str, &str, &str))| {
            let names = ["EtherMirror", "Null", "Counter", "Paint(1)", "MarkIPHeader(14)"];
            let mut middle = String::new();
            for _ in 0..self.0.below(4) {
                middle += &format!("{} -> ", self.of(&names));
            }
            if queue {
                middle += &format!("q{n} :: Queue(1000) -> ");
            }
            format!("{from} :: FromDevice(\"{a}\") -> {middle}{to} :: ToDevice(\"{b}\");")
        };
        ways.into_iter().enumerate().map(way).collect::<Vec<_>>().join(" ")
    }

    fn router_steps(&mut self, swaps: bool, queue: bool) -> Vec<Step> {
        let mut steps = self.steps();
        // Now and then so many that something that is kept for each would show.
        let (count, time) = if swaps && self.one_in(5) { (40, 60) } else { (self.between(1, 10), 500) };
        for _ in 0..count {
            steps.push(match self.0.below(5) {
                0 => Step::Inspect(self.one_in(2)),
                1 => Step::Refuse(self.broken()),
                _ if swaps => Step::Swap(self.configuration(queue)),
                _ => Step::Inspect(false),
            });
            steps.push(Step::Run(self.between(1, time)));
        }
        steps
    }

    fn broken(&mut self) -> String {
        let all = [
            "f0 :: FromDevice(\"@A\") -> Cuonter -> Discard;",
            "f0 :: FromDevice(\"@A\") -> [1] Discard;",
            "f0 :: FromDevice(\"@A\") -> Strip(x) -> Discard;",
            "f0 :: FromDevice(\"@A\" -> Discard;",
            "f0 :: FromDevice(\"vfio-user:/nowhere\") -> Discard;",
        ];
        self.of(&all).to_owned()
    }

    fn demo(&mut self) -> Round {
        let (rate, size) = (self.of(&["1k", "100k", "1M", "max"]), self.of(&["64", "1518", "4000"]));
        let (batch, ring) = (self.of(&["1", "32", "256"]), self.of(&["64", "512", "4096"]));
        let mut words =
            vec!["demo", "--json", "--rate", rate, "--size", size, "--batch", batch, "--ring", ring];
        let end = match self.0.below(4) {
            0 => End::Signal(self.signal()),
            1 => End::KillProgram,
            _ => End::Itself,
        };
        let time =
            if end == End::Itself { format!("{}ms", self.between(3000, 6000)) } else { "60s".to_owned() };
        words.extend(["--duration", time.as_str()]);
        let command = words.into_iter().map(str::to_owned).collect();
        let steps = if end == End::Itself { vec![] } else { vec![Step::Run(self.between(3000, 6000))] };
        Round { command, steps, end, ..Round::NONE }
    }

    /// `fwd` on models in its own process, with faults on their wires.
    fn inside(&mut self) -> Round {
        let mut command = vec!["fwd".to_owned()];
        for _ in 0..2 {
            let chip = self.of(testbed::MODELS).name;
            let faults = self.one_in(2);
            let wire = self.wire(SceneKind::Inside, faults).replace(",hold", "");
            command.push(format!("model:{chip},wire={wire}"));
        }
        let models = Models { device: Device::Virtio, wires: vec![], fault: None, trap: false };
        command.extend(self.options(&models, SceneKind::Forward).0);
        let end = match self.0.below(3) {
            0 => End::Signal(self.signal()),
            1 => End::KillProgram,
            _ => End::Itself,
        };
        let time = if end == End::Itself { self.between(200, 3000) } else { 60_000 };
        command.extend(["--duration".to_owned(), format!("{time}ms")]);
        let steps = if end == End::Itself { vec![] } else { vec![Step::Run(self.between(500, 3000))] };
        Round { command, steps, end, ..Round::NONE }
    }

    fn peer(&mut self) -> Round {
        let seed = self.0.next();
        let peers = [Peer::HangsUp, Peer::HangsUpLater, Peer::Garbage(seed), Peer::Garbage(seed), Peer::Mute];
        let peer = Some(self.of(&peers));
        let port = self.of(&["vfio-user:@PEER", "vhost-user:@PEER"]);
        let words = match self.0.below(3) {
            0 => vec!["echo", port, "--json"],
            1 => vec!["fwd", "model:82599", port, "--json"],
            _ => vec!["pcap", port, "@OUT", "--json"],
        };
        let command = words.into_iter().map(str::to_owned).collect();
        Round { command, peer, end: End::Error("error: ".to_owned()), ..Round::NONE }
    }

    /// A program that may not have what it wants; it works with less, or says so.
    fn shortage(&mut self) -> Scene {
        let models = Models { fault: None, ..self.models(SceneKind::Forward, 2) };
        let limit = match self.0.below(3) {
            0 => Limit::Files(self.between(4, 40)),
            _ => Limit::Memory(self.between(64_000, 400_000)), // less, and the system cannot load it
        };
        let (options, rx_descriptors, _) = self.options(&models, SceneKind::Forward);
        let mut command: Vec<String> = ["fwd", "@A", "@B"].map(str::to_owned).into();
        command.extend(options);
        let time = format!("{}ms", self.between(100, 1000));
        command.extend(["--duration".to_owned(), time]);
        let limit = Some(limit);
        let short = Round { command, limit, end: End::Itself, rx_descriptors, ..Round::NONE };
        // The models go on as if nothing had been.
        let next = self.round(SceneKind::Forward, &models, true);
        Scene { kind: SceneKind::Shortage, models: Some(models), rounds: vec![short, next] }
    }
}

impl Round {
    /// No program, and nothing known.
    const NONE: Round = Round {
        command: Vec::new(),
        steps: Vec::new(),
        end: End::Itself,
        output: Output::File,
        limit: None,
        peer: None,
        rx_descriptors: 0,
        ordered: false,
        forwards: false,
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_same_seed_gives_the_same_episodes() {
        let all = kinds(&[]);
        for number in 0..200 {
            assert_eq!(episode(7, number, &all), episode(7, number, &all));
        }
        let differ = (0..200).filter(|&n| episode(7, n, &all) != episode(8, n, &all)).count();
        assert!(differ > 195, "{differ}");
    }

    #[test]
    fn an_hour_has_every_kind_end_and_step() {
        let all = kinds(&[]);
        let word = |text: String| text.split(|c: char| !c.is_alphabetic()).next().map(str::to_owned);
        let (mut seen, mut done) = (BTreeSet::new(), BTreeSet::new());
        for number in 0..600 {
            for scene in episode(1, number, &all).scenes {
                seen.insert(scene.kind);
                for round in scene.rounds {
                    done.extend(word(format!("{:?}", round.end)));
                    done.extend(round.steps.iter().filter_map(|step| word(format!("{step:?}"))));
                }
            }
        }
        assert_eq!(seen.len(), SceneKind::value_variants().len());
        let ends = ["Drained", "Error", "Itself", "KillModels", "KillProgram", "Signal"];
        let steps = ["Inspect", "Pause", "Refuse", "Run", "Stranger", "Swap"];
        assert_eq!(done, ends.into_iter().chain(steps).map(str::to_owned).collect());
    }

    #[test]
    fn only_what_was_asked_for_is_drawn() {
        for number in 0..100 {
            let episode = episode(3, number, &kinds(&[SceneKind::Router]));
            assert!(episode.scenes.iter().all(|scene| scene.kind == SceneKind::Router));
        }
    }

    #[test]
    fn wires_and_faults_are_words_that_models_know() {
        for number in 0..500 {
            for scene in episode(5, number, &kinds(&[])).scenes {
                let Some(models) = scene.models else { continue };
                for wire in &models.wires {
                    assert!(wire.parse::<testbed::wire::Spec>().is_ok(), "{wire}");
                }
                let fault = models.fault.as_deref().map(str::parse::<testbed::fault::Spec>);
                assert!(fault.is_none_or(|fault| fault.is_ok()), "{:?}", models.fault);
            }
        }
    }

    #[test]
    fn only_a_last_round_drains() {
        for number in 0..500 {
            for scene in episode(9, number, &kinds(&[])).scenes {
                let (_, first) = scene.rounds.split_last().expect("a round");
                assert!(first.iter().all(|round| !matches!(round.end, End::Drained(_))));
            }
        }
    }
}
