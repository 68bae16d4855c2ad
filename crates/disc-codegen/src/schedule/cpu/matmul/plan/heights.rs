//! Heights of micro-kernels: the row counts that even blocks of a chunk can have.
use super::{MatmulPlan, forms::RightForm, right::few_rows, source::Source};
use crate::target::Target;

impl MatmulPlan {
    /// Rows up to which a right operand is read in place: each of its rows is read again for each
    /// block.
    pub(in crate::schedule) fn rows_in_place(&self) -> u32 {
        2 * self.tile.rows
    }

    /// Rows up to which each block converts a panel of weights on reading, which takes a sixth
    /// longer: for more, the first of them leaves the converted panel in task memory.
    pub(in crate::schedule) fn rows_as_stored(&self) -> u32 {
        self.tile.rows * 3 / 2
    }

    /// Returns true if units may have more blocks of rows than read a right operand in place: the
    /// first of them then copies the panel.
    pub(in crate::schedule) fn copies_panels(&self) -> bool {
        let most = i64::from(self.rows_in_place());
        let may_be_many = self.most_rows() > most && self.shape.m.size.as_const().is_none_or(|rows| rows > most);
        self.right.is_rows() && self.word.is_none() && self.panels_at_once() == 1 && may_be_many
    }

    /// The least height that even blocks of a chunk of more than `rows` rows have: two blocks of
    /// seven rows may have three.
    fn least_height(&self, rows: u32) -> u32 {
        let tallest = self.tile.rows;
        let heights = (rows + 1..=rows + 2 * tallest).map(|count| count / count.div_ceil(tallest));
        heights.min().expect("some chunk has more rows")
    }

    /// The heights of even blocks of the chunks of a known number of rows.
    fn known_heights(&self) -> Option<[u32; 2]> {
        let rows = u32::try_from(self.shape.m.size.as_const()?).ok().filter(|&rows| rows > 0)?;
        let chunks = rows.div_ceil(u32::try_from(self.most_rows()).ok()?);
        let blocks = |rows: u32| rows.div_ceil(self.tile.rows);
        let (few, many) = (rows / chunks, rows.div_ceil(chunks));
        let low = (few / blocks(few)).min(many / blocks(many));
        Some([low, few.div_ceil(blocks(few)).max(many.div_ceil(blocks(many)))])
    }

    /// The numbers of narrow vectors that a last panel may have instead of its own, besides columns
    /// that are left over. For an unknown number of rows there would be too many micro-kernels.
    pub(in crate::schedule) fn tails(&self) -> Vec<u32> {
        if self.partition.whole_panels || self.register_tiles().is_some() || !self.packs_known_rows() {
            return Vec::new();
        }
        match self.shape.n.size.as_const() {
            Some(columns) => self.tail_of((columns % i64::from(self.tile.columns)) as u32).into_iter().collect(),
            None => (u32::from(self.most_rest() == 0)..self.tile.columns / self.narrow()).collect(),
        }
    }

    /// Returns true if panels are packed for rows whose number is known.
    pub(in crate::schedule) fn packs_known_rows(&self) -> bool {
        let packs = matches!(self.right.form, RightForm::Computed | RightForm::Rows);
        packs && self.partition.blocks.is_none() && !self.result.is_split() && self.known_heights().is_some()
    }

    /// The heights that even blocks of a chunk can have, from the least to the tallest.
    pub(in crate::schedule) fn heights(&self, target: &Target, source: Source) -> [u32; 2] {
        let wide = self.wide_rows(target);
        let sized = source.is_prepared() || matches!(source, Source::Task | Source::Tail(_) | Source::Along(_) | Source::Copied);
        if let (Some(known), true) = (self.known_heights(), sized) {
            return known;
        }
        let low = match (source, &self.right.form) {
            (Source::InPlace, _) => wide.map_or(1, |rows| self.least_height(rows)),
            // Every whole panel of few rows is read in place.
            (Source::Task, RightForm::Rows) if self.word.is_none() && self.has_whole_units(target) => {
                self.least_height(self.rows_in_place())
            }
            (Source::Task, RightForm::Int4(_)) => self.least_height(self.rows_by_int4(target)),
            (Source::Copied, _) => self.least_height(self.rows_in_place()),
            (Source::Widening | Source::Widened, _) => self.least_height(self.rows_as_stored()),
            (Source::Task, RightForm::Columns { dots_for_few_rows: true }) => self.least_height(few_rows(target)),
            _ => 1,
        };
        let most = self.shape.m.size.as_const().and_then(|rows| u32::try_from(rows.max(1)).ok()).unwrap_or(self.tile.rows);
        let tallest = match source {
            Source::Int4 => self.rows_by_int4(target),
            _ => wide.filter(|_| source == Source::Wide).unwrap_or(self.tile.rows),
        };
        let high = most.min(tallest);
        [low.min(high), high]
    }

    /// Returns true if all panels that a unit reads at once are whole.
    pub(in crate::schedule) fn has_whole_units(&self, target: &Target) -> bool {
        self.partition.whole_panels && (self.wide_rows(target).is_none() || self.partition.whole_spans)
    }
}
