//! The routines of a kernel: which micro-kernels its products need. Products of one structure share theirs.
use super::{
    dot, epilogue_routine,
    micro::{self, Source},
};
use crate::{
    kernel::Site,
    schedule::{
        Group,
        cpu::matmul::{
            merge_sites,
            plan::{MatmulPlan, Right},
        },
    },
    target::Target,
};
use disc_ir::Function;

/// Up to this many rows, dot products along memory cost less than packing: two passes of the tallest blocks of them.
pub(in crate::schedule) fn few_rows(target: &Target) -> u32 {
    if target.vector_registers() > 16 { 8 } else { 4 }
}

/// Routines, and where they can fail.
#[derive(Default)]
pub(in crate::schedule) struct Routines {
    pub(in crate::schedule) functions: Vec<Function>,
    pub(in crate::schedule) sites: Vec<Site>,
    /// The text of each product's routines, and what they are named after.
    known: Vec<(String, String)>,
}

impl MatmulPlan {
    /// Rows up to which a right operand is read as it lies: each of its rows is read again for each block.
    pub(in crate::schedule) fn rows_in_place(&self) -> u32 {
        2 * self.tile.rows
    }

    /// Whether units may have more blocks of rows than read a right operand as it lies: the first of them then copies the panel.
    pub(in crate::schedule) fn copies_panels(&self) -> bool {
        let most = i64::from(self.rows_in_place());
        let may_be_many = self.most_rows() > most && self.m.size.as_const().is_none_or(|rows| rows > most);
        self.right_form == Right::Rows && self.word.is_none() && self.panels_at_once() == 1 && may_be_many
    }

    /// The least height that even blocks of a chunk of more than `rows` rows have: two blocks of seven rows may have three.
    fn least_height(&self, rows: u32) -> u32 {
        let tallest = self.tile.rows;
        let heights = (rows + 1..=rows + 2 * tallest).map(|count| count / count.div_ceil(tallest));
        heights.min().expect("some chunk has more rows")
    }

    /// The heights of even blocks of the chunks of a known number of rows.
    fn known_heights(&self) -> Option<[u32; 2]> {
        let rows = u32::try_from(self.m.size.as_const()?).ok().filter(|&rows| rows > 0)?;
        let chunks = rows.div_ceil(u32::try_from(self.most_rows()).ok()?);
        let blocks = |rows: u32| rows.div_ceil(self.tile.rows);
        let (few, many) = (rows / chunks, rows.div_ceil(chunks));
        let low = (few / blocks(few)).min(many / blocks(many));
        Some([low, few.div_ceil(blocks(few)).max(many.div_ceil(blocks(many)))])
    }

    /// For a last panel that need not be full, how many narrow vectors it may have instead, besides columns that are left over. Where rows are
    /// not known there would be too many micro-kernels.
    pub(in crate::schedule) fn tails(&self) -> Vec<u32> {
        if self.whole_panels || !self.packs_known_rows() {
            return Vec::new();
        }
        match self.n.size.as_const() {
            Some(columns) => self.tail_of((columns % i64::from(self.tile.columns)) as u32).into_iter().collect(),
            None => (u32::from(self.most_rest() == 0)..self.tile.columns / self.narrow()).collect(),
        }
    }

    /// Whether panels are packed for rows whose number is known.
    pub(in crate::schedule) fn packs_known_rows(&self) -> bool {
        let packs = matches!(self.right_form, Right::Computed | Right::Rows) && !self.few_rows_at_once;
        packs && self.held.is_none() && !self.split && self.known_heights().is_some()
    }

    /// The heights that even blocks of a chunk can have.
    pub(in crate::schedule) fn heights(&self, target: &Target, source: Source) -> [u32; 2] {
        let wide = self.wide_rows(target);
        let sized = matches!(source, Source::Task | Source::Tail(_) | Source::Along(_) | Source::Panels | Source::Copied);
        if let (Some(known), true) = (self.known_heights(), sized) {
            return known;
        }
        let low = match (source, self.right_form) {
            (Source::InPlace, _) => wide.map_or(1, |rows| self.least_height(rows)),
            // Every whole panel of few rows is read in place.
            (Source::Task, Right::Rows) if self.word.is_none() && self.whole_panels && (wide.is_none() || self.whole_spans) => {
                self.least_height(self.rows_in_place())
            }
            (Source::Task, Right::Int4) => self.least_height(self.rows_by_steps(target)),
            (Source::Copied, _) => self.least_height(self.rows_in_place()),
            (Source::Task, Right::Columns) if self.dots_for_few_rows => self.least_height(few_rows(target)),
            _ => 1,
        };
        let most = self.m.size.as_const().and_then(|rows| u32::try_from(rows.max(1)).ok()).unwrap_or(self.tile.rows);
        let tallest = match source {
            Source::Int4 => self.rows_by_steps(target),
            _ => wide.filter(|_| source == Source::Wide).unwrap_or(self.tile.rows),
        };
        let high = most.min(tallest);
        [low.min(high), high]
    }

    fn sources(&self, target: &Target) -> Vec<Source> {
        let mut sources = match self.right_form {
            Right::Panels => vec![Source::Panels],
            Right::Dots => Vec::new(),
            Right::Columns | Right::Computed => vec![Source::Task],
            Right::Int4 => vec![Source::Int4, Source::Task],
            Right::Rows if self.word.is_some() || self.panels_at_once() > 1 => vec![Source::Task],
            Right::Rows if self.wide_rows(target).is_none() => vec![Source::InPlace, Source::Task],
            Right::Rows => vec![Source::Wide, Source::InPlace, Source::Task],
        };
        sources.extend(self.tails().into_iter().filter(|&tail| tail > 0).map(Source::Tail));
        sources.extend(self.rest_blocks().into_iter().map(Source::Along));
        sources.extend(self.copies_panels().then_some(Source::Copied));
        sources
    }
}

impl Routines {
    /// Adds what a plan needs; what its routines are named after.
    pub(in crate::schedule) fn add(&mut self, group: &Group<'_>, plan: &MatmulPlan) -> String {
        let part = format!("{}.{}", group.name, self.known.len());
        let mut made = Vec::new();
        for source in plan.sources(group.target) {
            let [low, high] = plan.heights(group.target, source);
            made.extend((low..=high).map(|rows| micro::emit(group, plan, &part, source, rows)));
            made.extend(plan.finishes_apart.then(|| epilogue_routine::emit(group, plan, &part, source)));
        }
        if plan.right_form == Right::Dots || plan.dots_for_few_rows {
            let [tall, wide] = dot::blocks(group, plan);
            for &rows in &tall {
                made.extend(wide.iter().map(|&columns| dot::emit(group, plan, &part, rows, columns)));
            }
        }
        let text: String = made.iter().map(|(function, _)| function.to_string().replace(&part, "")).collect();
        if let Some((_, name)) = self.known.iter().find(|(known, _)| *known == text) {
            return name.clone();
        }
        self.known.push((text, part.clone()));
        merge_sites(&mut self.sites, &made);
        self.functions.extend(made.into_iter().map(|(function, _)| function));
        part
    }
}
