//! What went wrong in a script: printed under a line that names it, or handed to
//! whoever called it.

use graph::{Cx, Refused};

use super::{Cause, Script};

impl Script {
    /// Something went wrong. While a handler of the script's is called, the caller is
    /// told; else it is printed, the first time under the script's name.
    pub(super) fn complain(&mut self, cx: &mut Cx<'_>, message: &str) {
        if message.is_empty() {
            return;
        }
        self.complaints += 1;
        if self.called > 0 {
            if !cx.complain(message) {
                self.errors.push(message.to_string());
            }
            return;
        }
        let (head, indent) = match self.cause {
            Cause::Router => (String::new(), ""),
            _ if self.named => (String::new(), "  "),
            _ => (format!("While executing '{}':\n", self.name), "  "),
        };
        self.named = true;
        let lines: String = message.lines().map(|line| format!("{indent}{line}\n")).collect();
        cx.say(&(head + &lines));
    }

    /// A handler was called, by an instruction or in a text: tells what it complained of,
    /// and that it refused.
    pub(super) fn complain_of(&mut self, cx: &mut Cx<'_>, call: Option<&str>, refused: Option<&Refused>) {
        let before = self.complaints;
        let told = if refused.is_some_and(Refused::is_uncalled) { vec![] } else { cx.take_complaints() };
        let words = refused.map(ToString::to_string).filter(|words| !words.is_empty());
        let lines: Vec<String> = told.iter().map(ToString::to_string).chain(words).collect();
        let called = !refused.is_some_and(Refused::is_uncalled);
        match call.filter(|_| called && !lines.is_empty()) {
            Some(call) => {
                let lines: String =
                    lines.iter().flat_map(|l| l.lines()).map(|l| format!("\n  {l}")).collect();
                self.complain(cx, &format!("While calling '{call}':{lines}"));
            }
            None => self.complain(cx, &lines.join("\n")),
        }
        if refused.is_none() && told.iter().all(|complaint| complaint.is_warning) {
            self.complaints = before;
        }
    }
}

/// What the system says is wrong, without its number.
pub fn cause(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_string()
}
