//! An endpoint on a NIC in another process that puts packets into tunnels: what is on its wire is what
//! software puts there.

use std::collections::BTreeSet;
use std::path::Path;

use rustix::process::Signal;
use testbed::MODELS;

use crate::common::{captured_so_far, start, until};

/// Frames of each of both networks.
const FRAMES: usize = 200;
const QUEUES: usize = 4;

/// A capture of frames to a station, in many flows and of all lengths.
fn capture(place: &Path, network: u32) -> std::path::PathBuf {
    let path = place.join(format!("inner{network}.pcap"));
    // The classic format's header: magic, version 2.4, no zone, no accuracy, 64 KiB, Ethernet.
    let mut bytes = [0xA1B2_C3D4_u32, 2 | 4 << 16, 0, 0, 65_535, 1].map(u32::to_le_bytes).concat();
    for n in 0..FRAMES {
        let payload = vec![n as u8; 18 + 6 * n];
        let ends = ("10.0.0.1".parse().expect("an address"), "10.0.0.2".parse().expect("an address"));
        let plain = wire::ipv4::Repr::between(ends.0, ends.1, wire::ip::Protocol::UDP, 8 + payload.len());
        let mut packet = wire::ipv4::Packet::new_unchecked(vec![0; 28 + payload.len()]);
        wire::ipv4::Repr { traffic_class: n as u8, ..plain }.emit(&mut packet);
        let mut frame = vec![2, 0, 0, 0, 0x0B, 1, 2, 0, 0, 0, 0x0A, network as u8, 8, 0];
        frame.extend(packet.into_inner());
        let header =
            wire::udp::Repr { src_port: 1000 + n as u16, dst_port: 9, payload_len: payload.len() }.header();
        frame[34..42].copy_from_slice(&header.into_inner());
        frame[42..].copy_from_slice(&payload);
        bytes.extend([0u32, 0, frame.len() as u32, frame.len() as u32].map(u32::to_le_bytes).concat());
        bytes.extend(frame);
    }
    std::fs::write(&path, bytes).expect("a file");
    path
}

/// An endpoint with a tunnel over IPv4 and one over IPv6, whose underlay is this port.
fn configuration(place: &Path, port: &str, offload: &str) -> std::path::PathBuf {
    let file = place.join(format!("{offload}.toml"));
    let mut text = format!(
        "[[underlay]]\nname = \"up\"\nport = \"{port}\"\noffload = \"{offload}\"\nmtu = 1700\n\
         addresses = [\"192.0.2.1/24\", \"2001:db8::1/64\"]\n\
         neighbors = {{ \"192.0.2.2\" = \"02:00:00:00:00:02\", \"2001:db8::2\" = \"02:00:00:00:00:02\" }}\n"
    );
    for (network, protocol, remote) in [(100, "vxlan", "192.0.2.2"), (200, "geneve", "2001:db8::2")] {
        let inner = capture(place, network);
        text += &format!(
            "[[network]]\nnumber = {network}\nprotocol = \"{protocol}\"\ndscp = \"inherit\"\n\
             inner = \"model:82599,wire=pcap:{},loop,rate=1k\"\n\
             [[network.entry]]\nkey = \"02:00:00:00:0b:01\"\nremote = \"{remote}\"\n",
            inner.display()
        );
    }
    std::fs::write(&file, text).expect("a file");
    file
}

/// A frame without the number of an IPv4 packet, which goes by the order, and the sum over it.
fn without_number(mut frame: Vec<u8>) -> Vec<u8> {
    if let Ok(mut packet) = wire::ipv4::Packet::new_checked(&mut frame[14..])
        && packet.verify_checksum()
    {
        packet.set_identification(0);
        packet.fill_checksum();
    }
    frame
}

/// The different frames on the model's wire behind the first of them.
fn frames(record: &Path, before: usize) -> BTreeSet<Vec<u8>> {
    captured_so_far(record).into_iter().skip(before).map(|(_, frame)| without_number(frame)).collect()
}

/// The endpoint runs on the model until it has sent all: what it told of itself.
fn sent(place: &Path, file: &Path, record: &Path, before: usize) -> serde_json::Value {
    let command = format!("overlay run {} --queues {QUEUES} --threads 2 --json", file.display());
    let endpoint = start(place, &command);
    until("frames on the wire", || frames(record, before).len() >= 2 * FRAMES);
    endpoint.signal(Signal::TERM);
    let done = endpoint.wait(20);
    assert_eq!(done.code(), Some(0), "{done:#?}");
    let json = done.json();
    let overlay = &json["overlay"];
    assert_eq!((&overlay["balanced"], &overlay["drops"]), (&true.into(), &serde_json::json!({})), "{json:#}");
    json
}

/// The counter of the underlay's port, the last one.
fn counter(json: &serde_json::Value, name: &str) -> Option<u64> {
    json["summary"]["ports"].as_array()?.last()?["counters"][name].as_u64()
}

/// By the NIC, by software, and by the NIC of one that is opened again: the same frames.
#[test]
fn a_nic_in_another_process_sends_what_software_does() {
    for chip in MODELS {
        let place = tempfile::tempdir().expect("a directory");
        let (socket, record) = (place.path().join("nic"), place.path().join("out.pcapng"));
        let command = format!(
            "model {} --json --encap-offload 16 --socket {} --wire record:{}",
            chip.name,
            socket.display(),
            record.display()
        );
        let model = start(place.path(), &command);
        until("socket", || socket.exists());
        let port = format!("vfio-user:{}", socket.display());
        let [nic, none] = ["nic", "none"].map(|offload| configuration(place.path(), &port, offload));
        let mut all = Vec::new();
        for file in [&nic, &none, &nic] {
            let before = captured_so_far(&record).len();
            let json = sent(place.path(), file, &record, before);
            if *file == nic {
                let forwarded = |n: usize| json["overlay"]["networks"][n]["forwarded"].as_u64();
                let forwarded = forwarded(0).zip(forwarded(1)).map(|(first, second)| first + second);
                assert_eq!(counter(&json, "encap_sent"), forwarded, "{}: {json:#}", chip.name);
            }
            all.push(frames(&record, before));
        }
        assert_eq!(all[1].len(), 2 * FRAMES);
        assert!(all[0] == all[1] && all[2] == all[1], "{}: other frames", chip.name);
        model.signal(Signal::TERM);
        let done = model.wait(20);
        assert_eq!(done.code(), Some(0), "{done:#?}");
        assert_eq!(done.json()["endpoints"][0]["device"]["findings"], serde_json::json!([]), "{done:#?}");
    }
}
