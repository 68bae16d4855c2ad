//! Lowers transposed convolutions: one convolution of the undilated input for each phase of the
//! result.
//!
//! With an input dilated by `s`, the results `r`, `r + s`, `r + 2s`, ... read the same elements of
//! the kernel, every `s`-th one, and adjacent elements of the input. So they are an ordinary
//! convolution with these kernel elements. Adjacent phases that read the same input positions are
//! features of one convolution; the results are interleaved at the end.
//!
//! Invariant: nothing between input elements takes part, as in the op; padding takes part as zeros.
use crate::{analysis::query::Query, rules::rewrite::Rewriter};
use disc_ir::{Dim, Inst, Literal, OpKind, Type, Value};

/// The most convolutions that replace one.
const MOST_PIECES: usize = 32;

/// The windows of a dilated input along one dimension: `y[m]` is the sum of `x[i] w[k]` over all `i
/// s = m + place - k d`, with the kernel `w` from its end.
struct Spread {
    /// The number of kernel elements.
    taps: i64,
    apart: i64,
    dilation: i64,
    place: i64,
    /// The number of results per phase, and its excess over the number of input elements.
    count: Dim,
    more: i64,
}

/// Adjacent phases whose windows cover the same input elements.
struct Run {
    phases: i64,
    /// The last kernel element that the first phase reads, counted from the end, and the distance
    /// to the next.
    first: i64,
    step: i64,
    taps: i64,
    dilation: i64,
    low: i64,
    high: i64,
}

