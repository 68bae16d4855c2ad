//! Tells the format of a model by its contents, then by the extension of its file.
use super::File;
use crate::tensorflow::begins_as_graph;
use disc_ir::{Code, Diagnostic};
use std::path::Path;

/// A format that disc reads as a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The textual IR of disc.
    Ir,
    /// StableHLO as text.
    StableHlo,
    /// A graph of TensorFlow, frozen, in protobuf.
    TensorFlow,
}

impl Format {
    /// Returns the format of a file.
    ///
    /// # Errors
    /// E1001: of none of these; the message says what it looks like.
    pub fn of(file: &File) -> Result<Self, Diagnostic> {
        if let Some(format) = Self::of_text(&file.bytes) {
            return Ok(format);
        }
        if begins_as_graph(&file.bytes) {
            return Ok(Format::TensorFlow);
        }
        match looks_like(&file.bytes) {
            None => file.path.as_deref().and_then(Self::of_extension).ok_or_else(|| misfit(file, "a model that disc imports")),
            Some(_) => Err(misfit(file, "a model that disc imports")),
        }
    }

    /// Returns the format of a text by its first word.
    pub fn of_text(bytes: &[u8]) -> Option<Self> {
        let start = first_token(bytes);
        let begins = |word: &str| {
            let rest = start.strip_prefix(word.as_bytes());
            rest.is_some_and(|rest| rest.first().is_none_or(|byte| !byte.is_ascii_alphanumeric() && !b"_.".contains(byte)))
        };
        if ["module", "builtin.module", "\"builtin.module\"", "func.func"].into_iter().any(begins) || start.starts_with(b"#loc") {
            return Some(Format::StableHlo);
        }
        ["func", "weight", "kernel", "routine", "host"].into_iter().any(begins).then_some(Format::Ir)
    }

    fn of_extension(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "mlir" => Some(Format::StableHlo),
            "disc" => Some(Format::Ir),
            _ => None,
        }
    }
}

/// Returns the error for a file that is not what was expected, such as "StableHLO".
pub fn misfit(file: &File, expected: &str) -> Diagnostic {
    let name = &file.name;
    let (found, help) = match looks_like(&file.bytes) {
        Some(Look { what, help }) => (format!("it looks like {what}"), help),
        None if file.bytes.is_empty() => ("it is empty".to_owned(), None),
        None => ("its contents are of no known format".to_owned(), None),
    };
    let error = Diagnostic::new(Code::E1001, format!("{name} is not {expected}: {found}"));
    match help {
        Some(help) => error.help(help),
        None => error,
    }
}

/// Returns the error for bytes that are of a known kind of file, and of none that is read as a
/// program; `name` stands for the file.
pub fn foreign(name: &str, bytes: &[u8]) -> Option<Diagnostic> {
    if Format::of_text(bytes).is_some() {
        return None;
    }
    let Look { what, help } = looks_like(bytes)?;
    let error = Diagnostic::new(Code::E1001, format!("{name} is not a program or model that disc reads: it looks like {what}"));
    Some(match help {
        Some(help) => error.help(help),
        None => error,
    })
}

/// A kind of file, and advice to who has one.
struct Look {
    what: &'static str,
    help: Option<&'static str>,
}

const fn look(what: &'static str, help: &'static str) -> Look {
    Look { what, help: if help.is_empty() { None } else { Some(help) } }
}

