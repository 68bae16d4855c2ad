//! Measures what a package costs its host: opening it, the first result, and a call.
//!
//! `cargo run --release -p disc-ral --example package_cost -- model.discpkg main 1x16 [2x8 ..]`:
//! one list of sizes for each input; all elements are zero. `DISC_NUM_THREADS` counts.
use disc_ral::{Error, OpenOptions, Package, Session, SessionOptions, Tensor};
use std::time::{Duration, Instant};

/// Calls are timed for about so long.
const LONG: Duration = Duration::from_millis(500);

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, name, sizes @ ..] = &arguments[..] else {
        println!("usage: package_cost PACKAGE ENTRY SIZES..");
        return Ok(());
    };
    let start = Instant::now();
    let package = Package::open_with(path, &OpenOptions::default())?;
    let opened = start.elapsed();
    let mut session = Session::new(&package, SessionOptions::default())?;
    let loaded = start.elapsed();
    let sizes: Vec<Vec<i64>> = sizes.iter().map(|list| list.split('x').filter_map(|size| size.parse().ok()).collect()).collect();
    let ports = package.entry(name)?.inputs();
    let inputs =
        ports.iter().zip(&sizes).map(|(port, sizes)| Tensor::zeros(port.dtype(), sizes)).collect::<Result<Vec<_>, _>>()?;
    session.run(name, &inputs)?;
    let first = start.elapsed();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!("open {:.2} ms, load {:.2} ms, first result {:.2} ms", ms(opened), ms(loaded), ms(first));
    let (begin, mut times) = (Instant::now(), Vec::new());
    while begin.elapsed() < LONG {
        let start = Instant::now();
        session.run(name, &inputs)?;
        times.push(start.elapsed().as_nanos());
    }
    times.sort_unstable();
    println!("a call {} ns at the median, {} ns at least, of {}", times[times.len() / 2], times[0], times.len());
    Ok(())
}
