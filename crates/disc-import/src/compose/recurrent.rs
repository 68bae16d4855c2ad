//! Declares recurrent layers over sequences of any length: LSTM, GRU and RNN.
//!
//! A layer in one direction is one loop over time. What the inputs give to the gates does not
//! depend on the step before: it is one matmul before the loop.
use super::{Composed, check_rank, contraction::linear_sums};
use crate::emit::{Dot, Emitter, Sign};
use disc_ir::{Code, DType, Diagnostic, Dim, OpKind, Value, ops::DTypeClass};

const FLOAT: DTypeClass = DTypeClass::FLOAT;

words! {
    /// The cell of a recurrent layer.
    CellKind { Lstm = "lstm", Gru = "gru", Tanh = "rnn_tanh", Relu = "rnn_relu" }
}

impl CellKind {
    /// The number of gates; the weights of a gate are rows.
    fn gates(self) -> i64 {
        match self {
            CellKind::Lstm => 4,
            CellKind::Gru => 3,
            CellKind::Tanh | CellKind::Relu => 1,
        }
    }

    /// The number of tensors of the state.
    fn states(self) -> usize {
        if self == CellKind::Lstm { 2 } else { 1 }
    }

    /// Returns true if the bias of the state is added to what the state gives, and not to all.
    fn has_bias_of_state(self) -> bool {
        self == CellKind::Gru
    }
}

composition! {
    /// One layer of a recurrent net in one direction: the outputs of all steps, and the last state
    /// (for an LSTM `h` and `c`). The gates of an LSTM are i, f, g, o, those of a GRU r, z, n. Half
    /// types are computed in f32, and the results are of f32 then.
    ///
    /// (C1) `x` is `[time, batch, features]` with at least one step; a state is `[batch, width]`,
    /// or of a batch of 1.
    /// (C2) `w` is `[gates * width, features]`, `u` is `[gates * width, state]`, the biases `[gates
    /// * width]`; `projection` is `[state, width]`.
    /// (C3) `c` is there for an LSTM, and only there.
    RecurrentLayer = "recurrent_layer"(x: one(FLOAT), h: one(FLOAT), c: maybe(FLOAT), w: one(FLOAT), u: one(FLOAT),
        w_bias: maybe(FLOAT), u_bias: maybe(FLOAT), projection: maybe(FLOAT)) { cell: CellKind, backwards: bool }
        -> (outputs, last_h, last_c) in recurrent_layer;
}

fn recurrent_layer(b: &Emitter<'_>, given: RecurrentLayer) -> Composed {
    let RecurrentLayer { x, h, c, w, u, w_bias, u_bias, projection, cell, backwards } = given;
    check_rank(b, 1, ("x", x), 3)?;
    check_ranks(b, h, c, w, u)?;
    projection.map_or(Ok(()), |projection| check_rank(b, 2, ("projection", projection), 2))?;
    let own = b.dot(x, w, &Dot { contracting: (&[2], &[1]), ..Dot::default() })?;
    let early = if cell.has_bias_of_state() { [w_bias, None] } else { [w_bias, u_bias] };
    let own = early.into_iter().flatten().try_fold(own, |own, bias| b.add(own, bias))?;
    let first: Vec<Value> = [Some(h), c].into_iter().flatten().collect();
    if first.len() != cell.states() {
        return Err(Diagnostic::new(Code::E0201, format!("(C3) {} tensors of state, expected {}", first.len(), cell.states())));
    }
    let (steps, batch) = (b.shape(x)[0].clone(), b.shape(x)[1].clone());
    let (width, hidden) = (b.shape(own)[2].clone(), b.shape(first[first.len() - 1])[1].clone());
    let all = &hidden * cell.gates();
    b.require(&width, Sign::Eq, &all)?;
    b.require(&b.shape(u)[0], Sign::Eq, &all)?;
    let out_width = b.shape(first[0])[1].clone();
    b.require(&projection.map_or(hidden, |projection| b.shape(projection)[0].clone()), Sign::Eq, &out_width)?;
    let whole = |state: Value| {
        let sizes = b.shape(state);
        if sizes[0] == batch { Ok(state) } else { b.expand(state, &[batch.clone(), sizes[1].clone()]) }
    };
    let first: Vec<Value> = first.into_iter().map(whole).collect::<Result<_, _>>()?;
    let out = b.full(0, &[steps.clone(), batch.clone(), out_width], b.dtype(x))?;
    let (zero, one) = (b.lift(0, DType::I64)?, b.lift(1, DType::I64)?);
    let late = if cell.has_bias_of_state() { u_bias } else { None };
    let inits = [&[out][..], &first[..]].concat();
    let results = b.count(&steps, &inits, |t, values| {
        let (out, state) = (values[0], &values[1..]);
        let place = if backwards { b.sub(b.sub(b.lift(&steps, DType::I64)?, one)?, t)? } else { t };
        let now = b.dynamic_slice(own, &[place, zero, zero], &[Dim::constant(1), batch.clone(), width.clone()])?;
        let past = linear_sums(b, state[0], u, late)?;
        let mut next = step(b, cell, b.squeeze(now, &[0])?, past, state)?;
        if let Some(projection) = projection {
            next[0] = linear_sums(b, next[0], projection, None)?;
        }
        let row = b.unsqueeze(next[0], &[0])?;
        let out = b.dynamic_update_slice(out, row, &[place, zero, zero])?;
        Ok([&[out][..], &next[..]].concat())
    })?;
    Ok(results)
}

