//! Headers are found where they were said to be, whatever was stripped since.

use memory::annotation::Header;
use memory::{Backing, Dma, HEADROOM, Options, Pool};

fn pool() -> Pool {
    pool_of(4)
}

fn pool_of(count: usize) -> Pool {
    let dma = Dma::new(Options { backing: Backing::Memfd, ..Options::default() });
    Pool::new(&dma, count).expect("memory")
}

#[test]
fn a_header_stays_where_it_is_when_bytes_before_it_go() {
    let mut packet = pool().alloc().expect("a buffer");
    packet.clear_annotations();
    packet.copy_from(b"ethernetIPV4tcp").expect("fits");
    assert!(packet.header(Header::Network).is_none(), "nobody said so");
    packet.set_header(Header::Link, 0);
    packet.set_header(Header::Network, 8);
    packet.set_header(Header::Transport, 12);
    packet.pull_front(8).expect("there");
    assert_eq!(packet.header(Header::Network).expect("set"), b"IPV4tcp");
    assert_eq!(packet.header(Header::Transport).expect("set"), b"tcp");
    assert_eq!(packet.header(Header::Link).expect("stripped, not gone"), b"ethernetIPV4tcp");
    assert_eq!(packet.header_offset(Header::Link), Some(-8));
    packet.header_mut(Header::Network).expect("set")[0] = b'i';
    assert_eq!(&packet[..4], b"iPV4");
}

#[test]
fn a_header_behind_the_end_is_none() {
    let mut packet = pool().alloc().expect("a buffer");
    packet.clear_annotations();
    packet.copy_from(b"0123456789").expect("fits");
    packet.set_header(Header::Transport, 10);
    assert_eq!(packet.header(Header::Transport).expect("empty"), b"");
    packet.set_len(9).expect("shorter");
    assert!(packet.header(Header::Transport).is_none());
    packet.set_header(Header::Transport, 1 << 20);
    assert!(!packet.has_header(Header::Transport), "no buffer is that long");
    packet.clear_header(Header::Transport);
    assert!(!packet.has_header(Header::Transport));
}

#[test]
fn annotations_leave_bytes_and_metadata_alone() {
    let mut packet = pool().alloc().expect("a buffer");
    packet.copy_from(&[7; 100]).expect("fits");
    packet.push_front(HEADROOM).expect("all of it").fill(9);
    packet.annotations_mut().area.fill(0xFF);
    packet.annotations_mut().timestamp_ns = -1;
    assert!(packet[..HEADROOM].iter().all(|&b| b == 9) && packet[HEADROOM..].iter().all(|&b| b == 7));
    packet.clear_annotations();
    assert_eq!(packet.annotations().area, [0; memory::annotation::AREA]);
    assert_eq!(packet.len(), HEADROOM + 100);
}

#[test]
fn splitting_a_batch_keeps_order_on_both_sides() {
    let mut pool = pool_of(64);
    let mut batch = memory::Batch::with_limit(40);
    pool.alloc_batch(&mut batch, 40);
    for (i, packet) in batch.iter_mut().enumerate() {
        packet.set_user(i as u64);
    }
    batch.pop_front(); // the batch does not begin at its array's start
    let mut taken = vec![];
    let sort = |_: &mut Vec<_>, place: usize, packet: &mut memory::Packet| {
        assert_eq!((place + 1) as u64, packet.user(), "each is asked about once, in order");
        (!packet.user().is_multiple_of(3)).then_some(())
    };
    batch.split(&mut taken, sort, |taken, (), packet| taken.push(packet));
    assert!(batch.iter().map(|p| p.user()).eq((3..40).step_by(3)));
    assert!(taken.iter().map(|p| p.user()).eq((1..40).filter(|n| n % 3 != 0)));
    let mut other = memory::Batch::with_limit(5);
    assert_eq!(other.take_from(&mut batch, 9), 5, "as many as fit");
    assert_eq!((other[0].user(), batch[0].user()), (3, 18));
    drop((batch, other, taken));
    assert_eq!(pool.available(), 64, "each came back once");
}

#[test]
fn headers_are_changed_beside_the_buffers_behind() {
    let mut pool = pool();
    let [mut packet, mut next] = [(); 2].map(|()| pool.alloc().expect("a buffer"));
    packet.clear_annotations();
    packet.copy_from(b"ethernetIPV4").expect("fits");
    packet.set_header(Header::Network, 8);
    assert!(packet.first_and_next().1.is_none());
    next.copy_from(b"behind").expect("fits");
    packet.append(next);
    let (header, behind) = packet.header_and_next(Header::Network).expect("set");
    let behind = behind.expect("appended");
    header[0] = behind[0];
    assert_eq!((&header[..], &behind[..]), (&b"bPV4"[..], &b"behind"[..]));
    let (bytes, behind) = packet.first_and_next();
    bytes[0] = behind.expect("appended")[2];
    assert_eq!(&packet[..], b"hthernetbPV4");
    assert!(packet.header_and_next(Header::Transport).is_none());
    pool.free(packet);
}
