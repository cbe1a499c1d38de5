//! Kernels of pykernels on the crate `wgpu`: the shaders, their plans, and launches.
//!
//! A plan chooses the shader, its tile and its number of workgroups from the shapes, strides and
//! dtypes of a call. The plans are those of pykernels, in `data/plans.json`; this crate evaluates
//! them when a call is prepared. A prepared [`Call`] runs as often as you like.
//!
//! ```no_run
//! use pykernels_export::{kernels, Gpu};
//!
//! # fn main() -> Result<(), pykernels_export::Error> {
//! let gpu = Gpu::open()?;
//! let x = gpu.tensor(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
//! let dst = gpu.empty(&[2, 2], "float32")?;
//! gpu.prepare(kernels::softmax(&x, &dst).scale(0.5))?.run()?;
//! let result: Vec<f32> = gpu.read(&dst)?;
//! # Ok(())
//! # }
//! ```

mod builtins;
mod call;
mod checks;
mod contract;
mod eval;
mod expressions;
mod functions;
mod gpu;
pub mod kernels;
mod layout;
mod methods;
mod operators;
mod program;
mod scalars;
mod step;
mod tensor;
#[doc(hidden)]
pub mod testing;
mod texts;
mod tree;
mod value;

pub use call::{Arguments, Call, Choice, Number};
pub use gpu::Gpu;
pub use tensor::{Element, Tensor};

/// A call that cannot be made, or a failure of the device: "[operation] the rule".
#[derive(Debug, Clone, PartialEq)]
pub struct Error(pub String);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

pub(crate) fn fail<T>(op: &str, why: impl std::fmt::Display) -> Result<T, Error> {
    Err(Error(format!("[{op}] {why}")))
}
