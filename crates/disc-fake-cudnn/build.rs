//! Names the library as the real one is named: a process that has loaded it has `libcudnn.so.9`.
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcudnn.so.9");
}
