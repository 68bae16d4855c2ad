//! Memory and lanes.
use super::{Program, address, address_mut, alone, error, program, targets};

#[test]
fn masked_accesses_touch_nothing_else() {
    // Lanes beyond the count would be in a page that faults.
    let source = "kernel @copy(%a: buffer<8xf32>, %b: buffer<8xf32>, %n: i64, %begin: i64, %end: i64) {
          %zero = constant dense<0> : i64
          %m = lane_mask %n : (i64) -> vector<8xi1>
          %x = load %a[%zero], %m : (buffer<8xf32>, i64, vector<8xi1>) -> vector<8xf32>
          store %b[%zero], %x, %m : (buffer<8xf32>, i64, vector<8xf32>, vector<8xi1>)
          return
        }
        kernel @bytes(%a: buffer<32xi8>, %b: buffer<32xi8>, %n: i64, %begin: i64, %end: i64) {
          %zero = constant dense<0> : i64
          %m = lane_mask %n : (i64) -> vector<32xi1>
          %x = load %a[%zero], %m : (buffer<32xi8>, i64, vector<32xi1>) -> vector<32xi8>
          store %b[%zero], %x, %m : (buffer<32xi8>, i64, vector<32xi8>, vector<32xi1>)
          return
        }
        kernel @scalar(%a: buffer<1xf64>, %b: buffer<1xf64>, %n: i64, %begin: i64, %end: i64) {
          %zero = constant dense<0> : i64
          %m = lane_mask %n : (i64) -> i1
          %x = load %a[%zero], %m : (buffer<1xf64>, i64, i1) -> f64
          store %b[%zero], %x, %m : (buffer<1xf64>, i64, f64, i1)
          return
        }";
    let (from, to) = (GuardedPage::new(), GuardedPage::new());
    for target in targets() {
        let program = Program::new(source, &target);
        for (kernel, size, lanes) in [("copy", 4, 8_i64), ("bytes", 1, 32), ("scalar", 8, 1)] {
            for count in [0, 1, lanes / 2, lanes - 1, lanes] {
                let bytes = count as usize * size;
                (0..bytes).for_each(|i| from.write(bytes - i, i as u8 + 1));
                (0..64).for_each(|i| to.write(64 - i, 0));
                program.run(kernel, &[from.end() - bytes as u64, to.end() - bytes as u64, count as u64]);
                let written: Vec<u8> = (0..bytes).map(|i| to.read(bytes - i)).collect();
                assert_eq!(written, (1..=bytes as u8).collect::<Vec<_>>(), "{target}: {kernel} of {count}");
                assert!((bytes + 1..64).all(|i| to.read(i) == 0), "{target}: {kernel} of {count}");
            }
        }
        // A count below 0 or above the lanes is a count of none or all.
        let (a, mut b) = ([1.0_f32; 8], [0.0_f32; 8]);
        program.run("copy", &[address(&a), address_mut(&mut b), -5_i64 as u64]);
        assert_eq!(b, [0.0; 8]);
        program.run("copy", &[address(&a), address_mut(&mut b), (1 << 40) + 1]);
        assert_eq!(b, [1.0; 8]);
    }
}

