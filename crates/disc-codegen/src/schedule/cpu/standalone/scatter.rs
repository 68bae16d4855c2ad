//! Schedules scatters: the inputs are copied, then the updates are applied.
//!
//! If an index names no dimension that updates run along, the elements of an update go to separate
//! positions: these are spread over the work units, and each unit applies all updates of its
//! positions in their order. Otherwise one unit applies all.
use super::Chunks;
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder, OpenFor, compute_dtype},
    schedule::{
        Group, Scheduled,
        common::{
            iteration_space::{Merged, place_unit},
            kernel_frame::KernelFrame,
            vector_loop::vector_loop,
        },
    },
};
use disc_ir::{Code, Dim, Function, Inst, OpKind, Value};
use disc_kernel_macros::expr;
use disc_passes::analysis::query::Query;

/// The elements of a unit of the copy.
const CHUNK: i64 = 4096;
/// The elements of an update that a unit applies: if they are contiguous, and if each has a
/// position of its own. Of the latter, 8 took twice as long for long rows, which are pages apart.
const COLUMNS: (i64, i64) = (128, 64);

pub(super) fn schedule(group: &Group<'_>, inst: Inst) -> Scheduled {
    let mut all = copy(group, inst);
    let mut frame = KernelFrame::new(group, &group.name, 1);
    frame.elements.first_site += all.sites.len() as i64;
    let scatter = Scatter::of(group, inst);
    let mut applied = match scatter.places.are_apart() {
        true => scatter.apply_apart(frame),
        false => scatter.apply_in_order(frame),
    };
    all.kernels.append(&mut applied.kernels);
    all.launches.append(&mut applied.launches);
    all.sites.append(&mut applied.sites);
    all
}

/// The lanes that hold elements of all of these values.
fn lanes(group: &Group<'_>, values: &[Value]) -> u32 {
    let sizes = values.iter().map(|&value| compute_dtype(group.tensor(value).dtype).size() as u32);
    group.target.lanes(8 * sizes.max().unwrap_or(4).max(4))
}

fn copy(group: &Group<'_>, inst: Inst) -> Scheduled {
    let mut frame = KernelFrame::new(group, &format!("{}_copy", group.name), 1);
    let results = group.function.results_of(inst).to_vec();
    let inputs = &group.function.operands(inst)[..results.len()];
    let shape = group.tensor(results[0]).dims.clone();
    let count = Dim::product(shape.iter().cloned());
    let lanes = lanes(group, inputs);
    frame.elements.lanes = lanes;
    let pairs: Vec<(Value, Value)> =
        results.iter().zip(inputs).filter_map(|(&result, &input)| Some((frame.target(result)?, input))).collect();
    // Values in memory are one line; otherwise each element is computed at its position.
    let sources: Option<Vec<Value>> = pairs.iter().map(|&(_, input)| frame.source(input)).collect();
    let line = match (&sources, shape.split_last()) {
        (None, Some((last, outer))) => Chunks { outer: Merged::each(outer), size: last.clone(), chunk: CHUNK },
        _ => Chunks { outer: Vec::new(), size: count.clone(), chunk: CHUNK },
    };
    let argument = |buffer: Value| {
        let position = frame.memory.pairs().position(|(_, known)| known == buffer).expect("memory of the kernel");
        frame.memory.arguments[position]
    };
    let copied = sources.iter().flatten().zip(&pairs);
    let copies = copied.map(|(&from, &(to, _))| (argument(from), argument(to))).collect();
    let mut code = frame.units(line.units(), count.ceil_div(&Dim::constant(8)), |frame, unit| {
        let zero = frame.kb.int(0);
        let mut at = vec![Index::uniform(zero); shape.len()];
        let range = line.place(&mut frame.kb, unit, &mut at);
        vector_loop(&mut frame.kb, &mut frame.elements, range, false, &mut |kb, elements, index| {
            let Index::Affine { base, .. } = index else { panic!("a vector loop walks along an axis") };
            for (i, &(target, input)) in pairs.iter().enumerate() {
                if let Some(sources) = &sources {
                    let moved = kb.load(sources[i], base, lanes, elements.mask);
                    kb.store(target, base, moved, elements.mask);
                    continue;
                }
                if let Some(last) = at.last_mut() {
                    *last = index;
                }
                let value = elements.element(kb, input, &at);
                elements.store(kb, target, group.tensor(input), &at, value);
            }
        });
    });
    code.launches[0].copies = copies;
    code
}

