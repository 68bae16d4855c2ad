//! Runs tiles, copies and persistent blocks, and pins what the counters say.
mod common;
use common::{Bench, Sizes, grid};
use disc_abi::GRID_PERSISTENT;
use disc_ir::fragment::{Role, Tile};
use disc_simt::{KernelCounters, counters};
use half::f16;
use std::fmt::Write;

/// Returns a kernel of one warp that multiplies tiles whose fragments are in memory thread by
/// thread.
fn product(tile: Tile, dtype: &str, sum: &str) -> String {
    let warp = tile.warp();
    let mut text = String::from("kernel @k(");
    let parts = [("a", tile.a().lanes, dtype), ("b", tile.b().lanes, dtype), ("c", tile.c().lanes, sum)];
    for (name, lanes, dtype) in parts {
        write!(text, "%{name}: buffer<{}x{dtype}>, ", lanes * warp).unwrap();
    }
    let (c, lanes) = (tile.c().lanes * warp, tile.c().lanes);
    writeln!(text, "%y: buffer<{c}x{sum}>) grid threads = {warp}, warp = {warp} {{\n  %t = place thread : i32").unwrap();
    for (name, lanes, dtype) in parts {
        let (count, vector) = (lanes * warp, format!("vector<{lanes}x{dtype}>"));
        writeln!(text, "  %l{name} = constant dense<{lanes}> : i32\n  %i{name} = multiply %t, %l{name} : i32").unwrap();
        writeln!(text, "  %v{name} = load %{name}[%i{name}] : (buffer<{count}x{dtype}>, i32) -> {vector}").unwrap();
    }
    let types = parts.map(|(_, lanes, dtype)| format!("vector<{lanes}x{dtype}>"));
    let [a, b, v] = &types;
    writeln!(text, "  %r = multiply_tiles {}, %va, %vb, %vc : ({a}, {b}, {v}) -> {v}", tile.name()).unwrap();
    writeln!(text, "  store %y[%ic], %r : (buffer<{c}x{sum}>, i32, vector<{lanes}x{sum}>)\n  return\n}}").unwrap();
    text
}

/// Lists the elements of a matrix in the order of threads and their lanes, by another role's layout
/// if one is given.
fn fragments(tile: Tile, role: Role, matrix: impl Fn([u32; 2]) -> f32) -> Vec<f32> {
    let lanes = tile.part(role).lanes;
    (0..tile.warp()).flat_map(|thread| (0..lanes).map(move |lane| tile.element(role, thread, lane))).map(matrix).collect()
}

fn halves(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|&value| f16::from_f32(value).to_le_bytes()).collect()
}

fn element(role: Role, [row, column]: [u32; 2]) -> f32 {
    let seed = row * 7 + column * 3 + role as u32;
    (seed % 11) as f32 - 5.0
}

fn products(tile: Tile) -> Vec<f32> {
    fragments(tile, Role::C, |[row, column]| {
        let terms = (0..tile.sizes()[2]).map(|k| element(Role::A, [row, k]) * element(Role::B, [k, column]));
        element(Role::C, [row, column]) + terms.sum::<f32>()
    })
}

#[test]
fn tiles_of_halves_are_multiplied_in_their_layouts() {
    for (chip, tile) in [
        ("sm_90", Tile::M16N8K16),
        ("gfx942", Tile::Mfma16x16x16),
        ("gfx942", Tile::Mfma32x32x8),
        ("gfx1100", Tile::Wmma16x16x16),
    ] {
        let mut bench = Bench::on(chip);
        let [a, b, c] = [Role::A, Role::B, Role::C].map(|role| fragments(tile, role, |at| element(role, at)));
        let args = [bench.upload(&halves(&a)), bench.upload(&halves(&b)), bench.f32s(&c), bench.empty(4 * c.len())];
        bench.launch(&product(tile, "f16", "f32"), &args, grid(1, tile.warp())).unwrap();
        assert_eq!(bench.read_f32s(args[3], c.len()), products(tile), "{}", tile.name());
    }
}

