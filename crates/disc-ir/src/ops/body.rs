//! Makes and recognises the usual bodies of reductions, scatters and sorts.
//!
//! A body is a region on scalars, so it can compute anything. [`monoid`], [`classify`] and
//! [`order`] recognise those that the code generator has a form for (a sum, the index of the
//! largest element, an ascending order).
//!
//! Invariant: recognition never guesses. A choice between two elements is recognised by trying
//! every case of their comparison, on bodies that only compare and choose; any other op makes the
//! body general.
use super::{OpKind, Trait};
use crate::{
    attr::Attr,
    build::Builder,
    diag::Diagnostic,
    graph::{Block, Function, Inst, Value},
    types::{DType, Type},
};
use std::{cmp::Ordering, collections::HashMap};

/// The function that a body of a reduction computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// One commutative and associative op.
    Monoid(OpKind),
    /// The largest (or smallest) of two values, along with its index. Of equal values the one with
    /// the lower index is taken, provided that values are combined in the order of their indices.
    /// NaN counts as larger than every value, or here as smaller too: it wins.
    Argument { largest: bool },
    /// Anything else.
    General,
}

/// The order of a comparator on the first input; NaN is greater than every number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Ascending,
    Descending,
}

/// Makes a body that applies `op` to its two arguments.
///
/// # Errors
/// An `op` that does not admit `dtype`.
pub fn combine(b: &mut Builder<'_>, op: OpKind, dtype: DType) -> Result<Block, Diagnostic> {
    let scalar = Type::tensor([], dtype);
    b.region([scalar.clone(), scalar], |b, args| {
        let combined = b.emit(op, args)?;
        b.ret(&[combined]).map(drop)
    })
}

/// Makes a body that returns the larger (or smaller) of two values and its index: see
/// [`Body::Argument`].
///
/// # Errors
/// Never for numbers.
pub fn argument(b: &mut Builder<'_>, largest: bool, dtype: DType, index: DType) -> Result<Block, Diagnostic> {
    let types = [dtype, index, dtype, index].map(|dtype| Type::tensor([], dtype));
    b.region(types, |b, args| {
        let [value, place, next, next_place] = *args else { unreachable!("four arguments were asked for") };
        let mut wins = compare(b, if largest { "GT" } else { "LT" }, value, next)?;
        if dtype.is_float() {
            let nan = compare(b, "NE", value, value)?;
            wins = b.emit(OpKind::Or, &[wins, nan])?;
        }
        let equal = compare(b, "EQ", value, next)?;
        let first = compare(b, "LT", place, next_place)?;
        let tie = b.emit(OpKind::And, &[equal, first])?;
        let taken = b.emit(OpKind::Or, &[wins, tie])?;
        let value = b.emit(OpKind::Select, &[wins, value, next])?;
        let place = b.emit(OpKind::Select, &[taken, place, next_place])?;
        b.ret(&[value, place]).map(drop)
    })
}

/// Makes a comparator for `sort` that orders by the first of inputs with these element types.
///
/// # Errors
/// Never if there is an input.
pub fn comparator(b: &mut Builder<'_>, order: Order, dtypes: &[DType]) -> Result<Block, Diagnostic> {
    let types: Vec<Type> = dtypes.iter().flat_map(|&dtype| [Type::tensor([], dtype), Type::tensor([], dtype)]).collect();
    let is_float = dtypes.first().is_some_and(|dtype| dtype.is_float());
    b.region(types, |b, args| {
        let (low, high) = if order == Order::Ascending { (args[0], args[1]) } else { (args[1], args[0]) };
        let mut before = compare(b, "LT", low, high)?;
        if is_float {
            let (low_nan, high_nan) = (compare(b, "NE", low, low)?, compare(b, "NE", high, high)?);
            let number = b.emit(OpKind::Not, &[low_nan])?;
            let only_high = b.emit(OpKind::And, &[number, high_nan])?;
            before = b.emit(OpKind::Or, &[before, only_high])?;
        }
        b.ret(&[before]).map(drop)
    })
}