#[test]
fn loads_a_step_apart_read_nothing_else() {
    let kernel = |name: &str, step: i64, size: &str| {
        format!(
            "kernel @{name}(%a: buffer<32x{size}>, %b: buffer<8x{size}>, %from: i64, %n: i64, %begin: i64, %end: i64) {{
          %zero = constant dense<0> : i64
          %steps = constant dense<{step}> : vector<8xi64>
          %numbers = lanes : vector<8xi64>
          %many = multiply %numbers, %steps : vector<8xi64>
          %first = splat %from : (i64) -> vector<8xi64>
          %at = add %first, %many : vector<8xi64>
          %m = lane_mask %n : (i64) -> vector<8xi1>
          %x = load %a[%at], %m : (buffer<32x{size}>, vector<8xi64>, vector<8xi1>) -> vector<8x{size}>
          store %b[%zero], %x : (buffer<8x{size}>, i64, vector<8x{size}>)
          return
        }}\n"
        )
    };
    let source: String =
        [("back", -1, "i16"), ("two", 2, "i32"), ("three", 3, "i32")].map(|(n, step, size)| kernel(n, step, size)).concat();
    let page = GuardedPage::new();
    (1..=200).for_each(|i| page.write(i, i as u8));
    for target in targets() {
        let program = Program::new(&source, &target);
        for count in [0_i64, 1, 3, 7, 8] {
            // The last requested element ends at the end of the page.
            for (name, step) in [("two", 2), ("three", 3)] {
                let elements = ((count - 1) * step + 1).max(0);
                let mut found = [-1_i32; 8];
                program.run(name, &[page.end() - 4 * elements as u64, address_mut(&mut found), 0, count as u64]);
                let at = |i: i64| (page.read((4 * (elements - i * step)) as usize), found[i as usize].to_le_bytes()[0]);
                assert!((0..count).map(at).all(|(a, b)| a == b), "{target}: {name} of {count}: {found:?}");
                assert!(found[count as usize..].iter().all(|&x| x == 0), "{target}: {name} of {count}: {found:?}");
            }
            let mut found = [-1_i16; 8];
            program.run("back", &[page.end() - 16, address_mut(&mut found), 7, count as u64]);
            let at = |i: i64| (page.read((2 * (i + 1)) as usize), found[i as usize].to_le_bytes()[0]);
            assert!((0..count).map(at).all(|(a, b)| a == b), "{target}: backwards, {count}: {found:?}");
        }
    }
}

/// A page that is followed by one that cannot be accessed.
struct GuardedPage(*mut u8);

impl GuardedPage {
    const SIZE: usize = 4096;

    fn new() -> Self {
        let (flags, access) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new mapping of two pages, of which the second loses its access.
        unsafe {
            let start = libc::mmap(std::ptr::null_mut(), 2 * Self::SIZE, access, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(start.add(Self::SIZE), Self::SIZE, libc::PROT_NONE), 0);
            Self(start.cast())
        }
    }

    fn end(&self) -> u64 {
        self.0 as u64 + Self::SIZE as u64
    }

    fn write(&self, before_end: usize, value: u8) {
        // SAFETY: inside the first page.
        unsafe { self.0.add(Self::SIZE - before_end).write(value) }
    }

    fn read(&self, before_end: usize) -> u8 {
        // SAFETY: inside the first page.
        unsafe { self.0.add(Self::SIZE - before_end).read() }
    }
}

impl Drop for GuardedPage {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nothing uses any more.
        unsafe { libc::munmap(self.0.cast(), 2 * Self::SIZE) };
    }
}

#[test]
fn vectors_of_indices_gather_and_scatter() {
    let source = "kernel @swap(%a: buffer<16xbf16>, %i: buffer<8xi32>, %b: buffer<16xbf16>, %begin: i64, %end: i64) {
          %zero = constant dense<0> : i64
          %n = constant dense<7> : i64
          %m = lane_mask %n : (i64) -> vector<8xi1>
          %at = load %i[%zero] : (buffer<8xi32>, i64) -> vector<8xi32>
          %x = load %a[%at] : (buffer<16xbf16>, vector<8xi32>) -> vector<8xbf16>
          store %b[%at], %x, %m : (buffer<16xbf16>, vector<8xi32>, vector<8xbf16>, vector<8xi1>)
          %y = load %a[%at], %m : (buffer<16xbf16>, vector<8xi32>, vector<8xi1>) -> vector<8xbf16>
          store %b[%zero], %y : (buffer<16xbf16>, i64, vector<8xbf16>)
          return
        }";
    let (a, at): (Vec<u16>, [i32; 8]) = ((100..116).collect(), [15, 14, 13, 12, 11, 10, 9, 8]);
    for target in targets() {
        let mut b = [0_u16; 16];
        Program::new(source, &target).run("swap", &[address(&a), address(&at), address_mut(&mut b)]);
        assert_eq!(b, [115, 114, 113, 112, 111, 110, 109, 0, 0, 109, 110, 111, 112, 113, 114, 115], "{target}");
    }
}

