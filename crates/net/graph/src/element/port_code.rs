//! Click's codes for ports: how many, push or pull, and which lead to which.

/// Whether `input` leads to `output` by a flow code: `x/x` all to all, `x/y` none,
/// `#/#` each to the one of its number, `xy/x` the first only, `#/[^#]` each to all
/// but the one of its number. The last part of a side stands for all further ports.
pub fn joins(code: &str, input: usize, inputs: usize, output: usize, outputs: usize) -> bool {
    let (left, right) = sides(code);
    if input >= inputs || output >= outputs {
        return false;
    }
    let (Some(from), Some(to)) = (part(left, input), part(right, output)) else { return false };
    meet(from, input, to, output)
}

/// The part of a side that stands for a port.
fn part(side: &str, port: usize) -> Option<&str> {
    let mut last = None;
    let mut rest = side;
    for _ in 0..=port {
        let Some(first) = rest.chars().next() else { break };
        let length = match first {
            '[' => rest.find(']').map_or(rest.len(), |end| end + 1),
            _ => first.len_utf8(),
        };
        let (one, more) = rest.split_at(length);
        (last, rest) = (Some(one), more);
    }
    last
}

/// The names of a part, and whether it means all others.
fn set(part: &str) -> (bool, &str) {
    let inner = part.strip_prefix('[').and_then(|p| p.strip_suffix(']')).unwrap_or(part);
    inner.strip_prefix('^').map_or((false, inner), |names| (true, names))
}

fn meet(from: &str, input: usize, to: &str, output: usize) -> bool {
    let ((not_from, from), (not_to, to)) = (set(from), set(to));
    let names = |names: &str, name: char, own: usize, other: usize| {
        names.chars().any(|n| n == name && (n != '#' || own == other))
    };
    match (not_from, not_to) {
        (false, false) => from.chars().any(|n| names(to, n, input, output)),
        (false, true) => from.chars().any(|n| !names(to, n, input, output)),
        (true, false) => to.chars().any(|n| !names(from, n, input, output)),
        (true, true) => true,
    }
}

/// The letter of a processing code (`a/ah`, `h`, `h/l`) for a port: `h` push, `l`
/// pull, `a` agnostic.
pub fn processing(code: &str, output: bool, port: usize) -> char {
    let (inputs, outputs) = sides(code);
    let side = if output { outputs } else { inputs }.as_bytes();
    side.get(port).or(side.last()).map_or('a', |&letter| char::from(letter))
}

/// A code's two sides, which are the same where there is one. By bytes, as all codes are
/// ASCII: they are read for each port of each element.
fn sides(code: &str) -> (&str, &str) {
    match code.bytes().position(|byte| byte == b'/') {
        Some(at) => (&code[..at], &code[at + 1..]),
        None => (code, code),
    }
}

/// How many ports a class has at the least and the most, for each side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// Fewest and most inputs.
    pub inputs: (usize, usize),
    /// Fewest and most outputs.
    pub outputs: (usize, usize),
}

/// Reads a port count code: `1/1`, `0/-`, `1-2/1`, `-/=`, `1/=+` (at least one more).
pub fn count(code: &str, inputs: usize) -> Count {
    let (left, right) = sides(code);
    let outputs = match right.strip_prefix('=') {
        Some(pluses) => (inputs + pluses.len(), if pluses.is_empty() { inputs } else { usize::MAX }),
        None => range(right),
    };
    Count { inputs: range(left), outputs }
}

fn range(code: &str) -> (usize, usize) {
    // Most have one digit.
    if let [digit @ b'0'..=b'9'] = code.as_bytes() {
        let n = usize::from(digit - b'0');
        return (n, n);
    }
    match code.split_once('-') {
        None => {
            let n = code.parse().unwrap_or(0);
            (n, n)
        }
        Some((low, high)) => (low.parse().unwrap_or(0), high.parse().unwrap_or(usize::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(code: &str) -> Vec<(usize, usize)> {
        let all = (0..3).flat_map(|i| (0..3).map(move |o| (i, o)));
        all.filter(|&(i, o)| joins(code, i, 3, o, 3)).collect()
    }

    #[test]
    fn flow_codes() {
        assert_eq!(pairs("x/x").len(), 9);
        assert_eq!(pairs("x/y"), []);
        assert_eq!(pairs("#/#"), [(0, 0), (1, 1), (2, 2)]);
        assert_eq!(pairs("xy/x"), [(0, 0), (0, 1), (0, 2)]);
        assert_eq!(pairs("#/[^#]"), [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]);
        assert_eq!(pairs("xy/[xy]x"), [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0)]);
    }

    #[test]
    fn processing_codes() {
        assert_eq!((processing("a/ah", true, 0), processing("a/ah", true, 3)), ('a', 'h'));
        assert_eq!((processing("h", false, 0), processing("h/l", true, 1)), ('h', 'l'));
    }

    #[test]
    fn port_counts() {
        assert_eq!(count("1/1-2", 1), Count { inputs: (1, 1), outputs: (1, 2) });
        assert_eq!(count("-/=", 3), Count { inputs: (0, usize::MAX), outputs: (3, 3) });
        assert_eq!(count("1-/=+", 2), Count { inputs: (1, usize::MAX), outputs: (3, usize::MAX) });
    }
}
