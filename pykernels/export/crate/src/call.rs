//! Calls: their arguments, and the dispatches that they become.

use std::rc::Rc;

use crate::checks::{self, Given};
use crate::contract::{GRID_MAX, GRID_ROW, PARAMS_BYTES};
use crate::gpu::{Gpu, Pipeline};
use crate::layout::View;
use crate::program::{Kernel, Program};
use crate::scalars::{words, Word};
use crate::step::{Bound, Caps, Step};
use crate::tensor::{up, Tensor};
use crate::value::Value;
use crate::{fail, Error};

/// A number as a scalar of a call.
#[derive(Clone, Copy, Debug)]
pub struct Number(Kind);

#[derive(Clone, Copy, Debug)]
enum Kind {
    Whole(i128),
    Float(f64),
}

impl Number {
    pub(crate) fn float(self) -> f64 {
        match self.0 {
            Kind::Whole(n) => n as f64,
            Kind::Float(x) => x,
        }
    }

    pub(crate) fn whole(self) -> Option<i128> {
        match self.0 {
            Kind::Whole(n) => Some(n),
            Kind::Float(x) => (x.fract() == 0.0).then_some(x as i128),
        }
    }
}

macro_rules! number {
    ($($kind:ty),*) => {$(
        impl From<$kind> for Number {
            fn from(of: $kind) -> Number {
                Number(Kind::Whole(of as i128))
            }
        }
    )*};
}

number!(i32, i64, u32, u64, usize, bool);

impl From<f32> for Number {
    fn from(of: f32) -> Number {
        Number(Kind::Float(of.into()))
    }
}

impl From<f64> for Number {
    fn from(of: f64) -> Number {
        Number(Kind::Float(of))
    }
}

/// The value of an option: a number, a flag, a word, or several numbers.
#[derive(Clone, Debug)]
pub enum Choice {
    None,
    Flag(bool),
    Whole(i64),
    Float(f64),
    Word(String),
    Many(Vec<Choice>),
}

impl Choice {
    pub(crate) fn value(&self) -> Value {
        match self {
            Choice::None => Value::None,
            Choice::Flag(b) => Value::Bool(*b),
            Choice::Whole(n) => Value::Int((*n).into()),
            Choice::Float(x) => Value::Float(*x),
            Choice::Word(t) => Value::text(t),
            Choice::Many(all) => Value::tuple(all.iter().map(Choice::value).collect()),
        }
    }
}

impl From<bool> for Choice {
    fn from(of: bool) -> Choice {
        Choice::Flag(of)
    }
}

impl From<i64> for Choice {
    fn from(of: i64) -> Choice {
        Choice::Whole(of)
    }
}

impl From<i32> for Choice {
    fn from(of: i32) -> Choice {
        Choice::Whole(of.into())
    }
}

impl From<f64> for Choice {
    fn from(of: f64) -> Choice {
        Choice::Float(of)
    }
}

impl From<&str> for Choice {
    fn from(of: &str) -> Choice {
        Choice::Word(of.into())
    }
}

