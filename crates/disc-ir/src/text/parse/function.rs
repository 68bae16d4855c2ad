//! Parses functions: parameters, results, facts, blocks, and the scopes of names.
use super::{
    Parser,
    cursor::{Parsed, Word, error, span},
    types,
};
use crate::{
    diag::{Code, Span},
    dim::Solver,
    graph::{Block, Function, FunctionKind, Grid, Store, Value},
    text::{limits::MAX_NESTING, names::is_number, suggest::closest},
    types::Type,
};
use std::{collections::HashMap, rc::Rc, sync::Arc};

/// A function under construction.
pub(super) struct Body {
    pub(super) function: Function,
    names: HashMap<Arc<str>, Value>,
    /// The names of each open block.
    scopes: Vec<Vec<Arc<str>>>,
    solver: Option<Rc<Solver>>,
}

impl Body {
    /// The solver over the function's facts.
    pub(super) fn solver(&mut self) -> Rc<Solver> {
        self.solver.get_or_insert_with(|| Rc::new(Solver::new(&self.function.facts))).clone()
    }

    pub(super) fn find(&self, name: Word<'_>) -> Parsed<Value> {
        let first = || name.text.strip_suffix("#0").and_then(|plain| self.names.get(plain));
        self.names.get(name.text).or_else(first).copied().ok_or_else(|| {
            let found = error(Code::E0103, name.span, format!("`%{}` is not defined", name.text));
            match closest(name.text, self.names.keys().map(|name| &**name)) {
                Some(near) => found.help(format!("did you mean `%{near}`?")),
                None => found,
            }
        })
    }

    /// Makes `name` visible until its block ends.
    pub(super) fn define(&mut self, name: &str, place: Span, value: Value) -> Parsed<()> {
        let name: Arc<str> = name.into();
        if self.names.insert(name.clone(), value).is_some() {
            return Err(error(Code::E0104, place, format!("`%{name}` is defined twice")));
        }
        if !is_number(&name) {
            self.function.set_name(value, name.replace('#', "_"));
        }
        self.scopes.last_mut().expect("a block is open").push(name);
        Ok(())
    }

    fn close_scope(&mut self) {
        for name in self.scopes.pop().expect("a block is open") {
            self.names.remove(&name);
        }
    }
}

/// A parameter or block argument.
struct Argument<'s> {
    name: Word<'s>,
    ty: Type,
}

impl<'s> Parser<'s> {
    pub(super) fn function(&mut self, kind: FunctionKind, start: Span) -> Parsed<()> {
        for modifier in ["public", "private"] {
            self.cursor.eat_word(modifier);
        }
        let (name, place) = self.cursor.symbol_name()?;
        let name = self.declare(false, name, place)?;
        let mut function = Function::new(name, kind);
        function.span = Some(span(start.start as usize, place.end as usize));
        let parameters = self.arguments("parameters")?;
        if self.cursor.eat("->") {
            function.results = self.results(&parameters, &mut function.stores)?;
        }
        if self.cursor.eat_word("attributes") {
            self.skip_attribute_dictionary()?;
        }
        if self.cursor.eat_word("grid") {
            function.grid = Some(self.grid()?);
        }
        if self.cursor.eat_word("variant_of") {
            function.variant_of = Some(self.cursor.symbol_name()?.0.into());
        }
        if self.cursor.eat_word("where") {
            self.facts(&mut function.facts)?;
        }
        let mut body = Body { function, names: HashMap::new(), scopes: Vec::new(), solver: None };
        let block = body.function.body;
        self.block(&mut body, block, parameters)?;
        self.skip_location()?;
        self.module.functions.push(body.function);
        Ok(())
    }

    /// The blocks of a GPU kernel: `threads = 256, warp = 32`, and maybe `resident = 2`.
    fn grid(&mut self) -> Parsed<Grid> {
        let threads = self.number_of_grid("threads")?;
        self.cursor.expect(",", "before `warp`")?;
        let grid = Grid::new(threads, self.number_of_grid("warp")?);
        if self.cursor.eat(",") { Ok(Grid { resident: Some(self.number_of_grid("resident")?), ..grid }) } else { Ok(grid) }
    }

