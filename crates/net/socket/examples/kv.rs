//! A store of keys and values, as a `service::Protocol`: it is given the bytes of a connection
//! as they come, cut anywhere, and `service::Server` sees to packets, windows and slow clients.
//!
//! `cargo run --release -p ixora-socket --example kv [tap:ixora0 10.9.9.2/24]`, and then
//! `printf 'SET a 1\nGET a\n' | nc 10.9.9.2 6400`

mod support;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::IpAddr;

use service::{Output, Protocol, Server, Taken};
use socket::Network;
use socket::blocking::TcpStream;

const PORT: u16 = 6400;
/// The longest request in bytes, and the most keys.
const LINE: usize = 1024;
const KEYS: usize = 1 << 16;

#[derive(Default)]
struct Store {
    values: HashMap<Vec<u8>, Vec<u8>>,
}

impl Store {
    /// Carries out `GET key`, `SET key value` or `DEL key`.
    fn answer(&mut self, line: &[u8], output: &mut impl Output) {
        let mut words = line.splitn(3, |byte| *byte == b' ');
        match (words.next(), words.next(), words.next()) {
            (Some(b"GET"), Some(key), None) => match self.values.get(key) {
                Some(value) => [b"VALUE ", &value[..], b"\r\n"].into_iter().for_each(|it| output.put(it)),
                None => output.put(b"NONE\r\n"),
            },
            (Some(b"SET"), Some(key), Some(value)) => {
                if self.values.len() == KEYS && !self.values.contains_key(key) {
                    return output.put(b"FULL\r\n");
                }
                self.values.insert(key.to_vec(), value.to_vec());
                output.put(b"OK\r\n");
            }
            (Some(b"DEL"), Some(key), None) => {
                output.put(if self.values.remove(key).is_some() { b"OK\r\n" } else { b"NONE\r\n" });
            }
            _ => output.put(b"ERROR\r\n"),
        }
    }
}

impl Protocol for Store {
    /// The beginning of a line whose rest has not come.
    type Session = Vec<u8>;

    fn take(&mut self, line: &mut Vec<u8>, input: &[u8], output: &mut impl Output) -> Taken {
        let mut taken = Taken { used: 0, ends: false, is_carried_out: false, is_paused: false };
        while !taken.ends && !output.is_full() && taken.used < input.len() {
            let rest = &input[taken.used..];
            let end = rest.iter().position(|byte| *byte == b'\n');
            let part = &rest[..end.map_or(rest.len(), |end| end + 1)];
            taken.used += part.len();
            line.extend_from_slice(part);
            if line.len() > LINE {
                output.put(b"ERROR too long\r\n");
                taken.ends = true;
            } else if end.is_some() {
                self.answer(line.trim_ascii(), output);
                line.clear();
                taken.is_carried_out = true;
            }
        }
        taken
    }

    fn is_answering(&self, _: &Vec<u8>) -> bool {
        false
    }

    fn held(&self, line: &Vec<u8>) -> usize {
        line.capacity()
    }

    fn forget(&mut self, _: Vec<u8>) {}

    fn awaits(&self, line: &Vec<u8>) -> bool {
        !line.is_empty()
    }
}

fn main() -> support::Result {
    let mut place = support::ExamplePort::open()?;
    let node = place.start(&[PORT], Box::new(Server::new(Store::default(), 16 << 20)))?;
    place.finish(node, talk)
}

/// Asks in one go, and compares the answers.
fn talk(network: &Network, to: IpAddr) -> support::Result {
    let mut stream = TcpStream::connect_timeout(network, (to, PORT).into(), support::LIMIT)?;
    stream.set_read_timeout(Some(support::LIMIT))?;
    let mut answers = BufReader::new(stream.try_clone()?).lines();
    for (request, answer) in [
        ("GET a", "NONE"),
        ("SET a 1 and 2", "OK"),
        ("GET a", "VALUE 1 and 2"),
        ("DEL a", "OK"),
        ("DEL a", "NONE"),
        ("PUT a", "ERROR"),
    ] {
        let (begin, end) = request.split_at(2);
        stream.write_all(begin.as_bytes())?; // cut anywhere
        stream.write_all(format!("{end}\r\n").as_bytes())?;
        let got = answers.next().ok_or("the connection ended")??;
        if got != answer {
            Err(format!("{request} was answered by {got}"))?;
        }
    }
    Ok(())
}
