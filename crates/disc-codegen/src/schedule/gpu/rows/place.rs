//! Places threads at rows, and at positions along them.
use super::{HELD, Rows};
use crate::{
    kernel::{Index, KernelBuilder},
    schedule::{
        Scheduled,
        common::iteration_space::{positions_of, read_places},
        gpu::frame::GridFrame,
    },
};
use disc_ir::{DType, Dim, Value};
use disc_kernel_macros::expr;

/// The place of this thread.
pub(super) struct Here {
    /// The number of its block, and that of its row.
    pub(super) block: Value,
    pub(super) number: Value,
    /// The position of its row in the space.
    pub(super) row: Vec<Index>,
    /// True if there is a row; absent if there always is. The threads of a warp compute the last
    /// row together with those that have none.
    pub(super) exists: Option<Value>,
    /// The positions along the row from the first to below the last, if its block has a part.
    part: Option<[Value; 2]>,
    /// Its number among the threads of the row.
    pub(super) member: Value,
    /// The number of its warp, if a block has a row.
    pub(super) warp: Option<Value>,
    /// Its number in the warp.
    pub(super) lane: Value,
    /// The memory in which the warps of a block meet, by type.
    pub(super) meeting: Vec<(DType, Value)>,
}

impl<'g> Rows<'g> {
    /// Writes a kernel in which `compute` computes the rows, but for the results of one element for
    /// each row.
    pub(super) fn scheduled(&self, compute: &dyn Fn(&Self, &mut GridFrame<'_>, &Here)) -> Scheduled {
        self.scheduled_in(self.frame(), 1, &|rows, frame, here| {
            compute(rows, frame, here);
            rows.write_rows(frame, here);
        })
    }

    /// Writes a kernel in which `compute` computes the rows, each in so many parts, which blocks
    /// have.
    pub(super) fn scheduled_in(
        &self,
        mut frame: GridFrame<'g>,
        parts: i64,
        compute: &dyn Fn(&Self, &mut GridFrame<'_>, &Here),
    ) -> Scheduled {
        let rows = Dim::product(self.kept.iter().map(|run| run.size.clone()));
        let kb = &mut frame.kb;
        let [block, warp, lane] = ["block", "warp", "lane"].map(|of| kb.place(of));
        let in_block = kb.int(self.rows().into());
        let (row, member, of_block) = match self.threads {
            threads if threads == self.grid.threads => {
                let count = kb.int(parts);
                (expr!(kb, block / count), kb.place("thread"), Some(warp))
            }
            threads if threads == self.grid.warp => {
                let before = expr!(kb, block * in_block);
                (expr!(kb, before + warp), lane, None)
            }
            threads => {
                let (before, thread, members) = (expr!(kb, block * in_block), kb.place("thread"), kb.int(threads.into()));
                let number = expr!(kb, thread / members);
                (expr!(kb, before + number), expr!(kb, thread % members), None)
            }
        };
        let count = kb.dim(&rows);
        let exists = (self.rows() > 1).then(|| expr!(kb, row < count));
        let meeting = if of_block.is_some() { self.meeting(kb) } else { Vec::new() };
        // Threads of a warp meet, whatever rows they have: a warp without a row is left out, others
        // compute the last row again.
        let is_joint = 1 < self.threads && self.threads < self.grid.warp;
        let open = exists.map(|exists| {
            let kb = &mut frame.kb;
            let any = is_joint.then(|| {
                let of_warp = kb.int((self.grid.warp / self.threads).into());
                expr!(kb, block * in_block + warp * of_warp < count)
            });
            kb.open_if(any.unwrap_or(exists))
        });
        let exists = exists.filter(|_| is_joint);
        let row = match exists {
            Some(exists) => {
                expr!(frame.kb, select(exists, row, count - 1))
            }
            None => row,
        };
        let mut at = vec![Index::uniform(frame.kb.int(0)); self.plan.layout.space.len()];
        let positions = positions_of(&mut frame.kb, row, &self.kept);
        self.kept.iter().zip(positions).for_each(|(run, position)| at[run.axis] = Index::uniform(position));
        let part = (parts > 1).then(|| self.part(&mut frame.kb, block, parts));
        let here = Here { block, number: row, row: at, exists, part, member, warp: of_block, lane, meeting };
        frame.elements.open_scope();
        read_places(&mut frame.kb, &mut frame.elements, &self.plan.layout.space, &self.plan.row_gathers(self.group), &here.row);
        compute(self, &mut frame, &here);
        frame.elements.close_scope();
        if let Some(open) = open {
            frame.kb.close_if(open);
        }
        frame.finish(rows.ceil_div(&Dim::constant(self.rows().into())) * parts)
    }

    /// Returns the positions along a row of a block's part: it begins at a multiple of a block's
    /// width.
    fn part(&self, kb: &mut KernelBuilder, block: Value, parts: i64) -> [Value; 2] {
        let (length, width) = (self.plan.row_length(), i64::from(self.threads * self.lanes));
        let (each, length) = (kb.dim(&(length.ceil_div(&Dim::constant(parts * width)) * width)), kb.dim(&length));
        let start = expr!(kb, block % int(parts) * each);
        let end = expr!(kb, start + each);
        [start, kb.min(end, length)]
    }

    /// The positions of this thread along the row: first, end, step.
    pub(super) fn bounds(&self, kb: &mut KernelBuilder, here: &Here) -> [Value; 3] {
        let (first, step) = (expr!(kb, here.member * int(self.lanes.into())), kb.int((self.threads * self.lanes).into()));
        match here.part {
            Some([start, end]) => [expr!(kb, start + first), end, step],
            None => [first, kb.dim(&self.plan.row_length()), step],
        }
    }

    /// Returns a position of the space: `along` elements along the row.
    pub(super) fn at(&self, kb: &mut KernelBuilder, here: &Here, along: Value) -> Vec<Index> {
        let mut at = here.row.clone();
        let positions = positions_of(kb, along, &self.reduced);
        let stride = i64::from(self.lanes > 1);
        for (number, (run, base)) in self.reduced.iter().zip(positions).enumerate() {
            let is_last = number + 1 == self.reduced.len();
            at[run.axis] = Index::Affine { base, stride: if is_last { stride } else { 0 } };
        }
        at
    }

    /// Returns the positions that a thread holds, each with a flag that is true if it is in the
    /// row; the others are positions of the row again.
    pub(super) fn columns(&self, kb: &mut KernelBuilder, here: &Here) -> Vec<(Vec<Index>, Option<Value>)> {
        let [first, end, _] = self.bounds(kb, here);
        let range = self.group.solver.range(&self.plan.row_length());
        let (least, each) = (range.lo.unwrap_or(0), i64::from(self.threads * self.lanes));
        let held = range.hi.map_or(i64::from(HELD), |most| i64::from(HELD).min((most + each - 1) / each)).max(1);
        let mut columns = Vec::new();
        // A position that every thread has.
        let mut known = if least >= each { first } else { kb.int(0) };
        for number in 0..held {
            let offset = kb.int(number * each);
            let along = if number == 0 { first } else { expr!(kb, first + offset) };
            if least >= (number + 1) * each {
                columns.push((self.at(kb, here, along), None));
                continue;
            }
            let exists = expr!(kb, along < end);
            let along = kb.select(exists, along, known);
            if number == 0 {
                known = along;
            }
            columns.push((self.at(kb, here, along), Some(exists)));
        }
        columns
    }
}
