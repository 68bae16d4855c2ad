//! Runs the entry `main` of a package on zeros, with each dim that has a name of this size:
//!
//!     cargo run --package disc-ral --example run_package -- model.discpkg 4

use disc_ral::{Error, Package, Session, SessionOptions, Tensor};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, size] = &arguments[..] else {
        eprintln!("usage: run_package PACKAGE SIZE");
        return ExitCode::from(2);
    };
    let Ok(size) = size.parse() else {
        eprintln!("`{size}` is no size");
        return ExitCode::from(2);
    };
    match run(path, size) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(path: &str, size: i64) -> Result<(), Error> {
    let package = Package::open(path)?;
    let entry = package.entry("main")?;
    let zeros = entry.inputs().iter().map(|input| {
        let sizes: Vec<i64> = input.dims().iter().map(|dim| dim.parse().unwrap_or(size)).collect();
        Tensor::zeros(input.dtype(), &sizes)
    });
    let inputs = zeros.collect::<Result<Vec<_>, Error>>()?;
    let mut session = Session::new(&package, SessionOptions::default())?;
    for (info, output) in entry.outputs().iter().zip(session.run("main", &inputs)?) {
        let numbers = output.elements::<f32>().map(|elements| format!("{:?}", &elements[..elements.len().min(8)]));
        println!("{}: {} {:?} {}", info.name(), output.dtype(), output.sizes(), numbers.unwrap_or_default());
    }
    Ok(())
}
