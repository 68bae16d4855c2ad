//! Parses one op: results, name, operands, attributes, signature, regions.
use super::{
    super::suggest::closest,
    Parser,
    attrs::{Attrs, Value as AttrValue, at_attribute},
    cursor::{Parsed, Word, error, span},
    dims,
    function::Body,
    signature::{Signature, complete},
};
use crate::{
    attr::{Attr, AttrKind},
    build::region_type,
    diag::{Code, Diagnostic, Span},
    dim::Dim,
    graph::{Block, Inst, InstData, Value},
    infer::{InferCx, RegionType},
    ops::{OPS, OpDef, OpKind, Stages},
    types::{TensorType, Type},
};
use smallvec::SmallVec;

/// The part of an op before its signature.
pub(super) struct Head<'s> {
    pub(super) def: &'static OpDef,
    name: Word<'s>,
    pub(super) operands: Vec<(Value, Span)>,
    pub(super) attrs: Attrs,
    pub(super) regions: SmallVec<[Block; 1]>,
}

/// The name of a result and its place.
type Name = (String, Span);

impl<'s> Parser<'s> {
    pub(super) fn op(&mut self, body: &mut Body, block: Block) -> Parsed<()> {
        let names = self.result_names()?;
        let mut head = self.head(body)?;
        let place = self.first_line(head.name.span.start as usize);
        self.count(1, names.len(), place)?;
        let signature = self.signature()?;
        if head.regions.is_empty() {
            self.regions(body, &mut head)?;
        }
        let origin = self.location()?.map(|line| self.module.lines.add(line));
        let inst = self.finish(body, block, head, signature, names, place).map_err(|e| e.at(Some(place)))?;
        body.function.inst_mut(inst).origin = origin;
        Ok(())
    }

    /// Returns the span from `start` to here, or to the end of the line, without the text after the
    /// last token.
    fn first_line(&self, start: usize) -> Span {
        let line = self.cursor.source[start..self.cursor.pos].lines().next().unwrap_or("");
        let code = line.split_once("//").map_or(line, |(code, _)| code);
        span(start, start + code.trim_end().len())
    }

    /// Returns true if a line ended since `word`.
    fn is_on_a_new_line(&self, word: Word<'_>) -> bool {
        self.cursor.source[word.span.end as usize..self.cursor.pos].contains('\n')
    }

    /// `%a, %b =`, or MLIR's `%a:2 =`.
    fn result_names(&mut self) -> Parsed<Vec<Name>> {
        const MOST: i64 = 1024;
        let mut names = Vec::new();
        if self.cursor.peek() != Some(b'%') {
            return Ok(names);
        }
        loop {
            let name = self.cursor.value_name()?;
            if self.cursor.eat(":") {
                let count = self.cursor.integer()?;
                if !(1..=MOST).contains(&count) {
                    return Err(error(Code::E0105, name.span, format!("{count} results; 1 to {MOST} are possible")));
                }
                names.extend((0..count).map(|i| (format!("{}#{i}", name.text), name.span)));
            } else {
                names.push((name.text.to_owned(), name.span));
            }
            if !self.cursor.eat(",") {
                break;
            }
        }
        self.cursor.expect("=", "after the names of the results")?;
        Ok(names)
    }

