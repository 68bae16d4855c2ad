//! Writes the corpus of packages from that of texts: `cargo run --bin seeds [PRIVATE_KEY]`. With
//! the private key of `src/public.pem` it signs them too.

use disc_fuzz::{open, package_of};
use disc_ral::{NewPart, SIGNATURE, read_archive, sign, write_archive};
use std::{error::Error, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let key = std::env::args().nth(1).map(fs::read_to_string).transpose()?;
    fs::create_dir_all("corpus/package")?;
    for seed in fs::read_dir("corpus/manifest")? {
        let seed = seed?;
        let file = package_of(&fs::read(seed.path())?);
        let path = format!("corpus/package/{}", seed.file_name().display());
        assert!(open(&file), "{path}");
        if let Some(key) = &key {
            fs::write(format!("{path}-signed"), signed(&file, key)?)?;
        }
        fs::write(path, file)?;
    }
    Ok(())
}

fn signed(file: &[u8], key: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let parts = read_archive(file)?;
    let signature = sign(&file[parts[0].range()], key)?;
    let pieces = parts.iter().map(|part| NewPart { name: &part.name, pieces: vec![&file[part.range()]] });
    let mut pieces: Vec<_> = pieces.collect();
    pieces.insert(1, NewPart { name: SIGNATURE, pieces: vec![&signature] });
    let mut out = Vec::new();
    write_archive(&pieces, &mut out)?;
    Ok(out)
}
