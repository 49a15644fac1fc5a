//! The simulated device finds what it is there to find.

use std::path::Path;
use std::process::Command;

/// Sums 64 numbers over shared memory, rightly (0) and in four wrong ways.
const PROGRAM: &str = r"
KERNEL sum(const float *x, float *out, int wrong) {
    SHARED_FLOATS(shared);
    int thread = (int)threadIdx.x;
    if (wrong == 2 && thread >= 40) return;
    shared[thread] = x[thread];
    if (wrong != 1) __syncthreads();
    float value = shared[63 - thread];
    if (wrong == 3 && thread % 2 == 0) value += 1.0f;
    else value = warp_sum(value);
    if (wrong == 4) shared[64 + thread] = value;
    __syncthreads();
    if (thread % 32 == 0) shared[thread / 32] = value;
    __syncthreads();
    if (thread == 0) *out = shared[0] + shared[1];
}

int main(int, char **words) {
    float x[64], out = 0.0f;
    for (int i = 0; i < 64; i++) x[i] = (float)i;
    const float *from = x;
    float *to = &out;
    int wrong = atoi(words[1]);
    void *args[] = {&from, &to, &wrong};
    unsigned grid[] = {2, 1, 1};
    simulated::launch(sum, grid, 64, 64 * 4, args);
    return out == 2016.0f ? 0 : 1;
}
";

#[test]
fn wrong_kernels_are_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let shim = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cuda/shim.h");
    let (source, program) = (folder.path().join("sum.cpp"), folder.path().join("sum"));
    let prelude = spectop::engine::backend::cuda::kernels::PRELUDE;
    std::fs::write(&source, format!("#include \"{}\"\n{prelude}\n{PROGRAM}", shim.display())).expect("written");
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let built = Command::new(compiler).args(["-std=c++17", "-O1", "-o"]).args([&program, &source]).output();
    let built = built.expect("these tests need a C++ compiler");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let told = [
        (0, ""),
        (1, ""),
        (2, "barrier that others do not reach"),
        (3, "barrier that others do not reach"),
        (4, "beyond its shared memory"),
    ];
    for (wrong, words) in told {
        let ended = Command::new(&program).arg(wrong.to_string()).output().expect("it runs");
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.success(), wrong == 0, "{wrong}: {said}");
        assert!(said.contains(words), "{wrong}: {said}");
    }
}
