//! Writes loops and branches whose bodies cannot be put into closures: one call opens a block,
//! another closes it.
use super::KernelBuilder;
use disc_ir::{Block, OpKind, Type, Value};

/// A loop whose body is being written: for code that cannot be put into a closure.
pub struct OpenFor {
    pub index: Value,
    pub carried: Vec<Value>,
    /// The values for the next iteration: as many as are carried.
    pub next: Vec<Value>,
    operands: Vec<Value>,
    region: Block,
    outer: Block,
}

/// A `while` whose body is being written.
pub struct OpenWhile {
    pub carried: Vec<Value>,
    pub next: Vec<Value>,
    inits: Vec<Value>,
    regions: [Block; 2],
    outer: Block,
}

/// An `if` whose second branch is being written.
pub struct OpenElse {
    pred: Value,
    regions: [Block; 2],
    outer: Block,
}

/// An `if` whose first branch is being written.
pub struct OpenIf {
    pred: Value,
    region: Block,
    outer: Block,
}

impl KernelBuilder {
    pub fn open_for(&mut self, bounds: [Value; 3]) -> OpenFor {
        self.open_for_carrying(bounds, &[])
    }

    pub fn open_for_carrying(&mut self, bounds: [Value; 3], inits: &[Value]) -> OpenFor {
        let region = self.function.add_block();
        let ty = self.ty(bounds[0]).clone();
        let index = self.function.add_argument(region, ty);
        let carried = self.arguments_like(region, inits);
        let outer = std::mem::replace(&mut self.block, region);
        OpenFor { index, next: carried.clone(), carried, operands: [&bounds[..], inits].concat(), region, outer }
    }

    /// Ends the body; returns the carried values after the loop.
    pub fn close_for(&mut self, open: OpenFor) -> Vec<Value> {
        self.emit_all(OpKind::Return, &open.next, &[], None);
        self.block = open.outer;
        self.emit_in(self.block, OpKind::For, &open.operands, &[], &[open.region], None)
    }

    pub fn open_while(&mut self, inits: &[Value], cond: impl FnOnce(&mut Self, &[Value]) -> Value) -> OpenWhile {
        let types: Vec<Type> = inits.iter().map(|&v| self.ty(v).clone()).collect();
        let test = self.region(&types, |kb, values| vec![cond(kb, values)]);
        let body = self.function.add_block();
        let carried = self.arguments_like(body, inits);
        let outer = std::mem::replace(&mut self.block, body);
        OpenWhile { next: carried.clone(), carried, inits: inits.to_vec(), regions: [test, body], outer }
    }

    pub fn close_while(&mut self, open: OpenWhile) -> Vec<Value> {
        self.emit_all(OpKind::Return, &open.next, &[], None);
        self.block = open.outer;
        self.emit_in(self.block, OpKind::While, &open.inits, &[], &open.regions, None)
    }

    pub fn open_if(&mut self, pred: Value) -> OpenIf {
        let region = self.function.add_block();
        OpenIf { pred, region, outer: std::mem::replace(&mut self.block, region) }
    }

    /// Ends the first branch, without results, and opens the other one.
    pub fn else_(&mut self, open: OpenIf) -> OpenElse {
        self.else_giving(open, &[])
    }

    /// Ends the first branch with its results, and opens the other one.
    pub fn else_giving(&mut self, open: OpenIf, results: &[Value]) -> OpenElse {
        self.emit_all(OpKind::Return, results, &[], None);
        let region = self.function.add_block();
        self.block = region;
        OpenElse { pred: open.pred, regions: [open.region, region], outer: open.outer }
    }

    /// Ends the second branch, without results.
    pub fn close_else(&mut self, open: OpenElse) {
        self.close_else_giving(open, &[]);
    }

    /// Ends the second branch with its results, as many as the first one has.
    pub fn close_else_giving(&mut self, open: OpenElse, results: &[Value]) -> Vec<Value> {
        self.emit_all(OpKind::Return, results, &[], None);
        self.block = open.outer;
        self.emit_in(self.block, OpKind::If, &[open.pred], &[], &open.regions, None)
    }

    pub fn close_if(&mut self, open: OpenIf) {
        self.close_if_giving(open, &[], &[]);
    }

    /// Ends the branch with its results; `others` are those if it is not taken.
    pub fn close_if_giving(&mut self, open: OpenIf, results: &[Value], others: &[Value]) -> Vec<Value> {
        self.emit_all(OpKind::Return, results, &[], None);
        self.block = open.outer;
        let otherwise = self.region(&[], |_, _| others.to_vec());
        self.emit_in(self.block, OpKind::If, &[open.pred], &[], &[open.region, otherwise], None)
    }

    fn arguments_like(&mut self, block: Block, values: &[Value]) -> Vec<Value> {
        let types: Vec<Type> = values.iter().map(|&v| self.ty(v).clone()).collect();
        types.into_iter().map(|ty| self.function.add_argument(block, ty)).collect()
    }
}
