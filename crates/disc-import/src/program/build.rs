//! Builds an imported program, node by node.
use super::{Assumption, Imported, Signature, Weight, Words};
use crate::{
    emit::Emitter,
    source::limits::{LITERALS, Limit, NAME, NODES, RANK},
};
use bytes::Bytes;
use disc_ir::{
    Attr, Code, DType, Diagnostic, Dim, Function, FunctionKind, Line, Literal, Module, OpKind, Origin, Type, Value,
    build::{Builder, LazySolver},
    dim::Fact,
    graph::Weight as Declared,
    text::limits::fits,
};
use std::collections::{HashMap, HashSet};

/// A node of a file: origin of the ops that it becomes, and place of the errors about it.
#[derive(Clone, Copy, Debug)]
pub struct Node<'n> {
    /// Its position in the file, or its line.
    pub number: u32,
    /// Its name, which may be empty.
    pub name: &'n str,
    /// Its op, as the file calls it.
    pub op: &'n str,
}

/// A program that a reader fills: inputs, weights, then nodes in order, then outputs.
pub struct ProgramBuilder {
    file: String,
    module: Module,
    function: Function,
    solver: LazySolver,
    words: Words,
    inputs: Vec<String>,
    /// Values of the weights that a node has asked for.
    weights: HashMap<String, Option<Value>>,
    contents: Vec<Weight>,
    assumed: Vec<Assumption>,
    nodes: usize,
    literal_bytes: usize,
}

impl ProgramBuilder {
    /// `file` is named in origins, `entry` by callers.
    pub fn new(file: &str, entry: &str) -> Self {
        Self {
            file: file.to_owned(),
            module: Module::default(),
            function: Function::new(entry, FunctionKind::Func),
            solver: LazySolver::default(),
            words: Words::default(),
            inputs: Vec::new(),
            weights: HashMap::new(),
            contents: Vec::new(),
            assumed: Vec::new(),
            nodes: 0,
            literal_bytes: 0,
        }
    }

    /// Adds an input under the file's name.
    ///
    /// # Errors
    /// E1002: its name or rank is beyond the limit. E1004: there is an input of this name. E1006:
    /// sizes that no tensor has.
    pub fn input(&mut self, name: &str, dtype: DType, dims: Vec<Dim>) -> Result<Value, Diagnostic> {
        NAME.check(name.len())?;
        about(RANK, dims.len(), name)?;
        if self.inputs.iter().any(|known| known == name) {
            return Err(Diagnostic::new(Code::E1004, format!("there are two inputs `{}`", shown(name))));
        }
        let ty = Type::tensor(dims, dtype);
        representable(&ty).map_err(|error| error.note(format!("of the input `{}`", shown(name))))?;
        let value = self.function.add_argument(self.function.body, ty);
        let word = self.words.word(name);
        self.function.set_name(value, word);
        self.inputs.push(name.to_owned());
        Ok(value)
    }

    /// Adds a weight of these bytes, which are not copied.
    ///
    /// # Errors
    /// E1002: its name or rank is beyond the limit. E1004: there is a weight of this name. E1005:
    /// the bytes are not as many as type and sizes say, or a size is below 0.
    pub fn weight(&mut self, name: &str, dtype: DType, sizes: &[i64], bytes: Bytes) -> Result<(), Diagnostic> {
        NAME.check(name.len())?;
        about(RANK, sizes.len(), name)?;
        let expected = sizes.iter().try_fold(dtype.size(), |product, &size| product.checked_mul(usize::try_from(size).ok()?));
        if expected != Some(bytes.len()) {
            let (name, found) = (shown(name), bytes.len());
            let message = format!("weight `{name}` of type {} and sizes {sizes:?} has {found} bytes", dtype.name());
            return Err(Diagnostic::new(Code::E1005, message));
        }
        if self.weights.insert(name.to_owned(), None).is_some() {
            return Err(Diagnostic::new(Code::E1004, format!("there are two weights `{}`", shown(name))));
        }
        let Type::Tensor(ty) = Type::tensor(sizes.iter().map(|&size| Dim::from(size)), dtype) else {
            return Err(Diagnostic::new(Code::E1005, format!("weight `{}` is no tensor", shown(name))));
        };
        self.module.weights.push(Declared { name: name.into(), ty, data: None, prepared: None });
        self.contents.push(Weight { name: name.to_owned(), dtype, sizes: sizes.to_vec(), bytes });
        Ok(())
    }

