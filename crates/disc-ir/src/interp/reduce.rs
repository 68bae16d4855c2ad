//! Evaluates ops that combine elements along dimensions, and the bodies that they combine with.
use super::{
    Tensor,
    call::Call,
    elementwise::Lanes,
    index_space::{for_each, offset, others, select, strides},
    machine::{Evaluated, Machine},
    scalar::{Scalar, round},
    table::{Eval, eval},
};
use crate::{diag::Diagnostic, graph::Block, ops::body, types::DType};

/// A body on scalars, as a function.
pub(super) struct Combiner {
    region: Block,
    dtypes: Vec<DType>,
    /// Set if the body is one op on one value. Floats are combined in f64, unless `rounds` says to
    /// round each time.
    single: Option<Lanes>,
    rounds: bool,
}

impl Combiner {
    /// The body of a reduction: a single op accumulates floats in f64.
    pub(super) fn accumulating(call: &Call<'_>) -> Result<Self, Diagnostic> {
        let region = call.region(0)?;
        let single = body::monoid(call.function, region).and_then(|op| match eval(op) {
            Eval::Lanes(lanes) if lanes.is_binary() => Some(lanes),
            Eval::Lanes(_) | Eval::Op(_) => None,
        });
        let dtypes = call.data.results.iter().map(|&result| call.function.ty(result).dtype()).collect();
        Ok(Self { region, dtypes, single, rounds: false })
    }

    /// A body that rounds at every op.
    pub(super) fn stepwise(call: &Call<'_>) -> Result<Self, Diagnostic> {
        Ok(Self { rounds: true, ..Self::accumulating(call)? })
    }

    pub(super) fn combine(
        &self,
        machine: &mut Machine<'_>,
        sofar: Vec<Scalar>,
        next: &[Scalar],
    ) -> Result<Vec<Scalar>, Diagnostic> {
        if let Some(lanes) = self.single {
            let (dtype, combined) = (self.dtypes[0], lanes.combine(self.dtypes[0], sofar[0], next[0]));
            let exact = dtype.is_float() && !self.rounds;
            return Ok(vec![if exact { combined } else { round(dtype, combined) }]);
        }
        let values = sofar.iter().chain(next).zip(self.dtypes.iter().chain(&self.dtypes));
        let arguments = values.map(|(&value, &dtype)| Tensor::from_fn(dtype, Vec::new(), |_| value).into()).collect();
        let results = machine.run_block(self.region, arguments)?;
        results.into_iter().map(|result| Ok(result.into_tensor()?.at(0))).collect()
    }
}

/// Returns the elements of the inputs at an offset.
pub(super) fn elements(inputs: &[&Tensor], place: usize) -> Vec<Scalar> {
    inputs.iter().map(|input| input.at(place)).collect()
}

/// The results from their elements: one list per element, with one entry per result.
pub(super) fn assemble(call: &Call<'_>, elements: &[Vec<Scalar>]) -> Evaluated {
    let tensor = |k: usize| Tensor::from_fn(call.result_type(k).dtype(), call.shapes[k].clone(), |i| elements[i][k]);
    Ok((0..call.data.results.len()).map(|k| tensor(k).into()).collect())
}

pub(super) fn reduce<'a>(machine: &mut Machine<'a>, call: &Call<'a>) -> Evaluated {
    let n = call.args.len() / 2;
    let (inputs, inits) = (call.tensors(0..n)?, call.tensors(n..2 * n)?);
    let sizes = inputs[0].dims();
    let kept = others(&call.axes("dims"), sizes.len());
    let steps = strides(&call.shape());
    let combiner = Combiner::accumulating(call)?;
    let mut accumulators = vec![elements(&inits, 0); call.shape().iter().product::<i64>() as usize];
    for_each(sizes, |i, index| {
        machine.charge(1)?;
        let to = offset(&select(index, &kept), &steps);
        let sofar = std::mem::take(&mut accumulators[to]);
        accumulators[to] = combiner.combine(machine, sofar, &elements(&inputs, i))?;
        Ok::<(), Diagnostic>(())
    })?;
    assemble(call, &accumulators)
}

pub(super) fn cumulative<'a>(machine: &mut Machine<'a>, call: &Call<'a>) -> Evaluated {
    let n = call.args.len() / 2;
    let (inputs, inits) = (call.tensors(0..n)?, call.tensors(n..2 * n)?);
    let (axis, shape) = (call.axis("dim"), call.shape());
    let combiner = Combiner::accumulating(call)?;
    let (steps, length) = (strides(&shape), shape[axis]);
    let mut lines = shape.clone();
    lines[axis] = lines[axis].min(1);
    let mut results = vec![Vec::new(); inputs[0].len()];
    for_each(&lines, |_, first| {
        let mut sofar = elements(&inits, 0);
        for step in 0..length {
            let along = if call.bool("reverse", false) { length - 1 - step } else { step };
            let place = offset(first, &steps) + (along * steps[axis]) as usize;
            machine.charge(1)?;
            sofar = combiner.combine(machine, sofar, &elements(&inputs, place))?;
            results[place] = sofar.clone();
        }
        Ok::<(), Diagnostic>(())
    })?;
    assemble(call, &results)
}
