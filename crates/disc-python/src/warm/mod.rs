//! Serves calls of a compiled module without Python, where a call of their form was served before.
//!
//! Python decides which code serves a call (`disc.torch.module`), and notes it here as a
//! `WarmCall`. The next call goes through all that Python would look at: hooks, modes, the watch of
//! the module, types and structure of the arguments. Whatever differs, Python serves the call.
//!
//! Invariant: a call that is served here is one that the code which served the last call serves.
mod arguments;
mod call;
mod calls;
mod graph;
mod method;
mod result;
mod surroundings;

pub(crate) use call::PyWarmCall;
pub(crate) use calls::PyWarmCalls;
pub(crate) use graph::{PyGraphCall, PyWarmGraph};
pub(crate) use method::call_method;
