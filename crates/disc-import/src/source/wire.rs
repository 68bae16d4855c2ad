//! Counts the messages of protobuf before a reader allocates for them.
//!
//! Two bytes of an empty message become hundreds in memory, so the length of a file bounds nothing.
//! The wire format does not tell messages from strings: a reader says which fields are messages
//! ([`Message`]), the others are stepped over.
//!
//! Invariants: linear in the bytes, without recursion; memory in proportion to [`DEPTH`] only. What
//! [`scan`] accepts has whole fields, whose lengths are within those of their messages.
use super::limits::{DEPTH, Limit, MESSAGES};
use disc_ir::{Code, Diagnostic};

/// A kind of message: the fields of it that are messages too.
#[derive(Debug)]
pub struct Message {
    pub name: &'static str,
    pub fields: &'static [(u64, &'static Message)],
    /// The limit on the number of messages of this kind, if it has one.
    pub limit: Option<Limit>,
}

/// The counts of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub messages: usize,
    /// The most messages within each other, the outermost one included.
    pub depth: usize,
    /// The messages of a kind that has a limit.
    pub limited: usize,
}

/// Scans a message and all within it.
///
/// # Errors
/// E1001: it is no protobuf, or cut off. E1002: too many messages, or too deep.
pub fn scan(bytes: &[u8], root: &'static Message) -> Result<Counts, Diagnostic> {
    let mut counts = Counts::default();
    let mut open = vec![(root, bytes.len())];
    let mut cursor = Cursor { bytes, at: 0 };
    counts.enter(root, open.len())?;
    while let Some(&(message, end)) = open.last() {
        if cursor.at == end {
            open.pop();
            continue;
        }
        let (field, content) = cursor.field(end).map_err(|wrong| wrong.of(message, cursor.at))?;
        let Some(length) = content else { continue };
        match message.fields.iter().find(|(number, _)| *number == field) {
            None => cursor.at += length,
            Some((_, inner)) => {
                open.push((inner, cursor.at + length));
                counts.enter(inner, open.len())?;
            }
        }
    }
    Ok(counts)
}

impl Counts {
    fn enter(&mut self, message: &Message, depth: usize) -> Result<(), Diagnostic> {
        self.messages += 1;
        self.depth = self.depth.max(depth);
        DEPTH.check(depth)?;
        if self.messages as u64 > MESSAGES.most {
            return Err(MESSAGES.passed());
        }
        let Some(limit) = message.limit else { return Ok(()) };
        self.limited += 1;
        if self.limited as u64 > limit.most { Err(limit.passed()) } else { Ok(()) }
    }
}

/// The reason for which bytes are no protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Truncated,
    Number,
    Kind(u64),
}

impl Wrong {
    fn of(self, message: &Message, at: usize) -> Diagnostic {
        let why = match self {
            Wrong::Truncated => "the file is truncated, or no protobuf".to_owned(),
            Wrong::Number => "a number has more than 64 bits, or a field no number: this is no protobuf".to_owned(),
            Wrong::Kind(kind) => format!("a field is of kind {kind}, which no model has: this is no protobuf"),
        };
        Diagnostic::new(Code::E1001, format!("byte {at}, in a {}: {why}", message.name))
    }
}

/// Returns true for bytes that begin with a field `message`, whose content begins with `fields`,
/// each a string.
pub(crate) fn begins_with(bytes: &[u8], message: u64, fields: &[u64]) -> bool {
    let mut cursor = Cursor { bytes, at: 0 };
    let end = match cursor.field(bytes.len()) {
        Ok((number, Some(length))) if number == message => cursor.at + length,
        _ => return false,
    };
    fields.iter().all(|&wanted| match cursor.field(end) {
        Ok((number, Some(length))) if number == wanted => {
            cursor.at += length;
            true
        }
        _ => false,
    })
}

