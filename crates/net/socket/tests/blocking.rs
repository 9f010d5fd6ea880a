//! Streams that block: what `std::net` would do is done.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::thread;
use std::time::Duration;

use common::{LIMIT, PORT, Pair, count, data, wait_for};
use socket::Limits;
use socket::blocking::{TcpListener, TcpStream};
use tcp::Options;

/// A connection of the first host to the second, both ends.
fn connection(pair: &Pair) -> (TcpStream, TcpStream) {
    let [client, server] = &pair.sides;
    let listener = TcpListener::bind(&server.network, PORT).unwrap();
    let ours = TcpStream::connect_timeout(&client.network, server.at(PORT), LIMIT).unwrap();
    let (theirs, peer) = listener.accept().unwrap();
    assert_eq!((peer, theirs.local_addr().unwrap()), (ours.local_addr().unwrap(), server.at(PORT)));
    for stream in [&ours, &theirs] {
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_write_timeout(Some(LIMIT)).unwrap();
    }
    (ours, theirs)
}

#[test]
fn megabytes_go_both_ways_at_once_and_each_half_ends_by_itself() {
    let mut pair = Pair::new();
    let (ours, theirs) = connection(&pair);
    let bytes = &data(3_000_000);
    thread::scope(|scope| {
        for stream in [&ours, &theirs] {
            scope.spawn(move || {
                let mut writer = stream;
                writer.write_all(bytes).unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
                assert_eq!(writer.write(b"more").unwrap_err().kind(), ErrorKind::BrokenPipe);
            });
            scope.spawn(move || {
                let (mut reader, mut back) = (stream, Vec::new());
                reader.read_to_end(&mut back).unwrap();
                assert!(back == *bytes, "{} bytes, or others", back.len());
            });
        }
    });
    drop((ours, theirs));
    let counters = pair.sides.each_mut().map(|side| side.end());
    for counters in &counters {
        assert_eq!(count(counters, "tcp_bytes_received"), 3_000_000);
        assert_eq!((count(counters, "tcp_resets_sent"), count(counters, "socket_lingered")), (0, 0));
    }
}

#[test]
fn a_half_closed_connection_still_carries_what_goes_the_other_way() {
    let pair = Pair::new();
    let (mut ours, mut theirs) = connection(&pair);
    ours.write_all(b"all there is").unwrap();
    ours.shutdown(Shutdown::Write).unwrap();
    let mut text = String::new();
    theirs.read_to_string(&mut text).unwrap();
    assert_eq!(text, "all there is");
    for n in 0..10 {
        theirs.write_all(&[n; 1000]).unwrap();
        let mut back = [0; 1000];
        ours.read_exact(&mut back).unwrap();
        assert_eq!(back, [n; 1000]);
    }
    drop(theirs);
    assert_eq!(ours.read(&mut [0; 10]).unwrap(), 0);
}

#[test]
fn the_last_of_several_clones_closes_and_what_it_wrote_still_arrives() {
    let mut pair = Pair::new();
    let (ours, mut theirs) = connection(&pair);
    let mut clone = ours.try_clone().unwrap();
    drop(ours);
    let bytes = data(500_000);
    let sent = bytes.clone();
    let writer = thread::spawn(move || clone.write_all(&sent).unwrap());
    let mut back = Vec::new();
    theirs.read_to_end(&mut back).unwrap();
    writer.join().unwrap();
    assert!(back == bytes, "{} bytes, or others", back.len());
    drop(theirs);
    assert_eq!(count(&pair.sides[0].end(), "tcp_resets_sent"), 0);
}

