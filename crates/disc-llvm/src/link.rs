//! Links objects to one self-contained shared object with lld inside this process, from memory to
//! memory.
//!
//! lld only opens paths, so the objects are memfds named by `/proc/self/fd/N`. The result cannot be
//! one: for a regular file lld first makes a temporary file beside its path. It is a pipe, which
//! lld writes in one go, and a thread collects it.
use crate::{
    Error,
    machine::{Object, take_text},
    support,
    target::emulation,
};
use disc_codegen::target::Target;
use std::{
    ffi::{CString, c_char},
    fs::File,
    io::{self, PipeReader, Read, Write},
    os::fd::{AsRawFd, FromRawFd},
    process,
    sync::atomic::{
        AtomicBool, AtomicU32,
        Ordering::{Acquire, Relaxed, Release},
    },
    thread,
    time::Duration,
};

unsafe extern "C" {
    fn disc_lld_elf(argv: *const *const c_char, argc: usize, message: *mut *mut c_char, usable: *mut bool) -> i32;
}

/// lld has one global state, and may end unusable.
static LLD_USABLE: AtomicBool = AtomicBool::new(true);
/// The process of which a thread links, or 0: nobody clears it in a child that is forked meanwhile.
static LINKED_BY: AtomicU32 = AtomicU32::new(0);
/// A thread that waits for another link looks this often.
const POLL: Duration = Duration::from_millis(1);

/// The right to run lld.
struct Turn;

impl Turn {
    fn take() -> Result<Self, Error> {
        let process = process::id();
        loop {
            match LINKED_BY.compare_exchange(0, process, Acquire, Relaxed) {
                Ok(_) => return Ok(Self),
                Err(other) if other == process => thread::sleep(POLL),
                Err(_) => return Err(Error::Link("this process was forked while lld ran, and cannot run it".to_owned())),
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        LINKED_BY.store(0, Release);
    }
}

/// One thread: lld's pool would outlive the call, in a process that may fork. Undefined symbols are
/// errors that name them.
const FLAGS: [&str; 15] = [
    "-shared",
    "-z",
    "now",
    "-z",
    "relro",
    "-z",
    "noexecstack",
    "-z",
    "defs",
    "-Bsymbolic",
    "--gc-sections",
    "--hash-style=gnu",
    "--build-id=none",
    "--threads=1",
    "-o",
];

/// Links objects of one architecture into a shared object without undefined symbols (for `amdgpu`:
/// a code object).
pub fn link(target: &Target, objects: &[Object]) -> Result<Vec<u8>, Error> {
    let emulation = emulation(target).ok_or_else(|| Error::Link(format!("code for `{target}` is not linked")))?;
    let support = support::object(target)?;
    let inputs = objects.iter().chain(support.as_ref()).map(memfd).collect::<Result<Vec<_>, _>>()?;
    let (reader, writer) = io::pipe()?;
    let (done, mut finish) = io::pipe()?;

    let mut arguments = vec!["ld.lld".to_owned(), "-m".to_owned(), emulation.to_owned()];
    arguments.extend(FLAGS.map(String::from));
    arguments.push(path_of(&writer));
    arguments.extend(inputs.iter().map(path_of));
    let (bytes, linked) = std::thread::scope(|scope| {
        let collector = scope.spawn(move || collect(reader, &done));
        let linked = run(&arguments);
        let finished = finish.write_all(&[0]).map_err(Error::from);
        drop(finish);
        (collector.join().expect("reading a pipe does not panic"), linked.and(finished))
    });
    linked?;
    Ok(bytes?)
}

/// Reads until `done` is readable and the pipe is empty. It does not wait for the end of the pipe:
/// a child forked meanwhile keeps the other side open.
fn collect(mut reader: PipeReader, done: &PipeReader) -> io::Result<Vec<u8>> {
    let (mut bytes, mut chunk) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        let wait = |file: &PipeReader| libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let mut files = [wait(&reader), wait(done)];
        // SAFETY: two descriptors that are open, in an array that outlives the call.
        if unsafe { libc::poll(files.as_mut_ptr(), 2, -1) } < 0 {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(error);
        }
        if files[0].revents & libc::POLLIN != 0 {
            let count = reader.read(&mut chunk)?;
            bytes.extend_from_slice(&chunk[..count]);
        } else if files[1].revents != 0 {
            return Ok(bytes);
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Error> {
    let owned = arguments.iter().map(|a| CString::new(a.as_str()).expect("no argument holds a NUL")).collect::<Vec<_>>();
    let pointers = owned.iter().map(|a| a.as_ptr()).collect::<Vec<_>>();
    let _turn = Turn::take()?;
    let mut usable = LLD_USABLE.load(Relaxed);
    if !usable {
        return Err(Error::Link("lld crashed earlier in this process and cannot run again".to_owned()));
    }
    let mut message = std::ptr::null_mut();
    // SAFETY: `pointers` holds NUL-terminated strings that outlive the call; the lock makes this
    // the only call.
    let code = unsafe { disc_lld_elf(pointers.as_ptr(), pointers.len(), &mut message, &mut usable) };
    LLD_USABLE.store(usable, Relaxed);
    // SAFETY: the shim gives malloc'ed, NUL-terminated text.
    let text = unsafe { take_text(message) };
    if code == 0 { Ok(()) } else { Err(Error::Link(text)) }
}

fn memfd(object: &Object) -> Result<File, Error> {
    // SAFETY: a NUL-terminated name; the descriptor that comes back is ours.
    let mut file = unsafe {
        match libc::memfd_create(c"object".as_ptr(), libc::MFD_CLOEXEC) {
            -1 => return Err(io::Error::last_os_error().into()),
            descriptor => File::from_raw_fd(descriptor),
        }
    };
    file.write_all(object.bytes())?;
    Ok(file)
}

fn path_of(file: &impl AsRawFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a fork during a link: the writing side stays open elsewhere, and the result is
    /// longer than a pipe.
    #[test]
    fn collecting_does_not_wait_for_the_end_of_the_pipe() {
        let (reader, mut writer) = io::pipe().unwrap();
        let (done, mut finish) = io::pipe().unwrap();
        let _held_by_a_child = writer.try_clone().unwrap();
        let collector = std::thread::spawn(move || collect(reader, &done).unwrap());
        let bytes: Vec<u8> = (0..300_000_u32).map(|i| (i % 251) as u8).collect();
        writer.write_all(&bytes).unwrap();
        finish.write_all(&[0]).unwrap();
        assert_eq!(collector.join().unwrap(), bytes);
    }
}