/// Returns the kind of file that bytes look like, beside texts of programs.
fn looks_like(bytes: &[u8]) -> Option<Look> {
    let begins = |start: &[u8]| bytes.starts_with(start);
    let has_at = |at: usize, what: &[u8]| bytes.get(at..).is_some_and(|rest| rest.starts_with(what));
    let token = first_token(bytes);
    let is_text_protobuf = ["ir_version:", "producer_name:", "opset_import", "graph {", "node {", "saved_model_schema_version:"]
        .into_iter()
        .any(|word| token.starts_with(word.as_bytes()));
    Some(match () {
        () if begins(b"PK\x03\x04") => {
            look("a package, a captured call or another zip file", "disc.load and disc run take packages")
        }
        () if begins(b"version https://git-lfs") => {
            look("a pointer of git-lfs, without the model", "`git lfs pull` gets the model")
        }
        () if has_at(4, b"ORTM") => {
            look("a model in the format of ONNX Runtime (.ort)", "import the .onnx file that it was made of")
        }
        () if is_text_protobuf => look("protobuf as text", "save the model in protobuf's binary form"),
        () if begins(b"ML\xefR") => look("MLIR bytecode", "the text of the program is read: `stablehlo-translate --deserialize`"),
        () if has_at(4, b"TFL3") => look("a model of TensorFlow Lite", ""),
        () if begins(b"\x89HDF") => look("a HDF5 file, as Keras writes", ""),
        () if begins(b"GGUF") => look("a GGUF file, which holds weights and no program", ""),
        () if has_at(8, b"{\"") && bytes.get(7) == Some(&0) => look("a safetensors file, which holds weights and no program", ""),
        () if begins(b"\x80\x02") || begins(b"\x80\x04") => look("a Python pickle", ""),
        () if begins(b"\x1f\x8b") => look("a gzip file", "unpack it first"),
        () if begins(b"BZh") || begins(b"\xfd7zXZ") || begins(b"\x28\xb5\x2f\xfd") => {
            look("a compressed file", "unpack it first")
        }
        () if token.starts_with(b"<!") || token.starts_with(b"<html") => {
            look("a web page", "the download ended at a page instead of the model")
        }
        () if begins(b"\x08\x01\x12") => look(
            "a SavedModel of TensorFlow, whose variables are in other files",
            "disc.tensorflow.load takes its folder, where TensorFlow is installed",
        ),
        () if begins(b"\x08") && has_at(2, b"\x12") => look("an ONNX model", "this version of disc does not read ONNX yet"),
        () => return None,
    })
}

/// Returns the text from its first character on that is neither white space nor in a comment.
fn first_token(mut bytes: &[u8]) -> &[u8] {
    bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    loop {
        bytes = bytes.trim_ascii_start();
        if !bytes.starts_with(b"//") {
            return bytes;
        }
        bytes = bytes.iter().position(|&byte| byte == b'\n').and_then(|end| bytes.get(end..)).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, bytes: &[u8]) -> File {
        File { name: name.into(), path: Some(name.into()), bytes: bytes.to_vec().into() }
    }

    fn format(name: &str, bytes: &[u8]) -> Result<Format, Diagnostic> {
        Format::of(&file(name, bytes))
    }

    #[test]
    fn contents_tell_the_format_before_the_extension_does() {
        for (text, expected) in [
            ("module @jit_f attributes {} {", Format::StableHlo),
            ("// a comment\n\n  #loc1 = loc(unknown)\nmodule {", Format::StableHlo),
            ("func.func @main() {", Format::StableHlo),
            ("module{", Format::StableHlo),
            ("// c\nfunc @main() {", Format::Ir),
            ("weight @w : tensor<2xf32>", Format::Ir),
        ] {
            for name in ["a.mlir", "a.disc", "a.txt", "a"] {
                assert_eq!(format(name, text.as_bytes()), Ok(expected), "{name}: {text}");
            }
        }
        assert_eq!(format("a.mlir", b"funky"), Ok(Format::StableHlo));
        assert_eq!(format("a.disc", b"modules"), Ok(Format::Ir));
        assert!(format("a.txt", b"modules").is_err());
    }

    #[test]
    fn other_files_are_called_by_their_name() {
        let cases: [(&[u8], &str); 12] = [
            (b"PK\x03\x04rest", "a package"),
            (b"\x18\0\0\0ORTM", ".ort"),
            (b"ir_version: 8\ngraph {", "protobuf as text"),
            (b"version https://git-lfs.github.com/spec/v1\noid", "git-lfs"),
            (b"ML\xefR\x0d", "MLIR bytecode"),
            (b"\x08\x08\x12\x07pytorch", "an ONNX model"),
            (b"<!DOCTYPE html>", "a web page"),
            (b"\x10\0\0\0\0\0\0\0{\"a\":", "safetensors"),
            (b"\x1f\x8b\x08", "gzip"),
            (b"\x89HDF\r\n", "HDF5"),
            (b"", "it is empty"),
            (b"\0\0\0", "no known format"),
        ];
        for (bytes, words) in cases {
            let error = format("m.onnx", bytes).unwrap_err();
            assert_eq!(error.code, Code::E1001);
            assert!(error.message.starts_with("m.onnx is not ") && error.message.contains(words), "{error}");
        }
        assert_eq!(format("graph", b"\x0a\x0b\x0a\x01x\x12\x06Placeh"), Ok(Format::TensorFlow));
        assert!(format("a.pb", b"\x08\x01\x12\x00").unwrap_err().message.contains("a SavedModel"));
        // Contents that are known decide against an extension.
        assert!(format("m.mlir", b"PK\x03\x04").is_err());
    }
}