struct Cursor<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl Cursor<'_> {
    /// Reads the head of a field. Returns its number, and the length of a content that comes next;
    /// a number as content is stepped over.
    fn field(&mut self, end: usize) -> Result<(u64, Option<usize>), Wrong> {
        let key = self.number(end)?;
        let field = key >> 3;
        if field == 0 || field > u64::from(u32::MAX >> 3) {
            return Err(Wrong::Number);
        }
        let content = match key & 7 {
            0 => {
                self.number(end)?;
                None
            }
            1 => self.skip(8, end)?,
            5 => self.skip(4, end)?,
            2 => {
                let length = self.number(end)?;
                let length = usize::try_from(length).ok().filter(|&length| length <= end - self.at);
                Some(length.ok_or(Wrong::Truncated)?)
            }
            kind => return Err(Wrong::Kind(kind)),
        };
        Ok((field, content))
    }

    fn skip(&mut self, length: usize, end: usize) -> Result<Option<usize>, Wrong> {
        if length > end - self.at {
            return Err(Wrong::Truncated);
        }
        self.at += length;
        Ok(None)
    }

    /// Reads a number of at most ten bytes of seven bits.
    fn number(&mut self, end: usize) -> Result<u64, Wrong> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            if self.at >= end {
                return Err(Wrong::Truncated);
            }
            let byte = *self.bytes.get(self.at).ok_or(Wrong::Truncated)?;
            self.at += 1;
            if shift == 63 && byte > 1 {
                return Err(Wrong::Number);
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Wrong::Number)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::limits::NODES, *};
    use proptest::prelude::*;

    static NODE: Message = Message { name: "Node", fields: &[(5, &ATTRIBUTE)], limit: Some(NODES) };
    static ATTRIBUTE: Message = Message { name: "Attribute", fields: &[(6, &GRAPH)], limit: None };
    static GRAPH: Message = Message { name: "Graph", fields: &[(1, &NODE)], limit: None };

    fn number(mut value: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while value >= 0x80 {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
        bytes
    }

    fn field(field: u64, content: &[u8]) -> Vec<u8> {
        [number(field << 3 | 2), number(content.len() as u64), content.to_vec()].concat()
    }

    /// Graphs within attributes of nodes of graphs.
    fn nested(levels: usize) -> Vec<u8> {
        (0..levels).fold(Vec::new(), |inner, level| field([1, 6, 5][level % 3], &inner))
    }

    #[test]
    fn messages_are_counted_and_strings_are_not() {
        let node = field(1, &[field(1, b"x"), field(4, &[0xff; 40]), number(2 << 3), number(u64::MAX)].concat());
        let graph = [node.clone(), node, number(7 << 3 | 5), vec![0; 4], number(8 << 3 | 1), vec![0; 8]].concat();
        assert_eq!(scan(&graph, &GRAPH), Ok(Counts { messages: 3, depth: 2, limited: 2 }));
        assert_eq!(scan(&[], &GRAPH), Ok(Counts { messages: 1, depth: 1, limited: 0 }));
    }

    #[test]
    fn depth_is_bounded_and_costs_no_stack() {
        let depth = |levels| scan(&nested(levels), &GRAPH).map(|counts| counts.depth);
        // One more than whole turns: the outermost field is a node of the graph.
        assert_eq!(depth(61), Ok(62));
        assert_eq!(depth(30_001).unwrap_err().code, Code::E1002);
        assert!(depth(64).unwrap_err().message.contains("levels of nesting"));
    }

    #[test]
    fn two_bytes_for_a_message_are_counted() {
        let many = |count: u64| field(1, b"").repeat(usize::try_from(count).unwrap());
        assert_eq!(scan(&many(500_000), &GRAPH).unwrap().limited, 500_000);
        let error = scan(&many(500_001), &GRAPH).unwrap_err();
        assert_eq!((error.code, error.message.contains("nodes: 500000")), (Code::E1002, true));
        // Attributes have no limit of their kind: the limit of all messages holds.
        let attributes = b"\x2a\x00".repeat(4_000_000);
        assert!(scan(&field(1, &attributes), &GRAPH).unwrap_err().message.contains("messages: 4000000"));
    }

    #[test]
    fn damage_is_an_error() {
        let whole = field(1, &field(5, &field(6, b"")));
        assert!(scan(&whole, &GRAPH).is_ok());
        for cut in 1..whole.len() {
            assert_eq!(scan(&whole[..cut], &GRAPH).unwrap_err().code, Code::E1001, "{cut}");
        }
        let cases: [(&[u8], &str); 6] = [
            (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "truncated"),
            (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", "more than 64 bits"),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "more than 64 bits"),
            (b"\x0b", "kind 3"),
            (b"\x02\x00", "no number"),
            (b"\x0a\x02\x0a\x05", "truncated"),
        ];
        for (bytes, words) in cases {
            let error = scan(bytes, &GRAPH).unwrap_err();
            assert_eq!(error.code, Code::E1001);
            assert!(error.message.contains(words), "{bytes:x?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
            if let Ok(counts) = scan(&bytes, &GRAPH) {
                prop_assert!(counts.messages <= 1 + bytes.len() / 2 && counts.depth <= 64);
            }
        }
    }
}
