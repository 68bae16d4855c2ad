//! Serves a package over HTTP by the Open Inference Protocol v2: `docs/guide/serving.md`.
//!
//! A request goes from `http`, which limits what a client may send and how slowly, to
//! `protocol`, which makes tensors of it, to the `queue`, where requests wait that can run as
//! one batch, to a `worker`, which has a session of its own.
//!
//! Invariants: every request that is not refused is answered, also while the server drains; a
//! failure of one request is no other's; memory for requests is bounded by the limits of
//! [`ServeOptions`].

#![deny(missing_docs)]

mod batch;
mod data;
mod datatype;
mod error;
mod http;
mod listener;
mod metrics;
mod model;
mod options;
mod protocol;
mod queue;
mod server;
mod worker;

pub use options::ServeOptions;
pub use server::{Server, serve};
