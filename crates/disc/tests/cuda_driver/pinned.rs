//! Tests copies between the host and the device, which go through pinned memory.
use crate::{
    child::{in_child, is_child},
    common::*,
};
use disc::ral::{Device, LaunchFailure, Queue};
use std::{ptr::NonNull, sync::Arc};

/// More than the two blocks of a queue hold.
const LARGE: usize = (9 << 20) + 7;

/// Memory of a device.
struct Memory {
    device: Arc<dyn Device>,
    at: NonNull<u8>,
    bytes: usize,
}

impl Memory {
    fn new(bytes: usize) -> Self {
        let device = cuda(0);
        let at = device.alloc(bytes).unwrap();
        Self { device, at, bytes }
    }

    /// Copies values to the memory from a buffer that changes as soon as the copy has returned.
    fn set(&self, queue: &mut dyn Queue, values: &[u8]) -> Result<(), LaunchFailure> {
        let mut buffer = values.to_vec();
        // SAFETY: memory of as many bytes.
        let copied = unsafe { queue.upload(self.at.as_ptr(), buffer.as_ptr(), self.bytes) };
        buffer.fill(0xEE);
        copied
    }

    fn get(&self, queue: &mut dyn Queue) -> Result<Vec<u8>, LaunchFailure> {
        let mut found = vec![0; self.bytes];
        // SAFETY: memory of as many bytes.
        unsafe { queue.download(found.as_mut_ptr(), self.at.as_ptr(), self.bytes) }.map(|()| found)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: memory of this device.
        unsafe { self.device.free(self.at, self.bytes) };
    }
}

/// Returns bytes that depend on their place, and on a number.
fn pattern(bytes: usize, number: usize) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(bytes + 251);
    // A prime number of bytes, so that no two parts of a copy are alike.
    let period: Vec<u8> = (0..251).map(|at| (at * 3 + number * 7) as u8).collect();
    while pattern.len() < bytes {
        pattern.extend_from_slice(&period);
    }
    pattern.truncate(bytes);
    pattern
}

fn count(calls: &[String], name: &str) -> usize {
    calls.iter().filter(|call| *call == name).count()
}

#[test]
fn an_upload_waits_for_nothing_and_has_read_its_memory() {
    let driver = driver();
    let mut queue = cuda(0).queue();
    let before = driver.fake.alive("pageable");
    let sizes = [1, 255, 4096, 64 << 10, 100_000];
    let places: Vec<Memory> = sizes.iter().cycle().take(40).map(|&bytes| Memory::new(bytes)).collect();
    driver.fake.calls();
    for (number, place) in places.iter().enumerate() {
        place.set(&mut *queue, &pattern(place.bytes, number)).unwrap();
    }
    let calls = driver.fake.calls();
    assert!(!calls.iter().any(|call| call.contains("Synchronize")), "{calls:?}");
    for (number, place) in places.iter().enumerate() {
        assert!(place.get(&mut *queue).unwrap() == pattern(place.bytes, number), "{number}");
    }
    assert_eq!(driver.fake.alive("pageable"), before);
}

#[test]
fn many_small_uploads_fill_both_blocks_again_and_again() {
    let driver = driver();
    let mut queue = cuda(0).queue();
    let places: Vec<Memory> = (0..300).map(|number| Memory::new((64 << 10) - number)).collect();
    driver.fake.calls();
    for (number, place) in places.iter().enumerate() {
        place.set(&mut *queue, &pattern(place.bytes, number)).unwrap();
    }
    let calls = driver.fake.calls();
    assert_eq!(count(&calls, "cuStreamSynchronize"), 0, "{calls:?}");
    // 19 MiB are four blocks and a part: the first two wait for nobody.
    assert_eq!(count(&calls, "cuEventSynchronize"), 3, "{calls:?}");
    for (number, place) in places.iter().enumerate() {
        assert!(place.get(&mut *queue).unwrap() == pattern(place.bytes, number), "{number}");
    }
}

#[test]
fn large_copies_go_through_two_blocks() {
    let driver = driver();
    let mut queue = cuda(0).queue();
    let (place, small) = (Memory::new(LARGE), Memory::new(3));
    let before = driver.fake.alive("pageable");
    small.set(&mut *queue, &[1, 2, 3]).unwrap();
    driver.fake.calls();
    place.set(&mut *queue, &pattern(LARGE, 1)).unwrap();
    let calls = driver.fake.calls();
    assert_eq!((count(&calls, "cuMemcpyHtoDAsync_v2"), count(&calls, "cuEventSynchronize")), (3, 1), "{calls:?}");
    // The copy back uses the blocks that the uploads are still in.
    assert!(place.get(&mut *queue).unwrap() == pattern(LARGE, 1));
    let calls = driver.fake.calls();
    assert_eq!((count(&calls, "cuMemcpyDtoHAsync_v2"), count(&calls, "cuEventSynchronize")), (3, 2), "{calls:?}");
    assert_eq!(small.get(&mut *queue).unwrap(), [1, 2, 3]);
    assert_eq!(driver.fake.alive("pageable"), before);
    drop(queue);
    // Their blocks are those of the next queue.
    let pinned = driver.fake.alive("pinned");
    let mut queue = cuda(0).queue();
    assert!(place.get(&mut *queue).unwrap() == pattern(LARGE, 1));
    assert_eq!(driver.fake.alive("pinned"), pinned + 1, "the report alone");
}

