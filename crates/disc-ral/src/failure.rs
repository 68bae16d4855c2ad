//! Records the first failure of a call while generated code runs; it becomes a message when the
//! call has ended.

use crate::{
    device::{Fault, LaunchFailure},
    error::{AllocError, Error, code},
    meta::{EntryMeta, ModuleMeta, Site},
};
use std::borrow::Cow;

pub(crate) enum Failure {
    /// At a source site, with the values for its message.
    Site {
        number: u32,
        values: Vec<i64>,
    },
    Arena {
        bytes: i64,
        cause: AllocError,
    },
    Launch(LaunchFailure),
    Output {
        index: usize,
        message: String,
    },
    /// Generated code or the runtime broke the contract.
    Internal(String),
}

impl Failure {
    pub(crate) fn into_error(self, meta: &ModuleMeta, entry: &EntryMeta) -> Error {
        match self {
            Failure::Site { number, values } => at_site(meta, number, values),
            Failure::Arena { bytes, cause } => Error::out_of_memory("temporary memory", bytes, &cause),
            Failure::Launch(LaunchFailure::Scratch { bytes, cause }) => Error::out_of_memory("kernel scratch", bytes, &cause),
            Failure::Launch(LaunchFailure::Units(units)) => Error::internal(format!("a launch of {units} units")),
            Failure::Launch(LaunchFailure::Device(message)) => Error::internal(message),
            Failure::Launch(LaunchFailure::Driver(message)) => Error::new(code::DRIVER, "", message),
            Failure::Launch(LaunchFailure::Fault(fault)) => from_kernel(meta, fault),
            Failure::Output { index, message } => {
                let name = entry.outputs.get(index).map_or("", |output| &output.name);
                Error::new(code::OUTPUT, name, format!("output {index} (`{name}`): {message}"))
            }
            Failure::Internal(message) => Error::internal(message),
        }
    }
}

fn from_kernel(meta: &ModuleMeta, fault: Fault) -> Error {
    let Ok(number) = u32::try_from(fault.status) else {
        return Error::internal(format!("a kernel returned status {}", fault.status));
    };
    let count = meta.site(number).map_or(0, |site| site.kernel_values).min(fault.values.len());
    at_site(meta, number, fault.values[..count].to_vec())
}

fn at_site(meta: &ModuleMeta, number: u32, values: Vec<i64>) -> Error {
    match meta.site(number) {
        Some(site) => located(site, values),
        None => Error::internal(format!("a failure at source site {number}, which the module does not have")),
    }
}

fn located(site: &Site, values: Vec<i64>) -> Error {
    Error {
        code: Cow::Owned(site.code.clone()),
        op: site.op.clone(),
        message: site.message(&values),
        dims: site.dims.clone(),
        values,
    }
}
