//! Represents modules, functions, blocks, ops and values.
//!
//! A function is a tree of blocks: an op may hold regions, and each region is one block. There is
//! no other control flow. Rewriting keeps handles stable: removed ops leave holes that no block
//! lists.
//!
//! Invariants (checked by the verifier):
//! - Every value is defined once, and dominates its uses: it is defined earlier in the same block,
//!   or in an enclosing one.
//! - The last op of a block is its terminator (`return`), and only the last.
use crate::{
    attr::Attr,
    binding::bindings,
    diag::Span,
    dim::{Dim, Facts, Symbol},
    lines::{Lines, Origin},
    literal::Literal,
    ops::{OpDef, OpKind},
    types::{TensorType, Type},
};
use smallvec::SmallVec;
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

macro_rules! handle {
    ($(#[doc = $doc:literal])+ $Name:ident) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $Name(u32);
        impl $Name {
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}
handle!(
    /// A value of a function: the result of an op, or an argument of a block.
    Value
);
handle!(
    /// An op of a function.
    Inst
);
handle!(
    /// A block of a function: the body, or a region of an op.
    Block
);

/// The name of the function that makes weights from weights, once, when they are loaded; see
/// [`Weight::prepared`].
pub const PREPARE: &str = "prepare";

/// A program: functions and the weights they name.
#[derive(Clone, Debug, Default)]
pub struct Module {
    pub functions: Vec<Function>,
    pub weights: Vec<Weight>,
    /// The lines of the model that its ops came from.
    pub lines: Lines,
}

/// A named constant. The compiler uses its value only if it is a constant of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weight {
    pub name: Arc<str>,
    pub ty: TensorType,
    /// The elements of a constant of the program (`weight @c = dense<[1, 2]> : tensor<2xi64>`);
    /// `None` for a weight of the model.
    pub data: Option<Literal>,
    /// For a weight that the function [`PREPARE`] makes when the others are loaded, the number of
    /// its result (`weight @w.packed = prepared 0 : tensor<24x768x32xf32>`).
    pub prepared: Option<u32>,
}

impl Module {
    /// Returns the symbols whose values a kernel or routine needs, those of the routines that it
    /// calls included, sorted by name.
    ///
    /// Their values follow the operands: in the argument words of a launch, and in the call of a
    /// routine.
    pub fn symbols_of(&self, function: &Function) -> Vec<Symbol> {
        let (mut symbols, mut seen, mut stack) = (Vec::new(), vec![&function.name], vec![function]);
        while let Some(function) = stack.pop() {
            symbols.extend(function.used_symbols());
            for inst in function.walk(function.body) {
                match (function.kind_of(inst), function.inst(inst).attrs.first()) {
                    (OpKind::Scratch | OpKind::Shared, _) => {
                        let tensor = function.ty(function.result(inst)).shaped();
                        symbols.extend(tensor.iter().flat_map(|tensor| &tensor.dims).flat_map(Dim::symbols));
                    }
                    (OpKind::Call, Some(Some(Attr::Symbol(name)))) => {
                        if let Some(callee) = self.function(name).filter(|callee| !seen.contains(&&callee.name)) {
                            seen.push(&callee.name);
                            stack.push(callee);
                        }
                    }
                    _ => {}
                }
            }
        }
        symbols.sort();
        symbols.dedup();
        symbols
    }

    pub fn function(&self, name: &str) -> Option<&Function> {
        self.functions.iter().find(|f| &*f.name == name)
    }

    pub fn weight(&self, name: &str) -> Option<&Weight> {
        self.weights.iter().find(|w| &*w.name == name)
    }

    /// Returns true if this function prepares weights, and is no entry.
    pub fn is_prepare(&self, name: &str) -> bool {
        name == PREPARE && self.weights.iter().any(|weight| weight.prepared.is_some())
    }
}

/// The role of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FunctionKind {
    /// Tensors in, tensors out; an entry unless another function calls it.
    Func,
    /// Runs work units on a device.
    Kernel,
    /// Called by kernels.
    Routine,
    /// The driver of one entry: shape arithmetic, memory, launches.
    Host,
}

/// The blocks of a kernel that runs on a grid: constants, of which a kernel has versions. A launch
/// gives the number of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    /// Threads of a block: a multiple of `warp`.
    pub threads: u32,
    /// Threads that execute an op together: a power of two.
    pub warp: u32,
    /// Blocks that one processor of the device shall hold at once, which bounds the registers of a
    /// thread; `None` leaves their number to the device's compiler.
    pub resident: Option<u32>,
}

impl Grid {
    /// Makes blocks of threads, of which a processor of the device may hold any number.
    pub fn new(threads: u32, warp: u32) -> Self {
        Self { threads, warp, resident: None }
    }
}

