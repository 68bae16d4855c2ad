//! Reads requests for inference and writes their answers: JSON, with the extension for binary
//! tensors.

use crate::{
    data::{Data, Elements},
    datatype,
    error::Failure,
    model::{Model, VERSION},
};
use disc_ral::{DType, HostTensor, InputInfo, OutputInfo, Tensor, bytes_of};
use serde::{Deserialize, Serialize, de::DeserializeSeed};
use serde_json::value::RawValue;

/// The body of a request. Keys that are not here are ignored.
#[derive(Deserialize)]
struct Request<'a> {
    id: Option<String>,
    #[serde(default)]
    parameters: Parameters,
    #[serde(borrow)]
    inputs: Vec<RequestInput<'a>>,
    #[serde(default)]
    outputs: Vec<RequestOutput>,
}

#[derive(Deserialize)]
struct RequestInput<'a> {
    name: String,
    shape: Vec<i64>,
    datatype: String,
    #[serde(default)]
    parameters: Parameters,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RequestOutput {
    name: String,
    #[serde(default)]
    parameters: Parameters,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Parameters {
    /// Of an input: the bytes of its data after the JSON.
    binary_data_size: Option<usize>,
    /// Of an output: its data is wanted after the JSON.
    binary_data: Option<bool>,
    /// Of a request: that is the default of its outputs.
    binary_data_output: Option<bool>,
}

/// A request that fits the model.
pub(crate) struct Call {
    pub(crate) inputs: Vec<HostTensor>,
    pub(crate) reply: Reply,
}

/// The form of the answer that a client wants.
pub(crate) struct Reply {
    id: Option<String>,
    /// The position of each output, and true if it goes after the JSON.
    outputs: Vec<(usize, bool)>,
}

/// An answer: the JSON and, if `is_binary`, tensors after its first `json_bytes`.
pub(crate) struct Body {
    pub(crate) bytes: Vec<u8>,
    pub(crate) json_bytes: usize,
    pub(crate) is_binary: bool,
}

/// Reads a request. `json_bytes` is the length of its JSON, if tensors follow it.
pub(crate) fn read(model: &Model, body: &[u8], json_bytes: Option<usize>) -> Result<Call, Failure> {
    let json_bytes = json_bytes.unwrap_or(body.len());
    let (json, mut binary) = body
        .split_at_checked(json_bytes)
        .ok_or_else(|| Failure::bad_request(format!("the body has {} bytes, its JSON {json_bytes}", body.len())))?;
    let request: Request<'_> =
        serde_json::from_slice(json).map_err(|error| Failure::bad_request(format!("the body is no request: {error}")))?;
    let infos = model.inputs();
    let mut inputs: Vec<Option<HostTensor>> = infos.iter().map(|_| None).collect();
    for input in &request.inputs {
        let at = find("input", &input.name, infos.iter().map(InputInfo::name))?;
        model.check(&infos[at], &input.shape)?;
        let tensor = read_input(&infos[at], input, &mut binary)?;
        if inputs[at].replace(tensor).is_some() {
            return Err(Failure::bad_request(format!("input `{}` came twice", input.name)));
        }
    }
    if !binary.is_empty() {
        return Err(Failure::bad_request(format!("{} bytes behind the JSON belong to no input", binary.len())));
    }
    let missing = |(tensor, info): (Option<HostTensor>, &InputInfo)| {
        tensor.ok_or_else(|| Failure::bad_request(format!("input `{}` is missing", info.name())))
    };
    let inputs = inputs.into_iter().zip(infos).map(missing).collect::<Result<_, _>>()?;
    Ok(Call { inputs, reply: reply(model, request)? })
}

/// Returns the position of a name.
fn find<'m>(what: &str, name: &str, mut names: impl Iterator<Item = &'m str> + Clone) -> Result<usize, Failure> {
    names.clone().position(|known| known == name).ok_or_else(|| {
        let first = names.next().map(|name| format!("`{name}`")).unwrap_or_default();
        let known = names.fold(first, |list, name| format!("{list}, `{name}`"));
        Failure::bad_request(format!("the model has no {what} `{name}`: it has {known}"))
    })
}

