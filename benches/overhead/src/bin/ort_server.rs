//! Serves ONNX Runtime with the front end of disc's server: axum, the binary tensors of the Open
//! Inference Protocol, one session that runs requests one after the other.
//!
//! `ort_server LIBONNXRUNTIME MODEL.onnx PORT THREADS`: all inputs are INT64 of one shape, and the
//! one output is FP32. It checks nothing of a request but what it needs.

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use ort::{
    session::{Session, builder::SessionBuilder},
    value::Tensor,
};
use serde_json::{Value, json};
use std::{
    env,
    error::Error,
    sync::{Arc, Mutex, PoisonError},
};

const JSON_BYTES: &str = "inference-header-content-length";

type Failure = Box<dyn Error + Send + Sync>;
type Answer = ([(&'static str, String); 1], Vec<u8>);

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [library, model, port, threads] = &arguments[..] else {
        return Err("usage: ort_server LIBRARY MODEL PORT THREADS".into());
    };
    ort::init_from(library).commit()?;
    let session = SessionBuilder::new()?.with_intra_threads(threads.parse()?)?.commit_from_file(model)?;
    let router = Router::new().route("/v2/models/{name}/infer", post(infer)).with_state(Arc::new(Mutex::new(session)));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
        eprintln!("serving at http://{}", listener.local_addr()?);
        Ok(axum::serve(listener, router).await?)
    })
}

async fn infer(State(session): State<Arc<Mutex<Session>>>, head: HeaderMap, body: Bytes) -> Result<Answer, (StatusCode, String)> {
    let answer = tokio::task::spawn_blocking(move || run(&session, &head, &body)).await;
    let refuse = |error: String| (StatusCode::BAD_REQUEST, error);
    answer.map_err(|error| refuse(error.to_string()))?.map_err(|error| refuse(error.to_string()))
}

fn run(session: &Mutex<Session>, head: &HeaderMap, body: &[u8]) -> Result<Answer, Failure> {
    let length: usize = head.get(JSON_BYTES).ok_or("no length of the JSON")?.to_str()?.parse()?;
    let (json, mut rest) = body.split_at_checked(length).ok_or("a body that is too short")?;
    let request: Value = serde_json::from_slice(json)?;
    let mut inputs = Vec::new();
    for input in request["inputs"].as_array().ok_or("no inputs")? {
        let shape: Vec<i64> = serde_json::from_value(input["shape"].clone())?;
        let bytes = shape.iter().product::<i64>() as usize * 8;
        let (tensor, others) = rest.split_at_checked(bytes).ok_or("a tensor that is too short")?;
        rest = others;
        let words = tensor.chunks_exact(8).map(|word| i64::from_le_bytes(word.try_into().expect("eight bytes")));
        let name = input["name"].as_str().ok_or("no name")?.to_owned();
        inputs.push((name, Tensor::from_array((shape, words.collect::<Vec<_>>()))?));
    }
    let mut session = session.lock().unwrap_or_else(PoisonError::into_inner);
    let outputs = session.run(inputs)?;
    let (shape, elements) = outputs[0].try_extract_tensor::<f32>()?;
    let size = json!({ "binary_data_size": elements.len() * 4 });
    let output = json!({ "name": "output0", "shape": shape.to_vec(), "datatype": "FP32", "parameters": size });
    let mut answer = serde_json::to_vec(&json!({ "outputs": [output] }))?;
    let head = [(JSON_BYTES, answer.len().to_string())];
    answer.extend(elements.iter().flat_map(|element| element.to_le_bytes()));
    Ok((head, answer))
}
