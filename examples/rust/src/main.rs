//! The last layer of a classifier, in Rust: probabilities = softmax(x W^T + bias), and the
//! probability of each class summed over the batch. `pykernels export` has written the kernels.
//!
//!     cargo run                 random numbers, and the time of a run
//!     cargo run -- FOLDER       reads x.bin, w.bin and bias.bin there; writes the results there

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Instant;

use pykernels_export::{kernels, Gpu};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const FEATURES: usize = 96;
const CLASSES: usize = 40;

fn main() -> Result<()> {
    let folder = std::env::args().nth(1);
    let gpu = Gpu::open()?;
    let (x, w, bias) = match &folder {
        Some(folder) => (read(folder, "x")?, read(folder, "w")?, read(folder, "bias")?),
        None => (random(1024 * FEATURES), random(CLASSES * FEATURES), random(CLASSES)),
    };
    let rows = x.len() / FEATURES;
    let x = gpu.tensor(&x, &[rows, FEATURES])?;
    // The file has a column of W for each class: a transposed view, not a copy, is passed on.
    let w = gpu.tensor(&w, &[FEATURES, CLASSES])?.transpose(&[1, 0])?;
    let bias = gpu.tensor(&bias, &[CLASSES])?;
    let logits = gpu.empty(&[rows, CLASSES], "float32")?;
    let each = gpu.empty(&[CLASSES], "float32")?;

    // mul_mat(a, b) is b a^T, as in ggml.
    let product = gpu.prepare(kernels::mul_mat(&w, &x, &logits).bias(&bias))?;
    // dst may be x: the logits become probabilities in place.
    let softmax = gpu.prepare(kernels::softmax(&logits, &logits).scale(0.5))?;
    let sum = gpu.prepare(kernels::sum(&logits, &each).axis(0))?;
    for call in [&product, &softmax, &sum] {
        call.run()?;
    }
    let (probabilities, each) = (gpu.read::<f32>(&logits)?, gpu.read::<f32>(&each)?);

    // A broken call names what is wrong, before the device sees it.
    let refused = gpu.prepare(kernels::softmax(&x, &logits)).err();
    println!("refused, as it must be: {}", refused.ok_or("softmax took a dst of another shape")?);

    match folder {
        Some(folder) => {
            write(&folder, "probabilities", &probabilities)?;
            write(&folder, "each", &each)?;
        }
        None => {
            let start = Instant::now();
            for _ in 0..100 {
                gpu.prepare(kernels::mul_mat(&w, &x, &logits).bias(&bias))?;
            }
            println!("{:?} to prepare a product", start.elapsed() / 100);
            let start = Instant::now();
            for _ in 0..100 {
                product.run()?;
            }
            gpu.read::<f32>(&logits)?;
            println!("{rows} x {CLASSES} x {FEATURES}: {:?} a product", start.elapsed() / 100);
            println!("the first class has {:.3} of {rows}", each[0]);
        }
    }
    Ok(())
}

fn read(folder: &str, name: &str) -> Result<Vec<f32>> {
    let bytes = fs::read(Path::new(folder).join(name).with_extension("bin"))?;
    Ok(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
}

fn write(folder: &str, name: &str, data: &[f32]) -> Result<()> {
    let bytes: Vec<u8> = data.iter().flat_map(|x| x.to_le_bytes()).collect();
    Ok(fs::write(Path::new(folder).join(name).with_extension("bin"), bytes)?)
}

fn random(n: usize) -> Vec<f32> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        state as f32 / u32::MAX as f32 - 0.5
    };
    (0..n).map(|_| next()).collect()
}
