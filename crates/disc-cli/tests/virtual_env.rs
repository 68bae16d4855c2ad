//! Tests that assemblers of an active virtual environment are found.
use std::{fs, os::unix::fs::PermissionsExt, process::Command};

const PROGRAM: &str = "func @main(%x: tensor<[N]xf32>) -> tensor<[N]xf32> {
  %y = negate %x : tensor<[N]xf32>
  return %y : tensor<[N]xf32>
}";
/// A ptxas that writes the same bytes for every program.
const PTXAS: &str = r#"#!/bin/sh
case "$1" in
--version) echo 'Cuda compilation tools, release 12.9, V12.9.86' ;;
*) while [ "$1" != "-o" ]; do shift; done; cat > /dev/null; printf '\177ELF of nobody' > "$2" ;;
esac
"#;

#[test]
fn an_assembler_of_the_virtual_environment_is_found() {
    let folder = std::env::temp_dir().join(format!("disc-cli-venv-{}", std::process::id()));
    let tools = folder.join("venv/lib/python3.12/site-packages/nvidia/cuda_nvcc/bin");
    fs::create_dir_all(&tools).unwrap();
    fs::write(tools.join("ptxas"), PTXAS).unwrap();
    fs::set_permissions(tools.join("ptxas"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(folder.join("m.disc"), PROGRAM).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_disc"));
    command.current_dir(&folder).args(["compile", "m.disc", "--target", "nvptx:sm_90", "-o", "m.cubin"]);
    command.env("VIRTUAL_ENV", folder.join("venv")).env("PATH", "/usr/bin:/bin").env("DISC_CACHE", "0").env_remove("DISC_PTXAS");
    let output = command.output().unwrap();
    let [said, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{said}{errors}");
    // A machine with CUDA for all users has another one, which comes before.
    if said.contains("12.9.86") {
        assert_eq!(fs::read(folder.join("m.cubin")).unwrap(), b"\x7fELF of nobody");
    }
    fs::remove_dir_all(folder).unwrap();
}
