//! Counts the messages of a graph before they are read.
use crate::source::{
    limits::NODES,
    wire::{self, Message},
};
use disc_ir::Diagnostic;

static GRAPH: Message = Message { name: "GraphDef", fields: &[(1, &NODE), (2, &LIBRARY)], limit: None };
static LIBRARY: Message = Message { name: "FunctionDefLibrary", fields: &[(1, &FUNCTION)], limit: None };
static FUNCTION: Message = Message {
    name: "FunctionDef",
    fields: &[(1, &SIGNATURE), (3, &NODE), (4, &ENTRY_OF_RETURNS), (5, &ENTRY), (6, &ENTRY_OF_RETURNS)],
    limit: None,
};
static SIGNATURE: Message = Message { name: "OpDef", fields: &[(2, &ARGUMENT), (3, &ARGUMENT)], limit: None };
static ARGUMENT: Message = Message { name: "ArgDef", fields: &[], limit: None };
static ENTRY_OF_RETURNS: Message = Message { name: "RetEntry", fields: &[], limit: None };
static NODE: Message = Message { name: "NodeDef", fields: &[(5, &ENTRY)], limit: Some(NODES) };
static ENTRY: Message = Message { name: "AttrEntry", fields: &[(2, &ATTRIBUTE)], limit: None };
static ATTRIBUTE: Message =
    Message { name: "AttrValue", fields: &[(1, &LIST), (7, &SHAPE), (8, &TENSOR), (10, &CALLEE)], limit: None };
static LIST: Message = Message { name: "ListValue", fields: &[(7, &SHAPE), (8, &TENSOR), (9, &CALLEE)], limit: None };
static CALLEE: Message = Message { name: "NameAttrList", fields: &[(2, &ENTRY)], limit: None };
static TENSOR: Message = Message { name: "TensorProto", fields: &[(2, &SHAPE)], limit: None };
static SHAPE: Message = Message { name: "TensorShapeProto", fields: &[(2, &SHAPE_DIM)], limit: None };
static SHAPE_DIM: Message = Message { name: "Dim", fields: &[], limit: None };

/// Checks the counts of a graph's bytes.
///
/// # Errors
/// E1001: no protobuf. E1002: too many messages or nodes, or too deep.
pub(super) fn check(bytes: &[u8]) -> Result<(), Diagnostic> {
    wire::scan(bytes, &GRAPH).map(drop)
}
