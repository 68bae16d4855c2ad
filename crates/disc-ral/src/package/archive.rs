//! Reads and writes the container of a package: a zip file of stored parts, in one canonical form.
//!
//! Every byte outside the parts follows from their names, sizes, checksums and order, so the reader
//! takes these from the headers, writes the container's other bytes anew, and refuses a file that
//! differs. Ambiguities that zip readers resolve in different ways (two records of one name,
//! overlapping parts, headers that disagree, bytes before, between or after the parts) cannot
//! occur. Any zip tool reads the result. The format is that of PKWARE's APPNOTE.TXT 6.3.10.
//!
//! Invariant: nothing here allocates more than a few hundred bytes for each part.

use super::{fault, no_package};
use crate::error::Error;
use std::{
    io::{self, Write},
    ops::Range,
};

/// Each part begins at a multiple of this.
pub const PART_ALIGN: usize = 64;
/// More parts than any package has.
const MOST_PARTS: usize = 1000;
const LONGEST_NAME: usize = 200;

const LOCAL: u32 = 0x0403_4b50;
const CENTRAL: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const END_64: u32 = 0x0606_4b50;
const LOCATOR_64: u32 = 0x0706_4b50;
const LOCAL_BYTES: usize = 30;
const CENTRAL_BYTES: usize = 46;
/// The 1st of January 1980, the first day that zip knows: a package has no times.
const DATE: u16 = 0x21;
/// A regular file that everybody may read, as Unix says it.
const ATTRIBUTES: u32 = 0o100_644 << 16;
/// The tags of extra fields: sizes of 64 bits, and padding.
const EXTRA_64: u16 = 1;
const EXTRA_PADDING: u16 = 0xa11e;

/// A part: a named range of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The name, a relative path.
    pub name: String,
    /// The offset of its first byte.
    pub at: usize,
    /// The number of its bytes.
    pub bytes: usize,
    /// The CRC-32 of its bytes.
    pub crc: u32,
}

impl Part {
    /// Returns the bytes of the file that are its contents.
    pub fn range(&self) -> Range<usize> {
        self.at..self.at + self.bytes
    }
}

/// A part to be written.
pub struct NewPart<'a> {
    /// The name, a relative path.
    pub name: &'a str,
    /// The contents, in pieces.
    pub pieces: Vec<&'a [u8]>,
}

