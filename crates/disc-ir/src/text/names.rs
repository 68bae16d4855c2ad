//! Decides which names are written plainly, and quotes the others. Parser and printer agree on it
//! here.

pub(super) fn starts_word(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

/// Returns true for bytes within a word, such as `stablehlo.add`.
pub(super) fn continues_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$')
}

/// Returns true for bytes within `%name` and `@name`.
pub(super) fn continues_name(byte: u8) -> bool {
    continues_word(byte) || byte == b'-'
}

/// Returns true if `@name` needs no quotes.
pub(super) fn is_plain(name: &str) -> bool {
    name.bytes().next().is_some_and(starts_word) && name.bytes().all(continues_name)
}

/// Returns true if a value's name is only a number: such values are nameless, and numbered anew
/// when printed.
pub(super) fn is_number(name: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_digit())
}

/// Quotes `text`; bytes other than printable ASCII or UTF-8 text are written `\xx`, in hexadecimal.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            c if c.is_control() => {
                let mut bytes = [0; 4];
                c.encode_utf8(&mut bytes).bytes().for_each(|b| quoted.push_str(&format!("\\{b:02X}")));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
