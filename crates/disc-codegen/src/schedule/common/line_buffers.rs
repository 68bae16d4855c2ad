//! Fills line buffers in task memory: values that a row of results reads at other positions than
//! they are computed for. They are computed once, before the row.
//!
//! The choice of those values is a part of the decision about groups
//! ([`disc_passes::fusion::line_buffers`]). If a nest's rows are other ones than that assumes, no
//! line is kept, and elements are computed where they are read.
//!
//! Invariant: while a line is computed, no line stands for its elements: its operands may be read
//! in other rows.
use super::{
    iteration_space::{Merged, OuterGather, read_places},
    short_rows,
    vector_loop::row_loop,
};
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder, compute_dtype},
    schedule::Group,
};
use disc_ir::{Dim, TensorType, Value};
use disc_kernel_macros::expr;
use disc_passes::fusion::{
    line_buffers::{LineBuffer, LineBuffers},
    space::Map,
};

/// The values of a pointwise group that are computed a line at a time, for each position along the
/// runs but the last.
pub(in crate::schedule) fn line_buffers_of(
    group: &Group<'_>,
    space: &[Dim],
    roots: &[(Value, Map)],
    runs: &[Merged],
) -> Vec<LineBuffer> {
    let [.., outer, _] = runs else { return Vec::new() };
    let rows: Vec<usize> = (0..=outer.axis).collect();
    let lines = LineBuffers { function: group.function, solver: &group.solver, space, inside: &|_| true };
    lines.of(roots).into_iter().filter(|line| line.rows.concat() == rows).collect()
}

/// The most elements and rows whose lines are computed together, before any of them is read. A
/// stored vector is forwarded only to a load at the same position: one that begins between two
/// stored ones waits for both, which took up to half of the time of rows of one or two vectors.
const TOGETHER: (i64, i64) = (1024, 32);

/// The line buffers of a kernel, with their memory: those of several rows per task.
pub(in crate::schedule) struct LineBufferMemory {
    /// The run of the rows, with all its positions.
    run: Merged,
    /// The number of rows whose lines are computed together.
    together: Dim,
    /// Each line with the memory of several, and the distance between them there.
    lines: Vec<(LineBuffer, Value, Dim)>,
}

impl LineBufferMemory {
    /// Allocates task memory for the lines of a nest, if there are some; units are parts of the
    /// last of its outer runs then.
    pub(in crate::schedule) fn new(
        kb: &mut KernelBuilder,
        elements: &Elements<'_>,
        lines: &[LineBuffer],
        outer: &mut [Merged],
    ) -> Option<Self> {
        let (run, first) = outer.last_mut().zip(lines.first())?;
        let rows = Dim::constant(TOGETHER.0).floor_div(length(elements.tensor(first.value)));
        let rows = Dim::max_of([rows, Dim::constant(1)]).and_then(|rows| Dim::min_of([rows, Dim::constant(TOGETHER.1)]));
        let together = rows.expect("numbers have a least and a largest one");
        let all = run.clone();
        run.size = run.size.ceil_div(&together);
        let memory = |line: &LineBuffer| {
            let (tensor, lanes) = (elements.tensor(line.value), i64::from(elements.lanes));
            let apart = length(tensor).ceil_div(&Dim::constant(lanes)) * lanes;
            let memory = kb.scratch(TensorType::new([&apart * &together], compute_dtype(tensor.dtype)));
            (line.clone(), memory, apart)
        };
        let lines = lines.iter().map(memory).collect();
        Some(Self { run: all, together, lines })
    }

    /// Emits `body` for each row of part `at` of the last outer run, the lines of all of these
    /// known; `know` computes the values that are constant along a row.
    pub(in crate::schedule) fn each_row<'e>(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'e>,
        (space, gathers): (&[Dim], &[OuterGather]),
        at: &[Index],
        know: &dyn Fn(&mut KernelBuilder, &mut Elements<'e>, &[Index]),
        body: impl FnOnce(&mut KernelBuilder, &mut Elements<'e>, &[Index]),
    ) {
        let [first, stop] = rows_of_part(kb, &self.run, &self.together, at[self.run.axis]);
        let (one, mut at) = (kb.int(1), at.to_vec());
        kb.for_each([first, stop, one], |kb, row| {
            elements.scoped(|elements| {
                at[self.run.axis] = Index::uniform(row);
                read_places(kb, elements, space, gathers, &at);
                know(kb, elements, &at);
                self.fill(kb, elements, space, &at, first);
            });
        });
        kb.for_each([first, stop, one], |kb, row| {
            elements.scoped(|elements| {
                at[self.run.axis] = Index::uniform(row);
                read_places(kb, elements, space, gathers, &at);
                know(kb, elements, &at);
                for (line, memory, apart) in &self.lines {
                    let line_of_row = part_of(kb, *memory, apart, [first, row]);
                    elements.bind_line(line.value, line_of_row);
                }
                body(kb, elements, &at);
            });
        });
    }

    /// Computes the lines of a row; the first one in memory is that of row `first`.
    fn fill(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, space: &[Dim], at: &[Index], first: Value) {
        let row = at[self.run.axis].as_uniform().expect("a row has one position along outer dimensions");
        for (line, memory, apart) in &self.lines {
            let line_of_row = part_of(kb, *memory, apart, [first, row]);
            let mut place = elements.position(kb, space, &line.rows, at);
            let (length, zero) = (length(elements.tensor(line.value)), kb.int(0));
            place.push(Index::uniform(zero));
            let mut keep = |kb: &mut KernelBuilder, elements: &mut Elements<'_>, index: Index| {
                *place.last_mut().expect("a line has a last dimension") = index;
                let computed = elements.element(kb, line.value, &place);
                let wide = kb.widen(computed, elements.lanes);
                let Index::Affine { base, .. } = index else { panic!("a line is walked in order") };
                // There is room for whole vectors.
                kb.store(line_of_row, base, wide, None);
            };
            let (range, lanes) = (elements.solver.range(length), i64::from(elements.lanes));
            if range.lo.is_some_and(|lo| lo > 0) && range.hi.is_some_and(|hi| hi <= lanes) {
                let mask = short_rows::mask(kb, &elements.solver, length, elements.lanes);
                elements.masked(mask, |elements| keep(kb, elements, Index::Affine { base: zero, stride: 1 }));
                continue;
            }
            let range = [zero, kb.dim(length)];
            let exact = elements.solver.divisible(length, lanes);
            row_loop(kb, elements, range, exact, &mut keep);
        }
    }
}

fn length(tensor: &TensorType) -> &Dim {
    tensor.dims.last().expect("a line has a length")
}

/// The memory of a row's line, if lines are `apart`.
fn part_of(kb: &mut KernelBuilder, memory: Value, apart: &Dim, [first, row]: [Value; 2]) -> Value {
    let size = kb.dim(apart);
    let start = expr!(kb, (row - first) * size);
    kb.view(memory, start, TensorType::new([apart.clone()], kb.dtype(memory)))
}

/// The rows of part number `part`, of which each has `together`.
pub(in crate::schedule) fn rows_of_part(kb: &mut KernelBuilder, run: &Merged, together: &Dim, part: Index) -> [Value; 2] {
    let number = part.as_uniform().expect("a unit has one position along outer dimensions");
    let (size, together) = (kb.dim(&run.size), kb.dim(together));
    let first = expr!(kb, number * together);
    let stop = expr!(kb, first + together);
    [first, kb.min(stop, size)]
}
