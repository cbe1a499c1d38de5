//! The exported kernels on one device of the crate `wgpu`.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use crate::call::{self, Arguments, Call};
use crate::contract::{FEATURES, GRID_MAX, PARAMS_BYTES};
use crate::layout::{contiguous_strides, dtype, product, Ints};
use crate::program::Program;
use crate::step::Caps;
use crate::tensor::{up, Element, Tensor};
use crate::texts;
use crate::{fail, Error};

pub(crate) struct Pipeline {
    pub compute: wgpu::ComputePipeline,
    pub layout: wgpu::BindGroupLayout,
}

/// The exported kernels on one device. Clones share it; it may be used from several threads.
#[derive(Clone)]
pub struct Gpu {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) caps: Arc<Caps>,
    /// What stands for tensors that are not given, and where faults would be counted.
    pub(crate) nothing: wgpu::Buffer,
    pub(crate) faults: wgpu::Buffer,
    pipelines: Arc<Mutex<HashMap<String, Arc<Pipeline>>>>,
}

/// Runs a future of wgpu, which is ready at once on other hosts than the web.
fn wait<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(made) = future.as_mut().poll(&mut context) {
            return made;
        }
        std::thread::yield_now();
    }
}

impl Gpu {
    /// The first adapter, with the features and limits that the kernels can use.
    pub fn open() -> Result<Gpu, Error> {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle_from_env());
        let adapter = match wait(instance.request_adapter(&wgpu::RequestAdapterOptions {
            power_preference: wgpu::PowerPreference::HighPerformance,
            ..Default::default()
        })) {
            Ok(adapter) => adapter,
            Err(e) => return fail("open", format!("there is no adapter: {e}")),
        };
        Gpu::on_adapter(&adapter)
    }

    /// A device of this adapter.
    pub fn on_adapter(adapter: &wgpu::Adapter) -> Result<Gpu, Error> {
        let used = wgpu::Features::SHADER_F16 | wgpu::Features::SUBGROUP;
        let made = adapter.request_device(&wgpu::DeviceDescriptor {
            label: Some("pykernels"),
            required_features: adapter.features() & used,
            required_limits: adapter.limits(),
            ..Default::default()
        });
        match wait(made) {
            Ok((device, queue)) => Gpu::new(device, queue),
            Err(e) => fail("open", e),
        }
    }

    /// A device of yours. Kernels use the features SHADER_F16 and SUBGROUP if it has them.
    pub fn new(device: wgpu::Device, queue: wgpu::Queue) -> Result<Gpu, Error> {
        let (limits, features) = (device.limits(), device.features());
        let caps = Caps {
            f16: features.contains(wgpu::Features::SHADER_F16),
            subgroups: features.contains(wgpu::Features::SUBGROUP),
            alignment: i128::from(limits.min_storage_buffer_offset_alignment).max(32),
            max_invocations: limits.max_compute_invocations_per_workgroup.into(),
            max_workgroup_bytes: limits.max_compute_workgroup_storage_size.into(),
            max_binding: i128::from(limits.max_storage_buffer_binding_size) / 4 * 4,
            max_groups: i128::from(limits.max_compute_workgroups_per_dimension).min(GRID_MAX),
            tuning: Program::get().tuning.clone(),
        };
        let storage = |size| {
            device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("pykernels"),
                size,
                usage: wgpu::BufferUsages::STORAGE,
                mapped_at_creation: false,
            })
        };
        let (nothing, faults) = (storage(4096), storage(1024));
        let pipelines = Arc::default();
        Ok(Gpu { device, queue, caps: Arc::new(caps), nothing, faults, pipelines })
    }

    pub fn device(&self) -> &wgpu::Device {
        &self.device
    }

    pub fn queue(&self) -> &wgpu::Queue {
        &self.queue
    }

    /// Check a call, make its plan, its pipelines and its buffers.
    pub fn prepare(&self, arguments: impl AsRef<Arguments>) -> Result<Call, Error> {
        call::prepare(self, arguments.as_ref())
    }

    /// A tensor of its own buffer with these elements, in C order.
    pub fn tensor<T: Element>(&self, data: &[T], shape: &[usize]) -> Result<Tensor, Error> {
        self.tensor_as(data, shape, T::DTYPE)
    }

    /// A tensor with these elements as a dtype of their size: bits of float16 come as u16.
    pub fn tensor_as<T: Element>(
        &self,
        data: &[T],
        shape: &[usize],
        name: &str,
    ) -> Result<Tensor, Error> {
        let made = self.empty(shape, name)?;
        let (size, given) = (made.dtype.itemsize as usize, std::mem::size_of::<T>());
        if size != given {
            return fail("tensor", format!("elements of {name} have {size} bytes, not {given}"));
        }
        if made.len() != data.len() {
            let (n, there) = (made.len(), data.len());
            return fail("tensor", format!("shape {shape:?} has {n} elements but data has {there}"));
        }
        let mut bytes = Vec::with_capacity(data.len() * size + 3);
        data.iter().for_each(|x| x.write(&mut bytes));
        bytes.resize(up(bytes.len() as i128, 4) as usize, 0);
        self.queue.write_buffer(&made.buffer, 0, &bytes);
        Ok(made)
    }

    /// A tensor of its own buffer, filled with zeros.
    pub fn empty(&self, shape: &[usize], name: &str) -> Result<Tensor, Error> {
        let Some(dtype) = dtype(name) else {
            return fail("empty", format!("there is no dtype {name}"));
        };
        let shape: Ints = shape.iter().map(|n| *n as i128).collect();
        let buffer = self.buffer("empty", product(&shape) * dtype.itemsize)?;
        let strides = contiguous_strides(&shape, dtype.itemsize);
        Ok(Tensor { buffer, shape, strides, offset: 0, dtype })
    }

    pub(crate) fn buffer(&self, op: &str, nbytes: i128) -> Result<wgpu::Buffer, Error> {
        let (size, most) = (up(nbytes, 16).max(16), self.device.limits().max_buffer_size);
        if size > i128::from(most) {
            return fail(op, format!("{size} bytes are more than a buffer holds here, {most}"));
        }
        let usage = wgpu::BufferUsages::STORAGE
            | wgpu::BufferUsages::COPY_SRC
            | wgpu::BufferUsages::COPY_DST;
        self.checked(op, || {
            self.device.create_buffer(&wgpu::BufferDescriptor {
                label: Some(op),
                size: size as u64,
                usage,
                mapped_at_creation: false,
            })
        })
    }

    pub(crate) fn params(&self, steps: usize) -> wgpu::Buffer {
        self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("params"),
            size: (PARAMS_BYTES * steps.max(1)) as u64,
            usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        })
    }

    /// The elements of a contiguous tensor. It waits for the device.
    pub fn read<T: Element>(&self, of: &Tensor) -> Result<Vec<T>, Error> {
        let size = of.dtype.itemsize as usize;
        if size != std::mem::size_of::<T>() {
            let given = std::mem::size_of::<T>();
            return fail("read", format!("elements of {} have {size} bytes, not {given}", of.dtype.name));
        }
        if !of.contiguous() {
            return fail("read", "the tensor must be contiguous");
        }
        if of.is_empty() {
            return Ok(vec![]);
        }
        let nbytes = (of.len() * size) as i128;
        let start = of.offset / 4 * 4;
        let length = up(of.offset + nbytes - start, 4);
        let staging = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("read"),
            size: length as u64,
            usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        self.checked("read", || {
            let mut encoder = self.device.create_command_encoder(&Default::default());
            let (from, length) = (start as u64, length as u64);
            encoder.copy_buffer_to_buffer(&of.buffer, from, &staging, 0, length);
            self.queue.submit([encoder.finish()]);
        })?;
        let (tell, told) = std::sync::mpsc::channel();
        staging.map_async(wgpu::MapMode::Read, .., move |done| {
            let _ = tell.send(done);
        });
        if let Err(e) = self.device.poll(wgpu::PollType::wait_indefinitely()) {
            return fail("read", e);
        }
        match told.recv() {
            Ok(Ok(())) => {}
            Ok(Err(e)) => return fail("read", e),
            Err(e) => return fail("read", e),
        }
        let bytes = staging.get_mapped_range(..);
        let first = (of.offset - start) as usize;
        let own = &bytes[first..first + nbytes as usize];
        Ok(own.chunks_exact(size).map(T::read).collect())
    }

    /// Make something on the device; its validation, if it fails, is an error.
    pub(crate) fn checked<T>(&self, op: &str, make: impl FnOnce() -> T) -> Result<T, Error> {
        let memory = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let validation = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let made = make();
        let (wrong, full) = (wait(validation.pop()), wait(memory.pop()));
        match wrong.or(full) {
            Some(e) => fail(op, e),
            None => Ok(made),
        }
    }

    /// The pipeline of a variant, compiled once.
    pub(crate) fn pipeline(&self, name: &str) -> Result<Arc<Pipeline>, Error> {
        let lock = || self.pipelines.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(found) = lock().get(name) {
            return Ok(found.clone());
        }
        let made = Arc::new(self.compile(name)?);
        Ok(lock().entry(name.into()).or_insert(made).clone())
    }

    fn compile(&self, name: &str) -> Result<Pipeline, Error> {
        let text = texts::find(name)?;
        for feature in &text.features {
            let has = match FEATURES.iter().position(|f| f == feature) {
                Some(0) => self.caps.f16,
                Some(1) => self.caps.subgroups,
                _ => false,
            };
            if !has {
                return fail(name, format!("the device was made without the feature {feature}"));
            }
        }
        let entries: Vec<wgpu::BindGroupLayoutEntry> = text
            .bindings
            .iter()
            .map(|(binding, access)| wgpu::BindGroupLayoutEntry {
                binding: *binding,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer {
                    ty: match access.as_str() {
                        "uniform" => wgpu::BufferBindingType::Uniform,
                        other => wgpu::BufferBindingType::Storage { read_only: other == "read" },
                    },
                    has_dynamic_offset: false,
                    min_binding_size: None,
                },
                count: None,
            })
            .collect();
        self.checked(name, || {
            let device = &self.device;
            let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
                label: Some(name),
                entries: &entries,
            });
            let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
                label: Some(name),
                source: wgpu::ShaderSource::Wgsl(text.code.as_str().into()),
            });
            let whole = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                label: Some(name),
                bind_group_layouts: &[Some(&layout)],
                immediate_size: 0,
            });
            let compute = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(name),
                layout: Some(&whole),
                module: &module,
                entry_point: Some(&text.entry_point),
                compilation_options: wgpu::PipelineCompilationOptions {
                    zero_initialize_workgroup_memory: false,
                    ..Default::default()
                },
                cache: None,
            });
            Pipeline { compute, layout }
        })
    }
}
