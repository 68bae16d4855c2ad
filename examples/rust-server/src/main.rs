//! A small server in plain Rust that has a package inside: one thread and one session per core, a
//! line of numbers in, a line of numbers out.
//!
//!     cargo run --release -- model.discpkg 127.0.0.1:7000
//!     printf '1 2 3 4 5 6 7 8\n' | nc -N 127.0.0.1 7000
//!
//! The entry `main` has one f32 input of two axes, and one f32 output. crates/disc-serve is a
//! server for production.

use disc_ral::{Error, Package, Session, SessionOptions, Tensor};
use std::{
    io::{self, BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    process::ExitCode,
    sync::Arc,
    thread,
    time::Duration,
};

const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, address] = &arguments[..] else {
        eprintln!("usage: rust-server PACKAGE ADDRESS");
        return ExitCode::from(2);
    };
    match serve(path, address) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(path: &str, address: &str) -> Result<(), Box<dyn std::error::Error>> {
    let package = Package::open(path)?;
    let listener = Arc::new(TcpListener::bind(address)?);
    println!("listening on {}", listener.local_addr()?);
    let workers = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let workers = (0..workers).map(|_| {
        // The workers share code and weights; a session is one worker's own.
        let session = Session::new(&package, SessionOptions { threads: Some(1), ..Default::default() })?;
        let listener = Arc::clone(&listener);
        Ok(thread::spawn(move || work(session, &listener)))
    });
    for worker in workers.collect::<Result<Vec<_>, Error>>()? {
        worker.join().map_err(|_| "a worker panicked")??;
    }
    Ok(())
}

fn work(mut session: Session, listener: &TcpListener) -> io::Result<()> {
    loop {
        let (client, _) = listener.accept()?;
        // A client that goes away costs only its own connection.
        let _ = answer(&mut session, &client);
    }
}

fn answer(session: &mut Session, client: &TcpStream) -> io::Result<()> {
    client.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    client.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    for line in BufReader::new(client).lines() {
        let mut writer = client;
        match row(session, &line?) {
            Ok(numbers) => writeln!(writer, "{numbers}")?,
            Err(message) => writeln!(writer, "error: {message}")?,
        }
    }
    Ok(())
}

/// Runs the model on one row.
fn row(session: &mut Session, line: &str) -> Result<String, String> {
    let numbers: Result<Vec<f32>, _> = line.split_whitespace().map(str::parse).collect();
    let numbers = numbers.map_err(|error| error.to_string())?;
    let sizes = [1, numbers.len() as i64];
    let run = |session: &mut Session| -> Result<String, Error> {
        let outputs = session.run("main", &[Tensor::new(&sizes, &numbers)?])?;
        let numbers: Vec<String> = outputs[0].elements::<f32>()?.iter().map(f32::to_string).collect();
        Ok(numbers.join(" "))
    };
    run(session).map_err(|error| error.to_string())
}