/// The last of several lanes that write to one place is the one that stays.
#[test]
fn scatter_is_in_lane_order() {
    let source = "kernel @k(%b: buffer<4xi32>, %begin: i64, %end: i64) {
          %at = constant dense<2> : vector<16xi64>
          %x = lanes : vector<16xi32>
          store %b[%at], %x : (buffer<4xi32>, vector<16xi64>, vector<16xi32>)
          return
        }";
    for target in targets() {
        let mut b = [-1_i32; 4];
        Program::new(source, &target).run("k", &[address_mut(&mut b)]);
        assert_eq!(b, [-1, -1, 15, -1], "{target}");
    }
}

#[test]
fn truth_values_are_bytes() {
    let source = "kernel @k(%a: buffer<8xi1>, %b: buffer<8xi1>, %c: buffer<8xf32>, %begin: i64, %end: i64) {
          %zero = constant dense<0> : i64
          %n = constant dense<6> : i64
          %m = lane_mask %n : (i64) -> vector<8xi1>
          %x = load %a[%zero] : (buffer<8xi1>, i64) -> vector<8xi1>
          %y = not %x : vector<8xi1>
          store %b[%zero], %y, %m : (buffer<8xi1>, i64, vector<8xi1>, vector<8xi1>)
          %p = constant dense<1.5> : vector<8xf32>
          %q = constant dense<-2.0> : vector<8xf32>
          %s = select %x, %p, %q : (vector<8xi1>, vector<8xf32>, vector<8xf32>) -> vector<8xf32>
          store %c[%zero], %s : (buffer<8xf32>, i64, vector<8xf32>)
          return
        }";
    for target in targets() {
        // Any byte but 0 is true.
        let (a, mut b, mut c) = ([0_u8, 1, 0, 1, 2, 0, 1, 0], [7_u8; 8], [0.0_f32; 8]);
        Program::new(source, &target).run("k", &[address(&a), address_mut(&mut b), address_mut(&mut c)]);
        assert_eq!(b, [1, 0, 1, 0, 0, 1, 7, 7], "{target}");
        assert_eq!(c, [-2.0, 1.5, -2.0, 1.5, 1.5, -2.0, 1.5, -2.0], "{target}");
    }
}

#[test]
fn lanes_are_combined_in_halves() {
    let source = "kernel @k(%a: buffer<8xf32>, %b: buffer<8xf32>, %i: buffer<8xi16>, %begin: i64, %end: i64) {
          %0 = constant dense<0> : i64
          %1 = constant dense<1> : i64
          %2 = constant dense<2> : i64
          %3 = constant dense<3> : i64
          %x = load %a[%0] : (buffer<8xf32>, i64) -> vector<8xf32>
          %sum = reduce_lanes %x, applies = add : (vector<8xf32>) -> f32
          store %b[%0], %sum : (buffer<8xf32>, i64, f32)
          %max = reduce_lanes %x, applies = maximum : (vector<8xf32>) -> f32
          store %b[%1], %max : (buffer<8xf32>, i64, f32)
          %lane = extract_lane %x, lane = 6 : (vector<8xf32>) -> f32
          store %b[%2], %lane : (buffer<8xf32>, i64, f32)
          %wide = splat %lane : (f32) -> vector<4xf32>
          store %b[%3], %wide : (buffer<8xf32>, i64, vector<4xf32>)
          %numbers = lanes : vector<8xi16>
          store %i[%0], %numbers : (buffer<8xi16>, i64, vector<8xi16>)
          return
        }";
    // In order the sum would be 8, in halves it is 0: 1e9 + -1e9 are combined first.
    let a = [1e9, 1.0, 1.0, 1.0, -1e9, 1.0, 7.0, 1.0_f32];
    for target in targets() {
        let (mut b, mut i) = ([0.0_f32; 8], [0_i16; 8]);
        Program::new(source, &target).run("k", &[address(&a), address_mut(&mut b), address_mut(&mut i)]);
        assert_eq!(b, [12.0, 1e9, 7.0, 7.0, 7.0, 7.0, 7.0, 0.0], "{target}");
        assert_eq!(i, [0, 1, 2, 3, 4, 5, 6, 7], "{target}");
    }
}

