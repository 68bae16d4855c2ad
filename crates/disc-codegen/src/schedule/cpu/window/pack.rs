//! Copies the elements that the windows of a unit read into task memory, with the padding around
//! it: then every window is whole.
//!
//! A row is stored as its phases, one after another: the elements whose numbers have the remainders
//! 0, 1, ... by the step of the windows. The elements that neighbouring windows read are contiguous
//! in one phase.
use super::plan::{Form, WindowPlan};
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder},
};
use disc_ir::Value;
use disc_kernel_macros::expr;

/// The position of a unit: along the dimensions before those that windows slide along, and its
/// first window along these.
pub(super) struct Place {
    pub(super) lead: Vec<Value>,
    pub(super) first: Vec<Value>,
}

/// The values that are the same for all rows of a unit.
struct Bounds {
    /// The position of element number 0 in a row of the input.
    first: Value,
    /// The numbers of the first element that the input has, and of the first one after it.
    start: Value,
    stop: Value,
    /// All vectors from `inner` to below `outer` are in the input; `end` ends the range that
    /// windows read.
    inner: Value,
    outer: Value,
    end: Value,
    /// The masks of lanes of the first vectors that are in the input.
    masks: Vec<Value>,
}

/// The copy of the input that is written.
pub(super) struct Packing<'p> {
    pub(super) plan: &'p WindowPlan,
    pub(super) held: Value,
    /// The padding value, as a vector.
    pub(super) fill: Value,
    /// A flag that is true if lanes that are read with a mask are the padding already.
    pub(super) fills_itself: bool,
}

