//! Kernels for NVIDIA's GPUs as PTX: how ops of threads look in it.
use crate::ptx;
use disc_codegen::{
    host::Program,
    target::{NVIDIA, NVIDIA_SPECIFIC},
};
use disc_ir::text;
use std::fmt::Display;

fn lowered(sm: impl Display, source: &str) -> String {
    let module = text::parse(source).unwrap_or_else(|errors| panic!("{errors:?}\n{source}"));
    let program = Program { module, ..Program::default() };
    let targets = format!("nvptx:sm_{sm} on x86-64-v3").parse().unwrap();
    let found = ptx(&program, &targets).unwrap_or_else(|error| panic!("{error}\n{source}"));
    let code = found.lines().filter(|line| !line.starts_with("//"));
    code.flat_map(|line| [line, "\n"]).collect()
}

/// Checks that the PTX of a body has all of these words.
#[track_caller]
fn check(sm: u32, body: &str, words: &[&str]) {
    let parameters = "%x: buffer<[N]xf32>, %h: buffer<[N]xf16>, %n: buffer<[N]xi32>";
    let found = lowered(sm, &format!("kernel @k({parameters}) grid threads = 128, warp = 32 {{\n{body}\n  return\n}}"));
    for word in words {
        assert!(found.contains(word), "{word} is missing in\n{found}");
    }
}

#[test]
fn a_kernel_is_an_entry_of_its_threads() {
    let body =
        "  %t = place thread : i32\n  %v = load %x[%t], align = 16, cache = readonly : (buffer<[N]xf32>, i32) -> vector<4xf32>
  %w = negate %v : vector<4xf32>
  store %x[%t], %w, align = 16 : (buffer<[N]xf32>, i32, vector<4xf32>)";
    check(80, body, &[".target sm_80", ".visible .entry k(", ".reqntid 128", "ld.global.nc.v4", "st.global.v4"]);
}

#[test]
fn a_kernel_says_how_many_blocks_are_resident() {
    let source =
        |resident: &str| format!("kernel @k(%x: buffer<4xf32>) grid threads = 128, warp = 32{resident} {{\n  return\n}}");
    let found = lowered(90, &source(", resident = 4"));
    assert!(found.contains(".reqntid 128\n.minnctapersm 4\n"), "{found}");
    assert!(!lowered(90, &source("")).contains("minnctapersm"), "the compiler chooses");
}

#[test]
fn threads_meet_in_instructions_of_their_own() {
    let body = "  %t = place lane : i32\n  %w = place warp : i32\n  %m = shared : buffer<4xf32, shared>
  %v = load %x[%t] : (buffer<[N]xf32>, i32) -> f32
  %s = reduce_group add, %v, width = 32 : f32
  store %m[%w], %s : (buffer<4xf32, shared>, i32, f32)\n  barrier block\n  barrier warp
  %r = load %m[%w] : (buffer<4xf32, shared>, i32) -> f32\n  store %x[%t], %r : (buffer<[N]xf32>, i32, f32)";
    check(70, body, &["shfl.sync.bfly.b32", "st.shared", "bar.sync", "bar.warp.sync", "ld.shared"]);
}

#[test]
fn lanes_read_each_other() {
    let body = "  %t = place lane : i32\n  %one = constant dense<1> : i32
  %v = load %n[%t] : (buffer<[N]xi32>, i32) -> i32
  %a = shuffle xor, %v, %one, width = 32 : (i32, i32) -> i32
  %b = shuffle up, %a, %one, width = 16 : (i32, i32) -> i32
  %c = shuffle down, %b, %one, width = 8 : (i32, i32) -> i32
  %d = shuffle index, %c, %one, width = 32 : (i32, i32) -> i32
  %p = compare LT, %d, %one : (i32, i32) -> i1
  %some = vote any, %p : i1\n  %every = vote all, %p : i1\n  %count = vote count, %p : (i1) -> i32
  %both = and %some, %every : i1\n  %r = select %both, %count, %d : (i1, i32, i32) -> i32
  store %n[%t], %r : (buffer<[N]xi32>, i32, i32)";
    // The last operand has the lanes of a segment: 16 of 32 are 0x1000.
    let words =
        ["shfl.sync.bfly.b32", "1, 31, -1", "shfl.sync.up.b32", "4096", "shfl.sync.down.b32", "6175", "shfl.sync.idx.b32"];
    check(75, body, &words);
    check(75, body, &["vote.sync.any", "vote.sync.all", "vote.sync.ballot", "popc.b32"]);
}

