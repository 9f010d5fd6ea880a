//! What a generated frame costs the model's side, alone and with the sink that
//! checks it: a driver is not measured faster than this feeds it.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use model::Wire;
use testbed::wire::Cable;

const BURST: usize = 32;

fn open(wire: &str) -> Cable {
    Cable::open(&wire.parse().expect("a wire")).expect("opens")
}

fn cable(c: &mut Criterion) {
    let mut group = c.benchmark_group("cable");
    group.throughput(Throughput::Elements(BURST as u64));
    for wire in ["gen", "gen:flows=256", "gen:size=imix,flows=16"] {
        let (mut from, mut scratch, mut now) = (open(wire), vec![0; model::MAX_FRAME], 0);
        group.bench_function(wire, |b| {
            b.iter(|| {
                now += 1;
                from.advance(now);
                let mut sum = 0_usize;
                from.receive_burst(&mut scratch, BURST, &mut |frame, _| sum += usize::from(frame[59]));
                sum
            });
        });
        for sink in ["sink:check=tag", "sink:check"] {
            let (mut from, mut to) = (open(wire), open(sink));
            group.bench_function(format!("{wire} to {sink}"), |b| {
                b.iter(|| {
                    now += 1;
                    from.advance(now);
                    from.receive_burst(&mut scratch, BURST, &mut |frame, _| to.transmit(frame))
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, cable);
criterion_main!(benches);
