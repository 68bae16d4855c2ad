//! Names the library as the real driver is named: once it is loaded, whoever asks for
//! `libcuda.so.1` gets it.
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
}
