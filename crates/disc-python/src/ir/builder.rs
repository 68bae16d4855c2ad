//! Builds a module of one function, op by op: `Builder`.
//!
//! The op table checks and types each op as it is made. Python objects are read first, without a
//! lock, so that Python code that runs meanwhile (a region's function, `__index__`) may use the
//! builder.
use super::{
    attr, compose_call, dim, facts, literal,
    region::{self, Region},
    value::{self, PyValue},
};
use crate::errors::{Failure, guarded};
use disc_import::{
    compose::{self, Composed},
    emit::Emitter,
};
use disc_ir::{
    Attr, Block, Builder, Code, Diagnostic, Dim, Function, FunctionKind, Line, Lines, Module, OpKind, Origin, Store, TensorType,
    Type, Value,
    build::LazySolver,
    graph::Weight,
    ops::{OPS, Stage},
    text::{PrintOptions, closest, print},
    verify,
};
use pyo3::{
    prelude::*,
    types::{PyDict, PyList, PyString},
};
use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

/// Builds a module of one function. Values belong to the builder that made them.
#[pyclass(name = "Builder", module = "disc._disc", frozen)]
pub(crate) struct PyBuilder {
    id: u64,
    state: Mutex<State>,
}

struct State {
    function: Function,
    weights: Vec<Weight>,
    lines: Lines,
    /// The line of the model that is being lowered.
    origin: Option<Origin>,
    /// Insertion point.
    block: Block,
    solver: LazySolver,
    /// The facts that compositions stated, as texts.
    stated: Vec<String>,
    is_finished: bool,
}