fn compare(b: &mut Builder<'_>, direction: &'static str, lhs: Value, rhs: Value) -> Result<Value, Diagnostic> {
    b.op(OpKind::Compare).operands(&[lhs, rhs]).attr("direction", direction).value()
}

/// The commutative and associative op that the body consists of, if it does.
pub fn monoid(function: &Function, region: Block) -> Option<OpKind> {
    let [only, end] = *function.insts(region) else { return None };
    let [a, b] = *function.arguments(region) else { return None };
    let def = function.def(only);
    let is_monoid = def.has(Trait::Commutative) && def.has(Trait::Associative);
    let takes_both = [[a, b], [b, a]].iter().any(|pair| function.operands(only) == pair);
    let returns_it = function.kind_of(end) == OpKind::Return && function.operands(end) == function.results_of(only);
    (is_monoid && takes_both && returns_it).then_some(def.kind)
}

/// Recognises the body of a reduction.
pub fn classify(function: &Function, region: Block) -> Body {
    if let Some(op) = monoid(function, region) {
        return Body::Monoid(op);
    }
    let computes = |&largest: &bool| chooses_argument(function, region, largest).unwrap_or(false);
    match [true, false].iter().find(|largest| computes(largest)) {
        Some(&largest) => Body::Argument { largest },
        None => Body::General,
    }
}

/// The order that a comparator of `sort` computes, if it depends only on the first input.
pub fn order(function: &Function, region: Block) -> Option<Order> {
    [Order::Ascending, Order::Descending].into_iter().find(|&order| orders(function, region, order).unwrap_or(false))
}

/// The outcome of comparing the two elements of the first input.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Relation {
    Ordered(Ordering),
    /// One or both are NaN.
    Nan([bool; 2]),
}

/// One of the cases that a body must decide: the outcomes of comparing the values, and those of the
/// second input.
#[derive(Clone, Copy)]
struct Case {
    value: Relation,
    place: Ordering,
}

const ORDERINGS: [Ordering; 3] = [Ordering::Less, Ordering::Equal, Ordering::Greater];

impl Case {
    fn all(floats: bool) -> Vec<Case> {
        let ordered = ORDERINGS.map(Relation::Ordered);
        let nans = [[true, false], [false, true], [true, true]].map(Relation::Nan);
        let values = ordered.iter().chain(nans.iter().filter(|_| floats));
        values.flat_map(|&value| ORDERINGS.map(|place| Case { value, place })).collect()
    }

    /// `a direction b`, for elements of one input.
    fn compare(self, direction: &str, a: Element, b: Element) -> Option<bool> {
        let is_nan = |e: Element| matches!(self.value, Relation::Nan(nan) if e.input == 0 && nan[e.side]);
        if a.input != b.input || a.input > 1 {
            return None;
        }
        if is_nan(a) || is_nan(b) {
            return Some(direction == "NE");
        }
        let whole = match (a.input, self.value) {
            (0, Relation::Ordered(ordering)) => ordering,
            (0, Relation::Nan(_)) => Ordering::Equal,
            _ => self.place,
        };
        let ordering = match (a.side, b.side) {
            (0, 1) => whole,
            (1, 0) => whole.reverse(),
            _ => Ordering::Equal,
        };
        match direction {
            "EQ" => Some(ordering.is_eq()),
            "NE" => Some(ordering.is_ne()),
            "LT" => Some(ordering.is_lt()),
            "LE" => Some(ordering.is_le()),
            "GT" => Some(ordering.is_gt()),
            "GE" => Some(ordering.is_ge()),
            _ => None,
        }
    }
}

/// An argument of a body: the element of this input on the left (0) or right (1) side.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Element {
    side: usize,
    input: usize,
}

/// The abstract value of a body's value, in one case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    Element(Element),
    Truth(bool),
}

