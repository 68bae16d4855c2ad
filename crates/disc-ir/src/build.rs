//! Builds functions op by op, and checks and types every op as it is made.
//!
//! Invariant: a built op passes the verifier, as far as one op can be judged.
use crate::{
    attr::Attr,
    diag::{Code, Diagnostic, Span},
    dim::{Fact, FactError, Facts, Solver},
    graph::{Block, Function, Inst, InstData, Value},
    infer::{InferCx, RegionType, infer_op},
    lines::Origin,
    ops::OpKind,
    types::Type,
};
use smallvec::SmallVec;
use std::{cell::OnceCell, sync::Arc};

/// The solver for the facts of a function, made when it is first asked.
///
/// A front end states facts in between ops, several in a row: a solver for each would cost more
/// than the ops.
#[derive(Clone, Debug, Default)]
pub struct LazySolver(OnceCell<Arc<Solver>>);

impl LazySolver {
    /// Returns the solver of `facts`, which are those of the last call since
    /// [`LazySolver::forget`].
    pub fn get(&self, facts: &Facts) -> &Arc<Solver> {
        self.0.get_or_init(|| Arc::new(Solver::new(facts)))
    }

    /// Drops the solver: the facts have changed.
    pub fn forget(&mut self) {
        self.0.take();
    }
}

impl From<Arc<Solver>> for LazySolver {
    fn from(solver: Arc<Solver>) -> Self {
        Self(OnceCell::from(solver))
    }
}

/// Appends ops to a block of a function.
pub struct Builder<'f> {
    pub function: &'f mut Function,
    /// Insertion point: the end of this block.
    pub block: Block,
    /// The origin of the ops that are built.
    pub origin: Option<Origin>,
    solver: LazySolver,
}

impl<'f> Builder<'f> {
    /// Builds at the end of the body. Facts are added by [`Builder::add_fact`].
    pub fn new(function: &'f mut Function) -> Self {
        let block = function.body;
        Self::at(function, block, LazySolver::default())
    }

    /// Like [`Builder::new`], for another block and with an existing solver.
    pub fn at(function: &'f mut Function, block: Block, solver: impl Into<LazySolver>) -> Self {
        Self { function, block, origin: None, solver: solver.into() }
    }

    /// Adds a fact to the function.
    ///
    /// # Errors
    /// The fact contradicts others, or has a dim that cannot be represented.
    pub fn add_fact(&mut self, fact: Fact) -> Result<(), FactError> {
        self.solver.forget();
        self.function.facts.add(fact)
    }

    pub fn solver(&self) -> &Arc<Solver> {
        self.solver.get(&self.function.facts)
    }

    /// Ends the building, and gives the solver for the next builder of the function.
    pub fn into_solver(self) -> LazySolver {
        self.solver
    }

    /// Starts an op.
    pub fn op(&mut self, kind: OpKind) -> Request<'_, 'f> {
        let attrs = smallvec::smallvec![None; kind.def().attrs.len()];
        Request {
            builder: self,
            kind,
            operands: SmallVec::new(),
            attrs,
            regions: SmallVec::new(),
            declared: None,
            span: None,
            error: None,
        }
    }

    /// Builds an op of one result without attributes.
    ///
    /// # Errors
    /// The op's violated constraint.
    pub fn emit(&mut self, kind: OpKind, operands: &[Value]) -> Result<Value, Diagnostic> {
        self.op(kind).operands(operands).value()
    }

    /// Ends the block.
    ///
    /// # Errors
    /// Never for values of this function.
    pub fn ret(&mut self, values: &[Value]) -> Result<Inst, Diagnostic> {
        self.op(OpKind::Return).operands(values).build()
    }

    /// Makes a block, lets `fill` (which gets the arguments) build and end it, and restores the
    /// insertion point.
    ///
    /// # Errors
    /// Those of `fill`.
    pub fn region(
        &mut self,
        arguments: impl IntoIterator<Item = Type>,
        fill: impl FnOnce(&mut Self, &[Value]) -> Result<(), Diagnostic>,
    ) -> Result<Block, Diagnostic> {
        let block = self.function.add_block();
        let values: Vec<Value> = arguments.into_iter().map(|ty| self.function.add_argument(block, ty)).collect();
        let outer = std::mem::replace(&mut self.block, block);
        let filled = fill(self, &values);
        self.block = outer;
        filled.map(|()| block)
    }
}

