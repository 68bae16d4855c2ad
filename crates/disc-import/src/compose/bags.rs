//! Declares bags of embeddings: slices of a table are looked up and combined, bag by bag.
use super::{Composed, check_rank, scattering::slices};
use crate::emit::{Emitter, neutral};
use disc_ir::{DType, Diagnostic, Dim, OpKind, Value, ops::DTypeClass};

const FLOAT: DTypeClass = DTypeClass::FLOAT;
const INTEGER: DTypeClass = DTypeClass::INTEGER;

words! {
    /// The combination of the rows of a bag.
    Bag { Sum = "sum", Mean = "mean", Maximum = "maximum" }
}

composition! {
    /// The sum, mean or maximum of the rows of `table` that each bag looks up by `index`, times
    /// `scales` if given; zeros for an empty bag. Bag `i` has the look-ups from `offsets[i]` on;
    /// with `has_end`, the last offset ends the last bag. Look-ups of row `padding` belong to no
    /// bag. The second result is only there for the maximum: the row of each of its elements, in
    /// the type of `offsets`. Half types are added in f32.
    ///
    /// (C1) `table` has two axes, `index`, `offsets` and `scales` have one.
    /// (C2) There are `count` bags. Offsets that begin beyond 0, that fall or that are beyond the
    /// look-ups fail the call.
    EmbeddingBag = "embedding_bag"(table: one(FLOAT), index: one(INTEGER), offsets: one(INTEGER), scales: maybe(FLOAT)) {
            mode: Bag, count: Dim, padding: Option<Dim>, has_end: bool
        } -> (y, rows) in embedding_bag;
}

fn embedding_bag(b: &Emitter<'_>, given: EmbeddingBag) -> Composed {
    let EmbeddingBag { table, index, offsets, scales, mode, count, padding, has_end } = given;
    check_rank(b, 1, ("table", table), 2)?;
    for (name, value) in [("index", Some(index)), ("offsets", Some(offsets)), ("scales", scales)] {
        value.map_or(Ok(()), |value| check_rank(b, 1, (name, value), 1))?;
    }
    let (index, marks) = (b.convert(index, DType::I64)?, b.convert(offsets, DType::I64)?);
    check_offsets(b, index, marks)?;
    let mut bag = bag_of(b, index, marks, has_end)?;
    if let Some(padding) = padding {
        let is_padding = b.compare("EQ", index, b.lift(padding, DType::I64)?)?;
        bag = b.select(is_padding, b.lift(-1, DType::I64)?, bag)?;
    }
    let look_ups = LookUps { table, index, bag };
    let y = look_ups.combined(b, &count, mode, scales)?;
    if mode != Bag::Maximum {
        return Ok(vec![y]);
    }
    let rows = look_ups.greatest_rows(b, y)?;
    Ok(vec![y, b.convert(rows, b.dtype(offsets))?])
}

fn check_offsets(b: &Emitter<'_>, index: Value, offsets: Value) -> Result<(), Diagnostic> {
    let (count, int) = (b.size_of(offsets, 0)?, DType::I64);
    if count.is_const(0) {
        return Ok(());
    }
    let place = b.iota(&[count], 0, int)?;
    let before = b.take(offsets, 0, b.sub(place, 1)?, "clamp")?;
    let is_first = b.compare("EQ", place, b.lift(0, int)?)?;
    let before = b.select(is_first, b.lift(0, int)?, before)?;
    let is_later = b.compare("NE", place, b.lift(0, int)?)?;
    let begins = b.map(OpKind::Or, &[is_later, b.compare("EQ", offsets, b.lift(0, int)?)?])?;
    let rises = b.compare("GE", offsets, before)?;
    let is_within = b.compare("LE", offsets, b.lift(b.size_of(index, 0)?, int)?)?;
    for (holds, message) in [
        (begins, "offsets[0] has to be 0"),
        (rises, "offsets must not fall"),
        (is_within, "offsets can not be greater than input's length"),
    ] {
        b.require_true(b.reduce(holds, &[0], OpKind::And, false)?, message)?;
    }
    Ok(())
}