impl Packing<'_> {
    /// Packs the rows of a range of each plane, as far as `count` windows reach.
    pub(super) fn pack(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'_>,
        place: &Place,
        rows: [Value; 2],
        count: Value,
    ) {
        let plan = self.plan;
        let bounds = self.bounds(kb, place, count);
        let (zero, one) = (kb.int(0), kb.int(1));
        let layers = kb.int(plan.layers().map_or(1, |layers| layers.taps));
        let planes = kb.int(plan.held_planes());
        kb.for_each([zero, planes, one], |kb, plane| {
            let (channel, layer) = (expr!(kb, plane / layers), expr!(kb, plane % layers));
            let row = kb.open_for([rows[0], rows[1], one]);
            let (mut at, mut exists) = (self.lead(kb, place, channel), None);
            let steps = [(plan.layers(), layer), (plan.rows(), row.index)];
            let sliding = plan.slides.len() - 1;
            for (i, (slide, number)) in steps.into_iter().filter_map(|(slide, number)| Some((slide?, number))).enumerate() {
                // A layer is that of an element of the window, a row one of those that all windows
                // read.
                let is_layer = i + 1 < sliding;
                let factor = kb.int(if is_layer { slide.dilation } else { 1 });
                let (step, low, size) = (kb.int(slide.step), kb.dim(&slide.low), kb.dim(&slide.size));
                let position = expr!(kb, place.first[i] * step + number * factor - low);
                let inside = expr!(kb, (position >= zero) & (position < size));
                exists = Some(match exists {
                    Some(others) => expr!(kb, others & inside),
                    None => inside,
                });
                at.push(Index::uniform(position));
            }
            let number = expr!(kb, plane * int(plan.held_rows()) + row.index);
            let to = expr!(kb, number * (dim(&plan.phase()) * int(plan.columns().step)));
            match exists {
                Some(exists) => {
                    let cell = std::cell::RefCell::new(elements);
                    let copy = |kb: &mut KernelBuilder| {
                        self.row(kb, &mut cell.borrow_mut(), &at, &bounds, to);
                        Vec::new()
                    };
                    let clear = |kb: &mut KernelBuilder| {
                        self.clear(kb, &bounds, to);
                        Vec::new()
                    };
                    kb.if_(exists, copy, clear);
                }
                None => self.row(kb, elements, &at, &bounds, to),
            }
            kb.close_for(row);
        });
    }

    /// The position in the input along the dimensions before those that windows slide along.
    fn lead(&self, kb: &mut KernelBuilder, place: &Place, channel: Value) -> Vec<Index> {
        let mut lead = place.lead.clone();
        if let Form::Products { channels, .. } = &self.plan.form {
            let channels = kb.int(*channels);
            let last = lead.last_mut().expect("a convolution has groups");
            *last = expr!(kb, *last * channels + channel);
        }
        lead.into_iter().map(Index::uniform).collect()
    }

    /// Computes the values that are the same for all rows of a unit.
    fn bounds(&self, kb: &mut KernelBuilder, place: &Place, count: Value) -> Bounds {
        let plan = self.plan;
        let (columns, lanes) = (plan.columns(), i64::from(plan.lanes));
        let (zero, step) = (kb.int(0), kb.int(columns.step));
        let (low, size) = (kb.dim(&columns.low), kb.dim(&columns.size));
        let first = expr!(kb, *place.first.last().expect("windows slide") * step - low);
        let start = expr!(kb, max(zero - first, zero));
        let stop = expr!(kb, max(size - first, zero));
        let (width, up) = (kb.int(lanes * columns.step), kb.int(lanes * columns.step - 1));
        let whole = |kb: &mut KernelBuilder, value: Value| expr!(kb, value / width * width);
        let outer = whole(kb, stop);
        let padded = expr!(kb, start + up);
        let inner = whole(kb, padded);
        let reach = kb.int((columns.taps - 1) * columns.dilation);
        // The last vector of windows is whole: every element that is read has been written.
        let (one, lanes, more) = (kb.int(1), kb.int(lanes), kb.int(lanes - 1));
        let last = expr!(kb, (count + more) / lanes * lanes - one);
        let needed = expr!(kb, last * step + reach + width);
        let end = whole(kb, needed);
        // The first vectors are packed by themselves: in narrow inputs there are no others.
        let inner = expr!(kb, min(max(inner, width), end));
        let outer = expr!(kb, max(min(outer, end), inner));
        let masks = self.masks(kb, zero, [start, stop]);
        Bounds { first, start, stop, inner, outer, end, masks }
    }

    /// Packs one row to `to`: elements before and after the input are padding.
    fn row(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, at: &[Index], bounds: &Bounds, to: Value) {
        let (zero, width) = (kb.int(0), kb.int(i64::from(self.plan.lanes) * self.plan.columns().step));
        elements.scoped(|elements| self.piece(kb, elements, at, [bounds.first, zero, to], Some(&bounds.masks)));
        let sections = [([width, bounds.inner], true), ([bounds.inner, bounds.outer], false), ([bounds.outer, bounds.end], true)];
        for (range, masked) in sections {
            kb.for_each([range[0], range[1], width], |kb, pieces| {
                let masks = masked.then(|| self.masks(kb, pieces, [bounds.start, bounds.stop]));
                elements.scoped(|elements| self.piece(kb, elements, at, [bounds.first, pieces, to], masks.as_deref()));
            });
        }
    }

    /// The vectors of one piece: the number of the first element of each, and the distance between
    /// its elements.
    fn vectors(&self) -> Vec<(i64, i64)> {
        let (lanes, step) = (i64::from(self.plan.lanes), self.plan.columns().step);
        match step {
            1 | 2 => (0..step).map(|v| (v * lanes, 1)).collect(),
            _ => (0..step).map(|rest| (rest, step)).collect(),
        }
    }

    /// The masks of lanes of the vectors from number `number` on that are elements from number
    /// `start` to below `stop`.
    fn masks(&self, kb: &mut KernelBuilder, number: Value, [start, stop]: [Value; 2]) -> Vec<Value> {
        let mut masks = Vec::new();
        for (shift, stride) in self.vectors() {
            let (shift, up, step, zero) = (kb.int(shift), kb.int(stride - 1), kb.int(stride), kb.int(0));
            let number = expr!(kb, number + shift);
            let passed = |kb: &mut KernelBuilder, bound: Value| expr!(kb, max(bound - number + up, zero) / step);
            let (before, until) = (passed(kb, start), passed(kb, stop));
            let (before, until) = (kb.lane_mask(before, self.plan.lanes), kb.lane_mask(until, self.plan.lanes));
            let behind = expr!(kb, !before);
            masks.push(expr!(kb, until & behind));
        }
        masks
    }

    /// Makes a row of padding.
    fn clear(&self, kb: &mut KernelBuilder, bounds: &Bounds, to: Value) {
        let columns = self.plan.columns();
        let (zero, width, step) = (kb.int(0), kb.int(i64::from(self.plan.lanes) * columns.step), kb.int(columns.step));
        kb.for_each([zero, bounds.end, width], |kb, pieces| {
            let place = expr!(kb, to + pieces / step);
            let vectors = vec![self.fill; columns.step as usize];
            self.write(kb, place, &vectors);
        });
    }

    /// Stores a vector of each phase.
    fn write(&self, kb: &mut KernelBuilder, place: Value, vectors: &[Value]) {
        let phase = kb.dim(&self.plan.phase());
        for (i, &vector) in vectors.iter().enumerate() {
            let there = expr!(kb, place + int(i as i64) * phase);
            kb.store(self.held, there, vector, None);
        }
    }

    /// Packs one vector of each phase: the elements from number `number` on.
    fn piece(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'_>,
        at: &[Index],
        [first, number, to]: [Value; 3],
        masks: Option<&[Value]>,
    ) {
        let place = expr!(kb, to + number / int(self.plan.columns().step));
        let mut read = Vec::new();
        for (v, (shift, stride)) in self.vectors().into_iter().enumerate() {
            let base = expr!(kb, first + (number + int(shift)));
            let mut at = at.to_vec();
            at.push(Index::Affine { base, stride });
            read.push(self.vector(kb, elements, &at, masks.map(|masks| masks[v])));
        }
        let vectors = if self.plan.columns().step == 2 { kb.unzip_lanes(read[0], read[1]).to_vec() } else { read };
        self.write(kb, place, &vectors);
    }

    /// The elements at a position, and padding where there is none.
    fn vector(&self, kb: &mut KernelBuilder, elements: &mut Elements<'_>, at: &[Index], mask: Option<Value>) -> Value {
        let plan = self.plan;
        let read = elements.masked(mask, |elements| {
            let value = elements.element(kb, plan.input, at);
            let value = kb.convert(value, plan.compute);
            kb.widen(value, plan.lanes)
        });
        match mask {
            Some(mask) if !self.fills_itself => kb.select(mask, read, self.fill),
            _ => read,
        }
    }
}
