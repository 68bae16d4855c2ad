//! Failures of requests, as clients see them.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use disc_ral::{Error, code};
use std::borrow::Cow;

/// A failure of a request: the status, disc's code and the message.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    code: Cow<'static, str>,
    message: String,
}

impl Failure {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, code: Cow::Borrowed(code::BAD_ARGUMENT), message: message.into() }
    }

    /// A request that does not fit the model.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Error::new(code::BAD_INPUT, "", message).into()
    }

    /// The client may try again.
    pub(crate) fn busy(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Error::new(code::INTERNAL, "", message).into()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match error.code() {
            code::OUT_OF_MEMORY => StatusCode::SERVICE_UNAVAILABLE,
            code::INTERNAL | code::OUTPUT | code::WEIGHTS | code::LOAD => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::BAD_REQUEST,
        };
        Self { status, code: error.code, message: error.message }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let body = serde_json::json!({ "error": format!("{}: {}", self.code, self.message), "code": self.code });
        let json = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let mut response = (self.status, [json], body.to_string()).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
