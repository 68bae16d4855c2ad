//! Parses `applies add`: the short form of a region `body` whose one op combines two scalars.
use super::{
    Parser,
    attrs::Attrs,
    cursor::{Parsed, error, span},
    function::Body,
    op::find_op,
};
use crate::{
    diag::Code,
    graph::{Block, InstData},
    infer::{InferCx, infer_op},
    ops::{Arity, OpDef, OpKind},
    types::{DType, Type},
};
use smallvec::{SmallVec, smallvec};

/// Returns true if the op takes two values.
pub(in crate::text) fn combines_two(def: &OpDef) -> bool {
    def.operands.len() == 2 && def.operands.iter().all(|o| o.arity == Arity::One) && def.regions.is_empty()
}

impl Parser<'_> {
    /// `applies OP [WORD]`, with arguments that are scalars of `dtype`.
    pub(super) fn applies(&mut self, body: &mut Body, dtype: Option<DType>) -> Parsed<Block> {
        self.cursor.eat_word("applies");
        let name = self.cursor.expect_word("an op after `applies`")?;
        let def = find_op(name)?;
        let (true, Some(dtype)) = (combines_two(def), dtype) else {
            return Err(error(Code::E0202, name.span, format!("`{}` does not combine two scalars", def.name)));
        };
        let mut attrs = Attrs::new(def);
        if let Some(leading) = Attrs::leading(def) {
            let value = self.value(leading.kind)?;
            attrs.set(0, value, name.span)?;
        }
        let place = span(name.span.start as usize, self.cursor.pos);
        self.count(2, 4, place)?;
        let types = [Type::tensor([], dtype), Type::tensor([], dtype)];
        let cx = InferCx { def, operands: &types, attrs: &attrs.slots, regions: &[], declared: None, solver: &body.solver() };
        let results = infer_op(&cx).map_err(|e| e.at(Some(place)))?;
        let function = &mut body.function;
        let block = function.add_block();
        let operands: SmallVec<[_; 3]> = types.into_iter().map(|ty| function.add_argument(block, ty)).collect();
        let data = InstData {
            kind: def.kind,
            operands,
            results: SmallVec::new(),
            attrs: attrs.slots,
            regions: SmallVec::new(),
            span: Some(place),
            origin: None,
        };
        let inst = function.add_inst(data.clone(), results);
        function.append(block, inst);
        let values = function.results_of(inst).iter().copied().collect();
        let end = InstData { kind: OpKind::Return, operands: values, attrs: smallvec![], ..data };
        let end = function.add_inst(end, []);
        function.append(block, end);
        Ok(block)
    }
}
