//! What goes wrong with a machine: the cause and, where there is one, the
//! command that mends it. Apart from [`Failure`], because a report in JSON has
//! both as values.

use lab::Error;

use crate::Failure;

/// A cause and its fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub cause: String,
    pub fix: Option<String>,
}

impl Problem {
    /// Without a known fix.
    pub fn new(cause: impl Into<String>) -> Problem {
        Problem { cause: cause.into(), fix: None }
    }

    /// What to do about it.
    pub fn fix(mut self, fix: impl Into<String>) -> Problem {
        self.fix = Some(fix.into());
        self
    }
}

const MIRROR: &str = "connect this machine for the first run: later ones need no network. Where apt's own \
                      mirror cannot be reached: export IXORA_DEBIAN_MIRROR=ADDRESS-OF-A-DEBIAN-MIRROR";

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        let problem = Problem::new(error.to_string());
        match &error {
            Error::NoCache => problem.fix("export IXORA_CACHE=$PWD/cache"),
            Error::NoMirror => problem.fix("export IXORA_DEBIAN_MIRROR=ADDRESS-OF-A-DEBIAN-MIRROR"),
            Error::Fetch { reason, .. } if reason.contains("out of reach") => problem.fix(MIRROR),
            Error::Fetch { reason, .. }
                if ["NO_PUBKEY", "not signed", "eyring"].iter().any(|s| reason.contains(s)) =>
            {
                problem.fix("sudo apt-get install debian-archive-keyring")
            }
            Error::Fetch { .. } => problem.fix("see what apt said; sudo apt-get update, and try again"),
            Error::Program { program, package, .. } => match program.as_str() {
                "apt-get" | "dpkg-deb" => problem.fix(format!(
                    "QEMU and a kernel are taken from Debian's packages: run this on Debian or Ubuntu, or in \
                     one of their containers ({package} is part of each)"
                )),
                _ => problem.fix("remove the cache, ~/.cache/ixora, to fetch it again"),
            },
            Error::Missing { root, .. } => problem.fix(format!("rm -r {}", root.display())),
            _ => problem,
        }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Failure {
        let failure = Failure::new(problem.cause);
        match problem.fix {
            Some(fix) => failure.fix(fix),
            None => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_lack_packages_has_a_fix() {
        let fetch = |reason: &str| {
            let (packages, suite) = ("qemu".to_owned(), "trixie".to_owned());
            Problem::from(Error::Fetch { packages, suite, reason: reason.to_owned() }).fix.expect("has one")
        };
        assert!(fetch("the package registry is out of reach (W: …)").contains("IXORA_DEBIAN_MIRROR"));
        assert!(fetch("the following signatures: NO_PUBKEY 0E98404D386FA1D9").contains("keyring"));
        assert!(fetch("E: Unable to locate package").contains("update"));
        let source = std::io::Error::from(std::io::ErrorKind::NotFound);
        let error = Error::Program { program: "apt-get".to_owned(), package: "apt", source };
        assert!(Problem::from(error).fix.expect("has one").contains("container"));
    }
}
