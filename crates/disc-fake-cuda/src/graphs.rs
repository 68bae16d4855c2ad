//! Implements graphs of launches, one after the other.
use crate::{
    driver::driver,
    handles::{State, pointer},
    launch::{Launch, Shape},
    status::{INVALID_HANDLE, INVALID_VALUE, Status},
    streams::{Op, stream_key},
};
use std::ffi::c_void;

/// A graph that is being made: its nodes, each after the previous one.
#[derive(Default)]
pub(crate) struct Graph {
    nodes: Vec<(usize, Launch)>,
}

/// A graph that can run.
pub(crate) struct Instance {
    nodes: Vec<(usize, Launch)>,
}

/// The parameters of a node, as the driver's header has them.
#[repr(C)]
pub struct NodeParameters {
    function: *mut c_void,
    blocks: [u32; 3],
    threads: [u32; 3],
    shared: u32,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
    kernel: *mut c_void,
    context: *mut c_void,
}

impl State {
    /// Reads the parameters of a node.
    ///
    /// # Safety
    /// They are as the driver takes them.
    unsafe fn launch_of(&self, parameters: *const NodeParameters) -> Result<Launch, Status> {
        // SAFETY: the caller's promise.
        let NodeParameters { function, blocks, threads, shared, parameters, extra, .. } = unsafe { parameters.read() };
        if !parameters.is_null() {
            return Err(INVALID_VALUE);
        }
        let kernel = self.kernel(function)?;
        // SAFETY: as above.
        unsafe { Launch::new(kernel, &Shape { blocks, threads, shared }, extra) }
    }
}

driver! {
    fn cuGraphCreate(state, graph: *mut *mut c_void, _flags: u32) {
        state.context()?;
        let handle = state.handle();
        state.graphs.insert(handle, Graph::default());
        // SAFETY: the caller's memory.
        unsafe { *graph = pointer(handle) };
        Ok(())
    }

    fn cuGraphAddKernelNode_v2(state, node: *mut *mut c_void, graph: *mut c_void, before: *const *mut c_void, count: usize,
        parameters: *const NodeParameters) {
        // SAFETY: the caller's parameters.
        let launch = unsafe { state.launch_of(parameters) }?;
        let handle = state.handle();
        let made = state.graphs.get_mut(&graph.addr()).ok_or(INVALID_HANDLE)?;
        let last = made.nodes.last().map(|(handle, _)| *handle);
        // SAFETY: the caller's list.
        let named = (count == 1).then(|| unsafe { (*before).addr() });
        if count > 1 || named != last {
            return Err(INVALID_VALUE);
        }
        made.nodes.push((handle, launch));
        // SAFETY: the caller's memory.
        unsafe { *node = pointer(handle) };
        Ok(())
    }

    fn cuGraphInstantiateWithFlags(state, instance: *mut *mut c_void, graph: *mut c_void, _flags: u64) {
        state.context()?;
        let nodes = state.graphs.get(&graph.addr()).ok_or(INVALID_HANDLE)?.nodes.clone();
        let handle = state.handle();
        state.instances.insert(handle, Instance { nodes });
        // SAFETY: the caller's memory.
        unsafe { *instance = pointer(handle) };
        Ok(())
    }

    fn cuGraphExecKernelNodeSetParams_v2(state, instance: *mut c_void, node: *mut c_void, parameters: *const NodeParameters) {
        // SAFETY: the caller's parameters.
        let launch = unsafe { state.launch_of(parameters) }?;
        let found = state.instances.get_mut(&instance.addr()).ok_or(INVALID_HANDLE)?;
        let node = found.nodes.iter_mut().find(|(handle, _)| *handle == node.addr()).ok_or(INVALID_HANDLE)?;
        node.1 = launch;
        Ok(())
    }

    fn cuGraphLaunch(state, instance: *mut c_void, stream: *mut c_void) {
        let key = stream_key(state, stream)?;
        let context = state.context()?;
        let launches: Vec<Launch> = match state.instances.get(&instance.addr()) {
            Some(found) => found.nodes.iter().map(|(_, launch)| launch.clone()).collect(),
            None => return Err(INVALID_HANDLE),
        };
        if launches.iter().any(|launch| launch.context() != context) {
            return Err(INVALID_HANDLE);
        }
        launches.into_iter().try_for_each(|launch| state.push(key, Op::Launch(launch)))
    }

    fn cuGraphExecDestroy(state, instance: *mut c_void) {
        state.context()?;
        state.instances.remove(&instance.addr()).map(drop).ok_or(INVALID_HANDLE)
    }

    fn cuGraphDestroy(state, graph: *mut c_void) {
        state.context()?;
        state.graphs.remove(&graph.addr()).map(drop).ok_or(INVALID_HANDLE)
    }
}
