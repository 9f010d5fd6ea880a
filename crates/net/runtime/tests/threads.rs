//! Threads: who gets which poller, what ends them, and where their buffers are then.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Device, Fake, RING, Tx, end, options, runtime, start, until};
use runtime::{Error, Instant, Options};

/// A poller without queues.
fn then(then: impl FnMut(Instant) -> usize + Send + 'static) -> Fake {
    Fake { then: Box::new(then), ..Fake::of(&[]) }
}

/// Two threads, of which the second sleeps; the first does as the test says.
fn beside_a_sleeper(first: Fake) -> (runtime::Running, Arc<Device>) {
    let device = Device::new(true);
    (start(&options(2), vec![first, Fake::of(&[&device])]), device)
}

#[test]
fn the_end_of_a_run_ends_threads_that_sleep() {
    let devices = [Device::new(true), Device::new(true), Device::new(true)];
    let running = start(&options(3), devices.iter().map(|device| Fake::of(&[device])).collect());
    until("three threads that sleep", || devices.iter().all(|device| device.is_slept_on()));
    assert!(running.is_running());
    let mut finished = end(running);
    assert!(finished.failure.is_none());
    assert_eq!((finished.pollers.len(), finished.missing_buffers()), (3, 0));
    assert_eq!(finished.progress().working.load(SeqCst), 0);
}

#[test]
fn a_panic_in_one_thread_ends_the_others() {
    let asleep = Arc::new(Mutex::new(None::<Arc<Device>>));
    let sleeper = asleep.clone();
    let first = then(move |_| {
        let slept_on = sleeper.lock().expect("no panic yet").as_ref().is_some_and(|it| it.is_slept_on());
        assert!(!slept_on, "the panic of this test");
        0
    });
    let (running, device) = beside_a_sleeper(first);
    *asleep.lock().expect("no panic yet") = Some(device);
    until("the other thread's end", || running.progress().working.load(SeqCst) == 0);
    assert!(!running.is_running());
    let mut finished = end(running);
    assert!(matches!(finished.failure, Some(Error::Panicked)));
    let counted: Vec<usize> = finished.pollers.iter().map(|stats| stats.rx.len()).collect();
    assert_eq!((counted, finished.missing_buffers()), (vec![0, 1], 0), "nothing of the first thread");
}

#[test]
fn a_failure_of_one_poller_ends_all_threads() {
    let first = then(|_| 0);
    let failure = first.failure.clone();
    let (running, device) = beside_a_sleeper(first);
    until("a thread that sleeps", || device.is_slept_on());
    failure.store(true, SeqCst);
    until("the end of both threads", || running.progress().working.load(SeqCst) == 0);
    let finished = end(running);
    assert_eq!(finished.failure.expect("it failed").to_string(), "this poller fails");
}

#[test]
fn a_run_ends_when_so_many_packets_were_moved_by_all_threads() {
    let options = Options { count: Some(1000), ..options(2) };
    let running = start(&options, vec![then(|_| 1), then(|_| 1)]);
    until("the last packet", || !running.is_running());
    let finished = end(running);
    let packets = finished.progress().packets.load(SeqCst);
    // Each thread looks every 64 turns.
    assert!((1000..1000 + 2 * 64).contains(&packets), "{packets}");
    assert!(finished.failure.is_none());
}

#[test]
fn a_thread_ends_when_all_its_pollers_are_done() {
    let pollers: Vec<Fake> = (0..3).map(|_| then(|_| 1)).collect();
    let done: Vec<_> = pollers.iter().map(|poller| poller.done.clone()).collect();
    let turns = pollers[2].turns.clone();
    let running = start(&options(2), pollers); // the first and the third share a thread
    done[0].store(true, SeqCst);
    let before = turns.load(SeqCst);
    until("turns beside one that is done", || turns.load(SeqCst) > before + 1000);
    done[2].store(true, SeqCst);
    until("the end of one thread", || running.progress().working.load(SeqCst) == 1);
    assert!(running.is_running());
    done[1].store(true, SeqCst);
    until("the end of the other", || !running.is_running());
    end(running);
}

