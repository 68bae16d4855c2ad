//! Converts byte offsets to lines and columns.
use crate::diag::Span;

/// A position in a text, from line 1 and column 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

/// The starts of the lines of a text.
pub struct Lines<'s> {
    source: &'s str,
    starts: Vec<usize>,
}

impl<'s> Lines<'s> {
    pub fn new(source: &'s str) -> Self {
        let starts = std::iter::once(0).chain(source.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { source, starts }
    }

    /// The position of a byte; the end of the text for one beyond it.
    pub fn position(&self, offset: u32) -> Position {
        let offset = self.floor_boundary(offset as usize);
        let line = self.starts.partition_point(|&start| start <= offset);
        let before = &self.source[self.starts[line - 1]..offset];
        Position { line, column: before.chars().count() + 1 }
    }

    /// The text of a line, without its end.
    pub fn text(&self, line: usize) -> &'s str {
        let Some(&start) = self.starts.get(line.wrapping_sub(1)) else { return "" };
        self.source[start..].lines().next().unwrap_or("")
    }

    /// Returns the number of characters of its first line that a span covers: at least 1.
    pub fn width(&self, span: Span) -> usize {
        let (start, end) = (self.floor_boundary(span.start as usize), self.floor_boundary(span.end as usize));
        let covered = self.source.get(start..end).and_then(|text| text.lines().next()).unwrap_or("");
        covered.chars().count().max(1)
    }

    fn floor_boundary(&self, offset: usize) -> usize {
        (0..=offset.min(self.source.len())).rev().find(|&at| self.source.is_char_boundary(at)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let lines = Lines::new("ab\n\u{e9}x\n");
        assert_eq!(lines.position(0), Position { line: 1, column: 1 });
        assert_eq!(lines.position(3), Position { line: 2, column: 1 });
        assert_eq!(lines.position(4), Position { line: 2, column: 1 });
        assert_eq!(lines.position(5), Position { line: 2, column: 2 });
        assert_eq!(lines.position(900), Position { line: 3, column: 1 });
        assert_eq!(lines.text(2), "\u{e9}x");
        assert_eq!(lines.text(9), "");
        assert_eq!(lines.width(Span { start: 3, end: 6 }), 2);
    }
}
