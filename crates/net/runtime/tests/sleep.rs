//! Threads that sleep: what wakes them, and who does not let them.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use common::{Device, Fake, HOUR, end, options, start, until};
use runtime::{Instant, Options, Wakeup};

/// Turns that a thread makes until it sleeps, and some for its waking up.
const FEW: usize = 66 * 64 + 1000;

#[test]
fn a_deadline_ends_a_sleep_in_time_and_the_thread_sleeps_until_then() {
    let device = Device::new(true);
    let due = Instant::now() + Duration::from_millis(500);
    let mut poller = Fake { deadline: Some(due), ..Fake::of(&[&device]) };
    let (turns, done) = (poller.turns.clone(), poller.done.clone());
    let at_due = Arc::new(AtomicUsize::new(0));
    let count = at_due.clone();
    poller.then = Box::new(move |now| {
        if now >= due && !done.swap(true, SeqCst) {
            count.store(turns.load(SeqCst), SeqCst);
        }
        0
    });
    let running = start(&options(1), vec![poller]);
    until("the deadline", || !running.is_running()); // the longest sleep is an hour
    end(running);
    let turns = at_due.load(SeqCst);
    assert!((1..FEW).contains(&turns), "{turns} turns: it did not sleep, or too short");
    assert!(Instant::now() >= due);
}

#[test]
fn a_deadline_that_is_over_lets_nobody_sleep() {
    let device = Device::new(true);
    let poller = Fake { deadline: Some(Instant::now()), ..Fake::of(&[&device]) };
    let turns = poller.turns.clone();
    let running = start(&options(1), vec![poller]);
    until("turns", || turns.load(SeqCst) > 3 * FEW);
    end(running);
}

#[test]
fn any_of_three_queues_wakes_their_thread() {
    let devices = [Device::new(true), Device::new(true), Device::new(true)];
    let running = start(&options(1), vec![Fake::of(&devices.each_ref())]);
    for (packets, device) in (1..).zip(devices.iter().chain(&devices)) {
        until("a sleep", || devices.iter().all(|device| device.is_slept_on()));
        device.give(1);
        until("a packet", || running.progress().packets.load(SeqCst) == packets);
    }
    let mut finished = end(running);
    let received: Vec<u64> = finished.pollers[0].rx.iter().map(|rx| rx.packets).collect();
    assert_eq!((received, finished.missing_buffers()), (vec![2, 2, 2], 0));
}

#[test]
fn a_thread_sleeps_no_longer_than_it_may() {
    let options = Options { sleep: Some(Duration::from_millis(1)), ..options(1) };
    for deadline in [None, Some(Instant::now() + HOUR)] {
        let device = Device::new(true);
        let poller = Fake { deadline, ..Fake::of(&[&device]) };
        let turns = poller.turns.clone();
        let running = start(&options, vec![poller]);
        until("many sleeps", || turns.load(SeqCst) > 2 * FEW);
        end(running);
    }
}

#[test]
fn a_queue_without_an_interrupt_is_polled() {
    let (with, without) = (Device::new(true), Device::new(false));
    let running = start(&options(1), vec![Fake::of(&[&with]), Fake::of(&[&without])]);
    for packets in 1..=20 {
        let turns = running.progress().turns.load(SeqCst);
        until("idle turns", || running.progress().turns.load(SeqCst) > turns + 2 * FEW as u64);
        without.give(1);
        until("a packet", || running.progress().packets.load(SeqCst) == packets);
    }
    end(running);
}

#[test]
fn a_poller_that_only_sends_is_polled_beside_one_that_sleeps() {
    let device = Device::new(true);
    let sender = Fake { tx: vec![common::Tx::new()], ..Fake::of(&[]) };
    let turns = sender.turns.clone();
    let running = start(&options(1), vec![Fake::of(&[&device]), sender]);
    until("turns", || turns.load(SeqCst) > 3 * FEW);
    end(running);
}

#[test]
fn another_thread_wakes_a_poller() {
    let device = Device::new(true);
    let wakeup = Arc::new(Wakeup::new().expect("a descriptor"));
    let mut poller = Fake { wakeup: Some(wakeup.clone()), ..Fake::of(&[&device]) };
    let (posted, taken) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (message, count) = (posted.clone(), taken.clone());
    poller.then = Box::new(move |_| {
        count.fetch_add(usize::from(message.swap(false, SeqCst)), SeqCst);
        0
    });
    let running = start(&options(1), vec![poller]);
    for messages in 1..=3 {
        until("a sleep", || device.is_slept_on());
        posted.store(true, SeqCst);
        wakeup.wake();
        until("a message", || taken.load(SeqCst) == messages);
    }
    until("a sleep", || device.is_slept_on());
    let turns = running.progress().turns.load(SeqCst);
    // Time for turns of a thread that does not sleep; one that sleeps makes none.
    std::thread::sleep(Duration::from_millis(50));
    assert!(running.progress().turns.load(SeqCst) <= turns + 64, "calls are forgotten when it wakes");
    end(running);
}

#[test]
fn threads_that_are_to_poll_do_not_sleep() {
    let device = Device::new(true);
    let running = start(&Options { sleep: None, ..options(1) }, vec![Fake::of(&[&device])]);
    until("turns", || running.progress().turns.load(SeqCst) > 3 * FEW as u64);
    assert!(!device.is_slept_on());
    end(running);
}
