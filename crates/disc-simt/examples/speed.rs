//! Measures the engine: element operations and checked accesses a second, on one core.
//!
//! `cargo run --release --package disc-simt --example speed`
use disc_abi::GridLaunch;
use disc_ral::{GridCall, Image, open_device};
use std::{error::Error, fmt::Write, time::Instant};

/// Threads of all blocks.
const THREADS: i64 = 1 << 12;
/// Launches, of which the fastest counts: short ones, so that one is not interrupted.
const REPEATS: u32 = 300;

/// Returns a kernel over `[N]` elements with the ops of `body` on `%x`, which make `%y`.
fn kernel(body: &str) -> String {
    format!(
        "kernel @k(%in: buffer<[N]xf32>, %out: buffer<[N]xf32>) grid threads = 256, warp = 32 {{
  %b = place block : i32
  %t = place thread : i32
  %threads = constant dense<256> : i32
  %first = multiply %b, %threads : i32
  %i = add %first, %t : i32
  %n = dim [N] : i32
  %zero = constant dense<0> : i32
  %one = constant dense<1> : i32
  %turns = constant dense<64> : i32
  %x = load %in[%i] : (buffer<[N]xf32>, i32) -> f32
{body}
  store %out[%i], %y : (buffer<[N]xf32>, i32, f32)
  return
}}"
    )
}

fn arithmetic() -> String {
    let mut body = String::from("  %c = constant dense<0.5> : f32\n  %x0 = add %x, %c : f32\n");
    for i in 0..32 {
        let op = ["multiply %x{}, %c", "add %x{}, %x", "maximum %x{}, %c", "fma %x{}, %c, %x"][i % 4];
        writeln!(body, "  %x{} = {} : f32", i + 1, op.replace("{}", &i.to_string())).expect("a string");
    }
    body + "  %y = add %x32, %x : f32"
}

/// Returns a loop of loads and stores at `place` of the turn `%j`.
fn accesses(place: &str) -> String {
    format!(
        "  %y = for %zero, %turns, %one, %x : (i32, i32, i32, f32) -> f32 do(%j: i32, %a: f32) {{
    {place}
    %v = load %in[%at] : (buffer<[N]xf32>, i32) -> f32
    %s = add %a, %v : f32
    return %s : f32
  }}"
    )
}

fn main() -> Result<(), Box<dyn Error>> {
    disc_simt::register();
    let device = open_device(&"simt:sm_90".parse()?)?;
    let mut queue = device.queue();
    let bytes = 4 * THREADS as usize;
    let (from, to) = (device.alloc(bytes)?, device.alloc(bytes)?);
    let values: Vec<f32> = (0..THREADS).map(|i| i as f32).collect();
    // SAFETY: memory of this size.
    unsafe { queue.upload(from.as_ptr(), values.as_ptr().cast(), bytes) }.map_err(|failure| format!("{failure:?}"))?;
    let wrapped = "%m = remainder PLACE, %n : i32";
    let cases = [
        ("element operations", arithmetic(), 34.0),
        (
            "loads of neighbours",
            accesses(&format!("%p = add %i, %j : i32\n    {}\n    %at = add %m, %zero : i32", wrapped.replace("PLACE", "%p"))),
            64.0,
        ),
        (
            "loads with a stride",
            accesses(&format!(
                "%q = constant dense<33> : i32\n    %r = multiply %i, %q : i32\n    %p = add %r, %j : i32\n    {}\n    %at = add %m, %zero : i32",
                wrapped.replace("PLACE", "%p")
            )),
            64.0,
        ),
        ("loads of one element", accesses("%at = add %j, %zero : i32"), 64.0),
    ];
    for (name, body, each) in cases {
        let text = kernel(&body);
        let image = Image { target: "simt:sm_90".into(), code: text.as_bytes().into(), kernels: vec!["k".into()] };
        let kernels = device.load(&image).map_err(|error| format!("{error}\n{text}"))?;
        let args = [from.addr().get() as u64, to.addr().get() as u64, THREADS as u64];
        let grid = GridLaunch { blocks: THREADS / 256, shared: 0, scratch: 0, threads: 256, flags: 0 };
        let call = GridCall { kernel: 0, args: &args, grid };
        let mut best = f64::INFINITY;
        for _ in 0..REPEATS {
            let start = Instant::now();
            // SAFETY: the kernels are of this device, which checks them.
            unsafe { queue.launch_grid(&kernels, &call) }.map_err(|failure| format!("{failure:?}"))?;
            best = best.min(start.elapsed().as_secs_f64());
        }
        println!("{name}: {:.0} M/s", each * THREADS as f64 / best / 1e6);
    }
    Ok(())
}
