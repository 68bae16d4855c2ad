//! The runtime abstraction layer: devices, arena, thread pool, sessions; loads and runs compiled code.