#[test]
fn who_waits_is_woken_by_the_end_of_a_thread() {
    let poller = then(|_| 1);
    let done = poller.done.clone();
    let running = start(&options(1), vec![poller]);
    let (since, most) = (std::time::Instant::now(), Duration::from_secs(60));
    done.store(true, SeqCst);
    while running.is_running() {
        running.wait(most);
    }
    assert!(since.elapsed() < most / 2);
    end(running);
}

#[test]
fn a_pool_has_what_the_rings_and_pollers_of_its_thread_may_hold() {
    let devices = [Device::new(true), Device::new(true), Device::new(true)];
    let [a, b, c] = devices.each_ref();
    let pollers = vec![
        Fake { tx: vec![Tx::new()], buffers: 1000, ..Fake::of(&[a, b]) },
        Fake::of(&[]),
        Fake::of(&[c]), // shares the thread of the first
    ];
    let pools: Vec<_> = pollers.iter().map(|poller| poller.pool.clone()).collect();
    let options = Options { rx_ring: 64, tx_ring: 512, max_frame: 9000, ..options(2) };
    let running = start(&options, pollers);
    until("turns", || pools.iter().all(|pool| pool.load(SeqCst) > 0));
    end(running);
    let batches = 2 * 256 * 5; // a frame of 9000 bytes takes five buffers
    let pools: Vec<usize> = pools.iter().map(|pool| pool.load(SeqCst)).collect();
    let first = 3 * 64 + 512 + 1000 + batches;
    assert_eq!(pools, [first, batches, first]);
}

#[test]
fn what_was_counted_comes_back_in_the_order_of_the_pollers() {
    let devices: Vec<_> = (0..5).map(|_| Device::new(true)).collect();
    let running = start(&options(2), devices.iter().map(|device| Fake::of(&[device])).collect());
    (1..).zip(&devices).for_each(|(packets, device)| device.give(packets));
    until("all packets", || running.progress().packets.load(SeqCst) == 15);
    let mut finished = end(running);
    let packets: Vec<u64> = finished.pollers.iter().map(|stats| stats.rx[0].packets).collect();
    assert_eq!((packets, finished.missing_buffers()), (vec![1, 2, 3, 4, 5], 0));
}

#[test]
fn what_devices_were_given_is_sent_and_each_buffer_comes_back() {
    const PACKETS: usize = 10 * RING;
    let device = Device::new(true);
    let tx = Tx::new();
    let sent = tx.sent.clone();
    // All are there in the beginning, and the run ends with the last of them: the device
    // had no time to send what fills its ring.
    device.give(PACKETS);
    let options = Options { count: Some(PACKETS as u64), ..options(1) };
    let running = start(&options, vec![Fake { tx: vec![tx], ..Fake::of(&[&device]) }]);
    until("all packets", || !running.is_running());
    let mut finished = end(running);
    let (rx, tx) = (finished.pollers[0].rx[0], finished.pollers[0].tx[0]);
    assert_eq!((rx.packets, tx.packets + tx.ring_full), (PACKETS as u64, PACKETS as u64));
    assert!(tx.ring_full > 0, "the ring was full at times");
    assert_eq!(sent.load(SeqCst) as u64, tx.packets, "what was under way in the end was sent");
    assert_eq!(finished.missing_buffers(), 0);
    assert_eq!(finished.progress().lost[0].load(SeqCst), tx.ring_full, "shown while it ran");
}

#[test]
fn a_buffer_that_does_not_come_back_is_missed() {
    let device = Device::new(true);
    let kept = Arc::new(Mutex::new(None));
    let keep = kept.clone();
    let keep = move |packet| *keep.lock().expect("no panic") = Some(packet);
    let running = start(&options(1), vec![Fake { keep: Some(Box::new(keep)), ..Fake::of(&[&device]) }]);
    device.give(1);
    until("a packet", || running.progress().packets.load(SeqCst) == 1);
    let mut finished = end(running);
    assert_eq!(finished.missing_buffers(), 1);
    drop(kept.lock().expect("no panic").take());
    assert_eq!(finished.missing_buffers(), 0, "it is asked for again, and came back");
}

