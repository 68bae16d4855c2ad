//! Emits reductions of single result elements: a loop over the reduced dimensions.
use super::Elements;
use crate::kernel::{
    Index, KernelBuilder, compute_dtype,
    monoid::{Monoid, monoid_of, two_sum, with_lost},
};
use disc_ir::{Dim, Inst, Value};
use disc_kernel_macros::expr;
use disc_passes::analysis::query::Query;

/// The most elements whose sum is one chain of additions.
const CHAIN: i64 = 16;
/// The number of products of floats that are added up in one block.
const BLOCK: i64 = 256;

/// The innermost body of a nest: takes the loops' indices and the carried values, returns the next
/// ones.
pub(crate) type NestBody<'b, 'g> = dyn FnMut(&mut Elements<'g>, &mut KernelBuilder, &[Value], &[Value]) -> Vec<Value> + 'b;

impl<'g> Elements<'g> {
    pub(super) fn reduce(&mut self, kb: &mut KernelBuilder, inst: Inst, at: &[Index]) -> Vec<Value> {
        let operands: Vec<Value> = self.group.operands(inst).to_vec();
        let (inputs, inits) = operands.split_at(operands.len() / 2);
        let reduced: Vec<usize> = self.group.ints(inst, "dims").iter().map(|&d| d as usize).collect();
        let body = self.group.inst(inst).regions[0];
        let shape = self.tensor(inputs[0]).dims.clone();
        let mut kept = at.iter().copied();
        let fixed: Vec<Option<Index>> = (0..shape.len()).map(|d| if reduced.contains(&d) { None } else { kept.next() }).collect();
        let lanes = self.lanes_at(at);
        let start = self.initial(kb, inits, lanes);
        let sizes: Vec<Dim> = reduced.iter().map(|&d| shape[d].clone()).collect();
        let is_long = self.solver.range(&Dim::product(sizes.iter().cloned())).hi.is_none_or(|most| most > CHAIN);
        let adds =
            is_long && inputs.len() == 1 && monoid_of(self.group, inst) == Some(Monoid::Add) && kb.dtype(start[0]).is_float();
        let carried = if adds { vec![start[0], kb.zero(kb.dtype(start[0]), lanes)] } else { start };
        let found = self.nest(kb, &sizes, carried, &mut |cx, kb, loops, carried| {
            let mut inner = loops.iter();
            let position: Vec<Index> = fixed
                .iter()
                .map(|f| f.unwrap_or_else(|| Index::uniform(*inner.next().expect("one loop per reduced dim"))))
                .collect();
            let elements: Vec<Value> = inputs.iter().map(|&input| cx.element(kb, input, &position)).collect();
            if adds {
                // It is one long chain: its rounding errors are summed beside it.
                let (sum, lost) = two_sum(kb, carried[0], elements[0]);
                return vec![kb.widen(sum, lanes), expr!(kb, carried[1] + lost)];
            }
            let arguments: Vec<Value> = carried.iter().copied().chain(elements).collect();
            let results = cx.inline(kb, body, &arguments);
            results.into_iter().map(|r| kb.widen(r, lanes)).collect()
        });
        if adds { vec![with_lost(kb, found[0], found[1])] } else { found }
    }

    /// The start values of an accumulation.
    pub(super) fn initial(&mut self, kb: &mut KernelBuilder, inits: &[Value], lanes: u32) -> Vec<Value> {
        inits
            .iter()
            .map(|&init| {
                let value = self.element(kb, init, &[]);
                debug_assert_eq!(kb.dtype(value), compute_dtype(self.tensor(init).dtype));
                kb.widen(value, lanes)
            })
            .collect()
    }

    /// Emits nested loops over `sizes`, carrying values through all of them.
    pub(crate) fn nest(
        &mut self,
        kb: &mut KernelBuilder,
        sizes: &[Dim],
        carried: Vec<Value>,
        body: &mut NestBody<'_, 'g>,
    ) -> Vec<Value> {
        self.nest_inner(kb, sizes, &mut Vec::new(), carried, body)
    }

    /// Emits nested loops that add to a sum; floats are added in blocks along the last loop.
    pub(super) fn sums(&mut self, kb: &mut KernelBuilder, sizes: &[Dim], start: Value, body: &mut NestBody<'_, 'g>) -> Value {
        let last = sizes.last().filter(|&last| self.solver.range(last).hi.is_none_or(|most| most > BLOCK));
        let (Some(last), true) = (last, kb.dtype(start).is_float()) else {
            return self.nest(kb, sizes, vec![start], body)[0];
        };
        self.nest(kb, &sizes[..sizes.len() - 1], vec![start], &mut |cx, kb, loops, carried| {
            let [low, high, block, one] = [kb.int(0), kb.dim(last), kb.int(BLOCK), kb.int(1)];
            kb.for_([low, high, block], carried, |kb, from, carried| {
                let end = expr!(kb, min(from + block, high));
                let none = kb.zero(kb.dtype(carried[0]), kb.lanes(carried[0]));
                let found = kb.for_([from, end, one], &[none], |kb, index, carried| {
                    let loops: Vec<Value> = loops.iter().copied().chain([index]).collect();
                    cx.scoped(|cx| body(cx, kb, &loops, carried))
                });
                vec![expr!(kb, carried[0] + found[0])]
            })
        })[0]
    }

    fn nest_inner(
        &mut self,
        kb: &mut KernelBuilder,
        sizes: &[Dim],
        loops: &mut Vec<Value>,
        carried: Vec<Value>,
        body: &mut NestBody<'_, 'g>,
    ) -> Vec<Value> {
        let Some((size, rest)) = sizes.split_first() else { return body(self, kb, loops, &carried) };
        let bounds = [kb.int(0), kb.dim(size), kb.int(1)];
        kb.for_(bounds, &carried, |kb, index, carried| {
            loops.push(index);
            let results = self.scoped(|cx| cx.nest_inner(kb, rest, loops, carried.to_vec(), body));
            loops.pop();
            results
        })
    }
}
