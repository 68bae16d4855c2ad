//! Opens any bytes as a package; what is a container is opened again with the right checksums.
#![no_main]

libfuzzer_sys::fuzz_target!(|file: &[u8]| {
    disc_fuzz::open(file);
    if let Some(mended) = disc_fuzz::mend(file) {
        disc_fuzz::open(&mended);
    }
});
