//! Declares losses. Half types are computed in f32.
use super::{Composed, axis_of, check_rank, gathering::elements_along};
use crate::emit::{Emitter, Operand};
use disc_ir::{Code, Diagnostic, Dim, OpKind, Value, ops::DTypeClass};

const FLOAT: DTypeClass = DTypeClass::FLOAT;
const NUMBER: DTypeClass = DTypeClass::NUMBER;

words! {
    /// The combination of the elements of a loss.
    Reduction { None = "none", Mean = "mean", Sum = "sum" }
}

impl Reduction {
    fn of(self, b: &Emitter<'_>, x: Value) -> Result<Value, Diagnostic> {
        let axes: Vec<usize> = (0..b.rank(x)).collect();
        if self == Reduction::None {
            return Ok(x);
        }
        let total = b.sum(x, &axes, false)?;
        if self == Reduction::Sum { Ok(total) } else { b.div(total, b.lift(Dim::product(b.shape(x)), b.dtype(x))?) }
    }

    /// The mean is divided by the sum of the shares.
    fn weighted(self, b: &Emitter<'_>, loss: Value, share: Value) -> Result<Value, Diagnostic> {
        let axes: Vec<usize> = (0..b.rank(loss)).collect();
        if self == Reduction::None {
            return Ok(loss);
        }
        let total = b.sum(loss, &axes, false)?;
        if self == Reduction::Sum { Ok(total) } else { b.div(total, b.sum(share, &axes, false)?) }
    }
}

words! {
    /// A function of the distance of two numbers.
    Distance { Squared = "squared", Absolute = "absolute", SmoothL1 = "smooth_l1", Huber = "huber" }
}

composition! {
    /// A function of the distance `d` of `x` and `target`: its square, the distance itself, or up
    /// to `bound` half the square and beyond it a line: `d * d / 2` and `bound * (d - bound / 2)`
    /// (huber), or these divided by `bound` (smooth_l1).
    ///
    /// (C1) `x` and `target` have one element type, and broadcast.
    /// (C2) huber and smooth_l1 have a bound.
    DistanceLoss = "distance_loss"(x: one(NUMBER), target: one(NUMBER)) {
            distance: Distance, bound: Option<f64>, reduction: Reduction
        } -> (loss) in distance_loss;
}

fn distance_loss(b: &Emitter<'_>, DistanceLoss { x, target, distance, bound, reduction }: DistanceLoss) -> Composed {
    let dtype = b.dtype(x);
    let (x, target) = (b.wide(x)?, b.wide(target)?);
    let apart = b.sub(x, target)?;
    let bound = || bound.ok_or_else(|| Diagnostic::new(Code::E0202, "(C2) the attribute `bound` is needed"));
    let loss = match distance {
        Distance::Squared => b.mul(apart, apart)?,
        Distance::Absolute => b.op(OpKind::Abs, &[apart])?,
        Distance::SmoothL1 => smooth_l1(b, b.op(OpKind::Abs, &[apart])?, bound()?)?,
        Distance::Huber => huber(b, b.op(OpKind::Abs, &[apart])?, bound()?)?,
    };
    Ok(vec![b.convert(reduction.of(b, loss)?, dtype)?])
}

fn smooth_l1(b: &Emitter<'_>, distance: Value, bound: f64) -> Result<Value, Diagnostic> {
    if bound == 0.0 {
        return Ok(distance);
    }
    let near = b.div(b.mul(b.mul(distance, distance)?, 0.5)?, bound)?;
    let is_near = b.compare("LT", distance, b.lift(bound, b.dtype(distance))?)?;
    b.select(is_near, near, b.sub(distance, 0.5 * bound)?)
}

fn huber(b: &Emitter<'_>, distance: Value, bound: f64) -> Result<Value, Diagnostic> {
    let near = b.mul(b.mul(distance, distance)?, 0.5)?;
    let far = b.mul(b.sub(distance, 0.5 * bound)?, bound)?;
    b.select(b.compare("LE", distance, b.lift(bound, b.dtype(distance))?)?, near, far)
}

composition! {
    /// The cross entropy of `target` and the logistic function of `x`, times `weight`; the part of
    /// positive targets times `positive_weight`.
    ///
    /// (C1) All have floats, and broadcast to `x`.
    BinaryCrossEntropy = "binary_cross_entropy"(
            x: one(FLOAT), target: one(FLOAT), weight: maybe(FLOAT), positive_weight: maybe(FLOAT)
        ) { reduction: Reduction } -> (loss) in binary_cross_entropy;
}

