//! The internet checksum over a header, a small and a large frame.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

fn checksum(c: &mut Criterion) {
    let bytes: Vec<u8> = (0..1500).map(|n| n as u8).collect();
    let mut group = c.benchmark_group("checksum");
    for len in [20, 64, 1500] {
        group.throughput(Throughput::Bytes(len as u64));
        group.bench_with_input(BenchmarkId::from_parameter(len), &bytes[..len], |b, bytes| {
            b.iter(|| wire::checksum::of(std::hint::black_box(bytes)));
        });
    }
    group.finish();
}

criterion_group!(benches, checksum);
criterion_main!(benches);
