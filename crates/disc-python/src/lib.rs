//! The Python extension module `disc._disc`.
