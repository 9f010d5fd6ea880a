//! TLS above blocking streams, by `rustls`: a server that answers each line in capitals.
//!
//! `cargo run --release -p ixora-socket --example tls [tap:ixora0 10.9.9.2/24 CERTIFICATE]` writes
//! the certificate that it makes, in DER, so that
//! `openssl s_client -connect 10.9.9.2:443 -CAstore CERTIFICATE` can check it.

mod support;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::IpAddr;
use std::sync::Arc;
use std::thread;

use rcgen::CertifiedKey;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use socket::blocking::{TcpListener, TcpStream};
use socket::{Limits, Network};

const PORT: u16 = 443;
const NAME: &str = "ixora.example";
/// The longest line in bytes.
const LINE: u64 = 4096;

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// A server's configuration, with a new key and a certificate that this signs itself.
fn server() -> support::Result<(Arc<ServerConfig>, CertificateDer<'static>)> {
    let CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    let (certificate, key) = (cert.der().clone(), PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key.into())?;
    Ok((Arc::new(config), certificate))
}

/// A client that trusts one certificate.
fn client(certificate: CertificateDer<'static>) -> support::Result<ClientConnection> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate)?;
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(ClientConnection::new(Arc::new(config), ServerName::try_from(NAME)?)?)
}

/// Answers lines until the client ends; `StreamOwned` reads and writes as any stream does.
fn serve(tcp: TcpStream, config: Arc<ServerConfig>) -> io::Result<()> {
    tcp.set_read_timeout(Some(support::LIMIT))?;
    tcp.set_write_timeout(Some(support::LIMIT))?;
    let connection = ServerConnection::new(config).map_err(io::Error::other)?;
    let mut stream = BufReader::new(StreamOwned::new(connection, tcp));
    loop {
        let mut line = String::new();
        if (&mut stream).take(LINE).read_line(&mut line)? == 0 {
            break;
        }
        stream.get_mut().write_all(line.to_uppercase().as_bytes())?;
    }
    // The end of TLS, in front of that of TCP (RFC 8446, section 6.1).
    let stream = stream.get_mut();
    stream.conn.send_close_notify();
    stream.flush()
}

/// Accepts connections until the host ends; `Limits::connections` bounds the threads.
fn accept(listener: &TcpListener, config: &Arc<ServerConfig>) {
    while let Ok((stream, peer)) = listener.accept() {
        let config = config.clone();
        thread::spawn(move || {
            if let Err(error) = serve(stream, config) {
                eprintln!("{peer}: {error}");
            }
        });
    }
}

fn main() -> support::Result {
    let mut place = support::ExamplePort::open()?;
    let (config, certificate) = server()?;
    if let Some(path) = place.arguments.first() {
        std::fs::write(path, &certificate)?;
    }
    let (network, engine) = socket::network(&[place.own], Limits::default())?;
    let node = place.start(&[], Box::new(engine))?;
    let listener = TcpListener::bind(&network, PORT)?;
    thread::spawn(move || accept(&listener, &config));
    place.finish(node, |network, to| talk(network, to, certificate))
}

/// Lines there and back, and the end of TLS behind them.
fn talk(network: &Network, to: IpAddr, certificate: CertificateDer<'static>) -> support::Result {
    let tcp = TcpStream::connect_timeout(network, (to, PORT).into(), support::LIMIT)?;
    tcp.set_read_timeout(Some(support::LIMIT))?;
    let mut stream = BufReader::new(StreamOwned::new(client(certificate)?, tcp));
    for n in 0..100 {
        let sent = format!("line {n} {}\n", "x".repeat(n * 10));
        stream.get_mut().write_all(sent.as_bytes())?;
        let mut got = String::new();
        stream.read_line(&mut got)?;
        if got != sent.to_uppercase() {
            Err(format!("{sent:?} was answered by {got:?}"))?;
        }
    }
    stream.get_mut().conn.send_close_notify();
    stream.get_mut().flush()?;
    // Without the server's own end of TLS this is an error.
    match stream.read_to_end(&mut Vec::new())? {
        0 => Ok(()),
        more => Err(format!("{more} bytes more"))?,
    }
}
