//! Compiled kernels on disk, so that only the first start on a machine compiles.

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use sha2::{Digest, Sha256};

use super::CudaError;
use super::kernels::{SOURCES, Source, program};
use super::nvrtc::{Image, Nvrtc};

/// Where compiled kernels are kept: `SPECTOP_CACHE`, or the user's cache folder. Without either nothing is kept.
pub fn folder() -> Option<PathBuf> {
    let base = match std::env::var_os("SPECTOP_CACHE") {
        Some(path) => PathBuf::from(path),
        None => etcetera::choose_base_strategy().ok()?.cache_dir().join("spectop"),
    };
    Some(base.join("kernels"))
}

/// File name of a compiled source: changes with its text, the options and the compiler.
pub fn key(source: &Source, options: &[String], compiler: (u32, u32)) -> String {
    let mut hash = Sha256::new();
    hash.update(program(source));
    for option in options {
        hash.update([0]);
        hash.update(option);
    }
    hash.update(format!("\0{}.{}", compiler.0, compiler.1));
    let digest = hash.finalize();
    let hex = digest.iter().take(16).fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    format!("{}-{hex}", source.name.trim_end_matches(".cu"))
}

/// All sources for a device, from `folder` or compiled (and then kept there, if it can be written).
pub fn images(nvrtc: &Nvrtc, capability: u32, folder: Option<&Path>) -> Result<Vec<Image>, CudaError> {
    let options = nvrtc.options(capability)?;
    SOURCES
        .iter()
        .map(|source| {
            let file = folder.map(|folder| folder.join(key(source, &options, nvrtc.version)));
            if let Some(bytes) = file.as_deref().and_then(|file| std::fs::read(file).ok())
                && !bytes.is_empty()
            {
                return Ok(Image { bytes });
            }
            let image = nvrtc.compile(source, &options)?;
            if let Some(file) = file {
                // A cache that cannot be written costs a second at the next start, no more.
                let _ = keep(&file, &image.bytes);
            }
            Ok(image)
        })
        .collect()
}

/// Writes aside and renames, so that nobody reads half a file.
fn keep(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let aside = file.with_extension(format!("{}.new", std::process::id()));
    std::fs::write(&aside, bytes)?;
    std::fs::rename(&aside, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_changes_with_all_that_decides_the_code() {
        let options = |arch: &str| vec!["--fmad=false".to_owned(), format!("--gpu-architecture={arch}")];
        let key = |source: &Source, arch: &str, version| super::key(source, &options(arch), version);
        let base = key(&SOURCES[0], "sm_90", (12, 9));
        assert_eq!(base, key(&SOURCES[0], "sm_90", (12, 9)));
        let changed = Source { name: SOURCES[0].name, text: "// another", kernels: &[] };
        let others = [
            key(&SOURCES[1], "sm_90", (12, 9)),
            key(&SOURCES[0], "sm_80", (12, 9)),
            key(&SOURCES[0], "sm_90", (13, 0)),
            key(&changed, "sm_90", (12, 9)),
        ];
        assert!(others.iter().all(|other| *other != base), "{others:?}");
        assert!(base.starts_with("rows-"), "{base}");
    }

    #[test]
    fn what_is_kept_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("kernels/a");
        keep(&file, b"first").unwrap();
        keep(&file, b"second").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"second");
        assert_eq!(std::fs::read_dir(dir.path().join("kernels")).unwrap().count(), 1, "nothing is left beside it");
    }
}