/// Returns the values that the body returns in this case, if it only compares and chooses.
fn decide(function: &Function, region: Block, elements: &[Element], case: Case) -> Option<Vec<Known>> {
    let arguments = function.arguments(region).iter().copied();
    let mut known: HashMap<Value, Known> = arguments.zip(elements.iter().map(|&e| Known::Element(e))).collect();
    for &inst in function.insts(region) {
        let operands: Option<Vec<Known>> = function.operands(inst).iter().map(|v| known.get(v).copied()).collect();
        let operands = operands?;
        if function.kind_of(inst) == OpKind::Return {
            return Some(operands);
        }
        known.insert(*function.results_of(inst).first()?, choice(function, inst, &operands, case)?);
    }
    None
}

fn choice(function: &Function, inst: Inst, operands: &[Known], case: Case) -> Option<Known> {
    use Known::{Element, Truth};
    match (function.kind_of(inst), operands) {
        (OpKind::Compare, [Element(a), Element(b)]) => {
            let Some(Attr::Enum(direction)) = function.inst(inst).attrs[0] else { return None };
            case.compare(direction, *a, *b).map(Truth)
        }
        (OpKind::IsNan, [Element(a)]) => case.compare("NE", *a, *a).map(Truth),
        (OpKind::And, [Truth(a), Truth(b)]) => Some(Truth(a & b)),
        (OpKind::Or, [Truth(a), Truth(b)]) => Some(Truth(a | b)),
        (OpKind::Xor, [Truth(a), Truth(b)]) => Some(Truth(a ^ b)),
        (OpKind::Not, [Truth(a)]) => Some(Truth(!a)),
        (OpKind::Select, [Truth(pred), on_true, on_false]) => Some(if *pred { *on_true } else { *on_false }),
        _ => None,
    }
}

fn takes_floats(function: &Function, region: Block) -> bool {
    function.arguments(region).first().is_some_and(|&v| function.ty(v).dtype().is_float())
}

fn chooses_argument(function: &Function, region: Block, largest: bool) -> Option<bool> {
    if function.arguments(region).len() != 4 {
        return None;
    }
    let elements = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(side, input)| Element { side, input });
    for case in Case::all(takes_floats(function, region)) {
        let [Known::Element(value), Known::Element(place)] = *decide(function, region, &elements, case)? else { return None };
        let better = if largest { Ordering::Greater } else { Ordering::Less };
        // `None`: the values are equal, and the earlier one must be taken, which is on the left if
        // its index is lower.
        let winner = match case.value {
            Relation::Ordered(Ordering::Equal) | Relation::Nan([true, true]) => None,
            Relation::Ordered(ordering) => Some(usize::from(ordering != better)),
            Relation::Nan([left, _]) => Some(usize::from(!left)),
        };
        let right = match winner {
            Some(side) => value.side == side && place.side == side,
            None => place.side == 0 || case.place != Ordering::Less,
        };
        if (value.input, place.input) != (0, 1) || !right {
            return Some(false);
        }
    }
    Some(true)
}

fn orders(function: &Function, region: Block, order: Order) -> Option<bool> {
    let count = function.arguments(region).len();
    let elements: Vec<Element> = (0..count).map(|i| Element { side: i % 2, input: i / 2 }).collect();
    for case in Case::all(takes_floats(function, region)) {
        let [Known::Truth(before)] = *decide(function, region, &elements, case)? else { return None };
        let ascending = match case.value {
            Relation::Ordered(ordering) => ordering,
            Relation::Nan([true, true]) => Ordering::Equal,
            Relation::Nan([true, false]) => Ordering::Greater,
            Relation::Nan(_) => Ordering::Less,
        };
        let wanted = if order == Order::Ascending { Ordering::Less } else { Ordering::Greater };
        if before != (ascending == wanted) {
            return Some(false);
        }
    }
    Some(true)
}
