//! What answers those who ask a running endpoint by its control socket.

use std::path::Path;
use std::sync::mpsc::Receiver;

use control::Options;
use control::reconcile::{Asker, Report, compare, fix};
use serde_json::{Value as Json, json};
use vtep::{Learn, Sources};

use super::explain::Explainer;
use super::host::{Host, now_ns};
use super::{metrics, show};
use crate::Failure;
use crate::control_socket::{self, Asked, Server};
use crate::janitor::{CleanUp, Janitor};

/// The socket, what was asked by it, and who explains.
pub struct Asking {
    /// Taken by the thread that listens.
    pub server: Option<Server>,
    asked: Receiver<Asked>,
    explainer: Explainer,
    /// Asks the kernel again, where it is followed.
    asker: Option<(Asker, Options)>,
    /// Removes the socket.
    _janitor: Option<Janitor>,
}

impl Asking {
    /// Listens at a path, if there is one.
    pub fn new(path: Option<&Path>, host: &mut Host) -> Result<Option<Asking>, Failure> {
        let Some(path) = path else { return Ok(None) };
        let (server, asked) = Server::new(path)?;
        let janitor = Janitor::call(&CleanUp { sockets: vec![path.to_owned()], ..CleanUp::default() })?;
        let explainer = Explainer::new(host.control.table(), &host.config, &host.macs)?;
        let asker = match host.config.follow.learn {
            Learn::Nobody => None,
            Learn::Kernel | Learn::Fpm => {
                let asker = Asker::open().map_err(|error| Failure::new(error.to_string()))?;
                Some((asker, host.config.mirror()))
            }
        };
        Ok(Some(Asking { server: Some(server), asked, explainer, asker, _janitor: janitor }))
    }

    /// Answers what was asked meanwhile.
    pub fn answer(&mut self, host: &mut Host, mut sources: Option<&mut Sources>) {
        while let Ok((request, say)) = self.asked.try_recv() {
            // One who is gone hears nothing.
            let _ = say.try_send(self.answer_to(host, sources.as_deref_mut(), &request));
        }
    }

    fn answer_to(&mut self, host: &mut Host, sources: Option<&mut Sources>, request: &str) -> String {
        let words: Vec<&str> = request.split_whitespace().collect();
        match words[..] {
            ["show", limit] => show::answer(host, sources.as_deref(), limit.parse().unwrap_or(0)),
            ["metrics"] => metrics::text(host, sources.as_deref()),
            ["reconcile"] => self.reconcile(host, sources, false),
            ["reconcile", "fix"] => self.reconcile(host, sources, true),
            ["explain", network, digits] => self.explain(host, network.parse().ok(), digits),
            _ => "ask for show LIMIT, metrics, reconcile, or explain NETWORK BYTES".to_owned(),
        }
    }

    /// Compares with the kernel, and mends what is different: a report, or an error.
    fn reconcile(&mut self, host: &mut Host, sources: Option<&mut Sources>, mends: bool) -> String {
        let (Some((asker, options)), Some(sources)) = (&mut self.asker, sources) else {
            let error = "this endpoint does not follow the kernel: write learn = \"kernel\" into its file, \
                         and start it again";
            return json!({ "error": error }).to_string();
        };
        let mut look = |host: &mut Host, sources: &mut Sources| followed(asker, options, host, sources);
        let report = look(host, sources).and_then(|report| {
            if !mends || report.is_clean() {
                return Ok((report, 0));
            }
            let on = host.control.controlled(now_ns(), Json::Null);
            let fixed = fix(on.program, on.overlay, &report, on.now_ns);
            // What was missed once would be missed again when it goes.
            sources.hear_again(report.kernel.iter().map(|difference| difference.key));
            Ok((look(host, sources)?, fixed))
        });
        match report {
            Ok((report, fixed)) => told_of(&report, fixed).to_string(),
            Err(error) => json!({ "error": error }).to_string(),
        }
    }

    fn explain(&mut self, host: &Host, network: Option<u32>, digits: &str) -> String {
        let (table, desired) = host.control.state();
        match self.explainer.explain(table, desired, network, &control_socket::bytes(digits)) {
            Ok(mut explained) => {
                let told = explained.place.and_then(|place| host.control.told(&place, now_ns()));
                explained.age_ms = told.map(|(_, age)| (age * 1e3) as u64);
                serde_json::to_string_pretty(&explained).unwrap_or_default()
            }
            Err(wrong) => wrong,
        }
    }
}

/// Comparisons at most: what the kernel changes meanwhile is no difference.
const COMPARISONS: usize = 3;

/// Compares with the kernel what was heard of it by then.
fn followed(
    asker: &mut Asker,
    options: &Options,
    host: &mut Host,
    sources: &mut Sources,
) -> Result<Report, String> {
    let mut report = Report::default();
    for _ in 0..COMPARISONS {
        let now = asker.now(options).map_err(|error| error.to_string())?;
        sources.turn(&mut host.control, now_ns()).iter().for_each(|sentence| eprintln!("{sentence}"));
        report = compare(host.control.program(), host.control.state().0, options, &now);
        if report.is_clean() {
            break;
        }
    }
    Ok(report)
}

/// A report as it is answered.
pub fn told_of(report: &Report, fixed: usize) -> Json {
    let mut told = report.json();
    told["fixed"] = fixed.into();
    told["clean"] = report.is_clean().into();
    told["text"] = report.text().into();
    told
}
