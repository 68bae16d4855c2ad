//! Opens packages whose manifest, signature, module and tensors are any text, with the right
//! checksums.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    disc_fuzz::open(&disc_fuzz::package_of(text));
});
