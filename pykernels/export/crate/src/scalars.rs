//! Scalars of calls as the words of Params.

use serde_json::Value as Json;

use crate::call::Number;
use crate::layout::{dtype, DType};
use crate::program::{Kernel, Scalar};
use crate::{fail, Error};

/// A word of Params.
#[derive(Clone, Copy)]
pub enum Word {
    Float(f32),
    Bits(u32),
}

/// The scalars of a call by the names that bodies give them.
pub fn words(
    kernel: &Kernel,
    given: &[(String, Number)],
    dtype_of: impl Fn(&str) -> Option<&'static DType>,
) -> Result<Vec<(String, Word)>, Error> {
    let op = &kernel.name;
    let mut made = vec![];
    for s in &kernel.scalars {
        let named = given.iter().find(|(n, _)| *n == s.name).map(|(_, v)| *v);
        let value = match (&s.fixed, named, &s.default) {
            (Some(fixed), _, _) => from_json(fixed),
            (None, Some(value), _) => value,
            (None, None, Some(default)) => from_json(default),
            _ => return fail(op, format!("{} is missing", s.name)),
        };
        match s.kind.as_str() {
            "bits" => {
                let Some(of) = dtype(&s.of).or_else(|| dtype_of(&s.of)) else {
                    return fail(op, format!("{} is missing", s.of));
                };
                let (lo, hi) = bits_of(op, value, of)?;
                made.push((format!("{}_lo", s.name), Word::Bits(lo)));
                made.push((format!("{}_hi", s.name), Word::Bits(hi)));
            }
            "f32" => made.push((s.member.clone(), Word::Float(value.float() as f32))),
            _ => made.push((s.member.clone(), Word::Bits(whole(op, s, value)? as u32))),
        }
    }
    Ok(made)
}

fn from_json(of: &Json) -> Number {
    match of {
        Json::Bool(b) => Number::from(*b),
        other => match other.as_i64() {
            Some(n) => Number::from(n),
            None => Number::from(other.as_f64().unwrap_or(f64::NAN)),
        },
    }
}

fn whole(op: &str, s: &Scalar, value: Number) -> Result<i128, Error> {
    match value.whole() {
        Some(n) => Ok(n),
        None => fail(op, format!("{} must be a whole number but is {}", s.name, value.float())),
    }
}

/// Eight bytes filled with the scalar as a dtype, as two words. Integers must fit.
fn bits_of(op: &str, value: Number, of: &DType) -> Result<(u32, u32), Error> {
    let size = of.itemsize as usize;
    let bytes: [u8; 8] = match (of.kind, of.name) {
        ("i" | "u", _) => {
            let bits = 8 * of.itemsize as u32;
            let (low, high) = match of.kind {
                "i" => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
                _ => (0, (1i128 << bits) - 1),
            };
            match value.whole() {
                Some(n) if (low..=high).contains(&n) => (n as u64).to_le_bytes(),
                _ => return fail(op, format!("value must fit {} but is {}", of.name, value.float())),
            }
        }
        (_, "float32") => u64::from((value.float() as f32).to_bits()).to_le_bytes(),
        (_, "float16") => u64::from(half_bits(value.float(), 5, 10)).to_le_bytes(),
        (_, "bfloat16") => u64::from(half_bits(value.float(), 8, 7)).to_le_bytes(),
        _ => u64::from(value.float() != 0.0).to_le_bytes(),
    };
    let filled: Vec<u8> = (0..8).map(|i| bytes[i % size]).collect();
    let word = |i: usize| u32::from_le_bytes([filled[i], filled[i + 1], filled[i + 2], filled[i + 3]]);
    Ok((word(0), word(4)))
}

/// A float of few bits, rounded to nearest even.
pub fn half_bits(value: f64, exponent: i32, mantissa: i32) -> u16 {
    let bias = (1 << (exponent - 1)) - 1;
    let top = (1u32 << exponent) - 1;
    let sign = if value.is_sign_negative() { 1u32 << (exponent + mantissa) } else { 0 };
    let a = value.abs();
    let packed = if value.is_nan() {
        (top << mantissa) + (1 << (mantissa - 1))
    } else if a.is_infinite() {
        top << mantissa
    } else {
        let mut e = if a == 0.0 { 1 - bias } else { (a.log2().floor() as i32).max(1 - bias) };
        if a < 2f64.powi(e) && e > 1 - bias {
            e -= 1; // log2 rounds
        }
        let m = (a / 2f64.powi(e - mantissa)).round_ties_even() as u32;
        let normal = ((e + bias - 1).max(0) as u32) << mantissa;
        let packed = if m < 1 << mantissa { m } else { normal + m };
        packed.min(top << mantissa)
    };
    (sign | packed) as u16
}

#[cfg(test)]
mod tests {
    use super::half_bits;

    #[test]
    fn halves() {
        for (value, bits) in [
            (0.0, 0),
            (-0.0, 0x8000),
            (1.0, 0x3c00),
            (65504.0, 0x7bff),
            (65520.0, 0x7c00),
            (5.960464477539063e-8, 1),
            (0.1, 0x2e66),
            (f64::NEG_INFINITY, 0xfc00),
        ] {
            assert_eq!(half_bits(value, 5, 10), bits, "{value}");
        }
        assert_eq!(half_bits(1.0, 8, 7), 0x3f80);
    }
}
