//! Files of weights that a model names: those below its folder are read, everything else is
//! refused before it is opened.
#![cfg(unix)]
use disc_import::source::{Access, External, File};
use disc_ir::Code;
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

/// A folder that goes away.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("disc-import-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("model/parts")).unwrap();
        fs::write(path.join("model/m.onnx"), "model").unwrap();
        fs::write(path.join("model/w.bin"), "0123456789").unwrap();
        fs::write(path.join("model/parts/v.bin"), "abc").unwrap();
        fs::write(path.join("secret"), "secret").unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn refusal(external: &mut External, location: &str) -> String {
    let error = external.read(location, 0, None).expect_err(location);
    assert_eq!(error.code, Code::E1005, "{location}");
    error.to_string()
}

#[test]
fn files_below_the_model_are_read_by_range() {
    let folder = Folder::new("range");
    for access in [Access::Map, Access::Copy] {
        let mut external = External::beside(&folder.path("model/m.onnx"), access).unwrap();
        let mut read = |location, offset, length| external.read(location, offset, length).map(|bytes| bytes.to_vec());
        assert_eq!(read("w.bin", 0, None).unwrap(), b"0123456789");
        assert_eq!(read("./w.bin", 3, Some(4)).unwrap(), b"3456");
        assert_eq!(read("w.bin", 10, Some(0)).unwrap(), b"");
        assert_eq!(read("parts/v.bin", 1, None).unwrap(), b"bc");
        for (offset, length) in [(11, None), (0, Some(11)), (10, Some(1)), (u64::MAX, Some(1)), (1, Some(u64::MAX))] {
            let error = read("w.bin", offset, length).unwrap_err();
            assert!(error.code == Code::E1005 && error.message.contains("it has 10 bytes"), "{error}");
        }
    }
}

#[test]
fn paths_that_are_not_plain_are_refused() {
    let folder = Folder::new("plain");
    let mut external = External::beside(&folder.path("model/m.onnx"), Access::Map).unwrap();
    let secret = folder.path("secret");
    for location in [
        "",
        ".",
        "/",
        "..",
        "../secret",
        "parts/../../secret",
        "parts/../w.bin",
        secret.to_str().unwrap(),
        "/etc/passwd",
        "/dev/zero",
        "//host/share",
        "\\\\host\\share",
        "parts\\v.bin",
        "C:w.bin",
        "file:///etc/passwd",
        "w.bin\0.txt",
    ] {
        let error = refusal(&mut external, location);
        assert!(error.contains("no relative path of plain names"), "{error}");
    }
    assert!(refusal(&mut external, "nowhere.bin").contains("cannot be read"));
    assert!(refusal(&mut external, "parts").contains("no regular file"));
}

#[test]
fn links_are_followed_within_the_folders_of_the_model_only() {
    let folder = Folder::new("links");
    symlink(folder.path("secret"), folder.path("model/out.bin")).unwrap();
    symlink(folder.path("model/w.bin"), folder.path("model/in.bin")).unwrap();
    symlink("..", folder.path("model/up")).unwrap();
    symlink("/dev/zero", folder.path("model/zero")).unwrap();
    symlink("loop", folder.path("model/loop")).unwrap();
    let mut external = External::beside(&folder.path("model/m.onnx"), Access::Map).unwrap();
    assert_eq!(external.read("in.bin", 0, Some(1)).unwrap(), b"0"[..]);
    for location in ["out.bin", "up/secret", "zero"] {
        assert!(refusal(&mut external, location).contains("leads out of the folder"), "{location}");
    }
    refusal(&mut external, "loop");
}

#[test]
fn caches_of_links_work_whose_model_and_weights_are_elsewhere() {
    // A hub's cache: snapshots of links into a folder of contents.
    let folder = Folder::new("hub");
    fs::create_dir_all(folder.path("hub/blobs")).unwrap();
    fs::create_dir_all(folder.path("hub/snapshots/1")).unwrap();
    fs::write(folder.path("hub/blobs/a1"), "model").unwrap();
    fs::write(folder.path("hub/blobs/b2"), "weights").unwrap();
    symlink("../../blobs/a1", folder.path("hub/snapshots/1/m.onnx")).unwrap();
    symlink("../../blobs/b2", folder.path("hub/snapshots/1/m.onnx.data")).unwrap();
    symlink("../../../secret", folder.path("hub/snapshots/1/out")).unwrap();
    let model = folder.path("hub/snapshots/1/m.onnx");
    assert_eq!(File::open(&model, Access::Map).unwrap().name, "m.onnx");
    let mut external = External::beside(&model, Access::Map).unwrap();
    assert_eq!(external.read("m.onnx.data", 0, None).unwrap(), b"weights"[..]);
    assert!(refusal(&mut external, "out").contains("leads out"));
    assert!(refusal(&mut external, "b2").contains("cannot be read"), "names are those beside the path as given");
}

#[test]
fn pipes_and_devices_are_neither_waited_for_nor_read() {
    let folder = Folder::new("pipes");
    let pipe = folder.path("model/pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut external = External::beside(&folder.path("model/m.onnx"), Access::Map).unwrap();
    assert!(refusal(&mut external, "pipe").contains("no regular file"));
    for path in [&*pipe, Path::new("/dev/zero"), &folder.path("model"), &folder.path("nowhere")] {
        let error = File::open(path, Access::Map).unwrap_err();
        assert_eq!(error.code, Code::E1001, "{error}");
    }
}

#[test]
fn a_model_without_a_file_has_no_weights_beside_it_unless_a_folder_is_named() {
    let folder = Folder::new("bytes");
    let error = refusal(&mut External::default(), "w.bin");
    assert!(error.contains("without a folder") && error.contains("name the folder"), "{error}");
    let mut external = External::in_folder(&folder.path("model"), Access::Copy).unwrap();
    assert_eq!(external.read("w.bin", 9, None).unwrap(), b"9"[..]);
    assert!(refusal(&mut external, "../secret").contains("plain names"));
}

#[test]
fn an_empty_file_and_a_large_one_are_told_apart_without_reading() {
    let folder = Folder::new("sizes");
    fs::write(folder.path("empty.mlir"), "").unwrap();
    assert_eq!(File::open(&folder.path("empty.mlir"), Access::Map).unwrap().bytes.len(), 0);
    // A file of holes: its length is all that it has.
    fs::File::create(folder.path("large")).unwrap().set_len((2 << 30) + 1).unwrap();
    let error = File::open(&folder.path("large"), Access::Copy).unwrap_err();
    assert_eq!(error.code, Code::E1002);
    assert!(error.message.contains("2147483648"), "{error}");
}
