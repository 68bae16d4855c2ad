//! Declares distances between vectors, the rows of tensors.
use super::{Composed, Composition, check_rank, reduction::LpNorm};
use crate::emit::Emitter;
use disc_ir::{Code, DType, Diagnostic, Dim, OpKind, Value, ops::DTypeClass};

const FLOAT: DTypeClass = DTypeClass::FLOAT;

composition! {
    /// The distance of each row of `x` from each row of `y`: the norm of order `order` of their
    /// difference. Order 0 counts the elements that differ.
    ///
    /// (C1) `x` is `[.., rows, size]`, `y` `[.., columns, size]`; the leading axes broadcast.
    Distances = "distances"(x: one(FLOAT), y: one(FLOAT)) { order: f64 } -> (distances) in distances;
}

fn distances(b: &Emitter<'_>, Distances { x, y, order }: Distances) -> Composed {
    let (x_rank, y_rank) = (b.rank(x), b.rank(y));
    if x_rank < 2 || y_rank < 2 {
        return Err(Diagnostic::new(Code::E0207, format!("(C1) `x` has {x_rank} axes and `y` {y_rank}, expected two or more")));
    }
    let apart = b.sub(b.unsqueeze(x, &[x_rank - 1])?, b.unsqueeze(y, &[y_rank - 2])?)?;
    let found = norm_of_rows(b, apart, order)?;
    // The largest of no differences is no distance.
    Ok(vec![if order == f64::INFINITY { b.maximum(found, 0.0)? } else { found }])
}

composition! {
    /// The distances of rows `i < j` of `x`, row by row, as `distances` has them.
    ///
    /// (C1) `x` has two axes.
    PairDistances = "pair_distances"(x: one(FLOAT)) { order: f64 } -> (distances) in pair_distances;
}

fn pair_distances(b: &Emitter<'_>, PairDistances { x, order }: PairDistances) -> Composed {
    check_rank(b, 1, ("x", x), 2)?;
    let (rows, int) = (b.size_of(x, 0)?, DType::I64);
    let count = match b.wanted() {
        Some([count]) => count.clone(),
        _ => (&rows * (&rows - 1)).floor_div(&Dim::constant(2)),
    };
    let pair = b.iota(std::slice::from_ref(&count), 0, int)?;
    // Row i starts at i * n - i * (i + 1) / 2: the rows that start at or before a pair are counted.
    let start_of = |row: Value| {
        let all = b.mul(row, b.lift(&rows, int)?)?;
        b.sub(all, b.div(b.mul(row, b.add(row, 1)?)?, 2)?)
    };
    let start = start_of(b.iota(&[count, rows.clone()], 1, int)?)?;
    let started = b.convert(b.compare("LE", start, b.unsqueeze(pair, &[1])?)?, int)?;
    let i = b.minimum(b.sub(b.sum(started, &[1], false)?, 1)?, b.lift(&rows - 1, int)?)?;
    let j = b.add(b.add(b.sub(pair, start_of(i)?)?, i)?, 1)?;
    let apart = b.sub(b.take(x, 0, i, "clamp")?, b.take(x, 0, j, "clamp")?)?;
    Ok(vec![norm_of_rows(b, apart, order)?])
}

fn norm_of_rows(b: &Emitter<'_>, x: Value, order: f64) -> Result<Value, Diagnostic> {
    if order == 0.0 {
        // A difference of NaN makes the count NaN.
        let differs = b.minimum(b.op(OpKind::Ceil, &[b.op(OpKind::Abs, &[x])?])?, 1.0)?;
        return b.sum(differs, &[b.rank(x) - 1], false);
    }
    let norm = LpNorm { x, order, axes: vec![-1], keep: false, dtype: b.dtype(x) };
    norm.emit(b)?.pop().ok_or_else(|| Diagnostic::new(Code::E0211, "a norm has one result"))
}
