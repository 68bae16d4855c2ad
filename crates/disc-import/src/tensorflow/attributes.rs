//! Reads the attributes of a node, and refuses those that nobody read: a row that overlooks one
//! would compute something else than TensorFlow does.
use super::{proto::Attribute, proto::NodeDef, proto::TensorShape, proto::TensorValue, types::dtype};
use disc_ir::{Code, DType, Diagnostic};
use std::{cell::RefCell, collections::HashSet};

pub(super) struct Attributes<'n> {
    node: &'n NodeDef,
    read: RefCell<HashSet<&'n str>>,
}

impl<'n> Attributes<'n> {
    pub(super) fn new(node: &'n NodeDef) -> Self {
        Self { node, read: RefCell::default() }
    }

    fn get(&self, name: &str) -> Option<&'n Attribute> {
        let (name, value) = self.node.attr.get_key_value(name)?;
        self.read.borrow_mut().insert(name);
        value.value.as_ref()
    }

    fn wrong(&self, name: &str, expected: &str) -> Diagnostic {
        Diagnostic::new(Code::E1004, format!("expected the attribute `{name}` to be {expected}"))
    }

    /// Notes attributes that do not change what is computed.
    pub(super) fn ignore(&self, names: &[&str]) {
        for name in names {
            let _ = self.get(name);
        }
    }

    /// An integer, or `default` if it is absent.
    pub(super) fn int(&self, name: &str, default: i64) -> Result<i64, Diagnostic> {
        match self.get(name) {
            None => Ok(default),
            Some(Attribute::Int(value)) => Ok(*value),
            _ => Err(self.wrong(name, "an integer")),
        }
    }

    pub(super) fn float(&self, name: &str, default: f32) -> Result<f64, Diagnostic> {
        match self.get(name) {
            None => Ok(f64::from(default)),
            Some(Attribute::Float(value)) => Ok(f64::from(*value)),
            _ => Err(self.wrong(name, "a number")),
        }
    }

    /// A truth value, or `default` if it is absent.
    pub(super) fn bool(&self, name: &str, default: bool) -> Result<bool, Diagnostic> {
        match self.get(name) {
            None => Ok(default),
            Some(Attribute::Bool(value)) => Ok(*value),
            _ => Err(self.wrong(name, "true or false")),
        }
    }

    pub(super) fn text(&self, name: &str, default: &'n str) -> Result<&'n str, Diagnostic> {
        match self.get(name) {
            None => Ok(default),
            Some(Attribute::Text(text)) => std::str::from_utf8(text).map_err(|_| self.wrong(name, "a text")),
            _ => Err(self.wrong(name, "a text")),
        }
    }

    /// A list of integers; empty if it is absent.
    pub(super) fn ints(&self, name: &str) -> Result<Vec<i64>, Diagnostic> {
        match self.get(name) {
            None => Ok(Vec::new()),
            Some(Attribute::List(list)) => Ok(list.i.clone()),
            _ => Err(self.wrong(name, "a list of integers")),
        }
    }

    pub(super) fn dtype(&self, name: &str) -> Result<DType, Diagnostic> {
        match self.get(name) {
            Some(Attribute::Type(number)) => dtype(*number),
            _ => Err(self.wrong(name, "an element type")),
        }
    }

    /// An element type, or `default` if it is absent.
    pub(super) fn dtype_or(&self, name: &str, default: DType) -> Result<DType, Diagnostic> {
        if self.node.attr.contains_key(name) { self.dtype(name) } else { Ok(default) }
    }

    pub(super) fn shape(&self, name: &str) -> Result<&'n TensorShape, Diagnostic> {
        match self.get(name) {
            Some(Attribute::Shape(shape)) => Ok(shape),
            _ => Err(self.wrong(name, "a shape")),
        }
    }

    pub(super) fn tensor(&self, name: &str) -> Result<&'n TensorValue, Diagnostic> {
        match self.get(name) {
            Some(Attribute::Tensor(tensor)) => Ok(tensor),
            _ => Err(self.wrong(name, "a tensor")),
        }
    }

    pub(super) fn function(&self, name: &str) -> Result<&'n str, Diagnostic> {
        match self.get(name) {
            Some(Attribute::Function(function)) => Ok(&function.name),
            _ => Err(self.wrong(name, "a function")),
        }
    }

    /// Checks that every attribute was read. Element types follow from the operands, lists of them
    /// and counts of operands too; names that begin with `_` are hints.
    ///
    /// # Errors
    /// E1004: the first attribute that was not.
    pub(super) fn finish(&self) -> Result<(), Diagnostic> {
        let read = self.read.borrow();
        let is_implied = |name: &str, value: Option<&Attribute>| {
            let is_type = match value {
                Some(Attribute::Type(_)) | None => true,
                Some(Attribute::List(list)) => !list.types.is_empty() || list == &super::proto::ListValue::default(),
                Some(Attribute::Int(_)) => name == "N",
                _ => false,
            };
            is_type || name.starts_with('_')
        };
        match self.node.attr.iter().find(|(name, value)| !read.contains(&***name) && !is_implied(name, value.value.as_ref())) {
            None => Ok(()),
            Some((name, _)) => Err(Diagnostic::new(Code::E1004, format!("the attribute `{name}` is not known"))),
        }
    }
}