#[test]
fn fma_rounds_once_where_the_target_can() {
    let source = "kernel @k(%a: buffer<3xf32>, %begin: i64, %end: i64) {
          %0 = constant dense<0> : i64
          %1 = constant dense<1> : i64
          %2 = constant dense<2> : i64
          %x = load %a[%0] : (buffer<3xf32>, i64) -> f32
          %y = load %a[%1] : (buffer<3xf32>, i64) -> f32
          %z = fma %x, %x, %y : f32
          store %a[%2], %z : (buffer<3xf32>, i64, f32)
          return
        }";
    let x = 1.0 + 1024.0 * f32::EPSILON;
    for target in targets() {
        let mut a = [x, -1.0, 0.0];
        Program::new(source, &target).run("k", &[address_mut(&mut a)]);
        let expected = if target.has_fma() { x.mul_add(x, -1.0) } else { x * x - 1.0 };
        assert_eq!(a[2], expected, "{target}");
    }
    assert_ne!(x.mul_add(x, -1.0), x * x - 1.0);
}

#[test]
fn task_memory_views_and_prefetch() {
    let source = "kernel @k(%a: buffer<[N]xi64>, %begin: i64, %end: i64) {
          %0 = constant dense<0> : i64
          %1 = constant dense<1> : i64
          %first = scratch : buffer<[N]xi8, task>
          %second = scratch : buffer<4xi64, task>
          %third = scratch : buffer<4xi64, task>
          %x = constant dense<11> : i8
          store %first[%0], %x : (buffer<[N]xi8, task>, i64, i8)
          %y = constant dense<22> : i64
          store %second[%0], %y : (buffer<4xi64, task>, i64, i64)
          %z = constant dense<33> : i64
          store %third[%0], %z : (buffer<4xi64, task>, i64, i64)
          prefetch %a[%0], locality = 2 : (buffer<[N]xi64>, i64)
          %part = view %a[%1] : (buffer<[N]xi64>, i64) -> buffer<2xi64>
          %w = load %part[%1] : (buffer<2xi64>, i64) -> i64
          store %third[%1], %w : (buffer<4xi64, task>, i64, i64)
          return
        }";
    for target in targets() {
        let a = [5_i64, 6, 7];
        let program = Program::new(source, &target);
        // Up to N = 64 the first part takes 64 bytes. The value of the dim follows the buffer.
        for n in [1_u64, 64] {
            let (status, memory) = program.run("k", &[address(&a), n]);
            assert_eq!((status, memory[0], memory[8], memory[16], memory[17]), (0, 11, 22, 33, 7), "{target}");
        }
        let (_, memory) = program.run("k", &[address(&a), 65]);
        assert_eq!((memory[16], memory[24]), (22, 33), "{target}");
    }
}

#[test]
fn what_is_not_legal_is_named() {
    let source = "kernel @k(%a: buffer<4xf32>, %begin: i64, %end: i64) {
          %0 = constant dense<0> : i64
          %x = load %a[%0] : (buffer<4xf32>, i64) -> vector<4xf32>
          %y = tanh %x : vector<4xf32>
          store %a[%0], %y : (buffer<4xf32>, i64, vector<4xf32>)
          return
        }";
    let text = error(source).to_string();
    assert_eq!(text, "lowering `tanh` of `k`: must be expanded to arithmetic before");
}