/// Writes a container with these parts, in this order.
///
/// # Errors
/// A name that readers refuse, or that of an earlier part; a failure of `out`.
pub fn write(parts: &[NewPart<'_>], out: &mut dyn Write) -> io::Result<()> {
    let mut layout = Layout::default();
    for part in parts {
        let mut crc = crc32fast::Hasher::new();
        part.pieces.iter().for_each(|piece| crc.update(piece));
        let bytes = part.pieces.iter().map(|piece| piece.len()).sum();
        let header = layout.add(part.name, bytes, crc.finalize()).map_err(|error| io::Error::other(error.to_string()))?;
        out.write_all(&header)?;
        part.pieces.iter().try_for_each(|piece| out.write_all(piece))?;
    }
    out.write_all(&layout.directory())
}

/// Finds the parts of a container.
///
/// # Errors
/// Anything but the canonical form; the message names the part at fault.
pub fn parse(file: &[u8]) -> Result<Vec<Part>, Error> {
    let mut layout = Layout::default();
    while file.get(layout.end..layout.end + 4) != Some(&CENTRAL.to_le_bytes()) {
        let (name, bytes, crc) = read_header(file, &layout)?;
        let start = layout.end;
        let header = layout.add(&name, bytes, crc)?;
        let found = &file[start..file.len().min(start + header.len())];
        if !header.starts_with(found) {
            return Err(fault(&name, "its header is damaged, or not in the form of a package"));
        }
        if file.len() < layout.end {
            let there = file.len().saturating_sub(start + header.len());
            return Err(fault(&name, format!("the file is truncated: {there} of the entry's {bytes} bytes are there")));
        }
    }
    check_directory(&file[layout.end..], &layout)?;
    Ok(layout.parts)
}

/// Reads name, size and checksum of the part whose header is at the end of `layout`.
fn read_header(file: &[u8], layout: &Layout) -> Result<(String, usize, u32), Error> {
    let start = layout.end;
    let place = layout.parts.last().map_or_else(|| "package".into(), |part| part.name.clone());
    let cut = || match layout.parts.last() {
        Some(last) => fault(&last.name, "the file is truncated behind this entry"),
        None => no_package("the file is truncated: it has not even the entry `manifest.json`"),
    };
    let header = file.get(start..start + LOCAL_BYTES).ok_or_else(cut)?;
    if start == 0 && header[..4] != LOCAL.to_le_bytes() {
        return Err(no_package("the file is no package: it does not begin with an entry of a zip file"));
    }
    let [name_bytes, extra_bytes] = [u16_at(header, 26), u16_at(header, 28)].map(usize::from);
    let name = file.get(start + LOCAL_BYTES..start + LOCAL_BYTES + name_bytes).ok_or_else(cut)?;
    let name = std::str::from_utf8(name).map_err(|_| fault(&place, "behind this entry is one whose name is no text"))?;
    if header[..4] != LOCAL.to_le_bytes() {
        return Err(match check_name(name) {
            Ok(()) => fault(name, "its header is damaged"),
            Err(_) => fault(&place, "behind this entry are bytes that belong to none"),
        });
    }
    check_name(name)?;
    let (flags, method) = (u16_at(header, 6), u16_at(header, 8));
    if flags & 1 != 0 {
        return Err(fault(name, "it is encrypted; the entries of a package are not"));
    }
    if method != 0 {
        return Err(fault(name, "it is compressed; the entries of a package are stored"));
    }
    let [packed, plain] = [18, 22].map(|at| u64::from(u32_at(header, at)));
    let mut bytes = plain;
    if plain == u64::from(u32::MAX) {
        let extra = file.get(start + LOCAL_BYTES + name_bytes..).and_then(|rest| rest.get(..extra_bytes)).ok_or_else(cut)?;
        let large = extra.get(4..12).filter(|_| u16_at(extra, 0) == EXTRA_64);
        let large = large.ok_or_else(|| fault(name, "its size is missing"))?;
        bytes = u64::from_le_bytes(large.try_into().expect("eight bytes"));
    } else if packed != plain {
        return Err(fault(name, format!("it has {packed} bytes in the file and {plain} unpacked: it is not stored")));
    }
    let bytes = usize::try_from(bytes).ok().filter(|&bytes| bytes <= isize::MAX as usize);
    Ok((name.into(), bytes.ok_or_else(|| fault(name, "its size does not fit into memory"))?, u32_at(header, 14)))
}

/// Compares the directory after the parts with that of the layout.
fn check_directory(found: &[u8], layout: &Layout) -> Result<(), Error> {
    let mut at = 0;
    for record in &layout.records {
        let name = &layout.parts[record.part].name;
        let end = at + record.bytes.len();
        match found.get(at..end) {
            None => return Err(fault(name, "the file is truncated: the directory's record of this entry is missing")),
            Some(bytes) if bytes != record.bytes => {
                return Err(fault(
                    name,
                    format!("the directory's record of it{} differs from its header", other_name(bytes, name)),
                ));
            }
            Some(_) => at = end,
        }
    }
    let (rest, end) = (&found[at..], layout.end_record());
    if rest == end {
        return Ok(());
    }
    Err(if rest.len() < end.len() && end.starts_with(rest) {
        no_package("the file is truncated: the end of the directory is missing")
    } else if rest.starts_with(&end) {
        no_package(format!("there are {} bytes behind the end of the package", rest.len() - end.len()))
    } else {
        no_package("the end of the package is damaged, or it names entries that are not there")
    })
}

/// Returns words about the name in a record of the directory, if it is another one.
fn other_name(record: &[u8], name: &str) -> String {
    let text = record.get(CENTRAL_BYTES..CENTRAL_BYTES + usize::from(u16_at(record, 28)));
    let found = text.map(|text| text.escape_ascii().to_string()).unwrap_or_default();
    if found == name { String::new() } else { format!(", which names `{found}`,") }
}

/// Refuses names that some system may take for another place.
fn check_name(name: &str) -> Result<(), Error> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._+-/".contains(c);
    let why = if name.is_empty() || name.len() > LONGEST_NAME {
        "a name has 1 to 200 bytes"
    } else if name.starts_with('/') {
        "a name is not absolute"
    } else if name.split('/').any(|piece| matches!(piece, "" | "." | "..")) {
        "a name has no `.`, `..` or empty pieces"
    } else if !name.chars().all(is_plain) {
        "a name consists of letters, digits and `._+-/`"
    } else {
        return Ok(());
    };
    Err(fault(&name.chars().take(LONGEST_NAME).collect::<String>(), format!("it has a name that is refused: {why}")))
}

/// The container that consists of the parts so far.
#[derive(Default)]
struct Layout {
    parts: Vec<Part>,
    /// The offset after the last part.
    end: usize,
    records: Vec<Record>,
}