    /// Returns the value of a weight.
    ///
    /// # Errors
    /// E1005: there is no weight of this name.
    pub fn weight_value(&mut self, name: &str) -> Result<Value, Diagnostic> {
        let missing = || Diagnostic::new(Code::E1005, format!("there is no weight `{}`", shown(name)));
        if let Some(value) = *self.weights.get(name).ok_or_else(missing)? {
            return Ok(value);
        }
        let weight = self.module.weights.iter().find(|weight| *weight.name == *name).ok_or_else(missing)?;
        let ty = Type::Tensor(weight.ty.clone());
        let value =
            self.build(None, |builder| builder.op(OpKind::Weight).attr("name", Attr::Symbol(name.into())).result(ty).value())?;
        let word = self.words.word(name);
        self.function.set_name(value, word);
        self.weights.insert(name.to_owned(), Some(value));
        Ok(value)
    }

    /// Adds a constant, which becomes a part of the program: for small ones, such as axes.
    ///
    /// # Errors
    /// E1002: literals of more bytes than the limit. E1004: elements that do not fit the sizes.
    pub fn literal(&mut self, literal: Literal, sizes: &[i64]) -> Result<Value, Diagnostic> {
        self.literal_bytes = self.literal_bytes.saturating_add(literal.bytes.len());
        LITERALS.check(self.literal_bytes)?;
        let dims: Vec<Dim> = sizes.iter().map(|&size| Dim::from(size)).collect();
        self.emit(None, |emitter| emitter.constant(literal, &dims)).map_err(|error| Diagnostic { code: Code::E1004, ..error })
    }

