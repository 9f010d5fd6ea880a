//! One packet of so many, at random: `SAMPLE`.

use graph::Setup;
use graph::value::{Scope, Value, fixed_point};

/// Bits behind the point.
const SHIFT: u32 = 28;
const ONE: u32 = 1 << SHIFT;
const BILLION: u64 = 1_000_000_000;

/// A probability, in steps of 2^-28 as Click has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample(u32);

impl Default for Sample {
    fn default() -> Sample {
        Sample(ONE)
    }
}

impl Value for Sample {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Sample, String> {
        let value = fixed_point(text.trim(), BILLION).filter(|value| *value >= 0).ok_or("expected real")?;
        // More than always is always, and warned of.
        let value = u64::try_from(value).unwrap_or(2 * BILLION).min(2 * BILLION);
        Ok(Sample(of_billionths(value)))
    }
}

fn of_billionths(value: u64) -> u32 {
    (((value << SHIFT) + BILLION / 2) / BILLION) as u32
}

impl Sample {
    /// Warns of a probability of nothing, and of more than one.
    pub(crate) fn checked(self, setup: &mut Setup<'_>) -> Sample {
        match self.0 {
            0 => setup.warn("SAMPLE probability is 0; emitting no packets"),
            more if more > ONE => setup.warn("SAMPLE probability reduced to 1"),
            _ => {}
        }
        Sample(self.0.min(ONE))
    }

    /// Whether the next one is taken.
    pub(crate) fn take(self) -> bool {
        self.0 >= ONE || (graph::random::next() as u32 & (ONE - 1)) < self.0
    }
}

/// As few digits as say which step it is.
impl std::fmt::Display for Sample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = f64::from(self.0) / f64::from(ONE);
        let texts = (0..=9).map(|digits| format!("{value:.digits$}"));
        let same = |text: &String| {
            fixed_point(text, BILLION).and_then(|v| u64::try_from(v).ok()).map(of_billionths) == Some(self.0)
        };
        let mut texts = texts.skip_while(|text| !same(text));
        f.write_str(&texts.next().unwrap_or_else(|| value.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_shown_as_they_were_given() {
        for text in ["0", "1", "0.5", "0.1", "0.333", "0.000001"] {
            let scope = Scope { element: "", names: &graph::value::Names::default() };
            assert_eq!(Sample::parse(text, &scope).expect("a number").to_string(), text);
        }
    }
}
