//! Tests `disc-opt` as a script uses it: status, standard output, standard error.
use std::{
    io::{Read, Write},
    process::{Command, Stdio},
};

const PROGRAM: &str = "func @main(%x: tensor<[B]x2xf32>) -> tensor<[B]x2xf32> {
  %y = add %x, %x : tensor<[B]x2xf32>
  return %y : tensor<[B]x2xf32>
}
";

/// Returns the status, standard output and standard error, for this standard input.
fn disc_opt(arguments: &[&str], input: &[u8]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_disc-opt"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A child that does not read its input is no error here.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn what_is_right_is_printed() {
    assert_eq!(disc_opt(&["-"], PROGRAM.as_bytes()), (Some(0), PROGRAM.into(), String::new()));
    assert_eq!(disc_opt(&["-", "--pass", "canonicalize,dce"], PROGRAM.as_bytes()), (Some(0), PROGRAM.into(), String::new()));
}

#[test]
fn errors_have_a_code_and_a_place() {
    let wrong = PROGRAM.replace("add %x, %x :", "ad %x, %x :");
    let (status, out, err) = disc_opt(&["-"], wrong.as_bytes());
    assert_eq!((status, &*out), (Some(1), ""));
    assert_eq!(
        err,
        "error[E0102]: there is no op `ad`\n --> <stdin>:2:8\n  |\n2 |   %y = ad %x, %x : tensor<[B]x2xf32>\n  |        ^^\n  |\n  = help: did you mean `add`?\n"
    );
}

#[test]
fn what_is_no_text_is_an_error() {
    let no_text: Vec<u8> = (0..=255).collect();
    let no_program = "\u{1F980}\0{{{{((((\"".as_bytes();
    for (arguments, input) in [(&["-"][..], &no_text[..]), (&["-"], no_program), (&["no-such-file.disc"], b""), (&["."], b"")] {
        let (status, out, err) = disc_opt(arguments, input);
        assert_eq!((status, &*out), (Some(1), ""), "{arguments:?}");
        assert!(err.starts_with("error[E0101]: "), "{err}");
    }
}

#[test]
fn wrong_names_are_errors() {
    let (status, _, err) = disc_opt(&["-", "--pass", "no-such-pass"], PROGRAM.as_bytes());
    assert_eq!((status, err.starts_with("error[E0102]: there is no pass `no-such-pass`")), (Some(1), true), "{err}");
    assert_eq!(disc_opt(&["-", "--from", "nowhere"], b"").0, Some(2));
    assert_eq!(disc_opt(&["-", "--from", "kernel"], PROGRAM.as_bytes()).0, Some(1));
}

#[test]
fn entries_run_on_files_and_on_random_inputs() {
    let path = std::env::temp_dir().join(format!("disc-opt-{}.npy", std::process::id()));
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }".to_owned() + &" ".repeat(58) + "\n";
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend([1.5_f32, -2.0].into_iter().flat_map(f32::to_le_bytes));
    std::fs::write(&path, file).unwrap();
    let from_file = disc_opt(&["-", "--run", "--input", &format!("x={}", path.display())], PROGRAM.as_bytes());
    std::fs::remove_file(&path).unwrap();
    assert_eq!(from_file, (Some(0), "tensor<1x2xf32> [[3.0, -4.0]]\n".into(), String::new()));
    let (status, out, _) = disc_opt(&["-", "--run", "--input", "x=rand:3x2"], PROGRAM.as_bytes());
    assert_eq!((status, out.starts_with("tensor<3x2xf32> [[")), (Some(0), true), "{out}");
    let (status, _, err) = disc_opt(&["-", "--run"], PROGRAM.as_bytes());
    assert_eq!((status, err.contains("@main needs values for: x")), (Some(1), true), "{err}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let long = (0..10_000).map(|i| format!("func @f{i}() {{\n  return\n}}\n\n")).collect::<String>();
    let mut command = Command::new(env!("CARGO_BIN_EXE_disc-opt"));
    let mut child = command.arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(long.as_bytes()).unwrap();
    let mut start = [0; 5];
    child.stdout.take().unwrap().read_exact(&mut start).unwrap();
    assert_eq!(&start, b"func ");
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}