#[test]
fn no_packet_is_touched_before_the_last_step_is_done() {
    let poller = then(|_| 1);
    let turns = poller.turns.clone();
    let seen = Arc::new(AtomicUsize::new(usize::MAX));
    let see = seen.clone();
    let running = runtime(&options(1), vec![poller]).expect("memory").start(move || {
        // Time for a thread that does not wait; one that waits passes however long it is.
        std::thread::sleep(std::time::Duration::from_millis(50));
        see.store(turns.load(SeqCst), SeqCst);
        Ok(())
    });
    until("turns", || running.progress().turns.load(SeqCst) > 0);
    assert_eq!(seen.load(SeqCst), 0);
    end(running);
}

#[test]
fn rings_have_buffers_before_the_last_step_and_no_packet_is_taken() {
    let devices = [(); 3].map(|()| Device::new(true));
    devices.iter().for_each(|device| device.give(3));
    let pollers: Vec<Fake> = devices.iter().map(|device| Fake::of(&[device])).collect();
    let shown: Vec<_> = devices.clone().into();
    let running = runtime(&options(2), pollers).expect("memory").start(move || {
        let buffers: Vec<usize> = shown.iter().map(|device| device.buffers()).collect();
        assert_eq!(buffers, [RING; 3]);
        assert!(shown.iter().all(|device| device.waiting() == 3));
        Ok(())
    });
    until("packets", || running.progress().packets.load(SeqCst) == 9);
    assert!(end(running).failure.is_none());
}

#[test]
fn a_port_that_does_not_start_is_the_failure() {
    let start = || Err(port::Error::Lost { port: "p".into(), what: "it was unplugged" }.into());
    let running = runtime(&options(1), vec![then(|_| 1)]).expect("memory").start(start);
    let finished = end(running);
    let failure = finished.failure.as_ref().map(ToString::to_string);
    assert_eq!(failure.as_deref(), Some("p: it was unplugged"));
    assert_eq!(finished.progress().packets.load(SeqCst), 0);
}

#[test]
fn a_thread_that_panics_while_it_fills_rings_keeps_nobody() {
    let device = Device::new(true);
    device.break_ring();
    let running = start(&options(2), vec![Fake::of(&[&device]), then(|_| 0)]);
    until("the end of all threads", || !running.is_running());
    assert!(matches!(end(running).failure, Some(Error::Panicked)));
}

#[test]
fn a_last_step_that_fails_ends_the_run_before_any_packet() {
    let poller = then(|_| 1);
    let turns = poller.turns.clone();
    let failed = || Err(Error::Poller("the last step fails".into()));
    let running = runtime(&options(1), vec![poller]).expect("memory").start(failed);
    assert!(!running.is_running());
    let finished = end(running);
    assert_eq!(finished.failure.expect("it failed").to_string(), "the last step fails");
    assert_eq!(turns.load(SeqCst), 0);
}

#[test]
fn a_core_that_is_not_there_is_refused_before_anything_runs() {
    let options = Options { cores: vec![1000], ..options(1) };
    match runtime(&options, vec![then(|_| 0)]) {
        Err(Error::Core(error)) => assert_eq!(error.core, 1000),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("a machine with a thousand cores"),
    }
}

#[test]
fn each_thread_is_on_its_core() {
    let usable = runtime::cores::usable();
    let last = *usable.last().expect("a core");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let see = seen.clone();
    let poller = then(move |_| {
        *see.lock().expect("no panic") = runtime::cores::usable();
        0
    });
    let running = start(&Options { cores: vec![last], ..options(1) }, vec![poller]);
    until("a turn", || running.progress().turns.load(SeqCst) > 0);
    end(running);
    assert_eq!(*seen.lock().expect("no panic"), [last]);
}
