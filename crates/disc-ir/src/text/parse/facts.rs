//! Parses facts after `where`; [`Fact::parse_prefix`] reads each of them.
use super::{
    Parser,
    cursor::{Parsed, error, span},
    dims::{located, window},
};
use crate::{
    diag::Code,
    dim::{Fact, FactError, Facts},
    text::limits::MAX_FACTS,
};

impl Parser<'_> {
    /// Facts separated by commas.
    pub(super) fn facts(&mut self, facts: &mut Facts) -> Parsed<()> {
        for _ in 0..MAX_FACTS {
            self.cursor.peek();
            let start = self.cursor.pos;
            let (fact, length) = Fact::parse_prefix(window(&self.cursor)).map_err(|e| located(&e, start))?;
            self.cursor.pos += length;
            let place = span(start, start + self.cursor.source[start..start + length].trim_end().len());
            facts.add(fact).map_err(|e| error(code(&e), place, e.to_string()))?;
            if !self.cursor.eat(",") {
                return Ok(());
            }
        }
        Err(error(Code::E0105, span(self.cursor.pos, self.cursor.pos), format!("more than {MAX_FACTS} facts")))
    }
}

fn code(e: &FactError) -> Code {
    match e {
        FactError::Contradiction { .. } => Code::E0212,
        FactError::Divisor { .. } => Code::E0209,
        FactError::Invalid { .. } => Code::E0105,
    }
}