/// A function: its body block holds everything.
#[derive(Clone, Debug)]
pub struct Function {
    pub name: Arc<str>,
    pub kind: FunctionKind,
    /// The blocks of a kernel that runs on a grid of threads; `None` for one that runs units of
    /// work.
    pub grid: Option<Grid>,
    /// The body; its arguments are the parameters.
    pub body: Block,
    pub results: Vec<Type>,
    /// The results that are the new values of parameters, in the order of the results. Only an
    /// entry has them: it writes to these parameters, and its caller sees that.
    pub stores: Vec<Store>,
    /// The facts about the dims, beyond that they are >= 0.
    pub facts: Facts,
    /// The function that this one is a variant of: another way to compute the same, under more
    /// facts ([`crate::variants`]).
    pub variant_of: Option<Arc<str>>,
    pub span: Option<Span>,
    insts: Vec<InstData>,
    values: Vec<ValueData>,
    blocks: Vec<BlockData>,
}

/// A result of an entry that is stored into a parameter: when the entry has returned, the
/// parameter's memory holds it. Within the function a parameter keeps its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Store {
    pub result: usize,
    pub parameter: usize,
}

/// An op: its kind, operands, attributes, regions and results.
#[derive(Clone, Debug)]
pub struct InstData {
    pub kind: OpKind,
    pub operands: SmallVec<[Value; 3]>,
    pub results: SmallVec<[Value; 1]>,
    /// One slot per declared attribute; an optional one that is absent is `None`.
    pub attrs: SmallVec<[Option<Attr>; 2]>,
    pub regions: SmallVec<[Block; 1]>,
    pub span: Option<Span>,
    /// The op of the source program that this one came from.
    pub origin: Option<Origin>,
}

#[derive(Clone, Debug)]
struct ValueData {
    ty: Type,
    source: Source,
    name: Option<Arc<str>>,
}

/// The origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    Result(Inst, u32),
    Argument(Block, u32),
}

#[derive(Clone, Debug, Default)]
struct BlockData {
    arguments: Vec<Value>,
    insts: Vec<Inst>,
}

impl Function {
    /// An empty function without parameters; the body has no terminator yet.
    pub fn new(name: impl Into<Arc<str>>, kind: FunctionKind) -> Self {
        Self {
            name: name.into(),
            kind,
            grid: None,
            body: Block(0),
            results: Vec::new(),
            stores: Vec::new(),
            facts: Facts::default(),
            variant_of: None,
            span: None,
            insts: Vec::new(),
            values: Vec::new(),
            blocks: vec![BlockData::default()],
        }
    }

    /// The parameters, in order.
    pub fn parameters(&self) -> &[Value] {
        self.arguments(self.body)
    }

    /// Returns true if the function writes to the parameter at a position.
    pub fn is_written(&self, parameter: usize) -> bool {
        self.stores.iter().any(|store| store.parameter == parameter)
    }

    /// The parameter that a result is stored into.
    pub fn stored_into(&self, result: usize) -> Option<usize> {
        self.stores.iter().find(|store| store.result == result).map(|store| store.parameter)
    }

    /// A new block that no op holds yet.
    pub fn add_block(&mut self) -> Block {
        self.blocks.push(BlockData::default());
        Block(self.blocks.len() as u32 - 1)
    }

    pub fn add_argument(&mut self, block: Block, ty: Type) -> Value {
        let position = self.blocks[block.index()].arguments.len() as u32;
        let value = self.add_value(ty, Source::Argument(block, position));
        self.blocks[block.index()].arguments.push(value);
        value
    }

    /// Removes the argument at `position`; nothing may use it.
    pub fn remove_argument(&mut self, block: Block, position: usize) {
        self.blocks[block.index()].arguments.remove(position);
        for (i, &value) in self.blocks[block.index()].arguments.iter().enumerate() {
            self.values[value.index()].source = Source::Argument(block, i as u32);
        }
    }

    fn add_value(&mut self, ty: Type, source: Source) -> Value {
        self.values.push(ValueData { ty, source, name: None });
        Value(self.values.len() as u32 - 1)
    }

    /// Adds an op that no block lists yet. Checks nothing: [`crate::Builder`] and the parser do.
    pub fn add_inst(&mut self, mut data: InstData, result_types: impl IntoIterator<Item = Type>) -> Inst {
        let inst = Inst(self.insts.len() as u32);
        data.results = SmallVec::new();
        for (i, ty) in result_types.into_iter().enumerate() {
            data.results.push(self.add_value(ty, Source::Result(inst, i as u32)));
        }
        self.insts.push(data);
        inst
    }