/// A scatter, with where its updates go.
pub(in crate::schedule) struct Scatter<'a, 'g> {
    group: &'a Group<'g>,
    inst: Inst,
    inputs: Vec<Value>,
    indices: Value,
    pub(in crate::schedule) updates: Vec<Value>,
    pub(in crate::schedule) results: Vec<Value>,
    pub(in crate::schedule) shape: Vec<Dim>,
    pub(in crate::schedule) update_shape: Vec<Dim>,
    pub(in crate::schedule) places: Places,
}

impl<'a, 'g> Scatter<'a, 'g> {
    pub(in crate::schedule) fn of(group: &'a Group<'g>, inst: Inst) -> Self {
        let operands = group.function.operands(inst);
        let n = operands.len() / 2;
        let (inputs, updates) = (operands[..n].to_vec(), operands[n + 1..].to_vec());
        Self {
            group,
            inst,
            indices: operands[n],
            results: group.function.results_of(inst).to_vec(),
            shape: group.tensor(inputs[0]).dims.clone(),
            update_shape: group.tensor(updates[0]).dims.clone(),
            places: Places::of(group.function, inst),
            inputs,
            updates,
        }
    }

    /// Applies all updates in their order, for each position of an update by itself.
    fn apply_apart(&self, mut frame: KernelFrame<'_>) -> Scheduled {
        let rank = self.update_shape.len();
        let own: Vec<usize> = (0..rank).filter(|&d| self.places.is_own(d)).collect();
        // The innermost loop is that over the last dimension of updates, if it is one of separate
        // positions.
        let inner = own.last().copied().filter(|&d| d + 1 == rank);
        let runs = |dims: &[usize]| dims.iter().map(|&d| Merged { size: self.update_shape[d].clone(), axis: d }).collect();
        let outer: Vec<Merged> = runs(&own[..own.len() - usize::from(inner.is_some())]);
        let ordered: Vec<usize> = (0..rank).filter(|d| !own.contains(d)).collect();
        let size = inner.map_or(Dim::constant(1), |d| self.update_shape[d].clone());
        // Along a dimension of windows that is the last one of the inputs too, elements are
        // contiguous.
        let window = inner.and_then(|d| self.places.axis_of_window(d, self.shape.len()));
        let is_contiguous = window.is_some_and(|axis| axis + 1 == self.shape.len());
        if is_contiguous {
            frame.elements.lanes = lanes(self.group, &[&self.inputs[..], &self.updates].concat());
        }
        let line = Chunks { outer, size, chunk: if is_contiguous { COLUMNS.0 } else { COLUMNS.1 } };
        let each = Dim::product(ordered.iter().map(|&d| self.update_shape[d].clone()));
        let count = Dim::product(self.update_shape.iter().cloned());
        let cost = if is_contiguous { count.ceil_div(&Dim::constant(4)) } else { count * 2 } + &line.units() * &each;
        frame.units(line.units(), cost, |frame, unit| {
            let (zero, one) = (frame.kb.int(0), frame.kb.int(1));
            let mut at = vec![Index::uniform(zero); rank];
            let range = line.place(&mut frame.kb, unit, &mut at);
            let mut loops: Vec<OpenFor> = Vec::new();
            for &d in &ordered {
                let size = frame.kb.dim(&self.update_shape[d]);
                let open = frame.kb.open_for([zero, size, one]);
                at[d] = Index::uniform(open.index);
                loops.push(open);
                frame.elements.open_scope();
            }
            match (inner, window) {
                (Some(d), Some(axis)) => self.apply_window(frame, [d, axis], range, at),
                (Some(d), None) => {
                    let open = frame.kb.open_for([range[0], range[1], one]);
                    frame.elements.open_scope();
                    at[d] = Index::uniform(open.index);
                    self.apply_one(frame, &at);
                    frame.elements.close_scope();
                    frame.kb.close_for(open);
                }
                (None, _) => self.apply_one(frame, &at),
            }
            for open in loops.into_iter().rev() {
                frame.elements.close_scope();
                frame.kb.close_for(open);
            }
        })
    }

