//! The `disc` command.

fn main() {}