/// A part's record in the directory.
struct Record {
    part: usize,
    bytes: Vec<u8>,
}

impl Layout {
    /// Adds a part. Returns its header.
    fn add(&mut self, name: &str, bytes: usize, crc: u32) -> Result<Vec<u8>, Error> {
        check_name(name)?;
        if self.parts.iter().any(|part| part.name == name) {
            return Err(fault(name, "there are two entries of this name"));
        }
        if self.parts.len() == MOST_PARTS {
            return Err(fault(name, format!("a package has at most {MOST_PARTS} entries")));
        }
        let offset = self.end;
        let header = local_header(name, offset, bytes as u64, crc);
        let at = offset + header.len();
        let end = at.checked_add(bytes).ok_or_else(|| fault(name, "its size does not fit into memory"))?;
        self.records.push(Record { part: self.parts.len(), bytes: central_record(name, offset as u64, bytes as u64, crc) });
        self.parts.push(Part { name: name.into(), at, bytes, crc });
        self.end = end;
        Ok(header)
    }

    fn directory(&self) -> Vec<u8> {
        let records = self.records.iter().flat_map(|record| &record.bytes).copied();
        records.chain(self.end_record()).collect()
    }

    /// Returns the end of the directory.
    fn end_record(&self) -> Vec<u8> {
        let (count, start) = (self.parts.len() as u64, self.end as u64);
        let bytes: u64 = self.records.iter().map(|record| record.bytes.len() as u64).sum();
        let mut out = Bytes::default();
        if start.max(bytes) >= u64::from(u32::MAX) {
            out.u32(END_64).u64(44).u16(MADE_BY_UNIX | 45).u16(45).u32(0).u32(0).u64(count).u64(count).u64(bytes).u64(start);
            out.u32(LOCATOR_64).u32(0).u64(start + bytes).u32(1);
        }
        out.u32(END).u16(0).u16(0).u16(count as u16).u16(count as u16).u32(low(bytes)).u32(low(start)).u16(0);
        out.0
    }
}

/// The upper byte of the version that made a record.
const MADE_BY_UNIX: u16 = 3 << 8;

/// Returns a number for a field of 32 bits; all ones if another field has it.
fn low(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// Returns the version of zip that a part needs.
fn version(is_large: bool) -> u16 {
    if is_large { 45 } else { 20 }
}

/// Returns a header that ends at a multiple of [`PART_ALIGN`].
fn local_header(name: &str, offset: usize, bytes: u64, crc: u32) -> Vec<u8> {
    let is_large = bytes >= u64::from(u32::MAX);
    let mut extra = Bytes::default();
    if is_large {
        extra.u16(EXTRA_64).u16(16).u64(bytes).u64(bytes);
    }
    // The tag, the length and the alignment of the padding.
    let fixed = offset + LOCAL_BYTES + name.len() + extra.0.len() + 6;
    let zeros = fixed.next_multiple_of(PART_ALIGN) - fixed;
    extra.u16(EXTRA_PADDING).u16(2 + zeros as u16).u16(PART_ALIGN as u16);
    extra.0.resize(extra.0.len() + zeros, 0);
    let mut out = Bytes::default();
    out.u32(LOCAL).u16(version(is_large)).u16(0).u16(0).u16(0).u16(DATE).u32(crc).u32(low(bytes)).u32(low(bytes));
    out.u16(name.len() as u16).u16(extra.0.len() as u16);
    [&out.0, name.as_bytes(), &extra.0].concat()
}

fn central_record(name: &str, offset: u64, bytes: u64, crc: u32) -> Vec<u8> {
    let mut extra = Bytes::default();
    let [is_large, is_far] = [bytes, offset].map(|value| value >= u64::from(u32::MAX));
    if is_large || is_far {
        extra.u16(EXTRA_64).u16(if is_large { 16 } else { 0 } + if is_far { 8 } else { 0 });
        if is_large {
            extra.u64(bytes).u64(bytes);
        }
        if is_far {
            extra.u64(offset);
        }
    }
    let version = version(is_large || is_far);
    let mut out = Bytes::default();
    out.u32(CENTRAL).u16(MADE_BY_UNIX | version).u16(version).u16(0).u16(0).u16(0).u16(DATE);
    out.u32(crc).u32(low(bytes)).u32(low(bytes)).u16(name.len() as u16).u16(extra.0.len() as u16);
    out.u16(0).u16(0).u16(0).u32(ATTRIBUTES).u32(low(offset));
    [&out.0, name.as_bytes(), &extra.0].concat()
}

/// Little-endian numbers, one after the other.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn u16(&mut self, value: u16) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }
}

