//! Links again and again, from many threads, good and bad inputs; and inspects a shared object.
use super::library::Library;
use super::{SEVEN, object, target};
use crate::{Error, Object, Passes, link};
use object::{
    Object as _, ObjectSymbol as _, elf, read::elf::Dyn as _, read::elf::ElfFile64, read::elf::FileHeader as _,
    read::elf::SectionHeader as _,
};

fn v3() -> disc_codegen::target::Target {
    target("x86-64-v3")
}

fn call(library: &Library) -> i32 {
    // SAFETY: `f` has this signature.
    let f: extern "C" fn() -> i32 = unsafe { library.function("f") };
    f()
}

#[test]
fn again_and_again_from_many_threads() {
    let object = object("x86-64-v3", SEVEN, Passes::None).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    assert_eq!(call(&Library::load(&link(&v3(), std::slice::from_ref(&object)).unwrap())), 7);
                }
            });
        }
    });
}

#[test]
fn libraries_of_one_symbol_are_several_functions() {
    let load = |value: i32| {
        let object = object("x86-64-v3", &format!("define i32 @f() {{ ret i32 {value} }}"), Passes::None).unwrap();
        Library::load(&link(&v3(), &[object]).unwrap())
    };
    let libraries: Vec<Library> = (0..20).map(load).collect();
    assert!(libraries.iter().zip(0..).all(|(library, i)| call(library) == i));
}

#[test]
fn bad_inputs_are_errors() {
    let good = object("x86-64-v3", SEVEN, Passes::None).unwrap();
    let other = object("aarch64-v8", SEVEN, Passes::None).unwrap();
    let text = |objects: &[Object]| match link(&v3(), objects) {
        Err(Error::Link(text)) => text,
        other => panic!("{other:?}"),
    };
    assert!(text(&[Object::from_bytes(b"not an object")]).contains("/proc/self/fd/"));
    assert!(text(&[good.clone(), other]).contains("incompatible"));
    assert!(text(&[good.clone(), good.clone()]).contains("duplicate symbol: f"));
    let calls = object("x86-64-v3", "declare void @missing() define void @f() { call void @missing() ret void }", Passes::None);
    assert!(text(&[calls.unwrap()]).contains("undefined symbol: missing"));
    assert_eq!(call(&Library::load(&link(&v3(), &[good]).unwrap())), 7);
}

/// A result larger than a pipe holds, and several objects that call each other through hidden
/// symbols.
#[test]
fn large_and_of_several_objects() {
    let table = "@t = hidden constant [400000 x i32] [".to_owned() + &vec!["i32 5"; 400_000].join(", ") + "]";
    let get = "@t = external hidden global [400000 x i32]
        define i32 @f() { %p = getelementptr i32, ptr @t, i64 399999 %v = load i32, ptr %p ret i32 %v }";
    let objects = [table.as_str(), get].map(|ir| object("x86-64-v3", ir, Passes::None).unwrap());
    let bytes = link(&v3(), &objects).unwrap();
    assert!(bytes.len() > 1_600_000);
    assert_eq!(call(&Library::load(&bytes)), 5);
}

#[test]
fn needs_nothing_and_exports_only_entries() {
    let ir = "define hidden i32 @kernel(i32 %x) { ret i32 %x }
              define i32 @entry() { %r = call i32 @kernel(i32 3) ret i32 %r }";
    let bytes = link(&v3(), &[object("x86-64-v3", ir, Passes::None).unwrap()]).unwrap();
    let file: ElfFile64<'_> = ElfFile64::parse(&*bytes).unwrap();
    let exported: Vec<_> =
        file.dynamic_symbols().filter(object::ObjectSymbol::is_definition).map(|s| s.name().unwrap()).collect();
    assert_eq!(exported, ["entry"]);
    assert_eq!(file.dynamic_symbols().filter(|s| s.is_undefined() && s.name() != Ok("")).count(), 0);
    let endian = file.endian();
    let sections = file.elf_header().sections(endian, &*bytes).unwrap();
    let (dynamic, _) = sections.iter().find_map(|s| s.dynamic(endian, &*bytes).unwrap()).unwrap();
    assert!(dynamic.iter().all(|d| d.tag32(endian) != Some(elf::DT_NEEDED)));
    assert!(dynamic.iter().any(|d| d.tag32(endian) == Some(elf::DT_GNU_HASH)));
}