composition! {
    /// One step of a recurrent cell: the new state (for an LSTM `h` and `c`), in the type of `x`.
    /// The gates are those of `recurrent_layer`.
    ///
    /// (C1) `x` is `[batch, features]`, a state `[batch, width]`.
    /// (C2) `w`, `u` and the biases are as those of `recurrent_layer`.
    /// (C3) `c` is there for an LSTM, and only there.
    RecurrentCell = "recurrent_cell"(x: one(FLOAT), h: one(FLOAT), c: maybe(FLOAT), w: one(FLOAT), u: one(FLOAT),
        w_bias: maybe(FLOAT), u_bias: maybe(FLOAT)) { cell: CellKind } -> (next_h, next_c) in recurrent_cell;
}

fn recurrent_cell(b: &Emitter<'_>, given: RecurrentCell) -> Composed {
    let RecurrentCell { x, h, c, w, u, w_bias, u_bias, cell } = given;
    check_rank(b, 1, ("x", x), 2)?;
    check_ranks(b, h, c, w, u)?;
    let dtype = b.dtype(x);
    let state: Vec<Value> = [Some(h), c].into_iter().flatten().collect();
    if state.len() != cell.states() {
        return Err(Diagnostic::new(Code::E0201, format!("(C3) {} tensors of state, expected {}", state.len(), cell.states())));
    }
    let x = b.wide(x)?;
    let state: Vec<Value> = state.into_iter().map(|state| b.wide(state)).collect::<Result<_, _>>()?;
    let own = linear_sums(b, x, b.wide(w)?, None)?;
    let past = linear_sums(b, state[0], b.wide(u)?, None)?;
    let with = |sums: Value, bias: Option<Value>| bias.map_or(Ok(sums), |bias| b.add(sums, b.wide(bias)?));
    let (own, past) = (with(own, w_bias)?, with(past, u_bias)?);
    step(b, cell, own, past, &state)?.into_iter().map(|value| b.convert(value, dtype)).collect()
}

fn check_ranks(b: &Emitter<'_>, h: Value, c: Option<Value>, w: Value, u: Value) -> Result<(), Diagnostic> {
    check_rank(b, 1, ("h", h), 2)?;
    c.map_or(Ok(()), |c| check_rank(b, 1, ("c", c), 2))?;
    check_rank(b, 2, ("w", w), 2)?;
    check_rank(b, 2, ("u", u), 2)
}

/// The new state; `own` and `past` are what inputs and state give to the gates.
fn step(b: &Emitter<'_>, cell: CellKind, own: Value, past: Value, state: &[Value]) -> Composed {
    let logistic = |x: Value| b.op(OpKind::Logistic, &[x]);
    let tanh = |x: Value| b.op(OpKind::Tanh, &[x]);
    match (cell, state) {
        (CellKind::Lstm, &[_, c]) => {
            let [i, f, g, o] = gates(b, b.add(own, past)?, &b.shape(c)[1])?;
            let (i, f, o) = (logistic(i)?, logistic(f)?, logistic(o)?);
            let c = b.add(b.mul(f, c)?, b.mul(i, tanh(g)?)?)?;
            Ok(vec![b.mul(o, tanh(c)?)?, c])
        }
        (CellKind::Gru, &[h]) => {
            let width = &b.shape(h)[1];
            let ([r, z, n], [r_past, z_past, n_past]) = (gates(b, own, width)?, gates(b, past, width)?);
            let (r, z) = (logistic(b.add(r, r_past)?)?, logistic(b.add(z, z_past)?)?);
            let n = tanh(b.add(n, b.mul(r, n_past)?)?)?;
            Ok(vec![b.add(b.mul(b.sub(h, n)?, z)?, n)?])
        }
        (CellKind::Relu, _) => Ok(vec![b.maximum(b.add(own, past)?, 0)?]),
        _ => Ok(vec![tanh(b.add(own, past)?)?]),
    }
}

/// Divides the last axis into gates of `width` elements.
fn gates<const N: usize>(b: &Emitter<'_>, x: Value, width: &Dim) -> Result<[Value; N], Diagnostic> {
    let last = b.rank(x) - 1;
    let mut found = [x; N];
    for (i, gate) in (0..).zip(&mut found) {
        *gate = b.slice(x, last, &(width * i), &(width * (i + 1)), 1)?;
    }
    Ok(found)
}
