//! Writes and reads the model's source lines of ops: `loc("model.py":42 "forward")`.
use super::{names::quote, parse::Cursor};
use crate::lines::{Line, Lines, Origin};

/// The beginning of each line that is written, which nothing else in printed text contains.
const START: &str = " loc(\"";

pub(super) fn text(line: &Line) -> String {
    let function = if line.function().is_empty() { String::new() } else { format!(" {}", quote(line.function())) };
    format!(" loc({}:{}{function})", quote(line.file()), line.number())
}

/// Reads `"model.py":42 "forward")`, or MLIR's `"model.mlir":42:7)`. Leaves the cursor where it
/// was if something else is there.
pub(super) fn read(cursor: &mut Cursor<'_>) -> Option<Line> {
    let start = cursor.pos;
    let line = try_read(cursor);
    if line.is_none() {
        cursor.pos = start;
    }
    line
}

fn try_read(cursor: &mut Cursor<'_>) -> Option<Line> {
    if !cursor.at("\"") {
        return None;
    }
    let file = cursor.string().ok()?;
    if !cursor.eat(":") {
        return None;
    }
    let number = u32::try_from(cursor.integer().ok()?).ok()?;
    if cursor.eat(":") {
        cursor.integer().ok()?;
    }
    let function = if cursor.at("\"") { cursor.string().ok()? } else { String::new() };
    cursor.eat(")").then(|| Line::new(&file, number, &function))
}

/// Removes the lines from text that was printed with them: returns the text without them, and the
/// lines with the numbers that [`super::number_ops`] gives. Returns `None` if there are none.
pub fn split_lines(text: &str) -> Option<(String, Lines)> {
    if !text.contains(START) {
        return None;
    }
    let (mut plain, mut lines) = (String::with_capacity(text.len()), Lines::default());
    for (number, row) in text.lines().enumerate() {
        let found = row.rfind(START).and_then(|at| {
            let mut cursor = Cursor::new(&row[at + START.len() - 1..]);
            read(&mut cursor).filter(|_| cursor.byte().is_none()).map(|line| (at, line))
        });
        match found {
            Some((at, line)) => {
                plain.push_str(&row[..at]);
                lines.set(Origin(number as u32), line);
            }
            None => plain.push_str(row),
        }
        plain.push('\n');
    }
    Some((plain, lines))
}

#[cfg(test)]
mod tests {
    use crate::{
        Function, Module, Origin, parse,
        text::{PrintOptions, number_ops, print, split_lines},
    };

    const TEXT: &str = "\
weight @w : tensor<4xf32>

func @main(%x: tensor<4xf32>) -> tensor<f32> {
  %0 = weight @w : tensor<4xf32>
  %1 = add %x, %0 : tensor<4xf32> loc(\"net/model.py\":42 \"forward\")
  %2 = constant dense<0.0> : tensor<f32> loc(\"a \\\" loc(\\\".py\":7)
  %3 = reduce %1, %2, dims = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32> body(%4: tensor<f32>, %5: tensor<f32>) {
    %6 = multiply %4, %5 : tensor<f32> loc(\"net/model.py\":43 \"<lambda>\")
    %7 = tanh %6 : tensor<f32>
    return %7 : tensor<f32>
  } loc(\"net/model.py\":42 \"forward\")
  return %3 : tensor<f32>
}
";

    fn with_lines(module: &Module) -> String {
        print(module, PrintOptions { lines: true, ..PrintOptions::default() })
    }

    #[test]
    fn text_with_lines_reads_back() {
        let module = parse(TEXT).unwrap();
        assert_eq!(with_lines(&module), TEXT);
        assert!(!module.to_string().contains("loc("));
    }

    #[test]
    fn text_and_modules_have_the_same_lines_under_the_same_numbers() {
        let mut module = parse(TEXT).unwrap();
        let plain = number_ops(&mut module);
        assert_eq!(with_lines(&module), TEXT, "numbering keeps the lines");
        let (text, lines) = split_lines(TEXT).unwrap();
        assert_eq!((text, lines), (plain, module.lines.clone()));
        assert_eq!(module.lines.get(Origin(4)).unwrap().to_string(), "net/model.py:42 forward");
        let origins = |function: &Function| {
            function.walk(function.body).into_iter().map(|inst| function.inst(inst).origin).collect::<Vec<_>>()
        };
        let mut moved = parse(&TEXT.replace(":42", ":50").replace(" loc(\"net/model.py\":43 \"<lambda>\")", "")).unwrap();
        number_ops(&mut moved);
        assert_eq!(origins(&moved.functions[0]), origins(&module.functions[0]), "numbers do not depend on lines");
        assert_eq!(split_lines(&module.to_string()), None);
    }

    #[test]
    fn locations_of_other_tools_are_skipped() {
        for place in ["#loc3", "unknown", "\"name\"", "\"f\"(\"x.py\":1:2)", "fused[\"a.py\":1:2, \"b.py\":3:4]", "12:40"] {
            let module = parse(&TEXT.replace("\"net/model.py\":42 \"forward\"", place)).unwrap();
            assert!(!with_lines(&module).contains("model.py\":42"), "{place}");
        }
    }
}
