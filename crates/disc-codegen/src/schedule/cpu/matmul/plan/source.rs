//! Places that micro-kernels read their panels from.
use super::{MatmulPlan, forms::RightForm, partition::SPAN};
use crate::target::Target;

/// The place that a micro-kernel reads its panel from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::schedule) enum Source {
    /// Panels of weights.
    Panels,
    /// Panels of weights, the converted elements of which are left in task memory.
    Widening,
    /// Such a panel in task memory.
    Widened,
    /// The right operand in memory, where the panel is whole.
    InPlace,
    /// The same, where the panel may end after the last column.
    Edge,
    /// The same, for a span of whole panels at once.
    Wide,
    /// The same, for a whole panel, which is copied to task memory for the blocks after the first.
    Copied,
    /// Task memory.
    Task,
    /// Panels of 4-bit weights.
    Int4,
    /// Task memory, where the last panel has columns for this many narrow vectors only.
    Tail(u32),
    /// The right operand in memory, where the last panel has columns for this many narrow vectors
    /// only.
    EdgeTail(u32),
    /// Task memory that has this many of the columns that are left over, along the sums.
    Along(u32),
}

/// Bytes of a narrow vector: CPUs whose units are half as wide as their registers compute it at
/// once.
const NARROW: u32 = 32;

/// A vector of a panel: the number of its first column there, and its lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::schedule) struct Piece {
    pub(in crate::schedule) shift: i64,
    pub(in crate::schedule) lanes: u32,
}

impl Source {
    /// Returns true if the panel is one of weights: those of the next panel follow it in memory.
    pub(in crate::schedule) fn is_prepared(self) -> bool {
        matches!(self, Self::Panels | Self::Widening | Self::Widened)
    }

    /// Names the micro-kernel of a product for `rows` rows.
    pub(in crate::schedule) fn kernel_name(self, part: &str, rows: u32) -> String {
        match self {
            Self::Panels => format!("{part}.rows{rows}"),
            Self::Widening => format!("{part}.widening{rows}"),
            Self::Widened => format!("{part}.widened{rows}"),
            Self::InPlace => format!("{part}.inplace{rows}"),
            Self::Edge => format!("{part}.edge{rows}"),
            Self::Wide => format!("{part}.wide{rows}"),
            Self::Copied => format!("{part}.copied{rows}"),
            Self::Task => format!("{part}.task{rows}"),
            Self::Int4 => format!("{part}.int4_rows{rows}"),
            Self::Tail(narrow) => format!("{part}.tail{narrow}x{rows}"),
            Self::EdgeTail(narrow) => format!("{part}.edge{narrow}x{rows}"),
            Self::Along(columns) => format!("{part}.along{columns}x{rows}"),
        }
    }
}

impl MatmulPlan {
    /// Columns of a narrow vector.
    pub(in crate::schedule) fn narrow(&self) -> u32 {
        self.tile.lanes.min(NARROW / self.compute.size() as u32)
    }

    /// Cuts the columns of a micro-kernel into vectors.
    pub(in crate::schedule) fn pieces(&self, source: Source) -> Vec<Piece> {
        if let Source::Along(columns) = source {
            return (0..i64::from(columns)).map(|shift| Piece { shift, lanes: 1 }).collect();
        }
        let columns = match source {
            Source::Tail(narrow) | Source::EdgeTail(narrow) => narrow * self.narrow(),
            Source::Wide => self.tile.columns * SPAN as u32,
            _ => self.tile.columns,
        };
        let whole =
            (0..columns / self.tile.lanes).map(|v| Piece { shift: i64::from(v * self.tile.lanes), lanes: self.tile.lanes });
        let rest = columns % self.tile.lanes;
        let rest = (rest > 0).then(|| Piece { shift: i64::from(columns - rest), lanes: rest });
        whole.chain(rest).collect()
    }

    /// The places that the micro-kernels of a product read panels from.
    pub(in crate::schedule) fn sources(&self, target: &Target) -> Vec<Source> {
        let mut sources = match self.right.form {
            RightForm::Panels if self.widens_panels() => vec![Source::Panels, Source::Widening, Source::Widened],
            RightForm::Panels => vec![Source::Panels],
            RightForm::Dots => Vec::new(),
            RightForm::Columns { .. } | RightForm::Computed => vec![Source::Task],
            RightForm::Int4(_) => vec![Source::Int4, Source::Task],
            RightForm::Rows if self.word.is_some() || self.panels_at_once() > 1 => vec![Source::Task],
            RightForm::Rows if self.wide_rows(target).is_none() => vec![Source::InPlace, Source::Task],
            RightForm::Rows => vec![Source::Wide, Source::InPlace, Source::Task],
        };
        sources.extend(self.tails().into_iter().filter(|&tail| tail > 0).map(Source::Tail));
        sources.extend(self.rest_blocks().into_iter().map(Source::Along));
        sources.extend(self.copies_panels().then_some(Source::Copied));
        sources
    }

    /// The same for a product in another schedule's kernel, and for parts of sums; of two places
    /// the second is for a panel that is not whole.
    pub(in crate::schedule) fn block_sources(&self, target: &Target) -> Vec<Source> {
        match self.right.form {
            RightForm::Panels => vec![Source::Panels],
            RightForm::Rows if self.partition.whole_panels => vec![Source::InPlace],
            // Masks have registers of their own.
            RightForm::Rows if target.vector_registers() > 16 => vec![Source::Edge],
            RightForm::Rows => vec![Source::InPlace, Source::Edge],
            RightForm::Columns { .. } | RightForm::Computed | RightForm::Dots | RightForm::Int4(_) => vec![Source::Task],
        }
    }

    /// The place that a last panel with columns for half of its vectors is read from, if there may
    /// be one, and these columns.
    pub(in crate::schedule) fn half_panel(&self) -> Option<(Source, u32)> {
        let (half, narrow) = (self.tile.columns / 2, self.narrow());
        let rest = self.shape.n.size.as_const().map(|columns| columns % i64::from(self.tile.columns));
        let may_be = rest.is_none_or(|rest| (1..=i64::from(half)).contains(&rest)) && !self.partition.whole_panels;
        let in_halves = half % self.tile.lanes == 0 && !self.keeps_tiles();
        if !may_be || self.partition.blocks.is_none() || !in_halves {
            return None;
        }
        match self.right.form {
            RightForm::Rows => Some((Source::EdgeTail(half / narrow), half)),
            RightForm::Columns { .. } | RightForm::Dots => Some((Source::Tail(half / narrow), half)),
            RightForm::Panels | RightForm::Computed | RightForm::Int4(_) => None,
        }
    }
}