/// The bag of each look-up: how many begin up to there.
fn bag_of(b: &Emitter<'_>, index: Value, offsets: Value, has_end: bool) -> Result<Value, Diagnostic> {
    let mut offsets = offsets;
    if has_end {
        let last = b.size_of(offsets, 0)? - 1;
        offsets = b.slice(offsets, 0, &Dim::constant(0), &last, 1)?;
    }
    let zeros = b.full(0, &b.shape(index), DType::I64)?;
    let ones = b.full(1, &b.shape(offsets), DType::I64)?;
    let marks = added(b, zeros, offsets, ones, OpKind::Add)?;
    b.sub(b.cumulative(marks, 0, OpKind::Add)?, 1)
}

/// `x` with rows combined into those that `index` names; one beyond the last is left out.
fn added(b: &Emitter<'_>, x: Value, index: Value, rows: Value, how: OpKind) -> Result<Value, Diagnostic> {
    slices(b, x, 0, index, rows, Some(how), "skip")
}

/// Rows of a table, and the bag that each belongs to.
struct LookUps {
    table: Value,
    index: Value,
    bag: Value,
}

impl LookUps {
    fn combined(&self, b: &Emitter<'_>, count: &Dim, mode: Bag, scales: Option<Value>) -> Result<Value, Diagnostic> {
        let mut rows = b.wide(b.take(self.table, 0, self.index, "check")?)?;
        let dtype = b.dtype(rows);
        if let Some(scales) = scales {
            rows = b.mul(rows, b.unsqueeze(b.convert(scales, dtype)?, &[1])?)?;
        }
        let shape = [count.clone(), b.size_of(self.table, 1)?];
        let how = if mode == Bag::Maximum { OpKind::Maximum } else { OpKind::Add };
        let mut total = added(b, b.full(neutral(how, dtype), &shape, dtype)?, self.bag, rows, how)?;
        if mode != Bag::Sum {
            let none = b.full(0, &shape[..1], dtype)?;
            let ones = b.full(1, &b.shape(self.bag), dtype)?;
            let mut held = added(b, none, self.bag, ones, OpKind::Add)?;
            if mode == Bag::Mean {
                held = b.maximum(held, 1)?;
            }
            let held = b.broadcast(held, &shape, &[0])?;
            let nothing = b.full(0, &shape, dtype)?;
            total = match mode {
                Bag::Mean => b.div(total, held)?,
                _ => b.select(b.compare("GT", held, nothing)?, total, nothing)?,
            };
        }
        b.convert(total, b.dtype(self.table))
    }

    /// The row of the first look-up that has the greatest element of its bag; 0 for an empty bag.
    fn greatest_rows(&self, b: &Emitter<'_>, greatest: Value) -> Result<Value, Diagnostic> {
        let (shape, count, int) = (b.shape(greatest), b.size_of(self.index, 0)?, DType::I64);
        let each = [count.clone(), shape[1].clone()];
        let look_up = b.broadcast(b.iota(std::slice::from_ref(&count), 0, int)?, &each, &[0])?;
        let none = b.broadcast(b.lift(&count, int)?, &each, &[])?;
        let own = b.take(self.table, 0, self.index, "check")?;
        let is_greatest = b.compare("EQ", own, b.take(greatest, 0, self.bag, "clamp")?)?;
        let candidates = b.select(is_greatest, look_up, none)?;
        let none = b.broadcast(b.lift(&count, int)?, &shape, &[])?;
        let first = added(b, none, self.bag, candidates, OpKind::Minimum)?;
        let is_first = b.compare("EQ", look_up, b.take(first, 0, self.bag, "clamp")?)?;
        let row = b.select(is_first, b.broadcast(self.index, &each, &[0])?, b.full(0, &each, int)?)?;
        added(b, b.full(0, &shape, int)?, self.bag, row, OpKind::Add)
    }
}