    fn number_of_grid(&mut self, name: &str) -> Parsed<u32> {
        let start = self.cursor.pos;
        if !self.cursor.eat_word(name) {
            return Err(self.cursor.unexpected(&format!("`{name}`")));
        }
        self.cursor.expect("=", "after the name")?;
        let given = self.cursor.integer()?;
        let place = span(start, self.cursor.pos);
        u32::try_from(given).map_err(|_| error(Code::E0209, place, format!("a grid with `{name} = {given}`")))
    }

    /// The types of the results, each with the parameter that it is stored into: `T into %x`.
    fn results(&mut self, parameters: &[Argument<'s>], stores: &mut Vec<Store>) -> Parsed<Vec<Type>> {
        let (mut position, is_list) = (0, self.cursor.at("("));
        let mut result = |parser: &mut Self| {
            let ty = types::parse(&mut parser.cursor, &mut parser.fresh)?;
            if is_list {
                parser.skip_attribute_dictionary()?;
            }
            if parser.cursor.eat_word("into") {
                let name = parser.cursor.value_name()?;
                let Some(parameter) = parameters.iter().position(|known| known.name.text == name.text) else {
                    return Err(error(Code::E0103, name.span, format!("there is no parameter `%{}`", name.text)));
                };
                stores.push(Store { result: position, parameter });
            }
            position += 1;
            Ok(ty)
        };
        if is_list { self.list("(", ")", result) } else { Ok(vec![result(self)?]) }
    }

    fn arguments(&mut self, what: &str) -> Parsed<Vec<Argument<'s>>> {
        if !self.cursor.at("(") {
            return Err(self.cursor.unexpected(&format!("`(` before the {what}")));
        }
        self.list("(", ")", |parser| {
            let name = parser.cursor.value_name()?;
            parser.count(0, 1, name.span)?;
            parser.cursor.expect(":", "after the name")?;
            let ty = types::parse(&mut parser.cursor, &mut parser.fresh)?;
            parser.skip_attribute_dictionary()?;
            parser.skip_location()?;
            Ok(Argument { name, ty })
        })
    }

    /// `name(%a: T, ...) { ... }` of an op.
    pub(super) fn region(&mut self, body: &mut Body, name: &str) -> Parsed<Block> {
        // `reducer` is StableHLO's.
        let is_here = self.cursor.eat_word(name) || name == "body" && self.cursor.eat_word("reducer");
        if !is_here {
            return Err(self.cursor.unexpected(&format!("the region `{name}`")));
        }
        let arguments = if self.cursor.at("(") { self.arguments("arguments")? } else { Vec::new() };
        let block = body.function.add_block();
        self.block(body, block, arguments)?;
        Ok(block)
    }

    /// `{ ^bb0(%a: T): ... }`, as MLIR's generic form has it.
    pub(super) fn unnamed_region(&mut self, body: &mut Body) -> Parsed<Block> {
        let block = body.function.add_block();
        self.block(body, block, Vec::new())?;
        Ok(block)
    }

    fn block(&mut self, body: &mut Body, block: Block, arguments: Vec<Argument<'s>>) -> Parsed<()> {
        self.cursor.expect("{", "before the ops")?;
        if body.scopes.len() >= MAX_NESTING {
            let place = span(self.cursor.pos - 1, self.cursor.pos);
            return Err(error(Code::E0105, place, format!("regions are nested more than {MAX_NESTING} deep")));
        }
        body.scopes.push(Vec::new());
        self.add_arguments(body, block, arguments)?;
        if self.cursor.eat("^") {
            self.cursor.expect_word("a label after `^`")?;
            let arguments = if self.cursor.at("(") { self.arguments("arguments")? } else { Vec::new() };
            self.cursor.expect(":", "after the label")?;
            self.add_arguments(body, block, arguments)?;
        }
        while !self.cursor.eat("}") {
            self.op(body, block)?;
        }
        body.close_scope();
        Ok(())
    }

    fn add_arguments(&mut self, body: &mut Body, block: Block, arguments: Vec<Argument<'s>>) -> Parsed<()> {
        arguments.into_iter().try_for_each(|argument| {
            let value = body.function.add_argument(block, argument.ty);
            body.define(argument.name.text, argument.name.span, value)
        })
    }
}
