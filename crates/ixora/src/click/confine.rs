//! What a router's process gives up when all is open, and what it keeps because elements
//! said that they need it later ([`SystemUse`]).
//!
//! Files that are named in the configuration are left to them; whoever opens others, starts
//! programs or takes new configurations keeps more, and that is told when it starts.

use std::collections::BTreeMap;
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use graph::class::{SystemNeed, SystemUse};
use graph::lang::Problem;
use graph::plan::Planned;
use graph::{Class, Predecessor, Router};
use runtime::confine::{self, Confinement, Needs};
use rustix::fs::Access;

use super::Click;
use super::ports::{GivenUp, RouterResources};
use crate::Failure;
use crate::janitor::Janitor;

/// What an element asks of the system.
pub struct Use {
    /// The element and its class: `s :: Script`.
    pub element: String,
    /// What it asks for.
    pub need: SystemNeed,
}

impl std::fmt::Display for Use {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.element, self.need)
    }
}

/// What a router's elements ask of the system.
pub fn uses(click: &Click, elements: &[Planned]) -> Vec<Use> {
    let mut all: Vec<Use> = vec![];
    // What the handlers of a class need is the same for all its elements, of which there may be a
    // million, mostly in a row.
    let mut by_class: BTreeMap<&str, Rc<[SystemNeed]>> = BTreeMap::new();
    let mut last: Option<(&Class, Rc<[SystemNeed]>)> = None;
    for planned in elements {
        let kind = planned.kind;
        let is_same =
            |(class, needs): &(&Class, Rc<[SystemNeed]>)| std::ptr::eq(*class, kind) && needs.is_empty();
        if planned.needs.is_empty() && last.as_ref().is_some_and(is_same) {
            continue;
        }
        let of_handlers = match &last {
            Some((class, needs)) if std::ptr::eq(*class, kind) => needs.clone(),
            _ => by_class.entry(kind.name).or_insert_with(|| handlers_need(click, kind, elements)).clone(),
        };
        for need in planned.needs.iter().chain(&*of_handlers) {
            let element = format!("{} :: {}", planned.name, planned.class);
            all.push(Use { element, need: need.clone() });
        }
        last = Some((kind, of_handlers));
    }
    all
}

/// What the handlers of a class's elements need that are written with the name of a file.
fn handlers_need(click: &Click, kind: &Class, elements: &[Planned]) -> Rc<[SystemNeed]> {
    let rows = kind.handlers().filter(|handler| handler.names_file());
    rows.flat_map(|handler| written_files(handler.name, elements, click.control_files)).collect()
}

/// The files that a handler may be written with: those that stand behind its name in any
/// element's configuration, and any where clients may write it.
fn written_files(handler: &str, elements: &[Planned], by_clients: bool) -> Vec<SystemNeed> {
    let any = SystemNeed { what: SystemUse::AnyFiles, path: None };
    let mut needs = if by_clients { vec![any.clone()] } else { vec![] };
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for planned in elements {
        for (at, _) in planned.config.match_indices(handler) {
            let rest = &planned.config[at + handler.len()..];
            if planned.config[..at].ends_with(is_word) || rest.starts_with(is_word) {
                continue;
            }
            let name = rest.trim_start().split([',', ')', '\n', ' ', '\t']).next().unwrap_or("");
            needs.push(match name {
                "-" => continue,
                "" => any.clone(),
                computed if computed.contains(['$', '"', '\'', '\\']) => any.clone(),
                name => SystemNeed { what: SystemUse::WritesFiles, path: Some(name.into()) },
            });
        }
    }
    needs.sort();
    needs.dedup();
    needs
}

/// The folder in which a file is made: itself, if the name is a folder's.
pub(super) fn folder(path: &Path) -> PathBuf {
    let is_folder = path.as_os_str().is_empty() || path.as_os_str().as_encoded_bytes().ends_with(b"/");
    let folder = if is_folder { Some(path) } else { path.parent() };
    folder.filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_path_buf()
}

