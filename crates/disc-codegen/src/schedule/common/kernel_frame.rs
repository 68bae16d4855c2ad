//! Begins and ends kernels, in the way that all schedules share.
//!
//! [`GroupMemory`] declares a kernel's parameters for the values that a group reads and writes; a
//! [`KernelFrame`] has the elements of that memory as well. The computation and its order are the
//! schedule's.
//!
//! Invariant: a kernel's parameters are memory in the order of its launch's arguments, then the
//! range of units.
use super::iteration_space::{CountedUnits, Merged};
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder},
    schedule::{Argument, Group, Launch, Scheduled},
};
use disc_ir::{Dim, FunctionKind, TensorType, Value};

/// The parameters for memory, by the group's values, and the launch's arguments for them.
#[derive(Default)]
pub(in crate::schedule) struct GroupMemory {
    pub sources: Vec<(Value, Value)>,
    pub targets: Vec<(Value, Value)>,
    pub arguments: Vec<Argument>,
}

impl GroupMemory {
    /// Declares all memory that the group reads and writes.
    pub(in crate::schedule) fn of(kb: &mut KernelBuilder, group: &Group<'_>) -> Self {
        let mut memory = Self::of_inputs(kb, group, |_| true);
        memory.add_outputs(kb, group);
        memory
    }

    /// Declares the inputs of the group that are `wanted`.
    pub(in crate::schedule) fn of_inputs(kb: &mut KernelBuilder, group: &Group<'_>, wanted: impl Fn(Value) -> bool) -> Self {
        let mut memory = Self::default();
        for (i, &input) in group.inputs().iter().enumerate().filter(|(_, input)| wanted(**input)) {
            memory.sources.push((input, kb.buffer(&format!("in{i}"), group.tensor(input).clone())));
            memory.arguments.push(Argument::Input(i));
        }
        memory
    }

    pub(in crate::schedule) fn add_outputs(&mut self, kb: &mut KernelBuilder, group: &Group<'_>) {
        self.add_some_outputs(kb, group, |_| true);
    }

    pub(in crate::schedule) fn add_some_outputs(
        &mut self,
        kb: &mut KernelBuilder,
        group: &Group<'_>,
        wanted: impl Fn(Value) -> bool,
    ) {
        for (i, output) in group.outputs().into_iter().enumerate().filter(|&(_, output)| wanted(output)) {
            self.targets.push((output, kb.buffer(&format!("out{i}"), group.tensor(output).clone())));
            self.arguments.push(Argument::Output(group.wanted[i]));
        }
    }

    /// Adds workspace number `i` of the version.
    pub(in crate::schedule) fn add_workspace(
        &mut self,
        kb: &mut KernelBuilder,
        name: &str,
        i: usize,
        tensor: TensorType,
    ) -> Value {
        self.add(kb, name, Argument::Workspace(i), tensor)
    }

    /// Adds any memory that a launch passes, as no input and no output of the kernel.
    pub(in crate::schedule) fn add(
        &mut self,
        kb: &mut KernelBuilder,
        name: &str,
        argument: Argument,
        tensor: TensorType,
    ) -> Value {
        self.arguments.push(argument);
        kb.buffer(name, tensor)
    }

    /// The memory of inputs and outputs, by their values.
    pub(in crate::schedule) fn pairs(&self) -> impl Iterator<Item = (Value, Value)> {
        self.sources.iter().chain(&self.targets).copied()
    }

    /// The memory of an input or an output.
    ///
    /// # Panics
    /// If the kernel has none of it.
    pub(in crate::schedule) fn at(&self, value: Value) -> Value {
        self.pairs().find(|(known, _)| *known == value).expect("a kernel has the memory that it uses").1
    }

    /// The memory of outputs in their order.
    pub(in crate::schedule) fn outputs(&self) -> Vec<Value> {
        self.targets.iter().map(|(_, buffer)| *buffer).collect()
    }
}

/// A kernel under construction, with the elements of its memory.
pub(in crate::schedule) struct KernelFrame<'g> {
    pub kb: KernelBuilder,
    pub elements: Elements<'g>,
    pub memory: GroupMemory,
    /// The range from the first unit to below the last.
    pub range: [Value; 2],
}

impl<'g> KernelFrame<'g> {
    /// Begins a kernel with all memory of the group, whose elements are vectors of `lanes`.
    pub(in crate::schedule) fn new(group: &Group<'g>, name: &str, lanes: u32) -> Self {
        Self::with(group, name, lanes, |kb, memory| memory.add_outputs(kb, group))
    }

    /// Begins a kernel with the group's inputs and the parameters that `add` adds to them.
    pub(in crate::schedule) fn with(
        group: &Group<'g>,
        name: &str,
        lanes: u32,
        add: impl FnOnce(&mut KernelBuilder, &mut GroupMemory),
    ) -> Self {
        let mut kb = group.builder(name, FunctionKind::Kernel);
        let mut elements = Elements::new(group.function, group.solver.clone(), lanes, group.target);
        elements.first_site = group.first_site;
        elements.nontemporal = group.nontemporal;
        let mut memory = GroupMemory::of_inputs(&mut kb, group, |_| true);
        memory.sources.iter().for_each(|&(input, buffer)| elements.bind(input, buffer));
        add(&mut kb, &mut memory);
        let range = kb.units();
        Self { kb, elements, memory, range }
    }

    /// The memory of a result, if it is used.
    pub(in crate::schedule) fn target(&self, value: Value) -> Option<Value> {
        self.memory.targets.iter().find(|(output, _)| *output == value).map(|(_, buffer)| *buffer)
    }

    /// The memory of an input of the group.
    pub(in crate::schedule) fn source(&self, value: Value) -> Option<Value> {
        self.memory.sources.iter().find(|(input, _)| *input == value).map(|(_, buffer)| *buffer)
    }

    /// Stores an element of a result, if it is used.
    pub(in crate::schedule) fn store(&mut self, group: &Group<'_>, value: Value, at: &[Index], computed: Value) {
        if let Some(buffer) = self.target(value) {
            self.elements.store(&mut self.kb, buffer, group.tensor(value), at, computed);
        }
    }

    /// Finishes the kernel: `body` for every unit.
    pub(in crate::schedule) fn units(mut self, units: Dim, cost: Dim, body: impl FnOnce(&mut Self, Value)) -> Scheduled {
        let one = self.kb.int(1);
        let [begin, end] = self.range;
        let block = self.kb.open_for([begin, end, one]);
        self.elements.open_scope();
        body(&mut self, block.index);
        self.elements.close_scope();
        self.kb.close_for(block);
        self.finish(units, cost)
    }

    /// Finishes the kernel: `body` for every position along some runs.
    pub(in crate::schedule) fn counted(
        mut self,
        runs: &[Merged],
        cost: Dim,
        body: impl FnOnce(&mut Self, &[Value]),
    ) -> Scheduled {
        let units = Dim::product(runs.iter().map(|run| run.size.clone()));
        let open = CountedUnits::open(&mut self.kb, self.range, runs);
        self.elements.open_scope();
        body(&mut self, &open.positions);
        self.elements.close_scope();
        open.close(&mut self.kb, runs);
        self.finish(units, cost)
    }

    pub(in crate::schedule) fn finish(self, units: Dim, cost: Dim) -> Scheduled {
        let kernel = self.kb.finish();
        let launch = Launch::new(&kernel, self.memory.arguments, units, cost);
        Scheduled { kernels: vec![kernel], launches: vec![launch], sites: self.elements.sites }
    }
}