impl Spread {
    fn runs(&self) -> Vec<Run> {
        let step = self.apart / gcd(self.apart, self.dilation);
        let dilation = self.dilation * step / self.apart;
        let mut runs: Vec<Run> = Vec::new();
        for phase in 0..self.apart {
            let at = phase + self.place;
            let reads = |&k: &i64| (at - k * self.dilation).rem_euclid(self.apart) == 0;
            let first = (0..step.min(self.taps)).find(reads);
            let taps = first.map_or(0, |first| (self.taps - first + step - 1) / step);
            let first = first.unwrap_or(0);
            let low = (taps - 1) * dilation - (at - first * self.dilation).div_euclid(self.apart);
            match runs.last_mut() {
                Some(run) if taps == 0 && run.taps == 0 => run.phases += 1,
                Some(run) if taps == run.taps && low == run.low && first == run.first + run.phases => run.phases += 1,
                _ => {
                    let high = self.more - low + (taps - 1) * dilation;
                    runs.push(Run { phases: 1, first, step, taps, dilation, low, high });
                }
            }
        }
        runs
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The result of a convolution with a dilated input; `None` for others and for those that stay.
pub(super) fn phases(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Value> {
    let whole = Whole::of(rw, inst)?;
    let pieces = whole.piece(rw, &mut Vec::new())?;
    whole.interleave(rw, pieces)
}

/// The parameters that all phases of a convolution share.
struct Whole {
    inst: Inst,
    input: Value,
    /// Output features, input features of a group, then the spatial dimensions.
    kernel: Value,
    sizes: Vec<i64>,
    spreads: Vec<Spread>,
}

impl Whole {
    fn of(rw: &mut Rewriter<'_>, inst: Inst) -> Option<Self> {
        let is_spread = |rw: &Rewriter<'_>| rw.f.ints(inst, "lhs_dilation").iter().any(|&apart| apart > 1);
        if rw.f.kind_of(inst) != OpKind::Convolution || !is_spread(rw) {
            return None;
        }
        let plain = super::is_plain(rw, inst) && rw.f.int(inst, "batch_group_count") <= 1;
        let [input, kernel] = rw.f.operands(inst)[..] else { return None };
        let axes = super::kernel_axes(rw, inst);
        let shape = rw.f.shape(kernel).to_vec();
        let sizes: Vec<i64> = axes.iter().map(|&axis| shape[axis].as_const()).collect::<Option<_>>()?;
        if !plain || sizes.contains(&0) || !rw.f.ints(inst, "window_strides").iter().all(|&stride| stride == 1) {
            return None;
        }
        let spreads = (0..sizes.len() - 2).map(|i| spread(rw, inst, i, sizes[2 + i])).collect::<Option<Vec<_>>>()?;
        if spreads.iter().map(|spread| spread.runs().len()).product::<usize>() > MOST_PIECES {
            return None;
        }
        let kernel = super::reversed(rw, inst, kernel, &axes)?;
        let kernel = if axes.is_sorted() { kernel } else { rw.transpose(kernel, &axes)? };
        Some(Self { inst, input, kernel, sizes, spreads })
    }

    /// The results of the phases `chosen` along the first dimensions and of all along the others:
    /// batch, features, phases along each dimension, results along each.
    fn piece(&self, rw: &mut Rewriter<'_>, chosen: &mut Vec<Run>) -> Option<Value> {
        let Some(spread) = self.spreads.get(chosen.len()) else { return self.convolution(rw, chosen) };
        let axis = 2 + chosen.len();
        let mut parts = Vec::new();
        for run in spread.runs() {
            chosen.push(run);
            parts.push(self.piece(rw, chosen)?);
            chosen.pop();
        }
        if let [part] = parts[..] {
            return Some(part);
        }
        rw.build(|b| b.op(OpKind::Concatenate).operands(&parts).attr("dim", axis as i64).value())
    }

    /// The shape of a piece.
    fn shape(&self, rw: &Rewriter<'_>, runs: &[Run]) -> Vec<Dim> {
        let lead = [rw.f.shape(self.input)[0].clone(), Dim::constant(self.sizes[0])];
        let phases = runs.iter().map(|run| Dim::constant(run.phases));
        lead.into_iter().chain(phases).chain(self.spreads.iter().map(|spread| spread.count.clone())).collect()
    }

    fn convolution(&self, rw: &mut Rewriter<'_>, runs: &[Run]) -> Option<Value> {
        let shape = self.shape(rw, runs);
        let result = rw.f.ty(rw.f.result(self.inst)).dtype();
        if runs.iter().any(|run| run.taps == 0) {
            let zero = rw.build(|b| {
                let literal = Literal::splat_i64(result, 0);
                b.op(OpKind::Constant).attr("value", literal).result(Type::tensor([], result)).value()
            })?;
            return rw.broadcast(zero, &[], shape);
        }
        let mut kernel = self.kernel;
        for (i, run) in runs.iter().enumerate() {
            kernel = self.every(rw, kernel, 2 + 2 * i, self.sizes[2 + i], run)?;
        }
        // Phases are features.
        let phases = (0..runs.len()).map(|i| 3 + 2 * i);
        let order: Vec<usize> = [0].into_iter().chain(phases).chain([1]).chain((0..runs.len()).map(|i| 2 + 2 * i)).collect();
        let kernel = rw.transpose(kernel, &order)?;
        let features = self.sizes[0] * runs.iter().map(|run| run.phases).product::<i64>();
        let sizes = [features, self.sizes[1]].into_iter().chain(runs.iter().map(|run| run.taps));
        let kernel = rw.reshape(kernel, sizes.map(Dim::constant))?;
        let product = self.like(rw, kernel, runs)?;
        rw.reshape(product, shape)
    }

    /// The kernel elements that a run reads along dimension `axis` of the given size, with a
    /// dimension of phases after it.
    fn every(&self, rw: &mut Rewriter<'_>, kernel: Value, axis: usize, size: i64, run: &Run) -> Option<Value> {
        // From the end: phase `p` reads `first + p`, `first + p + step`, ...
        let low = size - 1 - (run.first + run.phases - 1) - (run.taps - 1) * run.step;
        let end = low + run.taps * run.step;
        let cut = slice(rw, kernel, axis, [low, end.min(size)])?;
        let padded = super::winograd::pad(rw, cut, axis, (end - size).max(0))?;
        let mut shape = rw.f.shape(padded).to_vec();
        shape.splice(axis..axis + 1, [run.taps, run.step].map(Dim::constant));
        let split = rw.reshape(padded, shape)?;
        let kept = slice(rw, split, axis + 1, [0, run.phases])?;
        match run.phases {
            1 => Some(kept),
            _ => rw.build(|b| b.op(OpKind::Reverse).operands(&[kept]).attr("dims", vec![axis as i64 + 1]).value()),
        }
    }

    /// The convolution of the undilated input with a kernel of some phases.
    fn like(&self, rw: &mut Rewriter<'_>, kernel: Value, runs: &[Run]) -> Option<Value> {
        let (input, rank) = (self.input, runs.len() as i64 + 2);
        let groups = rw.f.int(self.inst, "feature_group_count").max(1);
        let dtype = rw.f.attr(self.inst, "dtype").cloned();
        let numbers = |of: fn(&Run) -> i64| runs.iter().map(of).collect::<Vec<i64>>();
        let dims = |of: fn(&Run) -> i64| runs.iter().map(|run| Dim::constant(of(run))).collect::<Vec<Dim>>();
        rw.build(|b| {
            let mut request = b.op(OpKind::Convolution).operands(&[input, kernel]);
            let roles =
                [("input", "batch", "feature"), ("output", "batch", "feature"), ("kernel", "output_feature", "input_feature")];
            for (what, first, second) in roles {
                request = request.attr(&format!("{what}_{first}_dimension"), 0_i64);
                request = request.attr(&format!("{what}_{second}_dimension"), 1_i64);
                request = request.attr(&format!("{what}_spatial_dimensions"), (2..rank).collect::<Vec<i64>>());
            }
            request = request.attr("padding_low", dims(|run| run.low)).attr("padding_high", dims(|run| run.high));
            request = request.attr("rhs_dilation", numbers(|run| run.dilation)).attr("feature_group_count", groups);
            match dtype {
                Some(dtype) => request.attr("dtype", dtype).value(),
                None => request.value(),
            }
        })
    }

    /// Interleaves the pieces into the result.
    fn interleave(&self, rw: &mut Rewriter<'_>, pieces: Value) -> Option<Value> {
        let n = self.spreads.len();
        let order: Vec<usize> = [0, 1].into_iter().chain((0..n).flat_map(|i| [2 + n + i, 2 + i])).collect();
        let turned = rw.transpose(pieces, &order)?;
        let lead = rw.f.shape(pieces)[..2].to_vec();
        let sizes = self.spreads.iter().map(|spread| &spread.count * spread.apart);
        let mut all = rw.reshape(turned, lead.into_iter().chain(sizes))?;
        let wanted = rw.f.shape(rw.f.result(self.inst)).to_vec();
        for (axis, wanted) in wanted.iter().enumerate().skip(2) {
            let have = rw.f.shape(all)[axis].clone();
            if !rw.solver.equal(&have, wanted) {
                all = slice_dims(rw, all, axis, [Dim::constant(0), wanted.clone()])?;
            }
        }
        Some(all)
    }
}

/// The windows along spatial dimension `i`, if the number of results is a multiple of the input's
/// size plus a constant.
fn spread(rw: &Rewriter<'_>, inst: Inst, i: usize, taps: i64) -> Option<Spread> {
    let input = rw.f.operands(inst)[0];
    let or_one = |name: &str| rw.f.ints(inst, name).get(i).copied().unwrap_or(1);
    let (apart, dilation) = (or_one("lhs_dilation"), or_one("rhs_dilation"));
    let low = rw.f.dims(inst, "padding_low").get(i).map_or(Some(0), Dim::as_const)?;
    let (size, made) = (&rw.f.shape(input)[2 + i], &rw.f.shape(rw.f.result(inst))[2 + i]);
    let more = (made - &(size * apart)).as_const()?;
    let more = more.div_euclid(apart) + i64::from(more.rem_euclid(apart) > 0);
    Some(Spread { taps, apart, dilation, place: dilation * (taps - 1) - low, count: size + more, more })
}

fn slice(rw: &mut Rewriter<'_>, value: Value, axis: usize, range: [i64; 2]) -> Option<Value> {
    match rw.f.shape(value)[axis].as_const() {
        Some(size) if range == [0, size] => Some(value),
        _ => slice_dims(rw, value, axis, range.map(Dim::constant)),
    }
}

fn slice_dims(rw: &mut Rewriter<'_>, value: Value, axis: usize, [from, to]: [Dim; 2]) -> Option<Value> {
    let mut limit = rw.f.shape(value).to_vec();
    let mut start = vec![Dim::constant(0); limit.len()];
    (start[axis], limit[axis]) = (from, to);
    rw.build(|b| b.op(OpKind::Slice).operands(&[value]).attr("start", start).attr("limit", limit).value())
}

#[cfg(test)]
mod tests {
    use crate::{tensor::lower_convolutions, testing::after};

    /// A convolution in one dimension with an input dilated by `apart`.
    fn spread(apart: i64, taps: i64, [low, high]: [i64; 2], made: &str, more: &str) -> String {
        let channels = if more.contains("group") { 1 } else { 2 };
        format!(
            "func @f(%x: tensor<[B]x2x[L]xf32>, %k: tensor<6x{channels}x{taps}xf32>) -> tensor<[B]x6x[{made}]xf32> where 1 <= L {{
               %r = convolution %x, %k, input_batch_dimension = 0, input_feature_dimension = 1, input_spatial_dimensions = [2], kernel_input_feature_dimension = 1, kernel_output_feature_dimension = 0, kernel_spatial_dimensions = [2], output_batch_dimension = 0, output_feature_dimension = 1, output_spatial_dimensions = [2], padding_low = [{low}], padding_high = [{high}], lhs_dilation = [{apart}]{more} : (tensor<[B]x2x[L]xf32>, tensor<6x{channels}x{taps}xf32>) -> tensor<[B]x6x[{made}]xf32>
               return %r : tensor<[B]x6x[{made}]xf32>
             }}"
        )
    }

    #[test]
    fn phases_that_read_the_same_elements_are_one_convolution() {
        let text = after(&lower_convolutions::PASS, &spread(4, 8, [7, 7], "4*L+4", ""));
        assert_eq!(text.matches("dot_general").count(), 1, "{text}");
        assert!(text.contains("x2xf32>") && !text.contains("lhs_dilation"), "{text}");
    }

    #[test]
    fn phases_beyond_the_padding_read_the_next_elements() {
        let text = after(&lower_convolutions::PASS, &spread(2, 4, [2, 2], "2*L", ""));
        assert_eq!((text.matches("dot_general").count(), text.matches("slice %r").count()), (2, 0), "{text}");
    }

    #[test]
    fn any_numbers_mean_the_same() {
        for (apart, taps, edges, made, more) in [
            (2, 3, [1, 2], "2*L", ""),
            (2, 3, [1, 1], "2*L-1", ""),
            (3, 2, [1, 1], "3*L-1", ""),
            (3, 1, [0, 0], "3*L-2", ""),
            (3, 7, [0, 0], "3*L-8", ""),
            (2, 3, [4, 4], "2*L+3", ", rhs_dilation = [2]"),
            (2, 3, [6, 6], "2*L+5", ", rhs_dilation = [3]"),
            (4, 3, [12, 11], "4*L+8", ", rhs_dilation = [6]"),
            (2, 5, [3, 4], "2*L+2", ", window_reversal = [1]"),
            (2, 4, [2, 2], "2*L", ", feature_group_count = 2"),
            (2, 4, [9, -1], "2*L+4", ""),
        ] {
            let source = spread(apart, taps, edges, made, more);
            let source = if made == "3*L-8" { source.replace("1 <= L", "4 <= L") } else { source };
            let text = after(&lower_convolutions::PASS, &source);
            assert!(!text.contains("lhs_dilation"), "{text}");
        }
    }
}