/// What the process keeps for its elements.
fn needs(click: &Click, uses: &[Use]) -> Needs {
    let mut needs = Needs { memory: true, unknown: click.allow_reconfigure, ..Needs::default() };
    for Use { need, .. } in uses {
        let path = need.path.as_deref();
        match need.what {
            SystemUse::Privileges | SystemUse::ProgramsAtStart | SystemUse::ProgramTakenOver => {}
            SystemUse::Clients => (needs.clients, needs.sending) = (true, true),
            SystemUse::Datagrams => needs.datagrams = true,
            SystemUse::Listening => {
                needs.listening = true;
                needs.files.write.extend(path.map(folder));
            }
            SystemUse::ReadsFiles => needs.files.read.extend(path.map(Path::to_path_buf)),
            SystemUse::WritesFiles => needs.files.write.extend(path.map(folder)),
            SystemUse::AnyFiles => needs.files.any = true,
            SystemUse::Programs => needs.programs = true,
            SystemUse::Signals => needs.signals = true,
        }
    }
    needs
}

/// What is kept that lets an intruder do more than the router does, in words; nothing, if
/// nothing is.
pub fn exceptions(click: &Click, uses: &[Use]) -> Vec<String> {
    if click.no_confine {
        return vec!["--no-confine: nothing is given up".to_string()];
    }
    let without_names = confine::landlock_version().is_none();
    let is_one = |one: &&Use| match one.need.what {
        SystemUse::AnyFiles | SystemUse::Programs | SystemUse::Signals => true,
        // This kernel cannot tell one file from another.
        SystemUse::ReadsFiles | SystemUse::WritesFiles => without_names,
        _ => false,
    };
    let swap =
        "-R: a new configuration may open any file and socket; privileges and starting programs are given up";
    let swaps = click.allow_reconfigure.then(|| swap.to_string());
    let mut all: Vec<String> = uses.iter().filter(is_one).map(Use::to_string).chain(swaps).collect();
    all.dedup();
    all
}

/// What went with a router's confinement.
pub struct Confined {
    /// To be completed when all threads run.
    pub confinement: Confinement,
    /// Tidies up after a process that no longer may; goes last.
    pub janitor: Option<Janitor>,
}

/// Buffers that each thread gets in the beginning for a device that sees physical addresses.
const PHYSICAL_BUFFERS: usize = 16384;

/// Provides what a confined process cannot have later: learning physical addresses needs
/// privileges.
pub fn provide(click: &Click, router: &mut Router, resources: &RouterResources) {
    if !click.no_confine && !resources.clean_up().devices.is_empty() {
        router.add_buffers(PHYSICAL_BUFFERS);
    }
}

/// All is open and no thread runs but this one: gives up what only opening needed.
pub fn begin(click: &Click, router: &Router, resources: &RouterResources) -> Result<Confined, Failure> {
    let shared = router.shared();
    let uses = uses(click, &shared.plan.elements);
    let mut needs = needs(click, &uses);
    needs.roots_files = !click.no_confine && stays_root(&needs, &uses)?;
    let mut exceptions = exceptions(click, &uses);
    if needs.roots_files {
        exceptions.push("root's own files are named: the user stays root, without capabilities".to_string());
    }
    if !exceptions.is_empty() && !click.no_warnings {
        let told = format!("not confined as far as others are: {}", exceptions.join("; "));
        // Who has Click's own command line expects what Click says on standard error, and no more.
        match click.compat {
            true => tracing::info!("{told}"),
            false => eprintln!("{told}"),
        }
    }
    if click.no_confine {
        return Ok(Confined { confinement: Confinement::none(), janitor: None });
    }
    let sockets = sockets(&uses);
    if let Some((user, group)) = confine::caller() {
        // Who called `sudo` is to use what is served.
        sockets.iter().for_each(|socket| drop(lchown(socket, Some(user), Some(group))));
    }
    let mut clean_up = resources.clean_up();
    clean_up.sockets.extend(sockets);
    let janitor = Janitor::call(&clean_up)?;
    resources.add_needs(&mut needs);
    let (programs, before) = (!needs.programs, rustix::process::geteuid());
    let confinement = resources.with_models_paused(|| Ok(Confinement::begin(needs)?))?;
    let user = Some(rustix::process::geteuid()).filter(|user| *user != before);
    resources.set_given_up(GivenUp { programs, user: user.map(|user| user.as_raw()) });
    Ok(Confined { confinement, janitor })
}

/// The sockets' files that elements made.
fn sockets(uses: &[Use]) -> Vec<PathBuf> {
    let makes = |one: &&Use| matches!(one.need.what, SystemUse::Clients | SystemUse::Datagrams);
    uses.iter().filter(makes).filter_map(|one| one.need.path.clone()).collect()
}

