//! Where to listen, as the command line says it: a TCP port, perhaps with an address of this
//! machine before it.

use super::dpdk::numbered;

/// A TCP port to listen at, or a packet port and DPDK's number of it.
///
/// # Errors
/// When it is neither, with what was probably meant.
pub fn port(text: &str) -> Result<String, String> {
    if numbered(text).is_some() || is_tcp(text) {
        return Ok(text.to_owned());
    }
    Err(match text.split_once('=') {
        Some((number, "")) => {
            let number = number.parse().unwrap_or(0u32);
            format!("no packet port stands behind '=': write {number}=af_xdp:eth1, or another port's name")
        }
        Some((name, port)) => format!(
            "'{name}' is no number: a packet port is given one as 0={port}, which FromDPDKDevice(0) and \
             ToDPDKDevice(0) mean; other elements take the port itself: FromDevice(\"{port}\")"
        ),
        None => "expected a TCP port to listen at, as 7777 or 127.0.0.1:7777, or a packet port and its \
                 number, as 0=af_xdp:eth1"
            .to_owned(),
    })
}

/// A TCP port to serve counters at.
///
/// # Errors
/// When it is none.
pub fn metrics(text: &str) -> Result<String, String> {
    let is_port = is_tcp(text) && !text.ends_with('+');
    let expected = || "expected a TCP port to listen at, as 9464 or 127.0.0.1:9464".to_owned();
    is_port.then(|| text.to_owned()).ok_or_else(expected)
}

/// Whether it has the form of a TCP port, perhaps with `+`, perhaps with an address or an
/// interface's name before it.
pub fn is_tcp(text: &str) -> bool {
    let (host, port) = split(text).map_or((None, text), |(host, port)| (Some(host), port));
    let is_host = |host: String| {
        let known = |c: char| c.is_ascii_alphanumeric() || "._-:@%".contains(c);
        !host.is_empty() && host.chars().all(known)
    };
    host.is_none_or(is_host) && port.strip_suffix('+').unwrap_or(port).parse::<u16>().is_ok()
}

/// An address and a port, where both are given: `0.0.0.0:7777`, `[::1]:7777`.
pub fn split(text: &str) -> Option<(String, &str)> {
    let (address, port) = text.rsplit_once(':')?;
    Some((address.trim_matches(['[', ']']).to_string(), port))
}