#[pymethods]
impl PyBuilder {
    #[new]
    #[pyo3(signature = (name = "main"))]
    fn new(name: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let function = Function::new(name, FunctionKind::Func);
        let block = function.body;
        let state = State {
            function,
            weights: Vec::new(),
            lines: Lines::default(),
            origin: None,
            block,
            solver: LazySolver::default(),
            stated: Vec::new(),
            is_finished: false,
        };
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), state: Mutex::new(state) }
    }

    /// Declares the next input. A name among the sizes is a dim of the function.
    fn input(&self, name: &str, dims: &Bound<'_, PyAny>, dtype: &str) -> PyResult<PyValue> {
        guarded(|| {
            let ty = Type::tensor(dim::read_all(dims)?, attr::read_dtype(dtype)?);
            let mut state = self.open()?;
            let function = &mut state.function;
            if let Some(&same) = function.parameters().iter().find(|&&p| function.name_of(p).is_some_and(|n| &**n == name)) {
                let message = format!("there is an input `{name}` already, of type {}", function.ty(same));
                return Err(Failure::new(Code::E0104, message).into());
            }
            let body = function.body;
            let value = function.add_argument(body, ty.clone());
            function.set_name(value, name);
            Ok(PyValue::new(self.id, value, ty))
        })
    }

    /// Returns a weight of the model, whose value comes when the compiled module is loaded. A name
    /// may be repeated, with the same type.
    fn weight(&self, name: &str, dims: &Bound<'_, PyAny>, dtype: &str) -> PyResult<PyValue> {
        guarded(|| {
            let ty = TensorType::new(dim::read_all(dims)?, attr::read_dtype(dtype)?);
            if let Some(size) = ty.dims.iter().find(|size| size.as_const().is_none_or(|n| n < 0)) {
                let message = format!("weight `{name}` has a size {size}: the sizes of a weight are constant");
                return Err(Failure::new(Code::E0203, message).into());
            }
            let mut state = self.open()?;
            match state.weights.iter().find(|weight| &*weight.name == name) {
                Some(known) if known.ty != ty => {
                    let message = format!("weight `{name}` of type {ty} is already one of type {}", known.ty);
                    return Err(Failure::new(Code::E0104, message).into());
                }
                Some(_) => {}
                None => state.weights.push(Weight { name: name.into(), ty: ty.clone(), data: None, prepared: None }),
            }
            drop(state);
            let attrs = vec![("name", Attr::Symbol(name.into()))];
            self.append_one(OpKind::Weight, Vec::new(), attrs, Type::Tensor(ty))
        })
    }

    /// Returns a constant: a number, a NumPy array, a torch tensor, or the bytes of its elements; a
    /// single element is repeated in any shape.
    fn constant(&self, array: &Bound<'_, PyAny>, dims: &Bound<'_, PyAny>, dtype: &str) -> PyResult<PyValue> {
        guarded(|| {
            let ty = TensorType::new(dim::read_all(dims)?, attr::read_dtype(dtype)?);
            let literal = literal::read(array, Some(ty.dtype))?;
            self.append_one(OpKind::Constant, Vec::new(), vec![("value", Attr::Literal(literal))], Type::Tensor(ty))
        })
    }

    /// The value of a size expression, as a scalar.
    #[pyo3(signature = (expression, dtype = "i64"))]
    fn dim(&self, expression: &Bound<'_, PyAny>, dtype: &str) -> PyResult<PyValue> {
        guarded(|| {
            let ty = Type::tensor([], attr::read_dtype(dtype)?);
            self.append_one(OpKind::DimValue, Vec::new(), vec![("value", Attr::Dim(dim::read(expression)?))], ty)
        })
    }

    /// Sets the line of the model that the next ops come from; without a file it is unknown.
    #[pyo3(signature = (file = None, line = 0, function = ""))]
    fn location(&self, file: Option<&str>, line: u32, function: &str) -> PyResult<()> {
        guarded(|| {
            let mut state = self.open()?;
            state.origin = file.map(|file| state.lines.add(Line::new(file, line, function)));
            Ok(())
        })
    }

    /// States a fact about the dims, such as `S % 8 == 0`. Calls that violate it are refused.
    fn fact(&self, text: &str) -> PyResult<()> {
        guarded(|| {
            let mut state = self.open()?;
            state.solver.forget();
            facts::state(&mut state.function.facts, text)?;
            Ok(())
        })
    }

    /// Values that a dim often has.
    fn likely(&self, dim: &Bound<'_, PyAny>, values: Vec<i64>) -> PyResult<()> {
        guarded(|| {
            let dim = dim::read(dim)?;
            let mut state = self.open()?;
            facts::state_likely(&mut state.function.facts, &dim, values)?;
            state.solver.forget();
            Ok(())
        })
    }

    /// Emits an op of the table. Attributes are keyword arguments; `result_types` are pairs of
    /// sizes and element type, for ops that need them stated. A region is the name of an op that
    /// combines two scalars, or a pair of argument types and a function that emits the body;
    /// `applies="add"` is short for `regions=["add"]`. Returns the result, or the list of results
    /// if the op has another number of them.
    #[pyo3(signature = (name, operands, /, result_types = None, regions = None, **attrs))]
    fn op<'py>(
        slf: &Bound<'py, Self>,
        name: &str,
        operands: &Bound<'py, PyAny>,
        result_types: Option<&Bound<'py, PyAny>>,
        regions: Option<&Bound<'py, PyAny>>,
        attrs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        guarded(|| {
            let (py, builder) = (slf.py(), slf.get());
            let kind = find_op(name)?;
            let operands = builder.operands(name, operands)?;
            let types = result_types.map(|given| given.try_iter()?.map(|pair| attr::read_type(&pair?)).collect()).transpose()?;
            let mut given: Vec<Region<'py>> = match regions {
                Some(regions) => regions.try_iter()?.map(|item| Region::read(&item?)).collect::<PyResult<_>>()?,
                None => Vec::new(),
            };
            let attrs = match attrs {
                Some(attrs) => {
                    given.extend(take_applies(kind, attrs)?);
                    attr::read_all(name, kind.def().attrs, attrs)?
                }
                None => Vec::new(),
            };
            let dtype = operands.first().map(|&value| builder.lock().function.ty(value).dtype());
            let blocks = given.into_iter().map(|region| region.make(builder, dtype)).collect::<PyResult<Vec<Block>>>()?;
            let mut made = builder.append(kind, operands, attrs, blocks, types)?;
            if made.len() == 1 {
                return Ok(Bound::new(py, made.remove(0))?.into_any());
            }
            Ok(PyList::new(py, made)?.into_any())
        })
    }

    /// Emits a composition of docs/compositions.md. An operand is a value, a number, a size, or
    /// None where it is optional; attributes are keyword arguments. `wanted`: the sizes that the
    /// framework states for the result. Returns the result, or the list of results if the
    /// composition has another number of them.
    #[pyo3(signature = (name, operands, /, wanted = None, **attrs))]
    fn compose<'py>(
        slf: &Bound<'py, Self>,
        name: &str,
        operands: &Bound<'py, PyAny>,
        wanted: Option<&Bound<'py, PyAny>>,
        attrs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        guarded(|| {
            let (py, builder) = (slf.py(), slf.get());
            let def = compose::find(name).map_err(Failure::from)?;
            let operands = compose_call::operands(name, operands, builder.id)?;
            let attrs = attrs.map(|attrs| attr::read_all(name, def.attrs, attrs)).transpose()?.unwrap_or_default();
            let wanted = wanted.map(dim::read_all).transpose()?;
            let mut made = builder.emit(wanted, |emitter| compose::compose(emitter, def, &operands, &attrs))?;
            if made.len() == 1 {
                return Ok(Bound::new(py, made.remove(0))?.into_any());
            }
            Ok(PyList::new(py, made)?.into_any())
        })
    }

    /// Returns the facts that compositions stated since the last call.
    fn stated(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().stated)
    }

    /// Ends the function with these results. `stores` are pairs of a result and the input whose new
    /// value it is, by position.
    #[pyo3(signature = (values, names = None, stores = Vec::new()))]
    fn output(&self, values: &Bound<'_, PyAny>, names: Option<Vec<String>>, stores: Vec<(usize, usize)>) -> PyResult<()> {
        guarded(|| {
            let values = self.operands("output", values)?;
            if names.as_ref().is_some_and(|names| names.len() != values.len()) {
                return Err(Failure::argument(format!("{} outputs do not fit the names {names:?}", values.len())).into());
            }
            self.with(|b| b.ret(&values))?;
            let mut state = self.lock();
            state.is_finished = true;
            state.function.results = values.iter().map(|&value| state.function.ty(value).clone()).collect();
            state.function.stores = stores.into_iter().map(|(result, parameter)| Store { result, parameter }).collect();
            for (&value, name) in values.iter().zip(names.unwrap_or_default()) {
                if state.function.defining(value).is_some() {
                    state.function.set_name(value, name);
                }
            }
            Ok(())
        })
    }

    /// Returns true if the facts prove that two sizes are equal.
    fn equal(&self, a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<bool> {
        guarded(|| {
            let (a, b) = (dim::read(a)?, dim::read(b)?);
            Ok(self.solver().equal(&a, &b))
        })
    }

    /// Returns true if the facts prove `a <= b`.
    fn less_equal(&self, a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<bool> {
        guarded(|| {
            let (a, b) = (dim::read(a)?, dim::read(b)?);
            Ok(self.solver().less_equal(&a, &b))
        })
    }

    /// Returns true if the facts prove that a size is a multiple of `by`.
    fn divisible(&self, dim: &Bound<'_, PyAny>, by: i64) -> PyResult<bool> {
        guarded(|| Ok(self.solver().divisible(&dim::read(dim)?, by)))
    }

    /// The module as IR text; `lines` adds the model's source lines of the ops.
    #[pyo3(signature = (*, lines = false))]
    fn as_text(&self, lines: bool) -> PyResult<String> {
        guarded(|| Ok(print(&self.module(), PrintOptions { lines, ..PrintOptions::default() })))
    }

    fn __str__(&self) -> PyResult<String> {
        self.as_text(false)
    }

    /// Checks the whole module.
    fn verify(&self) -> PyResult<()> {
        guarded(|| verify(&self.finished()?, Stage::Tensor).map_err(|errors| Failure::first_of(errors).into()))
    }
}

impl PyBuilder {
    /// The module so far.
    fn module(&self) -> Module {
        let state = self.lock();
        Module { functions: vec![state.function.clone()], weights: state.weights.clone(), lines: state.lines.clone() }
    }

    /// Returns the module, once it has outputs.
    pub(crate) fn finished(&self) -> PyResult<Module> {
        if !self.lock().is_finished {
            return Err(Failure::argument("the builder has no output yet").into());
        }
        Ok(self.module())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> PyResult<MutexGuard<'_, State>> {
        let state = self.lock();
        if state.is_finished {
            return Err(Failure::argument("the function has its outputs, nothing can be added").into());
        }
        Ok(state)
    }

    fn solver(&self) -> std::sync::Arc<disc_ir::Solver> {
        let state = self.lock();
        state.solver.get(&state.function.facts).clone()
    }

    /// Runs `body` with a builder at the end of the current block.
    pub(super) fn with<T>(&self, body: impl FnOnce(&mut Builder<'_>) -> Result<T, Diagnostic>) -> PyResult<T> {
        let mut state = self.open()?;
        let State { function, solver, block, origin, .. } = &mut *state;
        let mut builder = Builder::at(function, *block, std::mem::take(solver));
        builder.origin = *origin;
        let result = body(&mut builder);
        *solver = builder.into_solver();
        drop(state);
        result.map_err(|diagnostic| Failure::from(diagnostic).into())
    }

    /// Runs `body` with an emitter at the end of the current block.
    fn emit(&self, wanted: Option<Vec<Dim>>, body: impl FnOnce(&Emitter<'_>) -> Composed) -> PyResult<Vec<PyValue>> {
        let mut state = self.open()?;
        let State { function, solver, block, origin, stated, .. } = &mut *state;
        let mut builder = Builder::at(function, *block, std::mem::take(solver));
        builder.origin = *origin;
        let emitter = Emitter::new(builder, wanted);
        let results = body(&emitter);
        stated.extend(emitter.take_stated());
        let builder = emitter.into_builder();
        let made = |value: Value| PyValue::new(self.id, value, builder.function.ty(value).clone());
        let made = results.map(|values| values.into_iter().map(made).collect());
        *solver = builder.into_solver();
        drop(state);
        made.map_err(|diagnostic| Failure::from(diagnostic).into())
    }

    /// A block with arguments of these types, filled by a function of Python.
    pub(super) fn emit_region(&self, types: Vec<Type>, emit: &Bound<'_, PyAny>) -> PyResult<Block> {
        let (block, outer, arguments) = {
            let mut state = self.open()?;
            let block = state.function.add_block();
            let values = types.into_iter().map(|ty| {
                let value = state.function.add_argument(block, ty.clone());
                PyValue::new(self.id, value, ty)
            });
            let values: Vec<PyValue> = values.collect();
            (block, std::mem::replace(&mut state.block, block), values)
        };
        let results = region::call(emit, arguments, self.id);
        let ended = results.and_then(|results| self.with(|b| region::end(b, &results)));
        self.lock().block = outer;
        ended.map(|()| block)
    }

    fn operands(&self, op: &str, given: &Bound<'_, PyAny>) -> PyResult<Vec<Value>> {
        if given.is_instance_of::<PyValue>() || given.is_instance_of::<PyString>() {
            return Err(Failure::argument(format!("`{op}`: the operands are a sequence of values")).into());
        }
        let read =
            |(i, item): (usize, PyResult<Bound<'_, PyAny>>)| value::read(&item?, self.id, || format!("`{op}`: operand {i}"));
        given.try_iter()?.enumerate().map(read).collect()
    }

    fn append(
        &self,
        kind: OpKind,
        operands: Vec<Value>,
        attrs: Vec<(&'static str, Attr)>,
        regions: Vec<Block>,
        types: Option<Vec<Type>>,
    ) -> PyResult<Vec<PyValue>> {
        self.with(|b| {
            let mut request = b.op(kind).operands(&operands);
            for (name, attr) in attrs {
                request = request.attr(name, attr);
            }
            for region in regions {
                request = request.region(region);
            }
            if let Some(types) = types {
                request = request.results(types);
            }
            let inst = request.build()?;
            let made = |&value: &Value| PyValue::new(self.id, value, b.function.ty(value).clone());
            Ok(b.function.results_of(inst).iter().map(made).collect())
        })
    }

    fn append_one(&self, kind: OpKind, operands: Vec<Value>, attrs: Vec<(&'static str, Attr)>, ty: Type) -> PyResult<PyValue> {
        let mut made = self.append(kind, operands, attrs, Vec::new(), Some(vec![ty]))?;
        Ok(made.remove(0))
    }
}

/// Takes the short form of a region out of the keyword arguments.
fn take_applies<'py>(kind: OpKind, attrs: &Bound<'py, PyDict>) -> PyResult<Option<Region<'py>>> {
    const NAME: &str = "applies";
    if kind.def().regions.is_empty() || kind.def().attr_position(NAME).is_some() {
        return Ok(None);
    }
    let Some(op) = attrs.get_item(NAME)? else { return Ok(None) };
    attrs.del_item(NAME)?;
    Region::read(&op).map(Some)
}

/// The op of a name.
pub(super) fn find_op(name: &str) -> PyResult<OpKind> {
    OpKind::from_name(name).ok_or_else(|| {
        let failure = Failure::new(Code::E0102, format!("there is no op `{name}`")).in_op(name);
        let near = closest(name, OPS.iter().map(|def| def.name));
        near.map_or(failure.clone(), |near| failure.help(format!("is `{near}` meant?"))).into()
    })
}