    /// Applies a part of a window: its position is looked up once.
    fn apply_window(&self, frame: &mut KernelFrame<'_>, [d, axis]: [usize; 2], range: [Value; 2], mut at: Vec<Index>) {
        let (mut position, inside) = self.position(&mut frame.kb, &mut frame.elements, &at);
        self.look_up_slices(frame, &at);
        let branch = frame.kb.open_if(inside);
        frame.elements.open_scope();
        let targets: Vec<Option<Value>> = self.results.iter().map(|&result| frame.target(result)).collect();
        vector_loop(&mut frame.kb, &mut frame.elements, range, false, &mut |kb, elements, index| {
            (at[d], position[axis]) = (index, index);
            self.combine(kb, elements, &targets, &at, &position);
        });
        frame.elements.close_scope();
        frame.kb.close_if(branch);
    }

    /// Applies one element of the updates.
    fn apply_one(&self, frame: &mut KernelFrame<'_>, at: &[Index]) {
        let (position, inside) = self.position(&mut frame.kb, &mut frame.elements, at);
        // The update is read even if it has no position: the read may check an index.
        for &update in &self.updates {
            frame.elements.element(&mut frame.kb, update, at);
        }
        let branch = frame.kb.open_if(inside);
        frame.elements.open_scope();
        let targets: Vec<Option<Value>> = self.results.iter().map(|&result| frame.target(result)).collect();
        self.combine(&mut frame.kb, &mut frame.elements, &targets, at, &position);
        frame.elements.close_scope();
        frame.kb.close_if(branch);
    }

    /// Looks up the source of updates that are gathered: once, and checked even for an update
    /// without a position.
    fn look_up_slices(&self, frame: &mut KernelFrame<'_>, at: &[Index]) {
        let function = frame.elements.group;
        for &update in &self.updates {
            let Some(gather) = function.defining(update).filter(|&inst| function.kind_of(inst) == OpKind::Gather) else {
                continue;
            };
            let offsets = function.axes(gather, "offset_dims");
            let batch: Vec<Index> = (0..at.len()).filter(|d| !offsets.contains(d)).map(|d| at[d]).collect();
            frame.elements.slice_starts(&mut frame.kb, gather, &batch);
        }
    }

    /// The destination of the update at `at`, and a flag that is true if that is inside of the
    /// inputs.
    pub(in crate::schedule) fn position(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'_>,
        at: &[Index],
    ) -> (Vec<Index>, Value) {
        let index_shape = &self.group.tensor(self.indices).dims;
        let shapes: [&[Dim]; 3] = [index_shape, &self.update_shape, &self.shape];
        self.places.position((kb, elements), self.inst, self.indices, shapes, at)
    }

    /// Combines the updates at `at` into the elements at a position inside of the inputs.
    pub(in crate::schedule) fn combine(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'_>,
        targets: &[Option<Value>],
        at: &[Index],
        position: &[Index],
    ) {
        let mut arguments = Vec::new();
        for ((&target, &result), &input) in targets.iter().zip(&self.results).zip(&self.inputs) {
            // An unused result is still needed if the body mixes several: it keeps the value of the
            // input.
            arguments.push(match target {
                Some(buffer) => elements.load(kb, buffer, self.group.tensor(result), position),
                None => elements.element(kb, input, position),
            });
        }
        for &update in &self.updates {
            arguments.push(elements.element(kb, update, at));
        }
        let body = self.group.function.inst(self.inst).regions[0];
        let combined = elements.inline(kb, body, &arguments);
        for ((&target, &result), value) in targets.iter().zip(&self.results).zip(combined) {
            if let Some(buffer) = target {
                elements.store(kb, buffer, self.group.tensor(result), position, value);
            }
        }
    }