    pub fn append(&mut self, block: Block, inst: Inst) {
        self.blocks[block.index()].insts.push(inst);
    }

    pub fn insert(&mut self, block: Block, position: usize, inst: Inst) {
        self.blocks[block.index()].insts.insert(position, inst);
    }

    /// Replaces the list of ops of a block.
    pub fn set_insts(&mut self, block: Block, insts: Vec<Inst>) {
        self.blocks[block.index()].insts = insts;
    }

    pub fn insts(&self, block: Block) -> &[Inst] {
        &self.blocks[block.index()].insts
    }

    pub fn arguments(&self, block: Block) -> &[Value] {
        &self.blocks[block.index()].arguments
    }

    pub fn inst(&self, inst: Inst) -> &InstData {
        &self.insts[inst.index()]
    }

    pub fn inst_mut(&mut self, inst: Inst) -> &mut InstData {
        &mut self.insts[inst.index()]
    }

    /// Returns the word of an attribute; empty if it is absent.
    pub fn attr_word(&self, inst: Inst, name: &str) -> &'static str {
        match self.def(inst).attr_position(name).and_then(|position| self.inst(inst).attrs[position].as_ref()) {
            Some(Attr::Enum(word)) => word,
            _ => "",
        }
    }

    /// Returns true if an attribute is true.
    pub fn attr_flag(&self, inst: Inst, name: &str) -> bool {
        let position = self.def(inst).attr_position(name);
        matches!(position.and_then(|position| self.inst(inst).attrs[position].as_ref()), Some(Attr::Bool(true)))
    }

    pub fn kind_of(&self, inst: Inst) -> OpKind {
        self.insts[inst.index()].kind
    }

    pub fn def(&self, inst: Inst) -> &'static OpDef {
        self.kind_of(inst).def()
    }

    pub fn operands(&self, inst: Inst) -> &[Value] {
        &self.insts[inst.index()].operands
    }

    pub fn results_of(&self, inst: Inst) -> &[Value] {
        &self.insts[inst.index()].results
    }

    /// The first result.
    pub fn result(&self, inst: Inst) -> Value {
        self.insts[inst.index()].results[0]
    }

    pub fn ty(&self, value: Value) -> &Type {
        &self.values[value.index()].ty
    }

    pub fn set_type(&mut self, value: Value, ty: Type) {
        self.values[value.index()].ty = ty;
    }

    pub fn source(&self, value: Value) -> Source {
        self.values[value.index()].source
    }

    /// The op that defines `value`, unless it is an argument.
    pub fn defining(&self, value: Value) -> Option<Inst> {
        match self.source(value) {
            Source::Result(inst, _) => Some(inst),
            Source::Argument(..) => None,
        }
    }

    pub fn name_of(&self, value: Value) -> Option<&Arc<str>> {
        self.values[value.index()].name.as_ref()
    }

    pub fn set_name(&mut self, value: Value, name: impl Into<Arc<str>>) {
        self.values[value.index()].name = Some(name.into());
    }

    /// Gives `to` the name of `from`, unless it has one.
    pub fn inherit_name(&mut self, from: Value, to: Value) {
        if self.values[to.index()].name.is_none() {
            self.values[to.index()].name = self.values[from.index()].name.clone();
        }
    }

    /// Returns the number of values that were ever made; handles are below it.
    pub fn value_count(&self) -> usize {
        self.values.len()
    }

    /// Removes the origins of all ops; returns them by index of the op.
    pub(crate) fn take_origins(&mut self) -> Vec<Option<Origin>> {
        self.insts.iter_mut().map(|inst| inst.origin.take()).collect()
    }

    pub fn inst_count(&self) -> usize {
        self.insts.len()
    }

    /// The terminator of a block, once it has one.
    pub fn terminator(&self, block: Block) -> Option<Inst> {
        self.insts(block).last().copied().filter(|&inst| self.kind_of(inst) == OpKind::Return)
    }

    /// The values that a block returns.
    ///
    /// # Panics
    /// If the block has no terminator yet.
    pub fn returned(&self, block: Block) -> &[Value] {
        self.operands(self.terminator(block).expect("a block ends in `return`"))
    }

    /// Every op of `block` and of the regions within it, outer before inner.
    pub fn walk(&self, block: Block) -> Vec<Inst> {
        let mut found = Vec::new();
        self.walk_into(block, &mut found);
        found
    }

    fn walk_into(&self, block: Block, found: &mut Vec<Inst>) {
        for &inst in self.insts(block) {
            found.push(inst);
            for &region in &self.inst(inst).regions {
                self.walk_into(region, found);
            }
        }
    }

    /// Returns the number of uses of each value, by index of the value.
    pub fn use_counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.values.len()];
        for inst in self.walk(self.body) {
            for operand in self.operands(inst) {
                counts[operand.index()] += 1;
            }
        }
        counts
    }

    /// Replaces uses everywhere, following chains of replacements.
    pub fn replace_uses(&mut self, replacements: &HashMap<Value, Value>) {
        if replacements.is_empty() {
            return;
        }
        for inst in self.walk(self.body) {
            for operand in &mut self.insts[inst.index()].operands {
                while let Some(&to) = replacements.get(operand) {
                    *operand = to;
                }
            }
        }
    }

    /// Copies an op of `from` (with its regions) into this function, translating operands; the
    /// caller lists it in a block. Values that `map` does not contain are kept, which is valid only
    /// within one function.
    pub fn import(&mut self, from: &Function, inst: Inst, map: &mut HashMap<Value, Value>) -> Inst {
        let data = from.inst(inst);
        let mut copy = data.clone();
        for operand in &mut copy.operands {
            *operand = map.get(operand).copied().unwrap_or(*operand);
        }
        copy.regions = data.regions.iter().map(|&region| self.import_block(from, region, map)).collect();
        let types: Vec<Type> = data.results.iter().map(|&r| from.ty(r).clone()).collect();
        let made = self.add_inst(copy, types);
        for (i, &old) in data.results.iter().enumerate() {
            let new = self.insts[made.index()].results[i];
            self.values[new.index()].name = from.values[old.index()].name.clone();
            map.insert(old, new);
        }
        made
    }

    /// Copies a block of `from` with everything in it.
    pub fn import_block(&mut self, from: &Function, block: Block, map: &mut HashMap<Value, Value>) -> Block {
        let made = self.add_block();
        for &argument in from.arguments(block) {
            let new = self.add_argument(made, from.ty(argument).clone());
            self.values[new.index()].name = from.values[argument.index()].name.clone();
            map.insert(argument, new);
        }
        for &inst in from.insts(block) {
            let copy = self.import(from, inst, map);
            self.append(made, copy);
        }
        made
    }

    /// The symbols that the sizes of the parameters determine ([`crate::binding`]), in the order of
    /// their names.
    pub fn bound_symbols(&self) -> Vec<Symbol> {
        let mut symbols: Vec<Symbol> = bindings(self).into_iter().map(|binding| binding.symbol).collect();
        symbols.sort();
        symbols
    }

    /// Returns the dims that an op binds: from data, or the offsets of parts of memory.
    pub fn bound_by(&self, inst: Inst) -> impl Iterator<Item = &Symbol> {
        let dims = match (self.kind_of(inst), self.inst(inst).attrs.first()) {
            (OpKind::BindDim, Some(Some(Attr::Dim(dim)))) => std::slice::from_ref(dim),
            (OpKind::LayoutArena, Some(Some(Attr::Dims(dims)))) => dims,
            _ => &[],
        };
        dims.iter().filter_map(Dim::as_symbol)
    }

    /// The dims that ops bind, in the order of the text.
    pub fn data_dims(&self) -> Vec<Symbol> {
        self.walk(self.body).into_iter().flat_map(|inst| self.bound_by(inst).cloned()).collect()
    }

    /// The symbols in the attributes and result types of an op, and in its regions.
    pub fn symbols_of(&self, inst: Inst) -> BTreeSet<Symbol> {
        let mut found = BTreeSet::new();
        let mut visit = |dim: &Dim| found.extend(dim.symbols());
        let inner = self.inst(inst).regions.iter().flat_map(|&region| self.walk(region)).collect::<Vec<_>>();
        for op in std::iter::once(inst).chain(inner) {
            let data = self.inst(op);
            let arguments = data.regions.iter().flat_map(|&region| self.arguments(region));
            let types = data.results.iter().chain(arguments).filter_map(|&value| self.ty(value).shaped());
            types.for_each(|tensor| tensor.dims.iter().for_each(&mut visit));
            for attr in data.attrs.iter().flatten() {
                match attr {
                    Attr::Dim(dim) => visit(dim),
                    Attr::Dims(dims) => dims.iter().for_each(&mut visit),
                    _ => {}
                }
            }
        }
        found
    }

    /// The symbols of `dim` ops, in order of their names.
    pub fn used_symbols(&self) -> Vec<Symbol> {
        let insts = self.walk(self.body);
        let dims = insts.iter().filter(|&&inst| self.kind_of(inst) == OpKind::DimValue).flat_map(|&inst| &self.inst(inst).attrs);
        let mut symbols: Vec<Symbol> = Vec::new();
        for attr in dims.flatten() {
            if let Attr::Dim(dim) = attr {
                symbols.extend(dim.symbols());
            }
        }
        symbols.sort();
        symbols.dedup();
        symbols
    }
}