/// Reads a number; 0 beyond the end.
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |two| u16::from_le_bytes([two[0], two[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(parts: &[(&str, &[u8])]) -> Vec<u8> {
        let parts: Vec<_> = parts.iter().map(|&(name, bytes)| NewPart { name, pieces: vec![bytes] }).collect();
        let mut out = Vec::new();
        write(&parts, &mut out).unwrap();
        out
    }

    fn sample() -> Vec<u8> {
        container(&[("manifest.json", b"{}"), ("targets/x86-64-v4+avx512vnni/code.so", &[7; 100]), ("empty", b"")])
    }

    #[test]
    fn parts_are_found_where_they_were_written_and_aligned() {
        let file = sample();
        let parts = parse(&file).unwrap();
        let contents: Vec<&[u8]> = parts.iter().map(|part| &file[part.range()]).collect();
        assert_eq!(contents, [&b"{}"[..], &[7; 100], b""]);
        assert!(parts.iter().all(|part| part.at % PART_ALIGN == 0));
        assert_eq!(parse(&container(&[])).unwrap_err().code, crate::code::PACKAGE);
    }

    #[test]
    fn every_truncation_names_an_entry_or_the_package() {
        let file = sample();
        for length in 0..file.len() {
            let error = parse(&file[..length]).unwrap_err().to_string();
            assert!(error.contains("truncated"), "{length}: {error}");
        }
    }

    #[test]
    fn every_other_byte_outside_of_the_parts_is_refused() {
        let file = sample();
        let parts = parse(&file).unwrap();
        for at in (0..file.len()).filter(|at| !parts.iter().any(|part| part.range().contains(at))) {
            for bit in 0..8 {
                let mut other = file.clone();
                other[at] ^= 1 << bit;
                assert!(parse(&other).is_err(), "bit {bit} of byte {at}");
            }
        }
    }

    #[test]
    fn tricks_are_refused_by_name() {
        let refused = |file: &[u8]| parse(file).unwrap_err().message;
        let named = |name: &str| {
            // The writer refuses such names, so a name of the same length is replaced.
            let placeholder = "x".repeat(name.len());
            let file = container(&[(&placeholder, b"abc")]);
            let mut named = file.clone();
            for at in 0..file.len() - name.len() {
                if &file[at..at + name.len()] == placeholder.as_bytes() {
                    named[at..at + name.len()].copy_from_slice(name.as_bytes());
                }
            }
            named
        };
        assert!(refused(&named("../escape")).contains("`../escape`"));
        assert!(refused(&named("/etc/passwd")).contains("not absolute"));
        assert!(refused(&named("a//b")).contains("empty pieces"));
        assert!(refused(&named("a\\b")).contains("letters, digits"));
        let two = container(&[("a", b"1"), ("b", b"2")]);
        let mut twice = two.clone();
        for at in (0..two.len() - 1).filter(|&at| &two[at..at + 2] == b"b\x1e" || &two[at..at + 2] == b"bP") {
            twice[at] = b'a';
        }
        assert!(refused(&twice).contains("two entries of this name"), "{}", refused(&twice));
        assert!(refused(&[two.clone(), b"more".to_vec()].concat()).contains("4 bytes behind the end"));
        assert!(refused(&[b"MZ".to_vec(), two.clone()].concat()).contains("no package"));
        let changed = |at: usize, value: u8| {
            let mut other = two.clone();
            other[at] = value;
            refused(&other)
        };
        assert!(changed(8, 8).contains("`a`: it is compressed"));
        assert!(changed(6, 1).contains("`a`: it is encrypted"));
        assert!(changed(22, 9).contains("`a`: it has 1 bytes in the file and 9 unpacked"));
    }

    #[test]
    fn parts_beyond_4_gib_have_sizes_of_64_bits() {
        let mut layout = Layout::default();
        let header = layout.add("weights.safetensors", 5 << 30, 1).unwrap();
        layout.add("behind", 3, 2).unwrap();
        assert_eq!(u32_at(&header, 22), u32::MAX);
        assert_eq!(layout.parts[1].at % PART_ALIGN, 0);
        let end = layout.end_record();
        assert_eq!(u32_at(&end, 0), END_64);
        let (name, bytes, crc) = read_header(&header, &Layout::default()).unwrap();
        assert_eq!((&*name, bytes, crc), ("weights.safetensors", 5 << 30, 1));
    }
}