    /// Applies all elements of all updates, one after the other.
    fn apply_in_order(&self, frame: KernelFrame<'_>) -> Scheduled {
        let runs = Merged::each(&self.update_shape);
        let count = Dim::product(self.update_shape.iter().cloned());
        frame.units(Dim::constant(1), count.clone() * 4, |frame, _| {
            let (zero, one) = (frame.kb.int(0), frame.kb.int(1));
            let total = frame.kb.dim(&count);
            let each = frame.kb.open_for([zero, total, one]);
            frame.elements.open_scope();
            let mut at = vec![Index::uniform(zero); self.update_shape.len()];
            place_unit(&mut frame.kb, each.index, &runs, &mut at);
            self.apply_one(frame, &at);
            frame.elements.close_scope();
            frame.kb.close_for(each);
        })
    }
}

/// The dimension numbers of a scatter.
pub(in crate::schedule) struct Places {
    window: Vec<usize>,
    pub(in crate::schedule) dropped: Vec<usize>,
    batching: Vec<usize>,
    index_batching: Vec<usize>,
    named: Vec<usize>,
    /// For each entry of an index vector that only counts, the dimension of the updates along which
    /// it does.
    counted: Vec<Option<usize>>,
    vector_dim: usize,
}

impl Places {
    fn of(function: &Function, inst: Inst) -> Self {
        let axes = |name| function.axes(inst, name);
        let batching = axes("input_batching_dims");
        let window = axes("update_window_dims");
        Self {
            counted: counted(function, inst, &window),
            window,
            dropped: axes("inserted_window_dims").into_iter().chain(batching.iter().copied()).collect(),
            batching,
            index_batching: axes("scatter_indices_batching_dims"),
            named: axes("scatter_dims_to_operand_dims"),
            vector_dim: function.int(inst, "index_vector_dim") as usize,
        }
    }

    /// Returns true if an index names no dimension that an update runs along: then elements of one
    /// update never meet.
    pub(in crate::schedule) fn are_apart(&self) -> bool {
        self.named.iter().all(|axis| self.dropped.contains(axis))
    }

    /// Returns true if updates at different positions along this dimension of theirs never go to
    /// one position.
    pub(in crate::schedule) fn is_own(&self, dim: usize) -> bool {
        if self.window.contains(&dim) {
            return true;
        }
        if self.counted.contains(&Some(dim)) {
            return true;
        }
        let batch = (0..dim).filter(|d| !self.window.contains(d)).count();
        self.index_batching.contains(&if batch >= self.vector_dim { batch + 1 } else { batch })
    }

    /// The dimension of the inputs that corresponds to a dimension of windows.
    fn axis_of_window(&self, dim: usize, rank: usize) -> Option<usize> {
        let number = self.window.iter().position(|&d| d == dim)?;
        (0..rank).filter(|axis| !self.dropped.contains(axis)).nth(number)
    }