#[test]
fn who_closes_without_having_read_resets_and_what_came_before_is_read_first() {
    let pair = Pair::new();
    let (mut ours, mut theirs) = connection(&pair);
    theirs.write_all(b"the answer").unwrap();
    let mut answer = [0; 10];
    ours.read_exact(&mut answer[..1]).unwrap(); // so that it has arrived, in one segment
    ours.write_all(b"nobody reads this").unwrap();
    theirs.read_exact(&mut [0; 1]).unwrap(); // the rest waits for good
    drop(theirs);
    ours.read_exact(&mut answer[1..]).unwrap();
    assert_eq!(&answer, b"the answer");
    assert_eq!(ours.read(&mut answer).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(ours.write(b"x").unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_reader_that_does_not_read_holds_the_writer_up_and_bounds_what_is_kept() {
    let options = Options { receive_buffer: 32 << 10, send_buffer: 16 << 10, ..Options::default() };
    let limits = Limits { send_buffer: 8 << 10, ..Limits::default() };
    let pair = Pair::with(options, limits);
    let (mut ours, mut theirs) = connection(&pair);
    ours.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let bytes = data(1 << 20);
    let mut written = 0;
    // A window, the stack's buffer, that of the stream, and a segment in which the stack goes on.
    let most = (32 << 10) + (16 << 10) + (8 << 10) + 2048;
    let error = loop {
        assert!(written <= most, "{written} bytes were taken");
        match ours.write(&bytes[written..]) {
            Ok(count) => written += count,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(written >= 32 << 10, "{written} bytes were taken");
    ours.set_write_timeout(Some(LIMIT)).unwrap();
    let rest = bytes[written..].to_vec();
    let writer = thread::spawn(move || ours.write_all(&rest).unwrap());
    let mut back = vec![];
    theirs.read_to_end(&mut back).unwrap();
    assert!(back == bytes, "{} bytes, or others", back.len());
    writer.join().unwrap();
}

/// A stream whose writer waits because nobody reads at the other side.
fn held_up(pair: &Pair) -> (TcpStream, TcpStream) {
    let (mut ours, theirs) = connection(pair);
    ours.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    let refused = (0..1000).find_map(|_| ours.write(&data(10_000)).err());
    assert_eq!(refused.map(|error| error.kind()), Some(ErrorKind::TimedOut));
    (ours, theirs)
}

/// What was written is sent after the stream was dropped, but not for ever.
#[test]
fn bytes_that_nobody_takes_behind_a_close_end_in_a_reset() {
    let options = Options { receive_buffer: 8 << 10, fin_wait_ns: 100_000_000, ..Options::default() };
    let mut pair = Pair::with(options, Limits { connections: 1, ..Limits::default() });
    let (ours, mut theirs) = held_up(&pair);
    drop(ours);
    wait_for("the place is free", || {
        let again = TcpStream::connect(&pair.sides[0].network, pair.sides[1].at(9)).map(drop);
        again.unwrap_err().kind() == ErrorKind::ConnectionRefused
    });
    assert_eq!(theirs.read_to_end(&mut vec![]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(count(&pair.sides[0].end(), "socket_lingered"), 1);
}

#[test]
fn bytes_that_come_behind_a_close_are_answered_by_a_reset() {
    let mut pair = Pair::with(Options { receive_buffer: 8 << 10, ..Options::default() }, Limits::default());
    let (ours, mut theirs) = held_up(&pair);
    drop(ours);
    // Nobody reads meanwhile, so that nothing but what is written tells that the stream is gone.
    wait_for("a reset", || theirs.write(b"x").is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
    assert_eq!(theirs.read_to_end(&mut vec![]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    // Each segment that is late is answered by one.
    assert!(count(&pair.sides[0].end(), "tcp_resets_sent") >= 1);
}

#[test]
fn waiting_ends_with_the_timeouts_and_a_host_that_is_gone() {
    let mut pair = Pair::new();
    let (mut ours, theirs) = connection(&pair);
    ours.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    assert_eq!(ours.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(ours.set_read_timeout(Some(Duration::ZERO)).unwrap_err().kind(), ErrorKind::InvalidInput);
    ours.set_read_timeout(None).unwrap();
    let reader = thread::spawn(move || ours.read(&mut [0; 1]).unwrap_err().kind());
    let listener = TcpListener::bind(&pair.sides[0].network, PORT + 1).unwrap();
    let acceptor = thread::spawn(move || listener.accept().map(drop).unwrap_err().kind());
    pair.sides[0].end();
    assert_eq!(reader.join().unwrap(), ErrorKind::NotConnected);
    assert_eq!(acceptor.join().unwrap(), ErrorKind::NotConnected);
    let network = &pair.sides[0].network;
    let refused = TcpStream::connect(network, pair.sides[1].at(PORT)).map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotConnected);
    assert_eq!(TcpListener::bind(network, 9).map(drop).unwrap_err().kind(), ErrorKind::NotConnected);
    drop(theirs);
}

#[test]
fn connections_that_nobody_takes_are_refused_or_time_out() {
    let pair = Pair::new();
    let [client, server] = &pair.sides;
    let to = |port| TcpStream::connect_timeout(&client.network, server.at(port), LIMIT).map(drop);
    assert_eq!(to(PORT).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert_eq!(to(0).unwrap_err().kind(), ErrorKind::InvalidInput);
    let v6 = TcpStream::connect(&client.network, "[fd00::1]:80".parse().unwrap()).map(drop);
    assert_eq!(v6.unwrap_err().kind(), ErrorKind::NetworkUnreachable);
    // A port is free again once its listener is dropped.
    let listener = TcpListener::bind(&server.network, PORT).unwrap();
    let second = TcpListener::bind(&server.network, PORT).map(drop).unwrap_err();
    assert_eq!(second.kind(), ErrorKind::AddrInUse);
    assert!(to(PORT).is_ok());
    drop(listener);
    let listener = TcpListener::bind(&server.network, PORT).unwrap();
    assert!(to(PORT).is_ok());
    drop(listener);
    pair.cut();
    let wait = Duration::from_millis(50);
    let silent = TcpStream::connect_timeout(&client.network, server.at(PORT), wait).map(drop);
    assert_eq!(silent.unwrap_err().kind(), ErrorKind::TimedOut);
}

#[test]
fn connections_beyond_the_limits_are_refused_and_counted() {
    let mut pair = Pair::with(Options::default(), Limits { connections: 3, backlog: 2, ..Limits::default() });
    let [client, server] = &pair.sides;
    let listener = TcpListener::bind(&server.network, PORT).unwrap();
    let to = || TcpStream::connect_timeout(&client.network, server.at(PORT), LIMIT);
    let mut ours: Vec<TcpStream> = (0..3).map(|_| to().unwrap()).collect();
    assert_eq!(to().map(drop).unwrap_err().kind(), ErrorKind::QuotaExceeded);
    // The third found the backlog full, and learns it by a reset.
    let mut third = ours.pop().unwrap();
    third.set_read_timeout(Some(LIMIT)).unwrap();
    assert_eq!(third.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    drop(third);
    // One that was accepted makes room; the stack's thread may still hold the place of the third.
    let (accepted, _) = listener.accept().unwrap();
    let mut fourth = None;
    wait_for("a place", || {
        fourth = to().ok();
        fourth.is_some()
    });
    let mut fourth = fourth.unwrap();
    let (first, second) = (listener.accept().unwrap().0, listener.accept().unwrap().0);
    fourth.write_all(b"here").unwrap();
    let mut bytes = [0; 4];
    (&second).read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"here");
    drop((accepted, first, second));
    let counters = pair.sides[1].end();
    assert_eq!((count(&counters, "socket_over_backlog"), count(&counters, "socket_over_limit")), (1, 0));
}

#[test]
fn nobody_reads_behind_the_end_of_reading_and_the_other_side_goes_on() {
    let pair = Pair::new();
    let (mut ours, mut theirs) = connection(&pair);
    ours.shutdown(Shutdown::Read).unwrap();
    assert_eq!(ours.read(&mut [0; 1]).unwrap(), 0);
    theirs.write_all(&data(2_000_000)).unwrap(); // far beyond the window
    ours.write_all(b"still here").unwrap();
    ours.shutdown(Shutdown::Write).unwrap();
    let mut text = String::new();
    theirs.read_to_string(&mut text).unwrap();
    assert_eq!(text, "still here");
}

/// The stack's thread asks for buffers that others hold, and goes on once there are some.
#[test]
fn many_writers_at_once_all_get_their_bytes_through() {
    let pair = Pair::with(Options { packets: 128, ..Options::default() }, Limits::default());
    let [client, server] = &pair.sides;
    let listener = TcpListener::bind(&server.network, PORT).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..24 {
                let (mut stream, _) = listener.accept().unwrap();
                scope.spawn(move || {
                    let mut back = Vec::new();
                    stream.set_read_timeout(Some(LIMIT)).unwrap();
                    stream.read_to_end(&mut back).unwrap();
                    assert!(back == data(200_000), "{} bytes, or others", back.len());
                    stream.write_all(b"ok").unwrap();
                });
            }
        });
        for _ in 0..24 {
            scope.spawn(|| {
                let to = server.at(PORT);
                let mut stream = TcpStream::connect_timeout(&client.network, to, LIMIT).unwrap();
                stream.write_all(&data(200_000)).unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
                let mut text = String::new();
                stream.set_read_timeout(Some(LIMIT)).unwrap();
                stream.read_to_string(&mut text).unwrap();
                assert_eq!(text, "ok");
            });
        }
    });
}
