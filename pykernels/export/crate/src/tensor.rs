//! Tensors: a buffer with an offset, a shape, strides and a dtype.

use crate::layout::{contiguous_strides, dtype, extent, product, DType, Ints, View};
use crate::{fail, Error};

/// A buffer with an offset, a shape, strides (bytes) and a dtype. Clones share the buffer.
#[derive(Clone, Debug)]
pub struct Tensor {
    pub(crate) buffer: wgpu::Buffer,
    pub(crate) shape: Ints,
    pub(crate) strides: Ints,
    pub(crate) offset: i128,
    pub(crate) dtype: &'static DType,
}

/// Rust's types of elements. The elements of float16 and bfloat16 are read and written as their
/// bits, as u16, with the dtype given.
pub trait Element: Copy {
    const DTYPE: &'static str;
    fn write(self, into: &mut Vec<u8>);
    fn read(from: &[u8]) -> Self;
}

macro_rules! element {
    ($($kind:ty: $name:literal),*) => {$(
        impl Element for $kind {
            const DTYPE: &'static str = $name;
            fn write(self, into: &mut Vec<u8>) {
                into.extend_from_slice(&self.to_le_bytes());
            }
            fn read(from: &[u8]) -> Self {
                let mut bytes = [0; std::mem::size_of::<$kind>()];
                bytes.copy_from_slice(from);
                <$kind>::from_le_bytes(bytes)
            }
        }
    )*};
}

element!(f32: "float32", i32: "int32", u32: "uint32", i16: "int16", u16: "uint16", i8: "int8",
         u8: "uint8", i64: "int64");

impl Tensor {
    /// A tensor on a buffer of yours, which needs the usage STORAGE. Offset and strides are bytes.
    pub fn on(
        buffer: &wgpu::Buffer,
        shape: &[usize],
        name: &str,
        offset: usize,
        strides: Option<&[isize]>,
    ) -> Result<Tensor, Error> {
        let Some(dtype) = dtype(name) else {
            return fail("tensor", format!("there is no dtype {name}"));
        };
        let shape: Ints = shape.iter().map(|n| *n as i128).collect();
        let strides: Ints = match strides {
            Some(given) => given.iter().map(|s| *s as i128).collect(),
            None => contiguous_strides(&shape, dtype.itemsize),
        };
        if strides.len() != shape.len() {
            return fail("tensor", format!("strides {strides:?} do not fit shape {shape:?}"));
        }
        let offset = offset as i128;
        if offset % dtype.itemsize != 0 || strides.iter().any(|s| s % dtype.itemsize != 0) {
            let size = dtype.itemsize;
            return fail("tensor", format!("offset and strides must be multiples of {size} bytes"));
        }
        let (lo, hi) = extent(&shape, &strides, dtype.itemsize);
        let size = i128::from(buffer.size());
        if offset + lo < 0 || offset + hi > size {
            let (a, b) = (offset + lo, offset + hi);
            return fail("tensor", format!("bytes {a} to {b} leave the buffer of {size}"));
        }
        if !buffer.usage().contains(wgpu::BufferUsages::STORAGE) {
            return fail("tensor", "the buffer must have the usage STORAGE");
        }
        Ok(Tensor { buffer: buffer.clone(), shape, strides, offset, dtype })
    }

    pub fn shape(&self) -> Vec<usize> {
        self.shape.iter().map(|n| *n as usize).collect()
    }

    /// Strides in bytes.
    pub fn strides(&self) -> Vec<isize> {
        self.strides.iter().map(|n| *n as isize).collect()
    }

    pub fn dtype(&self) -> &'static str {
        self.dtype.name
    }

    pub fn buffer(&self) -> &wgpu::Buffer {
        &self.buffer
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        product(&self.shape) as usize
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same elements with the axes in another order.
    pub fn transpose(&self, order: &[usize]) -> Result<Tensor, Error> {
        let mut seen = order.to_vec();
        seen.sort();
        if seen != (0..self.shape.len()).collect::<Vec<_>>() {
            return fail("transpose", format!("{order:?} is no order of {} axes", self.shape.len()));
        }
        let mut made = self.clone();
        made.shape = order.iter().map(|a| self.shape[*a]).collect();
        made.strides = order.iter().map(|a| self.strides[*a]).collect();
        Ok(made)
    }

    /// The elements from `start` to before `end` along an axis; no copy.
    pub fn narrow(&self, axis: usize, start: usize, end: usize) -> Result<Tensor, Error> {
        let n = self.shape.get(axis).copied().unwrap_or(-1);
        if start > end || end as i128 > n {
            return fail("narrow", format!("{start}..{end} is no part of axis {axis} of {n}"));
        }
        let mut made = self.clone();
        made.shape[axis] = (end - start) as i128;
        if end > start {
            made.offset += start as i128 * self.strides[axis];
        }
        Ok(made)
    }

    pub(crate) fn view(&self, slot: usize) -> View {
        let mut view = View {
            slot: slot as i128,
            dtype: self.dtype,
            shape: self.shape.clone(),
            strides: self.strides.clone(),
            offset: self.offset,
            padded: true,
        };
        view.padded = i128::from(self.buffer.size()) >= up(view.window().1, 16);
        view
    }

    /// The bytes of a contiguous tensor, as uint8.
    pub(crate) fn bytes(&self) -> Tensor {
        let mut made = self.clone();
        made.dtype = dtype("uint8").unwrap_or(self.dtype);
        made.shape = vec![product(&self.shape) * self.dtype.itemsize];
        made.strides = vec![1];
        made
    }

    pub(crate) fn contiguous(&self) -> bool {
        self.view(0).contiguous()
    }

    /// May two elements share a byte? Yes where the strides do not nest.
    pub(crate) fn overlaps_itself(&self) -> bool {
        if self.shape.contains(&0) {
            return false;
        }
        let pairs = self.strides.iter().map(|s| s.abs()).zip(self.shape.iter().copied());
        let mut axes: Vec<(i128, i128)> = pairs.filter(|(_, n)| *n > 1).collect();
        axes.sort();
        let mut reach = self.dtype.itemsize;
        for (step, n) in axes {
            if step < reach {
                return true;
            }
            reach += step * (n - 1);
        }
        false
    }
}

/// The next multiple.
pub(crate) fn up(n: i128, of: i128) -> i128 {
    (n + of - 1).div_euclid(of) * of
}