fn binary_cross_entropy(b: &Emitter<'_>, given: BinaryCrossEntropy) -> Composed {
    let BinaryCrossEntropy { x, target, weight, positive_weight, reduction } = given;
    let result = b.dtype(x);
    let (x, target) = (b.wide(x)?, b.wide(target)?);
    let dtype = b.dtype(x);
    // log(1 + exp(-x)), without overflow.
    let power = b.op(OpKind::Exponential, &[b.neg(b.op(OpKind::Abs, &[x])?)?])?;
    let mut soft = b.add(b.op(OpKind::LogPlusOne, &[power])?, b.maximum(b.neg(x)?, 0.0)?)?;
    if let Some(weight) = positive_weight {
        soft = b.mul(soft, b.add(b.mul(b.sub(b.convert(weight, dtype)?, 1.0)?, target)?, 1.0)?)?;
    }
    let mut loss = b.add(b.mul(b.sub(b.lift(1, dtype)?, target)?, x)?, soft)?;
    if let Some(weight) = weight {
        loss = b.mul(loss, b.convert(weight, dtype)?)?;
    }
    Ok(vec![b.convert(reduction.of(b, loss)?, result)?])
}

composition! {
    /// The cosine of the angle between vectors along `axis`; a length is at least `epsilon`.
    ///
    /// (C1) `axis` is an axis of `x`.
    /// (C2) `x` and `y` have one element type, and broadcast.
    CosineSimilarity = "cosine_similarity"(x: one(FLOAT), y: one(FLOAT)) { axis: i64, epsilon: f64 } -> (cosine)
        in cosine_similarity;
}

fn cosine_similarity(b: &Emitter<'_>, CosineSimilarity { x, y, axis, epsilon }: CosineSimilarity) -> Composed {
    let dtype = b.dtype(x);
    let [x, y] = b.together(&[b.wide(x)?, b.wide(y)?])?[..] else { unreachable!("as many as were given") };
    let axes = [axis_of(b, x, axis)?];
    let length = |v| b.maximum(b.op(OpKind::Sqrt, &[b.sum(b.mul(v, v)?, &axes, true)?])?, epsilon);
    let (x_length, y_length) = (length(x)?, length(y)?);
    let cosine = b.sum(b.mul(b.div(x, x_length)?, b.div(y, y_length)?)?, &axes, false)?;
    Ok(vec![b.convert(cosine, dtype)?])
}

composition! {
    /// The cross entropy of `target` and the softmax of `x` over the classes, axis 1 or the only
    /// one. A target of integers is the class; one of `ignored` counts nothing. A target of floats
    /// is the share of each class. A share `smoothing` of the target is spread over all classes.
    ///
    /// (C1) `x` has axes; a target of classes has one less, the others of equal sizes.
    /// (C2) `weight` has an element for each class.
    CrossEntropy = "cross_entropy"(x: one(FLOAT), target: one(NUMBER), weight: maybe(FLOAT)) {
            reduction: Reduction, ignored: i64, smoothing: f64
        } -> (loss) in cross_entropy;
}

fn cross_entropy(b: &Emitter<'_>, given: CrossEntropy) -> Composed {
    let CrossEntropy { x, target, weight, reduction, ignored, smoothing } = given;
    let (result, axis) = (b.dtype(x), class_axis(b, x)?);
    let wide = b.wide(x)?;
    let distance = b.sub(wide, b.reduce(wide, &[axis], OpKind::Maximum, true)?)?;
    let total = b.sum(b.op(OpKind::Exponential, &[distance])?, &[axis], true)?;
    let logs = b.sub(distance, b.op(OpKind::Log, &[total])?)?;
    if b.dtype(target).is_float() {
        let logs = Logs { logs, axis, weight, reduction };
        return Ok(vec![b.convert(logs.of_shares(b, target, smoothing)?, result)?]);
    }
    let logs = Logs::of_classes(b, logs, axis, weight, target, reduction)?;
    let mut loss = logs.of_class(b, target, ignored)?;
    if smoothing != 0.0 {
        let even = logs.of_all_classes(b, target, ignored)?;
        let even = b.div(even, b.lift(b.size_of(x, axis)?, b.dtype(logs.logs))?)?;
        loss = b.add(b.mul(loss, 1.0 - smoothing)?, b.mul(even, smoothing)?)?;
    }
    Ok(vec![b.convert(loss, result)?])
}

composition! {
    /// The negative of the element of `x` that `target` names along the classes, axis 1 or the only
    /// one; a target of `ignored` counts nothing.
    ///
    /// (C1) `x` has axes; the target has one less, the others of equal sizes.
    /// (C2) `weight` has an element for each class.
    LikelihoodLoss = "likelihood_loss"(x: one(FLOAT), target: one(NUMBER), weight: maybe(FLOAT)) {
            reduction: Reduction, ignored: i64
        } -> (loss) in likelihood_loss;
}

fn likelihood_loss(b: &Emitter<'_>, LikelihoodLoss { x, target, weight, reduction, ignored }: LikelihoodLoss) -> Composed {
    let (result, axis) = (b.dtype(x), class_axis(b, x)?);
    let logs = Logs::of_classes(b, b.wide(x)?, axis, weight, target, reduction)?;
    Ok(vec![b.convert(logs.of_class(b, target, ignored)?, result)?])
}

