//! A front end by hand, the device it has to do with, and the memory that both see.

use super::*;

/// Memory that the front end maps, too: what it writes there the device sees word by word.
pub(super) struct SharedFile {
    pub(super) file: File,
    pub(super) mapping: Mapping,
}

impl SharedFile {
    pub(super) fn new(len: u64) -> SharedFile {
        let file = file(len);
        SharedFile { mapping: Mapping::new(&file, 0, len as usize).unwrap(), file }
    }

    pub(super) fn half(&self, at: u64) -> &AtomicU16 {
        assert!(at.is_multiple_of(2) && at + 2 <= self.mapping.len() as u64);
        // SAFETY: inside of the mapping and aligned; all accesses to it are atomic.
        unsafe { AtomicU16::from_ptr(self.mapping.base().add(at as usize).cast()) }
    }

    pub(super) fn word(&self, at: u64) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.mapping.len() as u64);
        // SAFETY: as in `half`.
        unsafe { AtomicU64::from_ptr(self.mapping.base().add(at as usize).cast()) }
    }

    pub(super) fn put16(&self, at: u64, value: u16) {
        self.half(at).store(value.to_le(), Ordering::Release);
    }

    pub(super) fn put64(&self, at: u64, value: u64) {
        self.word(at).store(value.to_le(), Ordering::Release);
    }

    pub(super) fn read16(&self, at: u64) -> u16 {
        u16::from_le(self.half(at).load(Ordering::Acquire))
    }
}

/// A model that receives without an end, and discards what is sent.
pub(super) struct Served {
    pub(super) serving: Serving,
    pub(super) folder: tempfile::TempDir,
}

impl Served {
    pub(super) fn new() -> Served {
        let folder = tempfile::tempdir().unwrap();
        let cable = Cable::open(&"gen+sink".parse().unwrap()).unwrap();
        let device = virtio::open(&virtio::Options::default(), cable);
        let endpoint = Endpoint { socket: folder.path().join("s"), device };
        let options = Options { core: None, idle: Idle::Sleep };
        Served { serving: vhost_user::bind(vec![endpoint]).unwrap().serve(options).unwrap(), folder }
    }

    pub(super) fn report(&self) -> EndpointReport {
        self.serving.report().endpoints.remove(0)
    }

    /// Waits until the device was stepped so many times more, and does something meanwhile.
    pub(super) fn steps(&self, count: u64, mut meanwhile: impl FnMut()) {
        let end = self.report().device.steps + count;
        until("steps of the device", || {
            meanwhile();
            self.report().device.steps >= end
        });
    }

    /// The front end is gone, and nothing of it is left.
    pub(super) fn is_free(&self) {
        until("the back end to be free", || !self.report().attached);
        assert_eq!(self.report().device.mapped, (0, 0));
    }

    /// A front end that keeps to the rules is served.
    pub(super) fn serves_on(&self) {
        let mut front = FrontEnd::connect(self, VERSION_1);
        front.start(SPLIT_START);
        front.moves(200);
        drop(front);
        self.is_free();
    }
}

/// A front end that says what it likes, with a receive and a transmit ring.
pub(super) struct FrontEnd {
    pub(super) stream: UnixStream,
    pub(super) is_packed: bool,
    pub(super) rings: SharedFile,
    pub(super) buffers: File,
    /// Of each packed ring: the next descriptor to be offered again, and its wrap counter.
    pub(super) next: [(u16, bool); 2],
    pub(super) kick: OwnedFd,
}

