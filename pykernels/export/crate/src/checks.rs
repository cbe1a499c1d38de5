//! The rules of a call that are checked before its plan, as in Python.

use std::collections::HashMap;

use crate::layout::{expands_to, repeats_to, View};
use crate::program::Kernel;
use crate::tensor::{up, Tensor};
use crate::{fail, Error};

pub type Given = Vec<Option<Tensor>>;

pub fn check(kernel: &Kernel, tensors: &Given) -> Result<(), Error> {
    let op = &kernel.name;
    let at = |name: &str| kernel.tensors.iter().position(|a| a.name == name);
    let other = |name: &str| at(name).and_then(|i| tensors[i].as_ref());
    let mut first: HashMap<&str, (&str, &str)> = HashMap::new();
    let mut sizes: HashMap<char, (&str, i128)> = HashMap::new();
    for (a, t) in kernel.tensors.iter().zip(tensors) {
        let name = &a.name;
        let Some(t) = t else {
            if a.optional {
                continue;
            }
            return fail(op, format!("{name} is missing"));
        };
        if !a.dtypes.iter().any(|d| d == t.dtype.name) {
            let wanted = a.dtypes.join(", ");
            let wanted = match wanted.rsplit_once(", ") {
                Some((most, last)) => format!("{most} or {last}"),
                None => wanted,
            };
            return fail(op, format!("{name} must be {wanted} but is {}", t.dtype.name));
        }
        if !a.same.is_empty() {
            let (of, want) = *first.entry(&a.same).or_insert((name, t.dtype.name));
            if want != t.dtype.name {
                let got = t.dtype.name;
                return fail(op, format!("{name} must have the dtype of {of}, {want}, but is {got}"));
            }
        }
        if a.out && t.overlaps_itself() {
            return fail(op, format!("{name} overlaps itself"));
        }
        if let Some(like) = other(&a.like) {
            if like.shape != t.shape {
                let (want, got) = (&like.shape, &t.shape);
                return fail(op, format!("{name} must have the shape of {}, {want:?}, not {got:?}", a.like));
            }
        }
        if !a.axes.is_empty() && t.shape.len() != a.axes.len() {
            let (n, got) = (a.axes.len(), &t.shape);
            return fail(op, format!("{name} must have {n} axes but has shape {got:?}"));
        }
        for (letter, n) in a.axes.chars().zip(&t.shape) {
            let (of, size) = *sizes.entry(letter).or_insert((name, *n));
            if size != *n {
                let text = format!("axis {letter} must have one size but is {size} in {of}");
                return fail(op, format!("{text} and {n} in {name}"));
            }
        }
        let wide = other(&a.expand).map(|w| expands_to(&t.shape, &w.shape));
        let wide = wide.or(other(&a.broadcast).map(|w| repeats_to(&t.shape, &w.shape)));
        if wide == Some(false) {
            let to = other(&a.expand).or(other(&a.broadcast)).map(|w| &w.shape);
            return fail(op, format!("{name} must broadcast to {to:?} but has shape {:?}", t.shape));
        }
    }
    Ok(())
}

/// The slots of inputs that live in the buffer of an output.
pub fn in_outputs(kernel: &Kernel, tensors: &Given) -> Vec<usize> {
    let outputs: Vec<&Tensor> = kernel
        .tensors
        .iter()
        .zip(tensors)
        .filter(|(a, _)| a.out)
        .filter_map(|(_, t)| t.as_ref())
        .collect();
    let shared = |t: &Tensor| !t.is_empty() && outputs.iter().any(|o| o.buffer == t.buffer);
    (0..tensors.len())
        .filter(|i| !kernel.tensors[*i].out && tensors[*i].as_ref().is_some_and(shared))
        .collect()
}

/// How inputs may stay in the output's buffer: merged (the same view) or rw (windows apart).
pub fn mode(
    kernel: &Kernel,
    tensors: &Given,
    shared: &[usize],
    alignment: i128,
) -> Result<&'static str, Error> {
    let span = |i: usize| -> Option<(wgpu::Buffer, i128, i128)> {
        let t = tensors[i].as_ref()?;
        let view: View = t.view(i);
        let (lo, hi) = view.window();
        Some((t.buffer.clone(), lo.div_euclid(alignment) * alignment, up(hi, 16)))
    };
    let apart = |i: usize, j: usize| match (span(i), span(j)) {
        (Some((a, a0, a1)), Some((b, b0, b1))) => a != b || a1 <= b0 || b1 <= a0,
        _ => true,
    };
    let all = 0..tensors.len();
    let outputs: Vec<usize> =
        all.clone().filter(|i| kernel.tensors[*i].out && tensors[*i].is_some()).collect();
    let of = |i: usize| -> &'static str {
        let (Some(a), own) = (&tensors[i], &kernel.tensors[i]) else { return "copy" };
        if own.readonly {
            return "copy";
        }
        if outputs.iter().all(|o| apart(i, *o)) {
            return "rw";
        }
        let out = outputs.iter().find(|o| kernel.tensors[**o].alias == own.name);
        match out.and_then(|o| tensors[*o].as_ref()) {
            Some(b)
                if a.offset == b.offset
                    && a.shape == b.shape
                    && a.strides == b.strides
                    && a.dtype.name == b.dtype.name =>
            {
                "merged"
            }
            _ => "copy",
        }
    };
    let modes: Vec<&str> = shared.iter().map(|i| of(*i)).collect();
    let writable: Vec<usize> =
        all.filter(|i| tensors[*i].is_some() && !kernel.tensors[*i].readonly).collect();
    let clash = writable.iter().any(|i| writable.iter().any(|j| i < j && !apart(*i, *j)));
    let mode = of(shared[0]);
    if modes.iter().any(|m| *m != mode) || mode == "copy" || (mode == "rw" && clash) {
        let names: Vec<&str> = shared.iter().map(|i| kernel.tensors[*i].name.as_str()).collect();
        let names = names.join(", ");
        let why = format!("{names} overlaps an output in one buffer: copy it to another buffer first");
        return fail(&kernel.name, why);
    }
    Ok(mode)
}