    fn head(&mut self, body: &mut Body) -> Parsed<Head<'s>> {
        let is_generic = self.cursor.peek() == Some(b'"');
        if is_generic {
            self.cursor.pos += 1;
        }
        let name = self.cursor.expect_word("an op, or `}`")?;
        let def = find_op(name)?;
        if is_generic {
            self.cursor.expect("\"", "after the name of the op")?;
        }
        let mut head = Head { def, name, operands: Vec::new(), attrs: Attrs::new(def), regions: SmallVec::new() };
        if is_generic {
            self.generic(body, &mut head)?
        } else {
            self.pretty(body, &mut head)?
        }
        Ok(head)
    }

    /// `(%a, %b) <{...}> ({...}, {...}) {...}`: MLIR's generic form after the name.
    fn generic(&mut self, body: &mut Body, head: &mut Head<'s>) -> Parsed<()> {
        head.operands = self.list("(", ")", |parser| parser.operand(body))?;
        if self.cursor.eat("<") {
            self.dictionary(&mut head.attrs)?;
            self.cursor.expect(">", "after the attributes")?;
        }
        if self.cursor.at("(") {
            let start = self.cursor.pos;
            head.regions = self.list("(", ")", |parser| parser.unnamed_region(body))?.into();
            let (found, wanted) = (head.regions.len(), head.def.regions.len());
            if found != wanted {
                let message = format!("regions: {found}, expected {wanted}");
                return Err(error(Code::E0101, span(start, self.cursor.pos), message).in_op(head.def.name));
            }
        }
        if self.cursor.at("{") { self.dictionary(&mut head.attrs) } else { Ok(()) }
    }

    fn pretty(&mut self, body: &mut Body, head: &mut Head<'s>) -> Parsed<()> {
        let leading = Attrs::leading(head.def).filter(|_| !matches!(self.cursor.peek(), Some(b'%' | b'(' | b'{')));
        let leading = leading.filter(|_| !at_attribute(&mut self.cursor));
        if let Some(leading) = leading {
            self.leading(leading.kind, head)?;
            if self.cursor.at("(") {
                head.operands = self.list("(", ")", |parser| parser.operand(body))?;
            }
        }
        if head.def.kind == OpKind::Reduce && self.cursor.at("(") {
            self.stablehlo_reduce(body, head)?;
        } else if leading.is_none() || self.cursor.eat(",") {
            self.items(body, head)?;
        }
        if self.cursor.at("{") && head.def.regions.is_empty() { self.dictionary(&mut head.attrs) } else { Ok(()) }
    }

    /// The attribute that is written without its name, before the operands.
    fn leading(&mut self, kind: AttrKind, head: &mut Head<'s>) -> Parsed<()> {
        self.cursor.peek();
        let start = self.cursor.pos;
        let value = self.value(kind)?;
        head.attrs.set(0, value, span(start, self.cursor.pos))
    }

    /// Operands and `name = value`, separated by commas.
    fn items(&mut self, body: &mut Body, head: &mut Head<'s>) -> Parsed<()> {
        let mut is_first = true;
        loop {
            match self.cursor.peek() {
                // These are the results of the next op.
                Some(b'%') if is_first && head.operands.is_empty() && self.is_on_a_new_line(head.name) => return Ok(()),
                Some(b'%') => {
                    let operand = self.operand(body)?;
                    head.operands.push(operand);
                    if self.cursor.at("[") {
                        self.index(body, head)?;
                    }
                }
                _ if at_attribute(&mut self.cursor) => self.attribute(&mut head.attrs)?,
                _ if head.def.kind == OpKind::Compare && self.compare_type() => {}
                _ if is_first => return Ok(()),
                _ => return Err(self.cursor.unexpected("an operand such as `%x`, or an attribute such as `name = value`")),
            }
            is_first = false;
            if !self.cursor.eat(",") {
                return Ok(());
            }
        }
    }

    /// StableHLO's last word of `compare`: it follows from the element type.
    fn compare_type(&mut self) -> bool {
        ["FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"].into_iter().any(|word| self.cursor.eat_word(word))
    }

    pub(super) fn operand(&mut self, body: &mut Body) -> Parsed<(Value, Span)> {
        let name = self.cursor.value_name()?;
        Ok((body.find(name)?, name.span))
    }

    /// `[...]` after an operand: bounds of a slice, or an element's index.
    fn index(&mut self, body: &mut Body, head: &mut Head<'s>) -> Parsed<()> {
        match head.def.kind {
            OpKind::Slice => self.bounds(head),
            _ if is_indexed(head.def) && head.operands.len() == 1 => {
                self.cursor.expect("[", "before the index")?;
                head.operands.push(self.operand(body)?);
                self.cursor.expect("]", "after the index")
            }
            _ => Err(self.cursor.unexpected("`,` or the signature")),
        }
    }

    /// `[0:B, 1:8:2]`
    fn bounds(&mut self, head: &mut Head<'s>) -> Parsed<()> {
        let start = self.cursor.pos;
        let bounds = self.list("[", "]", |parser| {
            let low = dims::expression(&mut parser.cursor)?;
            parser.cursor.expect(":", "after the start")?;
            let high = dims::expression(&mut parser.cursor)?;
            let stride = if parser.cursor.eat(":") { Some(parser.cursor.integer()?) } else { None };
            Ok((low, high, stride))
        })?;
        let place = span(start, self.cursor.pos);
        let (low, high): (Vec<Dim>, Vec<Dim>) = bounds.iter().map(|(low, high, _)| (low.clone(), high.clone())).unzip();
        let mut set = |name: &str, value: Attr| match head.def.attr_position(name) {
            Some(slot) => head.attrs.set(slot, AttrValue::Ready(value), place),
            None => Ok(()),
        };
        set("start", Attr::Dims(low))?;
        set("limit", Attr::Dims(high))?;
        if bounds.iter().any(|(.., stride)| stride.is_some()) {
            set("strides", Attr::Ints(bounds.iter().map(|(.., stride)| stride.unwrap_or(1)).collect()))?;
        }
        Ok(())
    }

    fn regions(&mut self, body: &mut Body, head: &mut Head<'s>) -> Parsed<()> {
        if takes_short_form(head.def) && self.cursor.peek_word() == Some("applies") {
            let dtype = head.operands.first().map(|(operand, _)| body.function.ty(*operand).dtype());
            let block = self.applies(body, dtype)?;
            head.regions.push(block);
            return Ok(());
        }
        for name in head.def.regions {
            let block = self.region(body, name)?;
            head.regions.push(block);
        }
        Ok(())
    }

    /// Adds the op, after all of it was read.
    fn finish(
        &mut self,
        body: &mut Body,
        block: Block,
        mut head: Head<'s>,
        signature: Signature,
        names: Vec<Name>,
        place: Span,
    ) -> Parsed<Inst> {
        let (def, mark) = (head.def, signature.mark());
        let solver = body.solver();
        let operands: Vec<(Type, Span)> = head.operands.iter().map(|(v, at)| (body.function.ty(*v).clone(), *at)).collect();
        let stated = signature.check(def, &operands, names.len(), (&self.fresh, &solver), place)?;
        let types: Vec<Type> = operands.into_iter().map(|(ty, _)| ty).collect();
        self.element_types(&mut head.attrs, def, stated.as_deref(), &types)?;
        let regions: Vec<RegionType> = head.regions.iter().map(|&r| region_type(&body.function, r)).collect();
        let cx = InferCx { def, operands: &types, attrs: &head.attrs.slots, regions: &regions, declared: None, solver: &solver };
        let results = complete(&cx, stated, mark, &self.fresh)?;
        if !names.is_empty() && names.len() != results.len() {
            let message = format!("{} results are named, the op has {}", names.len(), results.len());
            return Err(Diagnostic::new(Code::E0201, message).in_op(def.name).at(Some(place)));
        }
        self.count(0, results.len().saturating_sub(names.len()), place)?;
        let data = InstData {
            kind: def.kind,
            operands: head.operands.iter().map(|(value, _)| *value).collect(),
            results: SmallVec::new(),
            attrs: head.attrs.slots,
            regions: head.regions,
            span: Some(place),
            origin: None,
        };
        let inst = body.function.add_inst(data, results);
        body.function.append(block, inst);
        let values = body.function.results_of(inst).to_vec();
        names.iter().zip(values).try_for_each(|((name, place), value)| body.define(name, *place, value))?;
        Ok(inst)
    }

    /// Fills attributes that follow from the result's element type: literals, and a `dtype` that is
    /// not written.
    fn element_types(&mut self, attrs: &mut Attrs, def: &OpDef, stated: Option<&[Type]>, operands: &[Type]) -> Parsed<()> {
        let result = stated.and_then(<[Type]>::first);
        if let Some(slot) = def.attrs.iter().position(|a| a.kind == AttrKind::DType && a.required)
            && attrs.slots[slot].is_none()
            && let Some(result) = result
        {
            attrs.slots[slot] = Some(Attr::DType(result.dtype()));
        }
        let Some((slot, extent)) = attrs.literal else { return Ok(()) };
        let Some(ty) = result.or(operands.first()) else {
            return Err(error(Code::E0205, extent, "the type of the literal must be stated").in_op(def.name));
        };
        let sizes = result.and_then(Type::as_tensor).and_then(TensorType::static_dims);
        let literal = self.literal(extent, ty.dtype(), sizes.as_deref()).map_err(|e| e.in_op(def.name))?;
        attrs.slots[slot] = Some(Attr::Literal(literal));
        Ok(())
    }
}

/// Returns true if the op's region may be written `applies OP`.
pub(in crate::text) fn takes_short_form(def: &OpDef) -> bool {
    def.regions.len() == 1 && def.stages == Stages::Tensor
}

/// Returns true if the op's first operand is a buffer with an index, written `%b[%i]`.
pub(in crate::text) fn is_indexed(def: &OpDef) -> bool {
    matches!(def.operands, [buffer, index, ..] if buffer.name == "buffer" && index.name == "index")
}

/// The op of a name, with or without a dialect before it.
pub(super) fn find_op(name: Word<'_>) -> Parsed<&'static OpDef> {
    let dialects = ["stablehlo.", "chlo.", "func."];
    let plain = dialects.iter().find_map(|dialect| name.text.strip_prefix(dialect)).unwrap_or(name.text);
    if let Some(kind) = OpKind::from_name(plain) {
        return Ok(kind.def());
    }
    let found = error(Code::E0102, name.span, format!("there is no op `{}`", super::cursor::shorten(name.text)));
    Err(match closest(plain, OPS.iter().map(|def| def.name)) {
        Some(near) => found.help(format!("did you mean `{near}`?")),
        None => found,
    })
}