#[test]
fn scalars_that_are_fetched_together_are_waited_for_once() {
    let driver = driver();
    let mut queue = cuda(0).queue();
    let places: Vec<Memory> = (0..40).map(|_| Memory::new(8)).collect();
    for (number, place) in places.iter().enumerate() {
        place.set(&mut *queue, &[0x11 + number as u8; 8]).unwrap();
    }
    let address = |place: &Memory| place.at.as_ptr().expose_provenance() as u64;
    let before = driver.fake.alive("pageable");
    let mut words: Vec<u64> = places[..3].iter().map(address).collect();
    driver.fake.calls();
    // SAFETY: scalars of the device.
    unsafe { queue.fetch(&mut words, &[1, 4, 8]) }.unwrap();
    assert_eq!(words, [0x11, 0x1212_1212, 0x1313_1313_1313_1313]);
    let calls = driver.fake.calls();
    assert_eq!(count(&calls, "cuStreamSynchronize"), 1, "{calls:?}");
    let mut words: Vec<u64> = places.iter().map(address).collect();
    // SAFETY: as above.
    unsafe { queue.fetch(&mut words, &[1; 40]) }.unwrap();
    assert_eq!(words, (0x11..0x11 + 40).collect::<Vec<u64>>());
    assert_eq!(driver.fake.alive("pageable"), before);
}

#[test]
fn without_pinned_memory_copies_wait() {
    if !is_child() {
        // In a process of its own: no block is left of another test.
        return in_child("pinned::without_pinned_memory_copies_wait", &[] as &[(&str, &str)]);
    }
    let driver = driver();
    for function in ["cuMemHostAlloc", "cuEventCreate"] {
        let place = Memory::new(LARGE);
        let mut queue = cuda(0).queue();
        // The first one is for the report, or that of the queue.
        driver.fake.fail(function, 1, 2);
        let before = driver.fake.alive("pageable");
        driver.fake.calls();
        place.set(&mut *queue, &pattern(LARGE, 2)).unwrap();
        let calls = driver.fake.calls();
        assert_eq!(count(&calls, "cuStreamSynchronize"), 1, "{calls:?}");
        assert!(!driver.fake.forget(), "{function} was not called");
        assert!(place.get(&mut *queue).unwrap() == pattern(LARGE, 2));
        assert_eq!(driver.fake.alive("pageable"), before + 2);
        drop(queue);
        assert_eq!((driver.fake.alive("pinned"), driver.fake.alive("events")), (0, 0), "{function}");
    }
    // The next queue asks again; one block serves where there is no second one.
    let place = Memory::new(LARGE);
    let mut queue = cuda(0).queue();
    driver.fake.fail("cuMemHostAlloc", 2, 2);
    let before = driver.fake.alive("pageable");
    place.set(&mut *queue, &pattern(LARGE, 3)).unwrap();
    assert!(place.get(&mut *queue).unwrap() == pattern(LARGE, 3));
    assert_eq!((driver.fake.alive("pageable"), driver.fake.alive("pinned")), (before, 2));
}

#[test]
fn every_function_of_a_copy_may_fail() {
    let driver = driver();
    let functions =
        ["cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuEventRecord", "cuEventSynchronize", "cuStreamSynchronize"];
    let place = Memory::new(LARGE);
    let mut queue = cuda(0).queue();
    let copy = |queue: &mut dyn Queue, number: usize| {
        place.set(queue, &pattern(LARGE, number))?;
        place.get(queue).map(|found| assert!(found == pattern(LARGE, number), "{number}"))
    };
    copy(&mut *queue, 0).unwrap();
    driver.fake.calls();
    copy(&mut *queue, 1).unwrap();
    let calls = driver.fake.calls();
    for function in functions {
        let times = count(&calls, function);
        assert!(times > 0, "{function} in {calls:?}");
        for skip in 0..times {
            driver.fake.fail(function, skip as u32, 999);
            let error = copy(&mut *queue, 2 + skip).unwrap_err();
            assert!(format!("{error:?}").contains(function), "{function} {skip}: {error:?}");
            assert!(!driver.fake.forget(), "{function} {skip} was not called");
            copy(&mut *queue, 20 + skip).unwrap_or_else(|error| panic!("after {function} {skip}: {error:?}"));
        }
    }
}
