//! What a soak test does: a sequence of episodes, each drawn from the seed and its
//! number alone, so that one can be repeated without those before it.
//!
//! An episode has one scene or two that play at the same time. A scene is a process of
//! device models (or none) and rounds: in each round a program works on the models'
//! ports, is disturbed, and ends in a way that was planned.

mod draw;

use std::fmt;

use clap::ValueEnum;
use serde::Serialize;

pub use draw::{episode, kinds};

/// What a scene is about.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SceneKind {
    /// `fwd` between two served models.
    Forward,
    /// `echo` on a served model.
    Echo,
    /// `pktgen` on a served model.
    Send,
    /// `pcap` on a served model, also to outputs that fail.
    Capture,
    /// `click`, with new configurations while it runs.
    Router,
    /// `demo`, with its own models.
    Demo,
    /// `fwd` on models in its own process.
    Inside,
    /// Programs on peers that do not speak the protocol.
    Peer,
    /// Programs with too little memory or too few descriptors.
    Shortage,
}

/// Whose process something is done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Who {
    /// The program on the ports.
    Program,
    /// The models' process.
    Models,
}

/// What is done while a program works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Step {
    /// Nothing, for so many milliseconds.
    Run(u64),
    /// SIGSTOP, and SIGCONT after so many milliseconds.
    Pause(Who, u64),
    /// A client of the models' sockets that sends random bytes and hangs up.
    Stranger(u64),
    /// Another configuration for the router.
    Swap(String),
    /// A configuration that must be refused.
    Refuse(String),
    /// A client of the router's control socket that reads handlers and hangs up, in
    /// the middle of a request if so.
    Inspect(bool),
}

/// A signal that ends a program in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Signal {
    /// SIGINT, as Ctrl-C sends it.
    Int,
    /// SIGTERM, as service managers send it.
    Term,
    /// SIGHUP, as a closed terminal sends it.
    Hup,
}

/// How a round ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum End {
    /// The generators stop, what is under way arrives, then a signal.
    Drained(Signal),
    /// A signal in full traffic.
    Signal(Signal),
    /// The program ends by itself: by its time or count.
    Itself,
    /// SIGKILL to the program.
    KillProgram,
    /// SIGKILL to the models' process: the program must end with an error.
    KillModels,
    /// The program must end with this in its error.
    Error(String),
}

/// Where a capture goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Output {
    /// To no file, or an ordinary one.
    File,
    /// To `/dev/full`, which has room for nothing.
    Full,
    /// To a FIFO whose reader goes away.
    Fifo,
}

/// A limit of setrlimit(2), by the shell's letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Limit {
    /// Address space, in KiB.
    Memory(u64),
    /// How many files may be open.
    Files(u64),
}

/// What a peer does that is no device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Peer {
    /// It accepts and hangs up.
    HangsUp,
    /// It reads a request, then hangs up.
    HangsUpLater,
    /// It answers with random bytes, from this seed.
    Garbage(u64),
    /// It answers nothing.
    Mute,
}

/// One program's life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Round {
    /// The command line, without `ixora`. `@A` and `@B` (up to `@D`) are ports,
    /// `@OUT` is a file, `@CONTROL` a control socket, `@CONF/name` a configuration of
    /// `conf/`.
    pub command: Vec<String>,
    /// What happens meanwhile.
    pub steps: Vec<Step>,
    /// How the program ends, and with what status.
    pub end: End,
    /// Where a capture goes.
    pub output: Output,
    /// What the program may not have more of.
    pub limit: Option<Limit>,
    /// Who is at the other end instead of models.
    pub peer: Option<Peer>,
    /// Descriptors of all receive rings together: what may be in them at the end.
    pub rx_descriptors: u64,
    /// Frames of a flow stay in order on this device.
    pub ordered: bool,
    /// Whether all packets that the program receives are sent, or dropped by name.
    pub forwards: bool,
}

/// Which device models, behind which protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Device {
    /// The 82599 over vfio-user.
    Ixgbe,
    /// virtio's network device over vfio-user.
    Virtio,
    /// virtio's network device over vhost-user.
    Vhost,
}

/// A process of device models.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Models {
    /// Which NIC they model, and how they are served.
    pub device: Device,
    /// A wire for each.
    pub wires: Vec<String>,
    /// Faults of the devices.
    pub fault: Option<String>,
    /// Drivers may map no registers.
    pub trap: bool,
}

/// What plays: models and what is done on them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Scene {
    /// What it is about.
    pub kind: SceneKind,
    /// The models' process; `None` when the program brings its own.
    pub models: Option<Models>,
    /// One after the other, on the same models.
    pub rounds: Vec<Round>,
}

/// One or two scenes at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Episode {
    /// Its number, from 0.
    pub number: u64,
    /// They play at the same time.
    pub scenes: Vec<Scene>,
}

impl SceneKind {
    /// The word for it on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
    }
}

impl Models {
    /// Whether frames are changed or lost on the wires.
    pub fn has_wire_faults(&self) -> bool {
        self.wires.iter().any(|wire| wire.contains("fault:"))
    }

    /// The protocol, as ports' names begin.
    pub fn protocol(&self) -> &'static str {
        if self.device == Device::Vhost { "vhost-user" } else { "vfio-user" }
    }

    /// The command line, with a socket for each wire.
    pub fn command(&self, sockets: &[std::path::PathBuf]) -> Vec<String> {
        let chip = if self.device == Device::Ixgbe { "82599" } else { "virtio-net" };
        let option = if self.device == Device::Vhost { "--vhost-user" } else { "--socket" };
        let mut words = vec!["model".to_owned(), chip.to_owned(), "--control".to_owned()];
        for (wire, socket) in self.wires.iter().zip(sockets) {
            let socket = socket.display().to_string();
            words.extend([option.to_owned(), socket, "--wire".to_owned(), wire.clone()]);
        }
        if let Some(fault) = &self.fault {
            words.extend(["--fault".to_owned(), fault.clone()]);
        }
        words.extend(self.trap.then(|| "--trap".to_owned()));
        words
    }
}

impl fmt::Display for Episode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "episode {}", self.number)?;
        for scene in &self.scenes {
            writeln!(f, "  {}", scene.kind.name())?;
            if let Some(models) = &scene.models {
                let sockets: Vec<_> = ["A", "B", "C", "D"].map(Into::into).into();
                writeln!(f, "    ixora {}", models.command(&sockets).join(" "))?;
            }
            for round in &scene.rounds {
                writeln!(f, "    ixora {}", round.command.join(" "))?;
                writeln!(f, "      {:?}, then {:?}", round.steps, round.end)?;
                if let Some(limit) = round.limit {
                    writeln!(f, "      limit {limit:?}")?;
                }
                if let Some(peer) = round.peer {
                    writeln!(f, "      peer {peer:?}")?;
                }
            }
        }
        Ok(())
    }
}