#[test]
fn tiles_of_bytes_and_of_single_floats_are_multiplied() {
    let mut bench = Bench::new();
    let tile = Tile::M16N8K32;
    let bytes = |values: Vec<f32>| values.iter().map(|&value| value as i8 as u8).collect::<Vec<u8>>();
    let [a, b, c] = [Role::A, Role::B, Role::C].map(|role| fragments(tile, role, |at| element(role, at)));
    let integers: Vec<i32> = c.iter().map(|&value| value as i32).collect();
    let args = [bench.upload(&bytes(a)), bench.upload(&bytes(b)), bench.i32s(&integers), bench.empty(4 * c.len())];
    bench.launch(&product(tile, "i8", "i32"), &args, grid(1, 32)).unwrap();
    assert_eq!(bench.read_i32s(args[3], c.len()), products(tile).iter().map(|&value| value as i32).collect::<Vec<_>>());
    let tile = Tile::M16N8K8;
    let [a, b, c] = [Role::A, Role::B, Role::C].map(|role| fragments(tile, role, |at| element(role, at)));
    let args = [bench.f32s(&a), bench.f32s(&b), bench.f32s(&c), bench.empty(4 * c.len())];
    bench.launch(&product(tile, "f32", "f32"), &args, grid(1, 32)).unwrap();
    assert_eq!(bench.read_f32s(args[3], c.len()), products(tile));
}

#[test]
fn a_wrong_layout_gives_another_result() {
    let (mut bench, tile) = (Bench::new(), Tile::M16N8K16);
    let [mut a, b, c] = [Role::A, Role::B, Role::C].map(|role| fragments(tile, role, |at| element(role, at)));
    // Lanes 2 and 4 of each thread change places: rows 8 apart for terms 8 apart.
    a.chunks_exact_mut(8).for_each(|lanes| lanes.swap(2, 4));
    let args = [bench.upload(&halves(&a)), bench.upload(&halves(&b)), bench.f32s(&c), bench.empty(4 * c.len())];
    bench.launch(&product(tile, "f16", "f32"), &args, grid(1, 32)).unwrap();
    assert_ne!(bench.read_f32s(args[3], c.len()), products(tile));
}

#[test]
fn matrices_are_loaded_in_the_layout_of_fragments() {
    // A matrix of 16 by 16 halves, copied in pieces of 16 bytes; lanes name its rows.
    let text = "kernel @k(%x: buffer<256xf16>, %y: buffer<256xf16>) grid threads = 32, warp = 32 {
  %m = shared : buffer<256xf16, shared>
  %t = place thread : i32
  %eight = constant dense<8> : i32
  %sixteen = constant dense<16> : i32
  %i = multiply %t, %eight : i32
  copy_async %m, %i, %x, %i, elements = 8 : (buffer<256xf16, shared>, i32, buffer<256xf16>, i32)
  commit_copies
  wait_copies left = 0
  barrier block
  %row = remainder %t, %sixteen : i32
  %half = divide %t, %sixteen : i32
  %start = multiply %row, %sixteen : i32
  %right = multiply %half, %eight : i32
  %at = add %start, %right : i32
  %v = load_matrix %m[%at] TRANSPOSED: (buffer<256xf16, shared>, i32) -> vector<8xf16>
  store %y[%i], %v : (buffer<256xf16>, i32, vector<8xf16>)
  return
}";
    let mut bench = Bench::new();
    let matrix: Vec<f32> = (0..256).map(|i| i as f32).collect();
    let args = [bench.upload(&halves(&matrix)), bench.empty(512)];
    for transposed in [false, true] {
        let word = if transposed { ", transposed = true " } else { "" };
        bench.launch(&text.replace("TRANSPOSED", word).replace("] ,", "],"), &args, grid(1, 32)).unwrap();
        let bytes = bench.download(args[1], 512).unwrap();
        let found: Vec<f32> = bytes.chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()).collect();
        let wanted = fragments(Tile::M16N8K16, Role::A, |[row, column]| {
            // Each matrix of 8 by 8 is transposed, not all of it.
            let (inner, outer) = ([row % 8, column % 8], [row / 8 * 8, column / 8 * 8]);
            let [r, c] = if transposed { [inner[1], inner[0]] } else { inner };
            ((outer[0] + r) * 16 + outer[1] + c) as f32
        });
        assert_eq!(found, wanted);
    }
}