/// An op under construction.
pub struct Request<'b, 'f> {
    builder: &'b mut Builder<'f>,
    kind: OpKind,
    operands: SmallVec<[Value; 3]>,
    attrs: SmallVec<[Option<Attr>; 2]>,
    regions: SmallVec<[Block; 1]>,
    declared: Option<Vec<Type>>,
    span: Option<Span>,
    error: Option<Diagnostic>,
}

impl<'b> Request<'b, '_> {
    pub fn operands(mut self, operands: &[Value]) -> Self {
        self.operands.extend_from_slice(operands);
        self
    }

    pub fn attr(mut self, name: &str, value: impl Into<Attr>) -> Self {
        let def = self.kind.def();
        match def.attr_position(name) {
            Some(position) => self.attrs[position] = Some(value.into()),
            None => {
                let message = format!("there is no attribute `{name}`");
                self.error.get_or_insert_with(|| Diagnostic::new(Code::E0202, message).in_op(def.name));
            }
        }
        self
    }

    /// Sets all attributes at once, copied from another op of the kind.
    pub fn attrs(mut self, attrs: impl IntoIterator<Item = Option<Attr>>) -> Self {
        self.attrs = attrs.into_iter().collect();
        self
    }

    pub fn region(mut self, region: Block) -> Self {
        self.regions.push(region);
        self
    }

    /// States a result type, for ops whose result is not a function of their inputs.
    pub fn result(mut self, ty: Type) -> Self {
        self.declared.get_or_insert_default().push(ty);
        self
    }

    pub fn results(mut self, types: Vec<Type>) -> Self {
        self.declared = Some(types);
        self
    }

    pub fn span(mut self, span: Option<Span>) -> Self {
        self.span = span;
        self
    }

    /// Checks the op, infers its result types and appends it.
    ///
    /// # Errors
    /// The op's violated constraint, with the place of [`Request::span`].
    pub fn build(self) -> Result<Inst, Diagnostic> {
        self.finish().map(|(_, inst)| inst)
    }

    fn finish(self) -> Result<(&'b Function, Inst), Diagnostic> {
        if let Some(error) = self.error {
            return Err(error.at(self.span));
        }
        let Builder { function, block, origin, solver } = self.builder;
        let operands: Vec<Type> = self.operands.iter().map(|&v| function.ty(v).clone()).collect();
        let regions: Vec<RegionType> = self.regions.iter().map(|&r| region_type(function, r)).collect();
        let cx = InferCx {
            def: self.kind.def(),
            operands: &operands,
            attrs: &self.attrs,
            regions: &regions,
            declared: self.declared.as_deref(),
            solver: solver.get(&function.facts),
        };
        let types = infer_op(&cx).map_err(|e| e.at(self.span))?;
        let data = InstData {
            kind: self.kind,
            operands: self.operands,
            results: SmallVec::new(),
            attrs: self.attrs,
            regions: self.regions,
            span: self.span,
            origin: *origin,
        };
        let inst = function.add_inst(data, types);
        function.append(*block, inst);
        Ok((function, inst))
    }

    /// Builds the op and returns its first result.
    ///
    /// # Errors
    /// As [`Request::build`], and for an op without results.
    pub fn value(self) -> Result<Value, Diagnostic> {
        let name = self.kind.name();
        let (function, inst) = self.finish()?;
        function.results_of(inst).first().copied().ok_or_else(|| Diagnostic::new(Code::E0201, "the op has no result").in_op(name))
    }
}

/// The types of a region's arguments and of what it returns.
pub fn region_type(function: &Function, region: Block) -> RegionType {
    let types = |values: &[Value]| values.iter().map(|&v| function.ty(v).clone()).collect();
    let results = function.terminator(region).map(|t| types(function.operands(t))).unwrap_or_default();
    RegionType { arguments: types(function.arguments(region)), results }
}