impl<T: Into<Choice>> From<Vec<T>> for Choice {
    fn from(of: Vec<T>) -> Choice {
        Choice::Many(of.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Choice>, const N: usize> From<[T; N]> for Choice {
    fn from(of: [T; N]) -> Choice {
        Choice::Many(of.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Choice>> From<Option<T>> for Choice {
    fn from(of: Option<T>) -> Choice {
        of.map_or(Choice::None, Into::into)
    }
}

impl AsRef<Arguments> for Arguments {
    fn as_ref(&self) -> &Arguments {
        self
    }
}

/// The arguments of one call; the functions in [`crate::kernels`] make them.
#[derive(Clone)]
pub struct Arguments {
    pub(crate) kernel: &'static str,
    tensors: Vec<(&'static str, Tensor)>,
    scalars: Vec<(String, Number)>,
    options: Vec<(&'static str, Choice)>,
}

impl Arguments {
    pub(crate) fn new(kernel: &'static str) -> Arguments {
        Arguments { kernel, tensors: vec![], scalars: vec![], options: vec![] }
    }

    pub(crate) fn tensor(mut self, name: &'static str, tensor: &Tensor) -> Arguments {
        self.tensors.push((name, tensor.clone()));
        self
    }

    pub(crate) fn scalar(mut self, name: &'static str, value: Number) -> Arguments {
        self.scalars.push((name.into(), value));
        self
    }

    pub(crate) fn option(mut self, name: &'static str, value: Choice) -> Arguments {
        self.options.push((name, value));
        self
    }
}

struct Dispatch {
    pipeline: wgpu::ComputePipeline,
    group: wgpu::BindGroup,
    grid: (u32, u32),
}

/// A checked and prepared call: it runs as often as you like, on the tensors that it was made for.
pub struct Call {
    name: &'static str,
    gpu: Gpu,
    dispatches: Vec<Dispatch>,
}

impl Call {
    /// Record into a compute pass of yours.
    pub fn encode(&self, pass: &mut wgpu::ComputePass) {
        for d in &self.dispatches {
            pass.set_pipeline(&d.pipeline);
            pass.set_bind_group(0, &d.group, &[]);
            pass.dispatch_workgroups(d.grid.0, d.grid.1, 1);
        }
    }

    /// Record and submit.
    pub fn run(&self) -> Result<(), Error> {
        self.gpu.checked(self.name, || {
            let mut encoder = self.gpu.device.create_command_encoder(&Default::default());
            self.encode(&mut encoder.begin_compute_pass(&Default::default()));
            self.gpu.queue.submit([encoder.finish()]);
        })
    }

    /// The number of dispatches.
    pub fn dispatches(&self) -> usize {
        self.dispatches.len()
    }
}

/// Check a call, make its plan and its buffers.
pub(crate) fn prepare(gpu: &Gpu, given: &Arguments) -> Result<Call, Error> {
    let name = given.kernel;
    let Some(kernel) = Program::get().kernels.get(name) else {
        return fail(name, "this kernel was not exported");
    };
    let tensors: Given = kernel
        .tensors
        .iter()
        .map(|a| given.tensors.iter().find(|(n, _)| *n == a.name).map(|(_, t)| t.clone()))
        .collect();
    checks::check(kernel, &tensors)?;
    let dtype_of = |name: &str| {
        given.tensors.iter().find(|(n, _)| *n == name).map(|(_, t)| t.dtype)
    };
    let scalars = words(kernel, &given.scalars, dtype_of)?;
    let views: Vec<Option<View>> =
        tensors.iter().enumerate().map(|(i, t)| t.as_ref().map(|t| t.view(i))).collect();
    let mut options = vec![];
    for (i, (option, _)) in kernel.options.iter().enumerate() {
        let found = given.options.iter().find(|(n, _)| n == option);
        options.push(found.map_or_else(|| kernel.default_of(i), |(_, c)| c.value()));
    }
    let (steps, sizes) = kernel.plan(&gpu.caps, views, options)?;
    let temps: Vec<wgpu::Buffer> = sizes.iter().map(|n| gpu.buffer(name, *n)).collect::<Result<_, _>>()?;
    let shared = checks::in_outputs(kernel, &tensors);
    let mode = match shared.is_empty() {
        true => "read",
        false => checks::mode(kernel, &tensors, &shared, gpu.caps.alignment)?,
    };
    let buffers = |slot: i128| -> wgpu::Buffer {
        match slot >= 0 {
            true => tensors[slot as usize].as_ref().expect("a view has a tensor").buffer.clone(),
            false => temps[(!slot) as usize].clone(),
        }
    };
    let steps: Vec<&Rc<Step>> = steps.iter().filter(|s| s.groups > 0).collect();
    let params = gpu.params(steps.len());
    let mut dispatches = vec![];
    for (i, step) in steps.iter().enumerate() {
        let low = lower(kernel, step, mode, &shared, &gpu.caps, &buffers)?;
        let pipeline = gpu.pipeline(&step.variant(low.mode))?;
        let packed = pack(name, step, &low.offsets, &scalars)?;
        gpu.queue.write_buffer(&params, (PARAMS_BYTES * i) as u64, &packed);
        let group = bind(gpu, name, step, &low, &pipeline, &params, i, &buffers)?;
        let grid = fold(name, step.groups, gpu.caps.max_groups)?;
        dispatches.push(Dispatch { pipeline: pipeline.compute.clone(), group, grid });
    }
    Ok(Call { name, gpu: gpu.clone(), dispatches })
}

/// A binding: a slot (None for a tensor that was not given), its first byte and its size.
type Window = (Option<i128>, i128, i128);

struct Lowered {
    mode: &'static str,
    windows: Vec<Window>,
    offsets: Vec<i128>,
}

/// Binding windows and element offsets of one step.
fn lower(
    kernel: &Kernel,
    step: &Step,
    wanted: &'static str,
    shared: &[usize],
    caps: &Caps,
    buffers: &dyn Fn(i128) -> wgpu::Buffer,
) -> Result<Lowered, Error> {
    let is_shared = |b: &Bound| {
        !b.out && b.view.as_ref().is_some_and(|v| v.slot >= 0 && shared.contains(&(v.slot as usize)))
    };
    let is_output = |b: &Bound| {
        let slot = b.view.as_ref().map_or(-1, |v| v.slot);
        b.out && slot >= 0 && kernel.tensors[slot as usize].out
    };
    let both = step.bound.iter().any(is_shared) && step.bound.iter().any(is_output);
    let mode = if both { wanted } else { "read" };
    let merged = mode == "merged";
    let into = step.bound.iter().find(|b| merged && b.out && !b.alias.is_empty());
    let skip = into.and_then(|o| step.bound.iter().find(|b| b.name == o.alias));
    let window = |b: &Bound| match &b.view {
        Some(v) => window_of(v, b.unit, caps.alignment),
        None => (0, 0),
    };
    let union = into.zip(skip).map(|(a, b)| {
        let ((a0, a1), (b0, b1)) = (window(a), window(b));
        (a0.min(b0), a1.max(b1))
    });
    let is = |b: &Bound, of: Option<&Bound>| of.is_some_and(|o| std::ptr::eq(o, b));
    let (mut windows, mut offsets, mut nulls) = (vec![], vec![], 0);
    for b in &step.bound {
        let Some(view) = &b.view else {
            offsets.push(0);
            windows.push((None, PARAMS_BYTES as i128 * nulls, b.unit.max(16)));
            nulls += 1;
            continue;
        };
        let (start, end) = match union {
            Some(both) if is(b, skip) || is(b, into) => both,
            _ => window(b),
        };
        let (op, name, size) = (&kernel.name, &b.name, end - start);
        if size > caps.max_binding {
            let most = caps.max_binding;
            return fail(op, format!("{name} spans {size} bytes; a binding holds {most}"));
        }
        if size / b.elem > i128::from(i32::MAX) {
            return fail(op, format!("{name} is beyond 2^31 elements"));
        }
        if end > i128::from(buffers(view.slot).size()) {
            return fail(op, format!("{name} ends in the last word of its buffer: add up to 16 bytes to it"));
        }
        offsets.push((view.offset - start).div_euclid(b.elem));
        if !is(b, skip) {
            windows.push((Some(view.slot), start, size));
        }
    }
    Ok(Lowered { mode, windows, offsets })
}

/// First and last byte of a binding, in whole elements of the bound array and whole words.
fn window_of(view: &View, unit: i128, alignment: i128) -> (i128, i128) {
    let (lo, hi) = view.window();
    let start = lo.div_euclid(alignment) * alignment;
    let whole = up(hi - start, unit).max(unit);
    (start, up(start + whole, 4))
}

fn pack(
    op: &str,
    step: &Step,
    offsets: &[i128],
    scalars: &[(String, Word)],
) -> Result<Vec<u8>, Error> {
    let mut data: Vec<u8> = vec![];
    let mut put = |word: u32| data.extend_from_slice(&word.to_le_bytes());
    put(step.groups as u32);
    step.words.iter().for_each(|w| put(*w as u32));
    for (b, offset) in step.bound.iter().zip(offsets) {
        put(*offset as u32);
        b.strides.iter().for_each(|s| put(*s as u32));
    }
    for (format, value) in step.body.formats.iter().zip(&step.values) {
        let word = match format {
            'f' => value.float().map(|x| (x as f32).to_bits()),
            _ => value.int().map(|n| n as u32),
        };
        match word {
            Ok(word) => put(word),
            Err(_) => return fail(op, format!("{} has a param that is no number", step.body.name)),
        }
    }
    if step.body.faults {
        put(0); // slot 0: what is out of range is left out in silence
    }
    for (i, (name, format)) in step.body.args.iter().enumerate() {
        if let Some(own) = step.scalars.get(i) {
            let word = match format {
                'f' => own.float().map(|x| (x as f32).to_bits()),
                _ => own.int().map(|n| n as u32),
            };
            match word {
                Ok(word) => put(word),
                Err(_) => return fail(op, format!("{} needs a number {name}", step.body.name)),
            }
            continue;
        }
        match scalars.iter().find(|(n, _)| n == name) {
            Some((_, Word::Float(x))) if *format == 'f' => put(x.to_bits()),
            Some((_, Word::Float(x))) => put(*x as i64 as u32),
            Some((_, Word::Bits(n))) if *format == 'f' => put((*n as f32).to_bits()),
            Some((_, Word::Bits(n))) => put(*n),
            None => return fail(op, format!("{} needs {name}", step.body.name)),
        }
    }
    if data.len() > PARAMS_BYTES {
        return fail(op, format!("the params of {} are too long", step.body.name));
    }
    Ok(data)
}

#[allow(clippy::too_many_arguments)]
fn bind(
    gpu: &Gpu,
    op: &str,
    step: &Step,
    low: &Lowered,
    pipeline: &Pipeline,
    params: &wgpu::Buffer,
    i: usize,
    buffers: &dyn Fn(i128) -> wgpu::Buffer,
) -> Result<wgpu::BindGroup, Error> {
    let mut bound: Vec<(wgpu::Buffer, u64, u64)> = low
        .windows
        .iter()
        .map(|(slot, first, size)| {
            let buffer = slot.map_or(gpu.nothing.clone(), buffers);
            (buffer, *first as u64, *size as u64)
        })
        .collect();
    if step.body.faults {
        bound.push((gpu.faults.clone(), 0, gpu.faults.size()));
    }
    bound.push((params.clone(), (PARAMS_BYTES * i) as u64, PARAMS_BYTES as u64));
    let entries: Vec<wgpu::BindGroupEntry> = bound
        .iter()
        .enumerate()
        .map(|(binding, (buffer, offset, size))| wgpu::BindGroupEntry {
            binding: binding as u32,
            resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                buffer,
                offset: *offset,
                size: wgpu::BufferSize::new(*size),
            }),
        })
        .collect();
    let layout = &pipeline.layout;
    gpu.checked(op, || {
        let made = wgpu::BindGroupDescriptor { label: Some(op), layout, entries: &entries };
        gpu.device.create_bind_group(&made)
    })
}

/// A linear number of workgroups as a grid: x in full, or rows.
fn fold(op: &str, groups: i128, limit: i128) -> Result<(u32, u32), Error> {
    if groups <= limit {
        return Ok((groups as u32, 1));
    }
    let rows = up(groups, GRID_ROW) / GRID_ROW;
    match rows <= GRID_MAX {
        true => Ok((GRID_ROW as u32, rows as u32)),
        false => fail(op, format!("{groups} workgroups are too many")),
    }
}
