//! The routes of the protocol.

use crate::{
    error::Failure,
    metrics::Metrics,
    model::{Model, VERSION},
    protocol::{self, Body, Call},
    queue::Queue,
};
use axum::{
    Json, Router,
    body::{Body as HttpBody, Bytes},
    extract::{Path, State},
    http::{HeaderMap, HeaderName, Request, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// The header with the length of the JSON, if tensors follow it.
const JSON_BYTES: HeaderName = HeaderName::from_static("inference-header-content-length");
/// Bodies from this size on are read and written outside of the threads that serve connections.
const LARGE: usize = 64 << 10;

/// Everything that the routes use.
pub(crate) struct App {
    pub(crate) model: Arc<Model>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) is_draining: AtomicBool,
    pub(crate) max_body: usize,
    pub(crate) client_timeout: Duration,
}

type Shared = State<Arc<App>>;

pub(crate) fn router(app: Arc<App>) -> Router {
    let missing = || async { Failure::new(StatusCode::NOT_FOUND, "there is no such path") };
    let wrong = || async { Failure::new(StatusCode::METHOD_NOT_ALLOWED, "the path has another method") };
    let mut router = Router::new()
        .route("/v2", get(server))
        .route("/v2/health/live", get(live))
        .route("/v2/health/ready", get(ready))
        .route("/metrics", get(metrics));
    for model in ["/v2/models/{name}", "/v2/models/{name}/versions/{version}"] {
        router = router
            .route(model, get(metadata))
            .route(&format!("{model}/ready"), get(model_ready))
            .route(&format!("{model}/infer"), post(infer));
    }
    router.fallback(missing).method_not_allowed_fallback(wrong).with_state(app)
}

async fn server() -> Json<Value> {
    Json(json!({ "name": "disc", "version": env!("CARGO_PKG_VERSION"), "extensions": ["binary_tensor_data"] }))
}

async fn live() -> Json<Value> {
    Json(json!({ "live": true }))
}

async fn ready(State(app): Shared) -> Response {
    let is_ready = !app.is_draining.load(Ordering::Relaxed);
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(json!({ "ready": is_ready }))).into_response()
}

async fn metrics(State(app): Shared) -> Response {
    let text = app.metrics.text(&app.model.name, app.queue.waiting());
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

/// The name of a model in a path, and its version if the path has one.
type ModelPath = Path<Vec<(String, String)>>;

async fn metadata(State(app): Shared, Path(path): ModelPath) -> Result<Json<Value>, Failure> {
    app.check_path(&path)?;
    Ok(Json(app.model.metadata()))
}

async fn model_ready(State(app): Shared, Path(path): ModelPath) -> Result<Response, Failure> {
    app.check_path(&path)?;
    let is_ready = !app.is_draining.load(Ordering::Relaxed);
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok((status, Json(json!({ "name": app.model.name, "ready": is_ready }))).into_response())
}

async fn infer(State(app): Shared, Path(path): ModelPath, request: Request<HttpBody>) -> Response {
    let mut running = app.metrics.start();
    let response = match app.infer(&path, request).await {
        Ok(body) => answer(body),
        Err(failure) => failure.into_response(),
    };
    running.status = response.status().as_u16();
    response
}

fn answer(body: Body) -> Response {
    let Body { bytes, json_bytes, is_binary } = body;
    if is_binary {
        return ([(header::CONTENT_TYPE, "application/octet-stream")], [(JSON_BYTES, json_bytes.to_string())], bytes)
            .into_response();
    }
    ([(header::CONTENT_TYPE, "application/json")], bytes).into_response()
}

impl App {
    fn check_path(&self, path: &[(String, String)]) -> Result<(), Failure> {
        for (key, value) in path {
            let expected = if key == "name" { &self.model.name } else { VERSION };
            if value != expected {
                return Err(Failure::new(
                    StatusCode::NOT_FOUND,
                    format!("there is no {key} `{value}` of a model: it is `{expected}`"),
                ));
            }
        }
        Ok(())
    }

    async fn infer(self: &Arc<Self>, path: &[(String, String)], request: Request<HttpBody>) -> Result<Body, Failure> {
        self.check_path(path)?;
        let (head, body) = request.into_parts();
        let json_bytes = json_bytes(&head.headers)?;
        let body = self.body(&head.headers, body).await?;
        let is_large = body.len() >= LARGE;
        let app = Arc::clone(self);
        let Call { inputs, reply } = on_cpu(is_large, move || protocol::read(&app.model, &body, json_bytes)).await?;
        let key = self.model.key(&inputs);
        let answer = self.queue.push(inputs, key)?;
        let tensors = answer.await.map_err(|_| Failure::internal("the worker stopped"))??;
        let is_large = tensors.iter().any(|tensor| tensor.bytes().is_ok_and(|bytes| bytes.len() >= LARGE));
        let app = Arc::clone(self);
        on_cpu(is_large, move || protocol::write(&app.model, &reply, &tensors)).await
    }

    /// Reads the body of a request, up to the limits of size and time.
    async fn body(&self, headers: &HeaderMap, body: HttpBody) -> Result<Bytes, Failure> {
        let limit = self.max_body;
        let too_large = || Failure::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body has more than {limit} bytes"));
        let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if length.is_some_and(|length| length > limit as u64) {
            return Err(too_large());
        }
        let reading = Limited::new(body, limit).collect();
        match tokio::time::timeout(self.client_timeout, reading).await {
            Err(_) => Err(Failure::new(StatusCode::REQUEST_TIMEOUT, "the body did not come in time")),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
            Ok(Err(error)) => Err(Failure::bad_request(format!("the body cannot be read: {error}"))),
            Ok(Ok(body)) => Ok(body.to_bytes()),
        }
    }
}

/// Runs work on a thread that serves no connections, if there is much of it.
async fn on_cpu<R: Send + 'static>(
    is_large: bool,
    work: impl FnOnce() -> Result<R, Failure> + Send + 'static,
) -> Result<R, Failure> {
    if !is_large {
        return work();
    }
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(Failure::internal("disc panicked")))
}

fn json_bytes(headers: &HeaderMap) -> Result<Option<usize>, Failure> {
    let Some(value) = headers.get(JSON_BYTES) else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.parse().ok());
    number.map(Some).ok_or_else(|| Failure::bad_request(format!("the header {JSON_BYTES} is no number")))
}
