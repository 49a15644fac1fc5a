//! Every kernel compiles for every architecture, by the compiler that would do it on a GPU's machine.

use std::path::PathBuf;

use spectop::engine::backend::cuda::kernels::SOURCES;
use spectop::engine::backend::cuda::nvrtc::Nvrtc;

const ARCHITECTURES: [u32; 5] = [80, 89, 90, 100, 120];

/// The library that `SPECTOP_NVRTC` names or a Python wheel brought, or why there is none.
fn nvrtc() -> Result<Nvrtc, String> {
    let mut places: Vec<PathBuf> = std::env::var_os("SPECTOP_NVRTC").map(PathBuf::from).into_iter().collect();
    if places.is_empty() {
        // Where pip puts it, in the environment that is active.
        for root in ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().filter_map(std::env::var_os) {
            let libraries = std::fs::read_dir(PathBuf::from(root).join("lib")).into_iter().flatten().flatten();
            for python in libraries.filter(|e| e.file_name().to_string_lossy().starts_with("python")) {
                places.push(python.path().join("site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12"));
            }
        }
    }
    match places.iter().find(|place| place.exists()) {
        Some(place) => Nvrtc::open(place).map_err(|e| e.to_string()),
        None => Nvrtc::find().map_err(|e| e.to_string()),
    }
}

#[test]
fn every_kernel_compiles_for_every_architecture() {
    let nvrtc = match nvrtc() {
        Ok(nvrtc) => nvrtc,
        Err(reason) => {
            assert!(std::env::var_os("SPECTOP_REQUIRE_NVRTC").is_none(), "{reason}");
            println!("skipped: {reason}");
            return;
        }
    };
    println!("NVRTC {}.{}", nvrtc.version.0, nvrtc.version.1);
    std::thread::scope(|scope| {
        for capability in ARCHITECTURES {
            let nvrtc = &nvrtc;
            scope.spawn(move || {
                let options = nvrtc.options(capability).unwrap();
                assert!(options.iter().any(|o| o.ends_with(&format!("=sm_{capability}"))), "{options:?}");
                for source in SOURCES {
                    let image = nvrtc.compile(source, &options).unwrap_or_else(|e| panic!("{e}"));
                    for kernel in source.kernels {
                        let name = kernel.as_bytes();
                        assert!(image.bytes.windows(name.len()).any(|w| w == name), "{kernel} for sm_{capability}");
                    }
                }
            });
        }
    });
}

#[test]
fn a_kernel_that_is_wrong_is_told_with_the_compilers_words() {
    let Ok(nvrtc) = nvrtc() else { return };
    let wrong = spectop::engine::backend::cuda::kernels::Source { name: "wrong.cu", text: "int a = b;", kernels: &[] };
    let error = nvrtc.compile(&wrong, &nvrtc.options(90).unwrap()).unwrap_err().to_string();
    assert!(error.contains("wrong.cu") && error.contains("undefined"), "{error}");
}

#[test]
fn a_device_newer_than_the_compiler_gets_ptx() {
    let Ok(nvrtc) = nvrtc() else { return };
    let options = nvrtc.options(999).unwrap();
    assert!(options.last().unwrap().contains("=compute_"), "{options:?}");
    let image = nvrtc.compile(&SOURCES[0], &options).unwrap();
    assert!(image.bytes.starts_with(b"//"), "text");
}
