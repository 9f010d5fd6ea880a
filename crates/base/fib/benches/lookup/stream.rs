//! The addresses that are looked up.

use fib::lpm::Route;
use fib::synthetic::Random;

/// Addresses of a stream: so many that what they need of a table is not in a nearer
/// cache just because it was looked up before.
const COUNT: usize = 1 << 20;
/// Flows of the stream that repeats them.
const FLOWS: usize = 4096;

/// The streams' names, in the order of [`addresses`].
pub const NAMES: [&str; 5] = ["covered", "uniform", "zipf", "flows", "sequential"];

/// An address as the streams need it.
pub trait Address: Copy {
    fn random(random: &mut Random) -> Self;
    /// A random address inside the route.
    fn inside(route: Route<Self>, random: &mut Random) -> Self;
    fn next(self) -> Self;
}

macro_rules! address {
    ($int:ty, $random:expr, $step:expr) => {
        impl Address for $int {
            fn random(random: &mut Random) -> Self {
                $random(random)
            }
            fn inside(route: Route<Self>, random: &mut Random) -> Self {
                let rest = <$int>::MAX.checked_shr(route.len.into()).unwrap_or(0);
                route.prefix | (random.next_u128() as $int) & rest
            }
            fn next(self) -> Self {
                self.wrapping_add(1 << $step)
            }
        }
    };
}
address!(u32, |random: &mut Random| random.next_u64() as u32, 4);
// Uniform means: over what the registries may give out, 2000::/3.
address!(u128, |random: &mut Random| random.next_u128() >> 3 | 1 << 125, 76);

/// Random addresses inside routes of which the n-th is n times rarer than the first, in an
/// order of their own.
fn zipf<A: Address>(routes: &[Route<A>], random: &mut Random) -> Vec<A> {
    let shares = (1..=routes.len()).scan(0.0, |sum, rank| {
        *sum += 1.0 / rank as f64;
        Some(*sum)
    });
    let shares: Vec<f64> = shares.collect();
    let all = shares[shares.len() - 1];
    let pick = |random: &mut Random| {
        let share = random.next_u64() as f64 / u64::MAX as f64 * all;
        let rank = shares.partition_point(|&sum| sum < share).min(routes.len() - 1);
        // The tables' order is random, but for neighbours that follow those they were made from.
        A::inside(routes[rank.wrapping_mul(0x9E37_79B1) % routes.len()], random)
    };
    (0..COUNT).map(|_| pick(random)).collect()
}

/// The streams: random addresses inside random routes; random addresses; addresses inside
/// routes by Zipf's law; some flows
/// of the first kind again and again in random order; one address after another.
pub fn addresses<A: Address>(routes: &[Route<A>]) -> [Vec<A>; 5] {
    let mut random = Random::new(77);
    let inside = |random: &mut Random| {
        let route = routes[random.below(routes.len() as u64) as usize];
        A::inside(route, random)
    };
    let covered: Vec<A> = (0..COUNT).map(|_| inside(&mut random)).collect();
    let uniform = (0..COUNT).map(|_| A::random(&mut random)).collect();
    let flows = (0..COUNT).map(|_| covered[random.below(FLOWS as u64) as usize]).collect();
    let mut next = routes[routes.len() / 2].prefix;
    let sequential = std::iter::repeat_with(|| {
        next = next.next();
        next
    });
    let zipf = zipf(routes, &mut random);
    [covered, uniform, zipf, flows, sequential.take(COUNT).collect()]
}
