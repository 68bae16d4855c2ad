//! The `disc-opt` command.

fn main() {}
