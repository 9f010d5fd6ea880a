//! Streams for tasks, on an executor of a few lines: nothing of any runtime is needed.
#![allow(clippy::unwrap_used)]

mod common;

use std::future::{Future, poll_fn};
use std::io::ErrorKind;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

use common::{LIMIT, PORT, Pair, count, data, wait_for};
use futures_util::future::{join, join4};
use futures_util::io::{AsyncReadExt, AsyncWriteExt};
use socket::Limits;
use socket::asynchronous::{TcpListener, TcpStream};
use tcp::Options;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let end = Instant::now() + LIMIT;
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        let left = end.saturating_duration_since(Instant::now());
        assert!(!left.is_zero(), "done within {LIMIT:?}");
        thread::park_timeout(left);
    }
}

/// Polls a future once.
fn once<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

async fn connection(pair: &Pair) -> (TcpStream, TcpStream) {
    let [client, server] = &pair.sides;
    let mut listener = TcpListener::bind(&server.network, PORT).await.unwrap();
    let (ours, theirs) = join(TcpStream::connect(&client.network, server.at(PORT)), listener.accept()).await;
    let (ours, (theirs, peer)) = (ours.unwrap(), theirs.unwrap());
    assert_eq!((peer, ours.peer_addr().unwrap()), (ours.local_addr().unwrap(), server.at(PORT)));
    (ours, theirs)
}

/// Both directions at once by one thread, with small buffers: each is held up by the other side.
#[test]
fn one_thread_carries_both_directions_of_both_ends() {
    let options = Options { receive_buffer: 16 << 10, send_buffer: 16 << 10, ..Options::default() };
    let pair = Pair::with(options, Limits { send_buffer: 4096, ..Limits::default() });
    let bytes = data(1_000_000);
    async fn write(mut stream: &TcpStream, bytes: &[u8]) {
        stream.write_all(bytes).await.unwrap();
        stream.close().await.unwrap();
        assert_eq!(stream.write(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
    async fn read(mut stream: &TcpStream, bytes: &[u8]) {
        let mut back = Vec::new();
        stream.read_to_end(&mut back).await.unwrap();
        assert!(back == bytes, "{} bytes, or others", back.len());
    }
    block_on(async {
        let (ours, theirs) = connection(&pair).await;
        let write = (write(&ours, &bytes), write(&theirs, &bytes));
        join4(write.0, write.1, read(&ours, &bytes), read(&theirs, &bytes)).await;
    });
}

#[test]
fn a_connection_that_is_not_waited_for_is_given_up() {
    let mut pair = Pair::new();
    let [client, server] = &pair.sides;
    // Nobody answers for the address: the connection stays half open until it is dropped.
    let mut attempt = Box::pin(TcpStream::connect(&client.network, "10.0.0.9:80".parse().unwrap()));
    assert!(once(attempt.as_mut()).is_pending());
    drop(attempt);
    let limits = Limits::default();
    // So many times that places which did not come back would be missed.
    for _ in 0..limits.connections + 10 {
        wait_for("a place", || {
            let mut attempt = Box::pin(TcpStream::connect(&client.network, server.at(PORT)));
            let polled = once(attempt.as_mut());
            !matches!(polled, Poll::Ready(Err(error)) if error.kind() == ErrorKind::QuotaExceeded)
        });
    }
    let refused = block_on(TcpStream::connect(&client.network, server.at(PORT))).map(drop);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert_eq!(count(&pair.sides[0].end(), "tcp_timed_out"), 0);
}

#[test]
fn a_dropped_read_has_taken_nothing_and_a_dropped_accept_leaves_the_connection() {
    let pair = Pair::new();
    let [client, server] = &pair.sides;
    block_on(async {
        let mut listener = TcpListener::bind(&server.network, PORT).await.unwrap();
        assert!(once(pin!(listener.accept())).is_pending());
        let mut ours = TcpStream::connect(&client.network, server.at(PORT)).await.unwrap();
        assert_eq!(listener.port(), PORT);
        let (mut theirs, _) = listener.accept().await.unwrap();
        for n in 0..100_u8 {
            let mut byte = [0; 1];
            assert!(once(pin!(theirs.read(&mut byte))).is_pending());
            ours.write_all(&[n]).await.unwrap();
            theirs.read_exact(&mut byte).await.unwrap();
            assert_eq!(byte, [n]);
        }
        // A write that waits for room has taken nothing either.
        let (block, mut taken) = (data(64 << 10), 0);
        poll_fn(|context| {
            while taken < 100 << 20 {
                match pin!(ours.write(&block)).poll(context) {
                    Poll::Ready(written) => taken += written.unwrap(),
                    Poll::Pending => return Poll::Ready(()),
                }
            }
            panic!("a writer whom nobody reads is not held up");
        })
        .await;
        drop(ours);
        let mut back = Vec::new();
        theirs.read_to_end(&mut back).await.unwrap();
        assert_eq!(back.len(), taken);
    });
}

/// Counts how often it is woken.
#[derive(Default)]
struct Counts(AtomicUsize);

impl Wake for Counts {
    fn wake(self: Arc<Counts>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_reset_wakes_the_reader_and_the_writer_and_the_latest_waker_counts() {
    let pair = Pair::new();
    let (ours, mut theirs) = block_on(connection(&pair));
    let wakes: [Arc<Counts>; 3] = Default::default();
    let wakers = wakes.each_ref().map(|counts| Waker::from(counts.clone()));
    let (mut reader, mut writer, block) = (&ours, &ours, data(64 << 10));
    let mut byte = [0; 1];
    for waker in &wakers[..2] {
        assert!(pin!(reader.read(&mut byte)).poll(&mut Context::from_waker(waker)).is_pending());
    }
    let mut attempt = || pin!(writer.write(&block)).poll(&mut Context::from_waker(&wakers[2])).is_pending();
    assert!((0..1000).any(|_| attempt()), "it is held up");
    block_on(theirs.read_exact(&mut [0; 10])).unwrap();
    drop(theirs); // with bytes that nobody read
    wait_for("both are woken", || wakes[1..].iter().all(|counts| counts.0.load(Ordering::Relaxed) > 0));
    assert_eq!(wakes[0].0.load(Ordering::Relaxed), 0);
    let error = block_on(async {
        loop {
            if let Err(error) = writer.write(b"x").await {
                return error;
            }
        }
    });
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!(block_on(reader.read(&mut byte)).unwrap_err().kind(), ErrorKind::ConnectionReset);
}
