use super::*;

#[test]
fn lengths_that_cannot_be_are_malformed_and_nothing_more_is_read() {
    let header = |kind| Header { kind, flags: 0, sequence: 0, port: 0 };
    let good = write::Writer::default()
        .message(header(DONE), |body| {
            body.put(&[0; 4]);
        })
        .finish();
    for (place, length) in [(0, 0u32), (0, 15), (0, 21), (0, u32::MAX)] {
        let mut bytes = [good.clone(), good.clone()].concat();
        if length != 21 {
            bytes[place..place + 4].copy_from_slice(&length.to_ne_bytes());
        } else {
            bytes.truncate(good.len() + 15);
        }
        let read: Vec<_> = Messages::new(&bytes).collect();
        assert_eq!(read.last(), Some(&Err(Malformed::Header)), "{length}");
        assert!(read.len() <= 2);
    }
    for cut in 1..16 {
        let cut: Vec<_> = Messages::new(&good[..cut]).collect();
        assert_eq!(cut, [Err(Malformed::Header)]);
    }
}

#[test]
fn attributes_that_cannot_be_are_malformed() {
    let header = Header { kind: NEW_NEIGHBOR, flags: 0, sequence: 0, port: 0 };
    let ndmsg = [0; 12];
    let parsed = |attributes: &[u8]| parse(&header, &[&ndmsg[..], attributes].concat());
    assert!(parsed(&[]).is_ok());
    assert_eq!(parse(&header, &ndmsg[..11]), Err(Malformed::Body));
    for attributes in [&[8u8, 0, 1][..], &[3, 0, 1, 0], &[9, 0, 1, 0, 1, 2, 3, 4], &[0, 0, 1, 0]] {
        assert_eq!(parsed(attributes), Err(Malformed::Attribute), "{attributes:?}");
    }
    // An address of five bytes, and a network's number of two.
    assert_eq!(parsed(&[9, 0, 1, 0, 1, 2, 3, 4, 5, 0, 0, 0]), Err(Malformed::Value(1)));
    assert_eq!(parsed(&[6, 0, 7, 0, 1, 2, 0, 0]), Err(Malformed::Value(7)));
    // The last attribute need not be filled up to the boundary.
    assert!(parsed(&[6, 0, 6, 0, 1, 2]).is_ok());
}

#[test]
fn the_end_of_a_failed_dump_is_an_error() {
    let header = Header { kind: DONE, flags: IS_MULTI, sequence: 1, port: 0 };
    assert_eq!(parse(&header, &0i32.to_ne_bytes()), Ok(Body::Done));
    assert_eq!(parse(&header, &[]), Ok(Body::Done));
    assert_eq!(parse(&header, &(-95i32).to_ne_bytes()), Ok(Body::Error(-95)));
}

#[test]
fn what_is_written_is_read() {
    let header = Header { kind: 99, flags: 5, sequence: 6, port: 7 };
    let mut writer = write::Writer::default();
    writer.message(header, |body| {
        body.attribute(3, |value| {
            value.put(b"abc");
        })
        .attribute(4, |value| {
            value.put(&[1, 2, 3, 4]);
        });
    });
    writer.message(header, |_| {});
    let bytes = writer.finish();
    let read: Vec<_> = Messages::new(&bytes).map(|message| message.expect("as written")).collect();
    assert_eq!(read.len(), 2);
    assert_eq!((read[0].0, read[1]), (header, (header, &[][..])));
    let attributes: Vec<_> = Attributes(read[0].1).map(|attribute| attribute.expect("as written")).collect();
    assert_eq!((attributes[0].kind, attributes[0].value), (3, &b"abc"[..]));
    assert_eq!((attributes[1].kind, attributes[1].u32()), (4, Ok(u32::from_ne_bytes([1, 2, 3, 4]))));
}