/// The first version of landlock that refuses shortening files, too.
const REFUSES_SHORTENING: i32 = 3;

/// Whether root has to stay root for the files that elements name, which nobody else may use, and
/// can be let to: without capabilities it is the owner of root's files and no more, and of those
/// landlock refuses all that are not named.
///
/// # Errors
/// The element whose file it is, where root must not stay.
fn stays_root(needs: &Needs, uses: &[Use]) -> Result<bool, Failure> {
    if !rustix::process::geteuid().is_root() {
        return Ok(false);
    }
    let asked = confine::ask_as_other(|| {
        let is_other = !rustix::process::geteuid().is_root();
        is_other.then(|| uses.iter().try_for_each(check_access))
    });
    let Some(Some(Err(refused))) = asked else { return Ok(false) };
    let only_named = !needs.files.any && !needs.unknown && !needs.programs && !needs.signals;
    let landlocked = confine::landlock_version().is_some_and(|version| version >= REFUSES_SHORTENING);
    match only_named && landlocked && confine::caller().is_none() {
        true => Ok(true),
        false => Err(refused),
    }
}

/// Whether the user that root becomes may do what an element will do later: that it may not
/// is told now, not in the middle of the night.
fn check_access(one: &Use) -> Result<(), Failure> {
    let Some(path) = &one.need.path else { return Ok(()) };
    let (place, access) = match one.need.what {
        SystemUse::WritesFiles if path.is_file() => (path.clone(), Access::WRITE_OK),
        SystemUse::WritesFiles | SystemUse::Listening => (
            confine::existing_ancestor(&folder(path)).unwrap_or_else(|| folder(path)),
            Access::WRITE_OK | Access::EXEC_OK,
        ),
        // One that is not there may come.
        SystemUse::ReadsFiles if path.exists() => (path.clone(), Access::READ_OK),
        _ => return Ok(()),
    };
    let user = rustix::process::geteuid().as_raw();
    rustix::fs::access(&place, access).map_err(|_| {
        Failure::new(format!(
            "{one}, and a router does not stay root: user {user} may not use {}",
            place.display()
        ))
        .fix(format!(
            "chown {user} {}, start it as the user whose it is, or with --no-confine",
            place.display()
        ))
    })
}

/// Refuses a configuration that asks for what a process gave up; `running` is the one whose place
/// it is to take.
///
/// # Errors
/// The element, what it asks for, and what to do about it.
pub fn refuse(
    elements: &[Planned],
    given_up: GivenUp,
    running: Option<&Predecessor>,
) -> Result<(), Box<Problem>> {
    let is_refused = |need: &SystemNeed, planned: &Planned| match need.what {
        SystemUse::Privileges => true,
        SystemUse::ProgramsAtStart | SystemUse::Programs => given_up.programs,
        SystemUse::ProgramTakenOver => given_up.programs && !running.is_some_and(|it| it.has(planned)),
        _ => false,
    };
    for planned in elements {
        let Some(need) = planned.needs.iter().find(|need| is_refused(need, planned)) else { continue };
        let also = match need.what {
            SystemUse::ProgramTakenOver => {
                ", and one that runs is taken over by the same name and configuration"
            }
            _ => "",
        };
        let message =
            format!("{need}: this process gave that up when it started, --no-confine keeps it{also}");
        let element = format!("{} :: {}", planned.name, planned.class);
        return Err(Box::new(Problem::error(&planned.place, message).context(element, "initializing")));
    }
    Ok(())
}

/// For `--explain`: what the process will keep.
pub fn explain(click: &Click, elements: &[Planned]) -> String {
    let uses = uses(click, elements);
    let mut out =
        String::from("\nCONFINEMENT: when all is open, privileges and most system calls are given up");
    let mut kept: Vec<String> = uses.iter().map(|one| format!("  {one}\n")).collect();
    kept.dedup();
    match kept.is_empty() {
        true => out.push_str("; no file is opened later, and no socket.\n"),
        false => out += &format!(", but for what elements need:\n{}", kept.concat()),
    }
    let exceptions = exceptions(click, &uses);
    if !exceptions.is_empty() {
        out += &format!("Less is given up than by others: {}.\n", exceptions.join("; "));
    }
    out
}