    /// The destination of the update at `at`, and a flag that is true if that is inside of the
    /// inputs.
    fn position(
        &self,
        (kb, elements): (&mut KernelBuilder, &mut Elements<'_>),
        inst: Inst,
        indices: Value,
        [index_shape, update_shape, shape]: [&[Dim]; 3],
        at: &[Index],
    ) -> (Vec<Index>, Value) {
        let zero = kb.int(0);
        let batch: Vec<Index> = (0..at.len()).filter(|d| !self.window.contains(d)).map(|d| at[d]).collect();
        let mut position = vec![Index::uniform(zero); shape.len()];
        let kept = (0..shape.len()).filter(|d| !self.dropped.contains(d));
        for (axis, &d) in kept.zip(&self.window) {
            position[axis] = at[d];
        }
        for (&axis, &d) in self.batching.iter().zip(&self.index_batching) {
            position[axis] = batch[if d > self.vector_dim { d - 1 } else { d }];
        }
        let checked = elements.group.word(inst, "bounds") == "check";
        let mut inside: Option<Value> = None;
        for (k, &axis) in self.named.iter().enumerate() {
            let mut from = batch.clone();
            if self.vector_dim < index_shape.len() {
                from.insert(self.vector_dim, Index::uniform(kb.int(k as i64)));
            }
            let start = match self.counted[k] {
                Some(d) => at[d],
                None => {
                    let start = elements.element(kb, indices, &from);
                    let start = crate::element::signed_index(kb, start);
                    Index::from_value(kb, start)
                }
            };
            position[axis] = position[axis].add(kb, 1, start);
            // A counted position stays inside if its count does not exceed the size.
            if let Some(d) = self.counted[k]
                && self.dropped.contains(&axis)
                && elements.solver.less_equal(&update_shape[d], &shape[axis])
            {
                continue;
            }
            let here = position[axis].value(kb, 1);
            let limit = kb.dim(&shape[axis]);
            let fits = expr!(kb, (here >= zero) & (here < limit));
            if checked {
                let site = elements.site(inst, Code::E0603, "index {0} is out of range for a size of {1}");
                kb.assert(fits, &[here, limit], site);
            }
            // A checked position is inside.
            inside = match inside {
                _ if checked => None,
                Some(others) => Some(expr!(kb, others & fits)),
                None => Some(fits),
            };
        }
        let always = kb.constant(disc_ir::Literal::splat_i64(disc_ir::DType::I1, 1), 1);
        (position, inside.unwrap_or(always))
    }
}

/// For each entry of the index vectors of a scatter, the dimension of the updates along which it
/// counts, if it does nothing else.
fn counted(group: &Function, inst: Inst, window: &[usize]) -> Vec<Option<usize>> {
    let operands = group.operands(inst);
    let (indices, updates) = (operands[operands.len() / 2], operands[operands.len() - 1]);
    let named = group.ints(inst, "scatter_dims_to_operand_dims").len();
    let vector_dim = group.int(inst, "index_vector_dim") as usize;
    let batch: Vec<usize> = (0..group.shape(updates).len()).filter(|d| !window.contains(d)).collect();
    let none = vec![None; named];
    let Some(joined) = group.defining(indices).filter(|&i| group.kind_of(i) == OpKind::Concatenate) else { return none };
    let parts = group.operands(joined);
    let single = parts.iter().all(|&part| group.shape(part).get(vector_dim).is_some_and(|size| size.is_const(1)));
    if parts.len() != named || group.int(joined, "dim") as usize != vector_dim || !single {
        return none;
    }
    parts.iter().map(|&part| batch.get(count_of(group, part, vector_dim)?).copied()).collect()
}

/// The dimension along which a part of index vectors counts, without the one of the vectors.
fn count_of(group: &Function, part: Value, vector_dim: usize) -> Option<usize> {
    let inst = group.defining(part)?;
    if group.kind_of(inst) == OpKind::Iota {
        let dim = group.int(inst, "dim") as usize;
        return (dim != vector_dim).then(|| dim - usize::from(dim > vector_dim));
    }
    let source = (group.kind_of(inst) == OpKind::Reshape).then(|| group.operands(inst)[0])?;
    let mut shape = group.shape(part).to_vec();
    shape.remove(vector_dim);
    let iota = group.defining(source).filter(|&i| group.kind_of(i) == OpKind::Iota)?;
    (group.shape(source) == shape).then(|| group.int(iota, "dim") as usize)
}
