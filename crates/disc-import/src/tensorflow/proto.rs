//! Declares the messages of TensorFlow's graphs: the fields that are read, by their numbers in
//! tensorflow/core/framework/{graph, node_def, attr_value, tensor, tensor_shape, function,
//! op_def}.proto. Other fields are stepped over.
use bytes::Bytes;
use prost::{Message, Oneof};
use std::collections::BTreeMap;

#[derive(Clone, PartialEq, Message)]
pub(super) struct GraphDef {
    #[prost(message, repeated, tag = "1")]
    pub(super) node: Vec<NodeDef>,
    #[prost(message, optional, tag = "2")]
    pub(super) library: Option<FunctionDefLibrary>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NodeDef {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) op: String,
    #[prost(string, repeated, tag = "3")]
    pub(super) input: Vec<String>,
    #[prost(btree_map = "string, message", tag = "5")]
    pub(super) attr: BTreeMap<String, AttrValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AttrValue {
    #[prost(oneof = "Attribute", tags = "1, 2, 3, 4, 5, 6, 7, 8, 10")]
    pub(super) value: Option<Attribute>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Attribute {
    #[prost(message, tag = "1")]
    List(ListValue),
    #[prost(bytes = "bytes", tag = "2")]
    Text(Bytes),
    #[prost(int64, tag = "3")]
    Int(i64),
    #[prost(float, tag = "4")]
    Float(f32),
    #[prost(bool, tag = "5")]
    Bool(bool),
    #[prost(int32, tag = "6")]
    Type(i32),
    #[prost(message, tag = "7")]
    Shape(TensorShape),
    #[prost(message, tag = "8")]
    Tensor(TensorValue),
    #[prost(message, tag = "10")]
    Function(NameAttrList),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ListValue {
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(super) s: Vec<Bytes>,
    #[prost(int64, repeated, tag = "3")]
    pub(super) i: Vec<i64>,
    #[prost(float, repeated, tag = "4")]
    pub(super) f: Vec<f32>,
    #[prost(int32, repeated, tag = "6")]
    pub(super) types: Vec<i32>,
    #[prost(message, repeated, tag = "7")]
    pub(super) shape: Vec<TensorShape>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NameAttrList {
    #[prost(string, tag = "1")]
    pub(super) name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorShape {
    #[prost(message, repeated, tag = "2")]
    pub(super) dim: Vec<ShapeDim>,
    #[prost(bool, tag = "3")]
    pub(super) unknown_rank: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ShapeDim {
    #[prost(int64, tag = "1")]
    pub(super) size: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorValue {
    #[prost(int32, tag = "1")]
    pub(super) dtype: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) shape: Option<TensorShape>,
    #[prost(bytes = "bytes", tag = "4")]
    pub(super) content: Bytes,
    #[prost(float, repeated, tag = "5")]
    pub(super) float: Vec<f32>,
    #[prost(double, repeated, tag = "6")]
    pub(super) double: Vec<f64>,
    #[prost(int32, repeated, tag = "7")]
    pub(super) int: Vec<i32>,
    #[prost(int64, repeated, tag = "10")]
    pub(super) int64: Vec<i64>,
    #[prost(bool, repeated, tag = "11")]
    pub(super) bool: Vec<bool>,
    /// The bits of f16 and bf16.
    #[prost(int32, repeated, tag = "13")]
    pub(super) half: Vec<i32>,
    #[prost(uint32, repeated, tag = "16")]
    pub(super) uint32: Vec<u32>,
    #[prost(uint64, repeated, tag = "17")]
    pub(super) uint64: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FunctionDefLibrary {
    #[prost(message, repeated, tag = "1")]
    pub(super) function: Vec<FunctionDef>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FunctionDef {
    #[prost(message, optional, tag = "1")]
    pub(super) signature: Option<OpDef>,
    #[prost(message, repeated, tag = "3")]
    pub(super) node_def: Vec<NodeDef>,
    #[prost(btree_map = "string, string", tag = "4")]
    pub(super) ret: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OpDef {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) input_arg: Vec<ArgDef>,
    #[prost(message, repeated, tag = "3")]
    pub(super) output_arg: Vec<ArgDef>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ArgDef {
    #[prost(string, tag = "1")]
    pub(super) name: String,
}
