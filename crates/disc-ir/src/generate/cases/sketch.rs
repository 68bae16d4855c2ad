//! Builds the program of a case: a function whose ops and parameters are appended one after the
//! other.
use super::{Case, Draw, Nearness, Shapes};
use crate::{
    attr::Attr,
    build::Builder,
    diag::Diagnostic,
    dim::Dim,
    graph::{Block, Function, FunctionKind, Module, Value, Weight},
    literal::Literal,
    ops::{OpKind, body},
    types::{DType, TensorType, Type},
};

/// The values that were made, or the diagnostic of a violated constraint.
pub(super) type Made<T = Value> = Result<T, Diagnostic>;

/// The symbols of the slots.
const SYMBOLS: [&str; 3] = ["A", "B", "C"];

pub(super) struct Sketch {
    pub(super) kind: OpKind,
    pub(super) dtype: DType,
    shapes: Shapes,
    pub(super) function: Function,
    draws: Vec<Draw>,
    pub(super) others: Vec<Function>,
    pub(super) weights: Vec<Weight>,
}

impl Sketch {
    pub(super) fn new(kind: OpKind, dtype: DType, shapes: Shapes) -> Self {
        let name = format!("{}_{dtype}_{}", kind.name(), shapes.name());
        let function = Function::new(name, FunctionKind::Func);
        Self { kind, dtype, shapes, function, draws: Vec::new(), others: Vec::new(), weights: Vec::new() }
    }

    /// A size: one of three, each of its own.
    pub(super) fn size(&self, slot: usize) -> Dim {
        let constant = |sizes: [i64; 3]| Dim::constant(sizes[slot]);
        match self.shapes {
            Shapes::Static => constant([3, 17, 5]),
            Shapes::Empty => constant([0, 17, 0]),
            Shapes::Ones => constant([1, 1, 1]),
            Shapes::Partly if slot == 1 => Dim::constant(17),
            Shapes::Partly | Shapes::Dynamic => Dim::symbol(SYMBOLS[slot]),
        }
    }

    /// The first two sizes.
    pub(super) fn plane(&self) -> [Dim; 2] {
        [self.size(0), self.size(1)]
    }

    pub(super) fn input(&mut self, draw: Draw, dims: &[Dim], dtype: DType) -> Value {
        let name = format!("x{}", self.draws.len());
        let value = self.function.add_argument(self.function.body, Type::tensor(dims.iter().cloned(), dtype));
        self.function.set_name(value, name);
        self.draws.push(draw);
        value
    }

    /// States that a size is not 0.
    pub(super) fn some(&mut self, size: &Dim) {
        self.function.facts.add_range(size.clone(), Some(1), None).expect("a size can be 1 or more");
    }

    pub(super) fn build<T>(&mut self, make: impl FnOnce(&mut Builder<'_>) -> Made<T>) -> Made<T> {
        make(&mut Builder::new(&mut self.function))
    }

    /// An op of one result.
    pub(super) fn op(&mut self, kind: OpKind, operands: &[Value], attrs: &[(&str, Attr)]) -> Made {
        Ok(self.ops(kind, operands, attrs, &[], None)?[0])
    }

    /// As [`Sketch::op`], with a stated result type.
    pub(super) fn op_as(&mut self, kind: OpKind, operands: &[Value], attrs: &[(&str, Attr)], ty: TensorType) -> Made {
        Ok(self.ops(kind, operands, attrs, &[], Some(vec![Type::Tensor(ty)]))?[0])
    }

    /// An op with regions; all its results.
    pub(super) fn ops(
        &mut self,
        kind: OpKind,
        operands: &[Value],
        attrs: &[(&str, Attr)],
        regions: &[Block],
        results: Option<Vec<Type>>,
    ) -> Made<Vec<Value>> {
        let mut builder = Builder::new(&mut self.function);
        let mut request = builder.op(kind).operands(operands);
        for (name, attr) in attrs {
            request = request.attr(name, attr.clone());
        }
        for &region in regions {
            request = request.region(region);
        }
        if let Some(types) = results {
            request = request.results(types);
        }
        let inst = request.build()?;
        Ok(self.function.results_of(inst).to_vec())
    }

    /// A constant with all elements equal.
    pub(super) fn splat(&mut self, literal: Literal, dims: &[Dim]) -> Made {
        let ty = TensorType::new(dims.iter().cloned(), literal.dtype);
        self.op_as(OpKind::Constant, &[], &[("value", literal.into())], ty)
    }

    pub(super) fn scalar(&mut self, dtype: DType, value: i64) -> Made {
        self.splat(Literal::splat_i64(dtype, value), &[])
    }

    /// A body of one op.
    pub(super) fn combiner(&mut self, op: OpKind, dtype: DType) -> Made<Block> {
        self.build(|b| body::combine(b, op, dtype))
    }

    /// The program, which returns `results`.
    pub(super) fn finish(mut self, results: &[Value], nearness: Nearness) -> Made<Case> {
        self.build(|b| b.ret(results).map(drop))?;
        self.function.results = results.iter().map(|&value| self.function.ty(value).clone()).collect();
        let entry = self.function.name.to_string();
        let module =
            Module { functions: [vec![self.function], self.others].concat(), weights: self.weights, ..Module::default() };
        Ok(Case { kind: self.kind, dtype: self.dtype, shapes: self.shapes, module, entry, draws: self.draws, nearness })
    }
}