/// A kernel that transposes a square of `lanes` times `lanes` elements.
fn square(lanes: usize, dtype: &str) -> String {
    let (v, buffer) = (format!("vector<{lanes}x{dtype}>"), format!("buffer<{}x{dtype}>", lanes * lanes));
    let list = |prefix: &str| (0..lanes).map(|i| format!("%{prefix}{i}")).collect::<Vec<_>>().join(", ");
    let types = vec![v.as_str(); lanes].join(", ");
    let each = |line: &dyn Fn(usize) -> String| (0..lanes).map(line).collect::<Vec<_>>().join("\n");
    format!(
        "kernel @k(%a: {buffer}, %b: {buffer}, %begin: i64, %end: i64) {{
          {}
          {}
          {} = transpose_lanes {} : ({types}) -> ({types})
          {}
          return
        }}",
        each(&|i| format!("%at{i} = constant dense<{}> : i64", i * lanes)),
        each(&|i| format!("%r{i} = load %a[%at{i}] : ({buffer}, i64) -> {v}")),
        list("c"),
        list("r"),
        each(&|i| format!("store %b[%at{i}], %c{i} : ({buffer}, i64, {v})")),
    )
}

#[test]
fn squares_are_transposed() {
    for lanes in [2, 4, 8, 16] {
        let count = lanes * lanes;
        for target in targets() {
            let (a, mut b): (Vec<f32>, _) = ((0..count).map(|i| i as f32).collect(), vec![0.0_f32; count]);
            Program::new(&square(lanes, "f32"), &target).run("k", &[address(&a), address_mut(&mut b)]);
            assert!((0..count).all(|i| b[i] == a[i % lanes * lanes + i / lanes]), "{target}, {lanes} lanes: {b:?}");
            let (a, mut b): (Vec<f64>, _) = ((0..count).map(|i| i as f64).collect(), vec![0.0_f64; count]);
            Program::new(&square(lanes, "f64"), &target).run("k", &[address(&a), address_mut(&mut b)]);
            assert!((0..count).all(|i| b[i] == a[i % lanes * lanes + i / lanes]), "{target}, {lanes} lanes: {b:?}");
        }
    }
}

#[test]
fn lanes_are_picked_from_two_vectors() {
    for (dtype, size) in [("f32", 4), ("i32", 4), ("f64", 8), ("i64", 8), ("i16", 2), ("f16", 2), ("i8", 1)] {
        for (lanes, target) in [1, 2, 4, 8, 16].into_iter().flat_map(|lanes| targets().into_iter().map(move |t| (lanes, t))) {
            let vector = |dtype: &str| if lanes == 1 { dtype.into() } else { format!("vector<{lanes}x{dtype}>") };
            let (v, at) = (vector(dtype), vector("i32"));
            let (both, one, numbers) =
                (format!("buffer<{}x{dtype}>", 2 * lanes), format!("buffer<{lanes}x{dtype}>"), format!("buffer<{lanes}xi32>"));
            let kernel = format!(
                "kernel @k(%a: {both}, %at: {numbers}, %b: {one}, %begin: i64, %end: i64) {{
                  %0 = constant dense<0> : i64
                  %1 = constant dense<{lanes}> : i64
                  %x = load %a[%0] : ({both}, i64) -> {v}
                  %y = load %a[%1] : ({both}, i64) -> {v}
                  %p = load %at[%0] : ({numbers}, i64) -> {at}
                  %r = pick_lanes %x, %y, %p : ({v}, {v}, {at}) -> {v}
                  store %b[%0], %r : ({one}, i64, {v})
                  return
                }}"
            );
            let a: Vec<u8> = (0..2 * lanes * size).map(|i| (i % 251) as u8).collect();
            let places: Vec<i32> = (0..lanes as i32).map(|lane| lane * 37 + 5 - 64 * (lane % 2)).collect();
            let mut b = vec![0_u8; lanes * size];
            Program::new(&kernel, &target).run("k", &[address(&a), address(&places), address_mut(&mut b)]);
            for (lane, &place) in places.iter().enumerate() {
                let place = place.rem_euclid(2 * lanes as i32) as usize;
                let (found, wanted) = (&b[lane * size..][..size], &a[place * size..][..size]);
                assert_eq!(found, wanted, "{target}, {lanes} lanes of {dtype}, lane {lane}");
            }
        }
    }
}

