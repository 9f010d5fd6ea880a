//! A proxy by asynchronous streams: one thread carries all connections, each to a server and
//! back, and a side that does not read holds up the other.
//!
//! `cargo run --release -p ixora-socket --example proxy [tap:ixora0 10.9.9.2/24 10.9.9.1:80]`

mod support;

use std::future::pending;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::pin::{Pin, pin};
use std::thread;

use futures_util::future::{Either, select, try_join};
use futures_util::io::{AsyncWriteExt, copy};
use futures_util::stream::{FuturesUnordered, StreamExt};
use socket::asynchronous::{TcpListener, TcpStream};
use socket::{Limits, Network, blocking};

const PORT: u16 = 8080;

/// Carries bytes one way until they end, and then the end.
async fn carry(from: &TcpStream, mut to: &TcpStream) -> io::Result<()> {
    copy(from, &mut to).await?;
    to.close().await
}

/// Carries a connection to the server and back, until both directions have ended.
async fn relay(client: TcpStream, network: &Network, server: SocketAddr) -> io::Result<()> {
    let server = TcpStream::connect(network, server).await?;
    try_join(carry(&client, &server), carry(&server, &client)).await?;
    Ok(())
}

/// Accepts and carries connections until the host ends.
async fn serve(mut listener: TcpListener, network: &Network, server: SocketAddr) -> io::Result<()> {
    type Relay<'a> = Pin<Box<dyn Future<Output = io::Result<()>> + 'a>>;
    let mut relays: FuturesUnordered<Relay<'_>> = FuturesUnordered::new();
    relays.push(Box::pin(pending())); // so that there is always one to wait for
    loop {
        // An `accept` that is dropped, because a relay ended first, leaves the connection to the next.
        match select(pin!(listener.accept()), relays.next()).await {
            Either::Left((accepted, _)) => {
                let (client, _) = accepted?;
                relays.push(Box::pin(relay(client, network, server)));
            }
            Either::Right((Some(Err(error)), _)) => eprintln!("{error}"),
            Either::Right(_) => {}
        }
    }
}

fn main() -> support::Result {
    let mut place = support::ExamplePort::open()?;
    let server: SocketAddr = match (place.peer(), place.arguments.first()) {
        (Some(peer), _) => upstream(peer)?,
        (None, Some(server)) => server.parse()?,
        (None, None) => Err("write the server's address behind your own: 10.9.9.1:80")?,
    };
    let (network, engine) = socket::network(&[place.own], Limits::default())?;
    let node = place.start(&[], Box::new(engine))?;
    let listener = support::block_on(TcpListener::bind(&network, PORT))?;
    thread::spawn(move || support::block_on(serve(listener, &network, server)));
    place.finish(node, talk)
}

/// A server on the other model, which sends back what it is sent, in capitals.
fn upstream(peer: &Network) -> support::Result<SocketAddr> {
    let listener = blocking::TcpListener::bind(peer, PORT)?;
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            thread::spawn(move || -> io::Result<()> {
                let mut bytes = [0; 4096];
                loop {
                    let count = stream.read(&mut bytes)?;
                    if count == 0 {
                        return Ok(());
                    }
                    bytes.make_ascii_uppercase();
                    stream.write_all(&bytes[..count])?;
                }
            });
        }
    });
    Ok(SocketAddr::from(([10, 0, 0, 1], PORT)))
}

/// Some connections at once, each with text of its own.
fn talk(network: &Network, to: IpAddr) -> support::Result {
    let connect = || blocking::TcpStream::connect_timeout(network, (to, PORT).into(), support::LIMIT);
    let mut streams = (0..8).map(|_| connect()).collect::<io::Result<Vec<_>>>()?;
    let text = |n| format!("connection {n} ").repeat(500);
    for (n, stream) in streams.iter_mut().enumerate() {
        stream.write_all(text(n).as_bytes())?;
        stream.shutdown(Shutdown::Write)?;
    }
    for (n, mut stream) in streams.into_iter().enumerate() {
        let mut back = String::new();
        stream.set_read_timeout(Some(support::LIMIT))?;
        stream.read_to_string(&mut back)?;
        if back != text(n).to_uppercase() {
            Err(format!("connection {n} was told something else"))?;
        }
    }
    Ok(())
}