impl FrontEnd {
    /// Agrees on features.
    pub(super) fn connect(served: &Served, features: u64) -> FrontEnd {
        let stream = UnixStream::connect(served.folder.path().join("s")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let (rings, buffers) = (SharedFile::new(RINGS.len), file(BUFFERS.len));
        let is_packed = features & RING_PACKED != 0;
        let mut front = FrontEnd { stream, is_packed, rings, buffers, next: [(0, true); 2], kick: event() };
        for request in [Request::GetFeatures, Request::GetProtocolFeatures] {
            if request == Request::GetProtocolFeatures {
                let body = Message::new(Request::SetFeatures).u64(features | F_PROTOCOL_FEATURES);
                front.say(&body.finish(false), &[]);
            }
            front.say(&Message::new(request).finish(false), &[]);
            front.answer().expect("features");
        }
        let wanted = protocol::REPLY_ACK | protocol::CONFIGURE_MEM_SLOTS | protocol::RESET_DEVICE;
        front.say(&Message::new(Request::SetProtocolFeatures).u64(wanted).finish(false), &[]);
        front
    }

    /// Sends bytes and files; a back end that hung up is seen when its answer is read.
    pub(super) fn say(&self, bytes: &[u8], files: &[BorrowedFd<'_>]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(32))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(files.is_empty() || control.push(SendAncillaryMessage::ScmRights(files)));
        let _ = sendmsg(&self.stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL);
    }

    /// The next answer; `None` when the back end hung up.
    pub(super) fn answer(&mut self) -> Option<Vec<u8>> {
        let mut bytes = [0; HEADER];
        self.stream.read_exact(&mut bytes).ok()?;
        let mut body = vec![0; Header::decode(&bytes).size as usize];
        self.stream.read_exact(&mut body).ok()?;
        Some(body)
    }

    /// Whether a message is acknowledged, and with success.
    pub(super) fn order(&mut self, message: Message, files: &[BorrowedFd<'_>]) -> bool {
        self.say(&message.finish(true), files);
        self.answer().is_some_and(|body| body == [0; 8])
    }

    #[track_caller]
    pub(super) fn must(&mut self, message: Message, files: &[BorrowedFd<'_>]) {
        assert!(self.order(message, files), "an honest message is refused");
    }

    /// Tells of all memory and starts both rings, as new.
    pub(super) fn start(&mut self, base: u32) {
        let [rings, buffers] = self.files();
        self.must(RINGS.add(), &[rings.as_fd()]);
        self.must(BUFFERS.add(), &[buffers.as_fd()]);
        self.start_rings(base);
    }

    pub(super) fn files(&self) -> [File; 2] {
        [&self.rings.file, &self.buffers].map(|file| file.try_clone().unwrap())
    }

    /// Sets both rings up and starts them: all buffers are offered.
    pub(super) fn start_rings(&mut self, base: u32) {
        self.rings.file.write_all_at(&vec![0; RINGS.len as usize], 0).unwrap();
        self.next = [(0, true); 2];
        for ring in 0..2 {
            (0..SIZE).for_each(|n| self.describe(ring, n));
            let (at, index) = (RINGS.user + ring * RING_BYTES, ring as u32);
            self.must(Message::new(Request::SetVringNum).u32(index).u32(SIZE.into()), &[]);
            self.must(Message::new(Request::SetVringBase).u32(index).u32(base), &[]);
            let message = Message::new(Request::SetVringAddr).u32(index).u32(0);
            self.must(message.u64(at).u64(at + DEVICE).u64(at + DRIVER).u64(0), &[]);
            let kick = self.kick.try_clone().unwrap();
            self.must(Message::new(Request::SetVringKick).u64(ring), &[kick.as_fd()]);
            self.must(Message::new(Request::SetVringEnable).u32(index).u32(1), &[]);
        }
        self.offer();
    }

    pub(super) fn stop_rings(&mut self) {
        for index in 0..2 {
            self.say(&Message::new(Request::GetVringBase).u32(index).u32(0).finish(false), &[]);
            self.answer().expect("the base of a ring that runs, or broke");
        }
    }

    /// Writes descriptor `n` of a ring; a packed one is available with that.
    pub(super) fn describe(&mut self, ring: u64, n: u16) {
        let address = BUFFERS.guest + (ring * u64::from(SIZE) + u64::from(n)) * BUFFER;
        let (len, write) = if ring == 0 { (BUFFER, split::WRITE) } else { (72, 0) };
        let at = ring * RING_BYTES + u64::from(n) * 16;
        self.rings.put64(at, address);
        let (first, second) = if self.is_packed {
            let wrap = self.next[ring as usize].1;
            (n, write | if wrap { packed::AVAIL } else { packed::USED })
        } else {
            self.rings.put16(ring * RING_BYTES + DRIVER + available::RING as u64 + u64::from(n) * 2, n);
            (write, 0)
        };
        self.rings.put64(at + 8, u64::from(second) << 48 | u64::from(first) << 32 | len);
    }

    /// Offers all buffers again that were used; how many that were.
    pub(super) fn offer(&mut self) -> usize {
        let mut count = 0;
        for ring in 0..2 {
            let at = ring * RING_BYTES;
            if !self.is_packed {
                let index = at + DRIVER + available::INDEX as u64;
                let offered = self.rings.read16(at + DEVICE + used::INDEX as u64).wrapping_add(SIZE);
                count += usize::from(offered.wrapping_sub(self.rings.read16(index)));
                self.rings.put16(index, offered);
                continue;
            }
            for _ in 0..SIZE {
                let (n, wrap) = self.next[ring as usize];
                let flags = self.rings.read16(at + u64::from(n) * 16 + packed::FLAGS as u64);
                if [packed::AVAIL, packed::USED].iter().any(|bit| (flags & bit != 0) != wrap) {
                    break;
                }
                self.next[ring as usize].1 = !wrap;
                self.describe(ring, n);
                self.next[ring as usize] = if n + 1 == SIZE { (0, !wrap) } else { (n + 1, wrap) };
                count += 1;
            }
        }
        count
    }

    /// Frames move, as many.
    pub(super) fn moves(&mut self, count: usize) {
        let (mut moved, mut limit) = (0, Limit::time("frames in both rings"));
        while moved < count {
            limit.check();
            moved += self.offer();
        }
    }
}
