//! A program without what it does not need to run: symbols and debug sections,
//! which the guest would hold in its memory twice.
//!
//! System V ABI, ELF-64: the loader reads the segments that the program headers
//! name; sections are for linkers and debuggers. Little endian only.

const CLASS_64_LITTLE: &[u8] = b"\x7fELF\x02\x01";
/// Where the ELF header has what.
const PROGRAM_HEADERS: usize = 0x20;
const SECTION_HEADERS: usize = 0x28;
const PROGRAM_HEADER_SIZE: usize = 0x36;
const PROGRAM_HEADER_COUNT: usize = 0x38;
const SECTION_COUNT: usize = 0x3C;
const HEADER_END: usize = 0x40;
/// Where a program header has its segment's offset and size in the file.
const OFFSET: usize = 0x08;
const FILE_SIZE: usize = 0x20;

/// Cuts a program behind its last segment. What is no such program, or a broken
/// one, stays as it is: whoever runs it says so better.
pub fn without_sections(mut bytes: Vec<u8>) -> Vec<u8> {
    let Some(end) = end_of_segments(&bytes) else { return bytes };
    bytes.truncate(end);
    bytes[SECTION_HEADERS..SECTION_HEADERS + 8].fill(0);
    bytes[SECTION_COUNT..HEADER_END].fill(0); // and the index of their names
    bytes
}

fn end_of_segments(bytes: &[u8]) -> Option<usize> {
    let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?));
    let half = |at: usize| Some(usize::from(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?)));
    if !bytes.starts_with(CLASS_64_LITTLE) {
        return None;
    }
    let table = usize::try_from(word(PROGRAM_HEADERS)?).ok()?;
    let (size, count) = (half(PROGRAM_HEADER_SIZE)?, half(PROGRAM_HEADER_COUNT)?);
    let mut end = table.checked_add(size * count)?.max(HEADER_END);
    for n in 0..count {
        let header = table.checked_add(n * size)?;
        let last = word(header.checked_add(OFFSET)?)?.checked_add(word(header.checked_add(FILE_SIZE)?)?)?;
        end = end.max(usize::try_from(last).ok()?);
    }
    (end <= bytes.len()).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    #[test]
    fn a_program_without_sections_is_smaller_and_runs() {
        let whole = std::fs::read("/proc/self/exe").expect("this test");
        let bare = without_sections(whole.clone());
        assert!(bare.len() < whole.len());
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("program");
        std::fs::write(&path, bare).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("set");
        let output = Command::new(&path).arg("--list").output().expect("it starts");
        assert!(String::from_utf8_lossy(&output.stdout).contains("a_program_without_sections"));
    }

    #[test]
    fn what_is_no_program_stays_as_it_is() {
        let whole = std::fs::read("/proc/self/exe").expect("this test");
        let mut endless = whole.clone();
        endless[PROGRAM_HEADERS..PROGRAM_HEADERS + 8].fill(0xFF);
        for bytes in [b"#!/bin/sh\n".to_vec(), Vec::new(), whole[..200].to_vec(), endless] {
            assert_eq!(without_sections(bytes.clone()), bytes);
        }
    }
}