#[test]
fn lanes_are_parted_and_joined() {
    let kernel = |lanes: usize, op: &str| {
        let (v, buffer) = (format!("vector<{lanes}xf32>"), format!("buffer<{}xf32>", 2 * lanes));
        format!(
            "kernel @k(%a: {buffer}, %b: {buffer}, %begin: i64, %end: i64) {{
              %0 = constant dense<0> : i64
              %1 = constant dense<{lanes}> : i64
              %x = load %a[%0] : ({buffer}, i64) -> {v}
              %y = load %a[%1] : ({buffer}, i64) -> {v}
              %p, %q = {op} %x, %y : {v}
              store %b[%0], %p : ({buffer}, i64, {v})
              store %b[%1], %q : ({buffer}, i64, {v})
              return
            }}"
        )
    };
    for (lanes, target) in [2, 4, 8, 16].into_iter().flat_map(|lanes| targets().into_iter().map(move |target| (lanes, target))) {
        let (a, mut b): (Vec<f32>, _) = ((0..2 * lanes).map(|i| i as f32).collect(), vec![0.0_f32; 2 * lanes]);
        Program::new(&kernel(lanes, "unzip_lanes"), &target).run("k", &[address(&a), address_mut(&mut b)]);
        assert!((0..2 * lanes).all(|i| b[i] == a[i % lanes * 2 + i / lanes]), "{target}, {lanes} lanes: {b:?}");
        Program::new(&kernel(lanes, "zip_lanes"), &target).run("k", &[address(&a), address_mut(&mut b)]);
        assert!((0..2 * lanes).all(|i| b[i] == a[i % 2 * lanes + i / 2]), "{target}, {lanes} lanes: {b:?}");
    }
}

#[test]
fn a_stream_writes_past_the_caches_and_is_over_when_the_kernel_is() {
    let source = "kernel @copy(%a: buffer<64xf32>, %b: buffer<64xf32>, %n: i64, %begin: i64, %end: i64) {
          %zero = constant dense<0> : i64
          %x = load %a[%zero] : (buffer<64xf32>, i64) -> vector<32xf32>
          store %b[%zero], %x, nontemporal = 64 : (buffer<64xf32>, i64, vector<32xf32>)
          %few = compare LT, %n, %end : (i64, i64) -> i1
          assert %few, message = \"many\", site = 3 : i1
          return
        }";
    for target in targets() {
        let text = crate::assembly(&program(source), &alone(&target)).unwrap();
        let count = |word: &str| text.lines().filter(|line| line.trim_start().starts_with(word)).count();
        let stores = count("vmovntps") + count("movntps") + count("vmovntdq") + count("movntdq");
        assert_eq!(stores, 128 / target.vector_bytes() as usize, "{target}:\n{text}");
        assert_eq!(count("sfence"), 2, "{target}: one for each way out\n{text}");
        #[repr(align(64))]
        struct Lines([f32; 64]);
        let (a, mut b) = (Lines([2.5; 64]), Lines([0.0; 64]));
        Program::new(source, &target).run("copy", &[address(&a.0), address_mut(&mut b.0), 0]);
        assert!(b.0[..32] == [2.5; 32] && b.0[32..] == [0.0; 32], "{target}");
    }
}