/// Reads the elements of an input, from JSON or from the front of `binary`.
fn read_input(info: &InputInfo, input: &RequestInput<'_>, binary: &mut &[u8]) -> Result<HostTensor, Failure> {
    let (name, dtype) = (info.name(), info.dtype());
    let bad = |message: String| Failure::bad_request(format!("input `{name}` {message}"));
    if input.datatype != datatype::name(dtype) {
        return Err(bad(format!("has datatype {}, {} came", datatype::name(dtype), input.datatype)));
    }
    let needed = bytes_of(dtype, &input.shape).ok_or_else(|| bad(format!("has shape {:?}, too large", input.shape)))?;
    let mut parsed = Vec::new();
    let bytes = match (input.data, input.parameters.binary_data_size) {
        (Some(_), Some(_)) => return Err(bad("has data both in JSON and behind it".into())),
        (None, None) => return Err(bad("has no data".into())),
        (None, Some(size)) => {
            let (bytes, rest) = binary.split_at_checked(size).ok_or_else(|| bad(format!("lacks some of its {size} bytes")))?;
            *binary = rest;
            bytes
        }
        (Some(data), None) => {
            let mut from = serde_json::Deserializer::from_str(data.get());
            let elements = Elements { dtype, bytes: &mut parsed };
            elements.deserialize(&mut from).map_err(|error| bad(format!("cannot be read: {error}")))?;
            &parsed
        }
    };
    if bytes.len() != needed {
        let [came, wanted] = [bytes.len(), needed].map(|bytes| bytes / dtype.size());
        return Err(bad(format!("has {wanted} elements by its shape {:?}, {came} came", input.shape)));
    }
    if dtype == DType::I1 && bytes.iter().any(|&byte| byte > 1) {
        return Err(bad("has bytes that are no truth values: 0 or 1".into()));
    }
    let mut tensor = HostTensor::zeros(dtype, &input.shape)?;
    tensor.bytes_mut().copy_from_slice(bytes);
    Ok(tensor)
}

fn reply(model: &Model, request: Request<'_>) -> Result<Reply, Failure> {
    let infos = model.outputs();
    let default = request.parameters.binary_data_output.unwrap_or(false);
    let wanted = |output: &RequestOutput| {
        let at = find("output", &output.name, infos.iter().map(OutputInfo::name))?;
        Ok((at, output.parameters.binary_data.unwrap_or(default)))
    };
    let outputs = if request.outputs.is_empty() {
        (0..infos.len()).map(|at| (at, default)).collect()
    } else {
        request.outputs.iter().map(wanted).collect::<Result<_, Failure>>()?
    };
    Ok(Reply { id: request.id, outputs })
}

#[derive(Serialize)]
struct Response<'a> {
    model_name: &'a str,
    model_version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    outputs: Vec<ResponseOutput<'a>>,
}

#[derive(Serialize)]
struct ResponseOutput<'a> {
    name: &'a str,
    datatype: &'a str,
    shape: &'a [i64],
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<BinarySize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Data<'a>>,
}

#[derive(Serialize)]
struct BinarySize {
    binary_data_size: usize,
}

/// Writes an answer.
pub(crate) fn write(model: &Model, reply: &Reply, tensors: &[Tensor<'static>]) -> Result<Body, Failure> {
    let internal = |error: &dyn std::fmt::Display| Failure::internal(error.to_string());
    let (mut outputs, mut binary) = (Vec::new(), Vec::new());
    for &(at, is_binary) in &reply.outputs {
        let (info, tensor) = (&model.outputs()[at], tensors.get(at).ok_or_else(|| internal(&"an output is missing"))?);
        let bytes = tensor.bytes()?;
        if is_binary {
            binary.push(bytes);
        }
        outputs.push(ResponseOutput {
            name: info.name(),
            datatype: datatype::name(tensor.dtype()),
            shape: tensor.sizes(),
            parameters: is_binary.then_some(BinarySize { binary_data_size: bytes.len() }),
            data: (!is_binary).then_some(Data(tensor)),
        });
    }
    let response = Response { model_name: &model.name, model_version: VERSION, id: reply.id.as_deref(), outputs };
    let mut bytes = serde_json::to_vec(&response).map_err(|error| internal(&error))?;
    let json_bytes = bytes.len();
    let is_binary = !binary.is_empty();
    binary.iter().for_each(|tensor| bytes.extend_from_slice(tensor));
    Ok(Body { bytes, json_bytes, is_binary })
}