#[test]
fn atomics_are_those_of_the_type() {
    let body = "  %t = place thread : i32\n  %one = constant dense<1> : i32
  %a = atomic add, %n[%t], %one : (buffer<[N]xi32>, i32, i32) -> i32
  %b = atomic max, %n[%t], %a : (buffer<[N]xi32>, i32, i32) -> i32
  %c = atomic exchange, %n[%t], %b : (buffer<[N]xi32>, i32, i32) -> i32
  %d = atomic compare, %n[%t], %c, %one : (buffer<[N]xi32>, i32, i32, i32) -> i32
  store %n[%t], %d : (buffer<[N]xi32>, i32, i32)";
    check(70, body, &["atom", ".add", "max.s32", "exch.b32", "cas.b32"]);
}

#[test]
fn copies_and_tiles_have_instructions() {
    let body = "  %t = place lane : i32\n  %m = shared : buffer<512xf16, shared>
  copy_async %m, %t, %h, %t, elements = 8 : (buffer<512xf16, shared>, i32, buffer<[N]xf16>, i32)
  commit_copies\n  wait_copies left = 0\n  barrier block
  %a = load_matrix %m[%t] : (buffer<512xf16, shared>, i32) -> vector<8xf16>
  %b = load_matrix %m[%t], transposed = true : (buffer<512xf16, shared>, i32) -> vector<4xf16>
  %c = constant dense<0.0> : vector<4xf32>
  %d = multiply_tiles m16n8k16, %a, %b, %c : (vector<8xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
  %i = constant dense<0> : i32\n  store %x[%i], %d : (buffer<[N]xf32>, i32, vector<4xf32>)\n  wait_grid\n  release_grid";
    let copies = ["cp.async.cg.shared.global", "cp.async.commit_group", "cp.async.wait_group", "griddepcontrol.wait"];
    check(90, body, &copies);
    check(90, body, &["ldmatrix.sync.aligned.m8n8.x4", "x2.trans", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"]);
}

#[test]
fn copies_that_do_not_exist_read_nothing() {
    let body = "  %t = place lane : i32\n  %m = shared : buffer<512xf16, shared>
  %n0 = load %n[%t] : (buffer<[N]xi32>, i32) -> i32\n  %e = compare LT, %t, %n0 : (i32, i32) -> i1
  copy_async %m, %t, %h, %t, %e, elements = 8 : (buffer<512xf16, shared>, i32, buffer<[N]xf16>, i32, i1)
  commit_copies\n  wait_copies left = 0";
    check(80, body, &["selp.b32", ", 16, %r"]);
}

#[test]
fn tiles_are_those_of_the_chip_and_the_type() {
    let halves = "  %t = place lane : i32\n  %m = shared : buffer<512xf16, shared>
  %a = load_matrix %m[%t] : (buffer<512xf16, shared>, i32) -> vector<8xf16>
  %b = load_matrix %m[%t] : (buffer<512xf16, shared>, i32) -> vector<4xf16>\n  %c = constant dense<0.0> : vector<4xf32>
  %d = multiply_tiles m16n8k16, %a, %b, %c : (vector<8xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
  store %x[%t], %d : (buffer<[N]xf32>, i32, vector<4xf32>)";
    let found = lowered(75, &format!("kernel @k(%x: buffer<[N]xf32>) grid threads = 32, warp = 32 {{\n{halves}\n  return\n}}"));
    assert_eq!(found.matches("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32").count(), 2, "{found}");
    let bytes = "  %t = place lane : i32\n  %m = shared : buffer<512xi8, shared>
  %a = load_matrix %m[%t] : (buffer<512xi8, shared>, i32) -> vector<16xi8>
  %b = load_matrix %m[%t] : (buffer<512xi8, shared>, i32) -> vector<8xi8>\n  %c = constant dense<0> : vector<4xi32>
  %d = multiply_tiles m16n8k32, %a, %b, %c : (vector<16xi8>, vector<8xi8>, vector<4xi32>) -> vector<4xi32>
  store %n[%t], %d : (buffer<[N]xi32>, i32, vector<4xi32>)";
    check(80, bytes, &["ldmatrix.sync.aligned.m8n8.x4.shared.b16", "m16n8k32.row.col.s32.s8.s8.s32"]);
    let words = "  %t = place lane : i32\n  %m = shared : buffer<512xf32, shared>
  %a = load_matrix %m[%t] : (buffer<512xf32, shared>, i32) -> vector<4xf32>
  %b = load_matrix %m[%t] : (buffer<512xf32, shared>, i32) -> vector<2xf32>\n  %c = constant dense<0.0> : vector<4xf32>
  %d = multiply_tiles m16n8k8, %a, %b, %c : (vector<4xf32>, vector<2xf32>, vector<4xf32>) -> vector<4xf32>
  store %x[%t], %d : (buffer<[N]xf32>, i32, vector<4xf32>)";
    check(80, words, &["m8n8.x2.shared.b16", "m16n8k8.row.col.f32.tf32.tf32.f32"]);
}

#[test]
fn a_failure_is_reported_once() {
    let body = "  %t = place thread : i32\n  %zero = constant dense<0> : i32
  %v = load %n[%t] : (buffer<[N]xi32>, i32) -> i32\n  %ok = compare LT, %zero, %v : (i32, i32) -> i1
  assert %ok, %v, site = 3 : (i1, i32)\n  store %n[%t], %zero : (buffer<[N]xi32>, i32, i32)";
    check(90, body, &["k_param_3", "cas.b64", "exit;"]);
}

#[test]
fn wide_values_move_in_two_words() {
    let body = "  %t = place lane : i32\n  %v = load %x[%t] : (buffer<[N]xf32>, i32) -> f32
  %d = convert %v : (f32) -> f64\n  %s = reduce_group maximum, %d, width = 2 : f64
  %f = convert %s : (f64) -> f32\n  store %x[%t], %f : (buffer<[N]xf32>, i32, f32)";
    let found = lowered(90, &format!("kernel @k(%x: buffer<[N]xf32>) grid threads = 32, warp = 32 {{\n{body}\n  return\n}}"));
    assert_eq!(found.matches("shfl.sync").count(), 2, "{found}");
}

#[test]
fn memory_that_the_launch_sizes_is_shared_in_parts() {
    let body = "  %t = place thread : i32\n  %a = shared : buffer<3xf32, shared>\n  %b = shared : buffer<[N]xf32, shared>
  %v = load %x[%t] : (buffer<[N]xf32>, i32) -> f32\n  store %b[%t], %v : (buffer<[N]xf32, shared>, i32, f32)
  %w = load %b[%t] : (buffer<[N]xf32, shared>, i32) -> f32\n  store %a[%t], %w : (buffer<3xf32, shared>, i32, f32)";
    check(80, body, &[".extern .shared .align 16 .b8 disc_shared[]", "disc_shared"]);
}

#[test]
fn every_chip_has_a_version_of_ptx() {
    let body = "  %t = place thread : i32\n  %v = load %x[%t] : (buffer<4xf32>, i32) -> f32\n  store %x[%t], %v : (buffer<4xf32>, i32, f32)";
    let specific = NVIDIA_SPECIFIC.map(|sm| format!("{sm}a"));
    for sm in NVIDIA.map(|sm| sm.to_string()).into_iter().chain(specific) {
        let found = lowered(
            &sm,
            &format!("kernel @k(%x: buffer<4xf32>) grid threads = 4, warp = 32 {{\n{body}\n  barrier block\n  return\n}}"),
        );
        assert!(found.contains(&format!(".target sm_{sm}\n")), "{found}");
    }
}

#[test]
fn other_devices_have_no_ptx() {
    let module = text::parse("kernel @k(%x: buffer<4xf32>) grid threads = 32, warp = 32 {\n  return\n}").unwrap();
    let error = ptx(&Program { module, ..Program::default() }, &"simt:sm_90 on x86-64-v3".parse().unwrap()).unwrap_err();
    assert!(error.to_string().contains("PTX for `simt:sm_90`"), "{error}");
}
