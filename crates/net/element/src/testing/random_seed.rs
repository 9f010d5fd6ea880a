//! `RandomSeed`: the same random numbers each time.

use graph::class::{Handlers, both, positional};
use graph::value::parse_alone;
use graph::{Class, Cx, Element, Refused, random};

use crate::standard::same_kind;

pub static CLASS: Class = Class {
    name: "RandomSeed",
    brief: "has elements draw the same random numbers each time",
    doc: "The numbers that elements of the thread draw are those that follow SEED, from where the router \
          starts; without one they are others each time, as they are without the element. They are not \
          Click's numbers.",
    ports: "0/0",
    arguments: &[positional("SEED", "a number; none")],
    handlers: &Handlers::<RandomSeed>(&[both(
        "seed",
        "the number; written, where to begin anew, or nothing",
        |seed: &RandomSeed| seed.seed.map_or(String::new(), |seed| seed.to_string()),
        |element: &mut RandomSeed, _, value| {
            element.seed = match value.trim() {
                "" => None,
                value => Some(parse_alone(value)?),
            };
            element.sow();
            Ok(())
        },
    )
    .marked(".")]),
    live: true,
    example: "RandomSeed(7); src -> RandomSample(0.5) -> Discard",
    see: &["RandomSample", "RandomSwitch"],
    make: |_, conf| {
        let seed = conf.positional("SEED")?;
        conf.complete()?;
        Ok(Box::new(RandomSeed { seed }))
    },
    ..Class::BASE
};

/// A `RandomSeed` element; [`CLASS`] says what it does.
#[derive(Debug)]
pub struct RandomSeed {
    seed: Option<u32>,
}

impl RandomSeed {
    fn sow(&self) {
        match self.seed {
            Some(seed) => random::seed(seed.into()),
            None => random::reseed(),
        }
    }
}

impl Element for RandomSeed {
    fn init(&mut self, _: &mut Cx<'_>) -> Result<(), String> {
        self.sow(); // what others draw when they are initialized
        Ok(())
    }

    fn begin(&mut self, _: &mut Cx<'_>) {
        self.sow();
    }

    fn reconfigure(&mut self, _: &mut Cx<'_>, new: Box<dyn Element>) -> Result<(), Refused> {
        *self = *same_kind(new)?;
        self.sow();
        Ok(())
    }
}