    /// Emits the ops of a node; they have its place in the file as their origin.
    ///
    /// # Errors
    /// E1002: too many nodes. E1006: a result of sizes that no tensor has. Those of `lower`, as
    /// E1004 if an op refuses what the node says, with a note that names the node.
    pub fn node<T>(
        &mut self,
        node: Node<'_>,
        lower: impl FnOnce(&Emitter<'_>) -> Result<T, Diagnostic>,
    ) -> Result<T, Diagnostic> {
        self.nodes += 1;
        NODES.check(self.nodes)?;
        about(NAME, node.name.len(), "the name of a node")?;
        let origin = self.module.lines.add(Line::new(&self.file, node.number, node.name));
        let before = self.function.insts(self.function.body).len();
        let lowered = self.emit(Some(origin), lower).map_err(|error| node.of(error))?;
        let made = self.function.insts(self.function.body).iter().skip(before);
        let results = made.flat_map(|&inst| self.function.results_of(inst));
        results.map(|&value| self.function.ty(value)).try_for_each(representable).map_err(|error| node.of(error))?;
        Ok(lowered)
    }

    /// Emits what no node of the file stands for, such as the tensor of an output that is a list of
    /// sizes.
    ///
    /// # Errors
    /// Those of `lower`.
    pub fn value<T>(&mut self, lower: impl FnOnce(&Emitter<'_>) -> Result<T, Diagnostic>) -> Result<T, Diagnostic> {
        self.emit(None, lower)
    }

    /// States a fact about sizes that a node needs.
    ///
    /// # Errors
    /// E1006: it contradicts others.
    pub fn fact(&mut self, fact: Fact, node: Node<'_>) -> Result<(), Diagnostic> {
        self.solver.forget();
        let text = fact.to_string();
        let refused = self.function.facts.add(fact);
        refused.map_err(|error| node.of(Diagnostic::new(Code::E1006, format!("{text} contradicts other sizes: {error}"))))
    }

    /// States a fact that the importer chose where the file allows more, and lists it.
    ///
    /// # Errors
    /// As [`ProgramBuilder::fact`].
    pub fn assume(&mut self, fact: Fact, node: Node<'_>) -> Result<(), Diagnostic> {
        let assumption = Assumption { fact: fact.to_string(), node: node.name.to_owned(), op: node.op.to_owned() };
        self.fact(fact, node)?;
        if !self.assumed.contains(&assumption) {
            self.assumed.push(assumption);
        }
        Ok(())
    }

    /// Returns the function as far as it is built, for types and names.
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// Ends the program. Weights that nothing reads are left out.
    ///
    /// # Errors
    /// E1004: two outputs of one name. Those of a program that is not well formed.
    pub fn finish(mut self, outputs: &[(String, Value)]) -> Result<Imported, Vec<Diagnostic>> {
        let mut names = HashSet::new();
        if let Some((name, _)) = outputs.iter().find(|(name, _)| !names.insert(name)) {
            return Err(vec![Diagnostic::new(Code::E1004, format!("there are two outputs `{}`", shown(name)))]);
        }
        let values: Vec<Value> = outputs.iter().map(|&(_, value)| value).collect();
        self.function.results = values.iter().map(|&value| self.function.ty(value).clone()).collect();
        self.build(None, |builder| builder.ret(&values)).map_err(|error| vec![error])?;
        let read = self.weights;
        let is_read = |name: &str| read.get(name).is_some_and(Option::is_some);
        self.module.weights.retain(|weight| is_read(&weight.name));
        self.contents.retain(|weight| is_read(&weight.name));
        let signature = Signature {
            entry: self.function.name.to_string(),
            inputs: self.inputs,
            outputs: outputs.iter().map(|(name, _)| name.clone()).collect(),
        };
        self.module.functions.push(self.function);
        disc_ir::verify::verify(&self.module, disc_ir::ops::Stage::Tensor)?;
        Ok(Imported { module: self.module, weights: self.contents, signature, assumed: self.assumed })
    }

    fn emit<T>(
        &mut self,
        origin: Option<Origin>,
        lower: impl FnOnce(&Emitter<'_>) -> Result<T, Diagnostic>,
    ) -> Result<T, Diagnostic> {
        let body = self.function.body;
        let mut builder = Builder::at(&mut self.function, body, std::mem::take(&mut self.solver));
        builder.origin = origin;
        let emitter = Emitter::new(builder, None);
        let made = lower(&emitter);
        self.solver = emitter.into_builder().into_solver();
        made
    }

    fn build<T>(
        &mut self,
        origin: Option<Origin>,
        build: impl FnOnce(&mut Builder<'_>) -> Result<T, Diagnostic>,
    ) -> Result<T, Diagnostic> {
        let body = self.function.body;
        let mut builder = Builder::at(&mut self.function, body, std::mem::take(&mut self.solver));
        builder.origin = origin;
        let made = build(&mut builder);
        self.solver = builder.into_solver();
        made
    }
}

impl Node<'_> {
    /// Makes an error one about this node: the op that refused stays in the message.
    pub fn of(self, error: Diagnostic) -> Diagnostic {
        let is_ours = error.code.to_string().starts_with("E10");
        let code = if is_ours { error.code } else { Code::E1004 };
        let message = match &error.op {
            Some(op) if op != self.op => format!("{}: {}", op, error.message),
            _ => error.message.clone(),
        };
        let place = match self.name {
            "" => format!("node {} of the file", self.number),
            name => format!("node {} of the file, `{}`", self.number, shown(name)),
        };
        Diagnostic { code, message, op: Some(self.op.to_owned()), ..error }.note(place)
    }
}

/// Checks what the verifier asks of the sizes of every type, while the node is known.
fn representable(ty: &Type) -> Result<(), Diagnostic> {
    let Some(tensor) = ty.shaped() else { return Ok(()) };
    RANK.check(tensor.dims.len())?;
    let wrong = |message: String| Err(Diagnostic::new(Code::E1006, message));
    if let Some(defect) = tensor.dims.iter().find_map(Dim::defect) {
        return wrong(format!("a size of {ty}: {defect}"));
    }
    let sizes = tensor.dims.iter().filter_map(Dim::as_const);
    if let Some(size) = sizes.clone().find(|&size| size < 0) {
        return wrong(format!("a size of {size} in {ty}"));
    }
    if fits(sizes, tensor.dtype) { Ok(()) } else { wrong(format!("the constant sizes of {ty} multiply to 2^62 bytes or more")) }
}

/// Checks a count that belongs to something of the file.
fn about(limit: Limit, count: usize, owner: &str) -> Result<(), Diagnostic> {
    limit.check(count).map_err(|error| error.note(format!("of {}", shown(owner))))
}

/// A name for a message: without control characters, and not longer than a line.
pub(crate) fn shown(name: &str) -> String {
    const LONGEST: usize = 80;
    let escaped: String = name.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if name.chars().count() > LONGEST { format!("{escaped}...") } else { escaped }
}
