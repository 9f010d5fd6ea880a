//! What a buffer costs: from its pool and back by the owner's way, and back by
//! another thread's.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use memory::{Batch, Dma, Options, Pool};

fn pool(c: &mut Criterion) {
    let dma = Dma::new(Options::default());
    let mut pool = Pool::new(&dma, 4096).expect("memory for a pool");
    let mut batch = Batch::with_limit(32);
    let mut group = c.benchmark_group("pool, 32 packets");
    group.throughput(Throughput::Elements(32));
    group.bench_function("alloc and free, owner", |b| {
        b.iter(|| {
            pool.alloc_batch(&mut batch, 32);
            pool.free_batch(&mut batch);
        });
    });
    group.bench_function("alloc and drop, as another thread would", |b| {
        b.iter(|| {
            pool.alloc_batch(&mut batch, 32);
            batch.clear();
        });
    });
    group.finish();
}

criterion_group!(benches, pool);
criterion_main!(benches);