fn class_axis(b: &Emitter<'_>, x: Value) -> Result<usize, Diagnostic> {
    let rank = b.rank(x);
    rank.checked_sub(1).map(|last| last.min(1)).ok_or_else(|| Diagnostic::new(Code::E0207, "(C1) `x` has no axes"))
}

/// The logarithms of the shares of classes.
struct Logs {
    logs: Value,
    axis: usize,
    weight: Option<Value>,
    reduction: Reduction,
}

impl Logs {
    fn of_classes(
        b: &Emitter<'_>,
        logs: Value,
        axis: usize,
        weight: Option<Value>,
        target: Value,
        reduction: Reduction,
    ) -> Result<Self, Diagnostic> {
        check_rank(b, 1, ("target", target), b.rank(logs) - 1)?;
        if b.dtype(target).is_float() {
            return Err(Diagnostic::new(Code::E0204, "(C1) the classes of `target` are integers"));
        }
        Ok(Self { logs, axis, weight, reduction })
    }

    /// The loss of the class of each target.
    fn of_class(&self, b: &Emitter<'_>, target: Value, ignored: i64) -> Result<Value, Diagnostic> {
        let (kept, share) = self.kept(b, target, ignored)?;
        let index = b.unsqueeze(kept, &[self.axis])?;
        let picked = b.squeeze(elements_along(b, self.logs, self.axis, index)?, &[self.axis])?;
        // Ignored elements may be infinite.
        let counts = is_counted(b, target, ignored)?;
        let loss = b.select(counts, b.mul(b.neg(picked)?, share)?, b.lift(0, b.dtype(self.logs))?)?;
        self.reduction.weighted(b, loss, share)
    }

    /// The loss of each target if it were all classes.
    fn of_all_classes(&self, b: &Emitter<'_>, target: Value, ignored: i64) -> Result<Value, Diagnostic> {
        let (_, share) = self.kept(b, target, ignored)?;
        let each = b.neg(b.sum(self.times_weight(b, self.logs)?, &[self.axis], false)?)?;
        let each = b.select(is_counted(b, target, ignored)?, each, b.lift(0, b.dtype(self.logs))?)?;
        self.reduction.weighted(b, each, share)
    }

    /// The loss of a target that has a share for each class.
    fn of_shares(&self, b: &Emitter<'_>, target: Value, smoothing: f64) -> Result<Value, Diagnostic> {
        let (shape, dtype) = (b.shape(self.logs), b.dtype(self.logs));
        let mut target = b.convert(target, dtype)?;
        if smoothing != 0.0 {
            let even = b.div(b.lift(smoothing, dtype)?, b.lift(&shape[self.axis], dtype)?)?;
            target = b.add(b.mul(target, 1.0 - smoothing)?, even)?;
        }
        let terms = self.times_weight(b, b.mul(self.logs, target)?)?;
        let each = b.neg(b.sum(terms, &[self.axis], false)?)?;
        if self.reduction != Reduction::Mean {
            return self.reduction.of(b, each);
        }
        let others = shape.into_iter().enumerate().filter(|&(axis, _)| axis != self.axis).map(|(_, size)| size);
        let rows: Operand = Dim::product(others).into();
        let axes: Vec<usize> = (0..b.rank(each)).collect();
        b.div(b.sum(each, &axes, false)?, b.lift(rows, dtype)?)
    }

    fn times_weight(&self, b: &Emitter<'_>, terms: Value) -> Result<Value, Diagnostic> {
        let Some(weight) = self.weight else { return Ok(terms) };
        let weight = self.weights(b, weight)?;
        b.mul(terms, b.broadcast(weight, &b.shape(self.logs), &[self.axis])?)
    }

    fn weights(&self, b: &Emitter<'_>, weight: Value) -> Result<Value, Diagnostic> {
        check_rank(b, 2, ("weight", weight), 1)?;
        b.convert(weight, b.dtype(self.logs))
    }

    /// The classes, 0 where they are ignored, and how much each counts.
    fn kept(&self, b: &Emitter<'_>, target: Value, ignored: i64) -> Result<(Value, Value), Diagnostic> {
        let counts = is_counted(b, target, ignored)?;
        let kept = b.select(counts, target, b.lift(0, b.dtype(target))?)?;
        let mut share = b.convert(counts, b.dtype(self.logs))?;
        if let Some(weight) = self.weight {
            share = b.mul(share, b.take(self.weights(b, weight)?, 0, kept, "check")?)?;
        }
        Ok((kept, share))
    }
}

fn is_counted(b: &Emitter<'_>, target: Value, ignored: i64) -> Result<Value, Diagnostic> {
    b.compare("NE", target, b.lift(ignored, b.dtype(target))?)
}
