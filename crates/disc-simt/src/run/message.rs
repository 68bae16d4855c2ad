//! Words the errors of kernels: the thread, the op, the element and the buffer.
use super::Run;
use crate::{program::BufferId, shadow::Problem};

/// The reason why a launch ends.
#[derive(Debug)]
pub(super) struct Stop {
    thread: Option<u32>,
    message: String,
    line: Option<u32>,
}

impl Stop {
    pub(super) fn new(thread: Option<u32>, message: String) -> Box<Self> {
        Box::new(Self { thread, message, line: None })
    }

    /// Sets the line, unless an op within this one has done so.
    pub(super) fn at(self, line: u32) -> Self {
        Self { line: self.line.or(Some(line)), ..self }
    }
}

impl Run<'_> {
    /// Returns the whole message of an error.
    pub(super) fn describe(&self, stop: &Stop) -> String {
        let thread = stop.thread.map(|thread| format!(", thread {thread}")).unwrap_or_default();
        let line = stop.line.and_then(|line| self.program.lines.get(line as usize));
        let line = line.map(|line| format!(": `{line}`")).unwrap_or_default();
        format!("kernel @{}, block {}{thread}: {}{line}", self.program.name, self.block, stop.message)
    }

    /// Names an element of a buffer, with the buffer's type and size.
    fn element(&self, buffer: BufferId, element: i64) -> String {
        let (ty, limit) = (&self.program.buffers[buffer as usize], &self.limits[buffer as usize]);
        let dims: Vec<String> = ty.dims.iter().map(ToString::to_string).collect();
        let sizes = match limit.elements {
            i64::MAX => "its sizes are unknown".to_owned(),
            elements => format!("{elements} elements"),
        };
        format!("element {element} of `%{}` ({} of sizes [{}], {sizes})", ty.name, ty.dtype, dims.join(", "))
    }

    pub(super) fn outside(&self, thread: u32, verb: &str, buffer: BufferId, element: i64) -> Box<Stop> {
        Stop::new(Some(thread), format!("{verb} {}, outside of it", self.element(buffer, element)))
    }

    pub(super) fn misaligned(&self, thread: u32, verb: &str, (buffer, element): (BufferId, i64), align: u32) -> Box<Stop> {
        let element = self.element(buffer, element);
        Stop::new(Some(thread), format!("{verb} {element}, whose address is no multiple of {align} bytes"))
    }

    pub(super) fn problem(&self, thread: u32, verb: &str, (buffer, element): (BufferId, i64), problem: Problem) -> Box<Stop> {
        let element = self.element(buffer, element);
        let reason = match problem {
            Problem::Unwritten => "which nobody has written".to_owned(),
            Problem::ReadOnly => "memory that is `readonly` and is written in the same launch".to_owned(),
            Problem::InFlight => "which an asynchronous copy writes, and nobody has waited for it".to_owned(),
            Problem::Race { wrote, thread, elsewhere } => {
                let did = if wrote { "writes" } else { "reads" };
                let other = match (elsewhere, thread) {
                    (true, _) => "another block".to_owned(),
                    (false, Some(thread)) => format!("thread {thread}"),
                    (false, None) => "other threads".to_owned(),
                };
                let verb = if other == "other threads" { did.trim_end_matches('s') } else { did };
                format!("a race: {other} {verb} it, and no barrier is between")
            }
        };
        Stop::new(Some(thread), format!("{verb} {element}, {reason}"))
    }
}