#[test]
fn persistent_blocks_take_parts_until_none_is_left() {
    let text = "kernel @k(%y: buffer<[P]xi32>) grid threads = 32, warp = 32 {
  %b = place block : i32
  %g = place grid : i32
  %t = place thread : i32
  %zero = constant dense<0> : i32
  %parts = dim [P] : i32
  %first = compare EQ, %t, %zero : (i32, i32) -> i1
  for %b, %parts, %g : (i32, i32, i32) -> () do(%p: i32) {
    if %first : (i1) -> () then {
      store %y[%p], %b : (buffer<[P]xi32>, i32, i32)
      return
    } else {
      return
    }
    return
  }
  return
}";
    let mut bench = Bench::new();
    let args = [bench.empty(40), 10];
    bench.launch(text, &args, Sizes { flags: GRID_PERSISTENT, ..grid(10, 32) }).unwrap();
    assert_eq!(bench.read_i32s(args[0], 10), [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]);
}

fn counted(name: &str, body: &str) -> KernelCounters {
    let text = format!(
        "kernel @{name}(%x: buffer<4096xf32>, %y: buffer<4096xf32>) grid threads = 64, warp = 32 {{
  %m = shared : buffer<4096xf32, shared>
  %t = place thread : i32
  %two = constant dense<2> : i32
  %thirty = constant dense<30> : i32
  %stride = constant dense<32> : i32
  %f = constant dense<1.0> : f32
{body}
  return
}}"
    );
    let mut bench = Bench::new();
    let args = [bench.f32s(&[1.0; 4096]), bench.empty(4 * 4096)];
    let image =
        disc_ral::Image { target: "simt:sm_90".into(), code: text.as_bytes().into(), kernels: vec![name.to_owned().into()] };
    let kernels = bench.device.load(&image).unwrap_or_else(|error| panic!("{error}"));
    bench.run(&kernels, &args, grid(1, 64)).unwrap();
    counters(false).into_iter().find(|found| found.kernel == name).unwrap()
}

#[test]
fn sectors_conflicts_and_branches_are_counted() {
    let near = counted(
        "near",
        "  %v = load %x[%t] : (buffer<4096xf32>, i32) -> f32
  store %m[%t], %v : (buffer<4096xf32, shared>, i32, f32)
  barrier block
  store %y[%t], %v : (buffer<4096xf32>, i32, f32)",
    );
    let sectors =
        |found: &KernelCounters| [found.load_sectors, found.least_load_sectors, found.store_sectors, found.least_store_sectors];
    assert_eq!(sectors(&near), [8; 4]);
    assert_eq!([near.launches, near.conflicts, near.barriers, near.divergent], [1, 0, 1, 0]);
    assert_eq!([near.bytes_read, near.bytes_written], [256, 256]);
    let far = counted(
        "far",
        "  %i = multiply %t, %stride : i32
  %v = load %x[%i] : (buffer<4096xf32>, i32) -> f32
  store %m[%i], %v : (buffer<4096xf32, shared>, i32, f32)
  %j = multiply %t, %two : i32
  store %y[%j], %v : (buffer<4096xf32>, i32, f32)
  %some = compare LT, %t, %thirty : (i32, i32) -> i1
  if %some : (i1) -> () then {
    return
  } else {
    return
  }",
    );
    assert_eq!(sectors(&far), [64, 8, 16, 8]);
    // All threads of a warp hit one bank; one warp of two parts.
    assert_eq!([far.conflicts, far.divergent], [62, 1]);
}
