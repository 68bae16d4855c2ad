//! Reductions of single result elements: a loop over the reduced dimensions.
use super::Elements;
use crate::kernel::{Index, KernelBuilder, compute_dtype};
use disc_ir::{Dim, Inst, Value};
use disc_passes::analysis::query::Query;

/// The innermost body of a nest: gets the loops' indices and the carried values, gives the next ones.
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
        self.nest(kb, &sizes, start, &mut |cx, kb, loops, carried| {
            let mut inner = loops.iter();
            let position: Vec<Index> = fixed
                .iter()
                .map(|f| f.unwrap_or_else(|| Index::uniform(*inner.next().expect("one loop per reduced dim"))))
                .collect();
            let elements: Vec<Value> = inputs.iter().map(|&input| cx.element(kb, input, &position)).collect();
            let arguments: Vec<Value> = carried.iter().copied().chain(elements).collect();
            let results = cx.inline(kb, body, &arguments);
            results.into_iter().map(|r| kb.widen(r, lanes)).collect()
        })
    }

    /// The values that an accumulation starts from.
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

    /// Nested loops over `sizes`, carrying values through all of them.
    pub(crate) fn nest(
        &mut self,
        kb: &mut KernelBuilder,
        sizes: &[Dim],
        carried: Vec<Value>,
        body: &mut NestBody<'_, 'g>,
    ) -> Vec<Value> {
        self.nest_inner(kb, sizes, &mut Vec::new(), carried, body)
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
