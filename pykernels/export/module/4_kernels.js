// -- launches -------------------------------------------------------------------------------------

/** A checked and prepared call: run it as often as you like. */
export class Call {
  constructor(device, dispatches, owned) {
    Object.assign(this, { device, dispatches, owned });
  }

  /** Record into a compute pass of yours. */
  encode(pass) {
    for (const d of this.dispatches) {
      pass.setPipeline(d.pipeline);
      pass.setBindGroup(0, d.group);
      pass.dispatchWorkgroups(...d.grid);
    }
  }

  /** Record and submit. */
  run() {
    const encoder = this.device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    this.encode(pass);
    pass.end();
    this.device.queue.submit([encoder.finish()]);
    return this;
  }

  /** Free params and scratch memory; the tensors are yours. */
  destroy() {
    this.owned.forEach((buffer) => buffer.destroy());
  }
}

/** The exported kernels on one device. */
export class Kernels {
  constructor(device, manifest, read) {
    Object.assign(this, { device, manifest, read });
    this.pipelines = new Map();
    const { limits, features } = device;
    this.caps = {
      f16: features.has("shader-f16"),
      subgroups: features.has("subgroups") && manifest.dialect === "tint",
      alignment: limits.minStorageBufferOffsetAlignment,
      max_invocations: limits.maxComputeInvocationsPerWorkgroup,
      max_workgroup_bytes: limits.maxComputeWorkgroupStorageSize,
      max_binding: limits.maxStorageBufferBindingSize,
      max_groups: Math.min(limits.maxComputeWorkgroupsPerDimension, manifest.grid.max),
      tuning: manifest.tuning,
    };
    this.nothing = device.createBuffer({ size: 4096, usage: 0x80 }); // for absent tensors
    this.faults = device.createBuffer({ size: 1024, usage: 0x80 });
  }

  /** A tensor of its own buffer with these elements. */
  tensor(data, shape = [data.length], dtype = dtypeOf(data)) {
    const t = this.empty(shape, dtype);
    if (data.byteLength !== t.nbytes) fail("tensor", `[${shape}] has not ${data.length} elements`);
    const whole = new Uint8Array(Math.ceil(data.byteLength / 4) * 4);
    whole.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    this.device.queue.writeBuffer(t.buffer, 0, whole);
    return t;
  }

  /** A tensor of its own buffer, filled with zeros. */
  empty(shape, dtype) {
    const bytes = product(shape) * (dtypes[dtype] ?? fail("empty", `no dtype ${dtype}`)).itemsize;
    const size = Math.max(Math.ceil(bytes / 16) * 16, 16);
    const buffer = this.device.createBuffer({ size, usage: 0x80 | 0x04 | 0x08 });
    return new Tensor(buffer, shape, dtype);
  }

  /** The elements of a contiguous tensor, as a typed array. */
  async data(t) {
    const { itemsize, array } = dtypes[t.dtype];
    if (!same(t.strides, contiguousStrides(t.shape, itemsize))) fail("data", "not contiguous");
    const start = Math.floor(t.offset / 4) * 4;
    const size = Math.max(Math.ceil((t.offset + t.nbytes - start) / 4) * 4, 4);
    const staging = this.device.createBuffer({ size, usage: 0x01 | 0x08 });
    const encoder = this.device.createCommandEncoder();
    encoder.copyBufferToBuffer(t.buffer, start, staging, 0, size);
    this.device.queue.submit([encoder.finish()]);
    await staging.mapAsync(1);
    const bytes = staging.getMappedRange().slice(t.offset - start, t.offset - start + t.nbytes);
    staging.destroy();
    return new array(bytes);
  }

  /** Check a call, find or make its plan, and prepare it. */
  async call(kernel, args, plan = null) {
    const { tensors, scalars, options } = split(kernel, args);
    checkTensors(kernel, tensors);
    const views = kernel.tensors.map((a, slot) => viewOf(tensors[slot], slot));
    const named = Object.fromEntries(kernel.tensors.map((a, i) => [a.name, views[i]]));
    const scratch = new Scratch();
    let steps = plan?.(this.caps, named, scratch, options);
    steps ??= recorded(this.manifest, kernel, views, options, scratch);
    steps ??= kernel.plan?.(this.caps, named, scratch, options);
    steps ?? unplanned(this.manifest, kernel, views, options);
    return this.prepare(kernel, steps, tensors, scalars, scratch.sizes);
  }

  /** Lower steps to dispatches: `sizes` are those of temporary buffers. */
  async prepare(kernel, steps, tensors, scalars, sizes) {
    const temps = sizes.map((size) =>
      this.device.createBuffer({ size: Math.ceil(size / 16) * 16, usage: 0x80 }),
    );
    const buffers = (slot) => (slot >= 0 ? tensors[slot].buffer : temps[~slot]);
    const shared = inOutputs(kernel, tensors);
    const mode = shared.length ? decide(kernel, tensors, shared, this.caps.alignment) : "read";
    const real = steps.filter((s) => s.groups > 0);
    const params = this.device.createBuffer({
      size: SLOT * Math.max(real.length, 1),
      usage: 0x40 | 0x08,
    });
    const dispatches = await Promise.all(
      real.map(async (step, i) => {
        const low = lower(kernel, step, mode, shared, this.caps, buffers);
        const { pipeline, layout } = await this.pipeline(variantName(step, low.mode));
        this.device.queue.writeBuffer(params, SLOT * i, packParams(step, low.offsets, scalars));
        const entries = low.where.map(([slot, offset, size], binding) => ({
          binding,
          resource: { buffer: slot === null ? this.nothing : buffers(slot), offset, size },
        }));
        if (step.body.faults) {
          entries.push({ binding: entries.length, resource: { buffer: this.faults } });
        }
        const resource = { buffer: params, offset: SLOT * i, size: SLOT };
        entries.push({ binding: entries.length, resource });
        return {
          pipeline,
          group: this.device.createBindGroup({ layout, entries }),
          grid: fold(kernel.name, step.groups, this.caps.max_groups),
        };
      }),
    );
    return new Call(this.device, dispatches, [params, ...temps]);
  }

  /** The pipeline of a variant, compiled once. */
  pipeline(name) {
    const found = this.pipelines.get(name);
    if (found) return found;
    const made = this.compile(name);
    this.pipelines.set(name, made);
    made.catch(() => this.pipelines.delete(name));
    return made;
  }

  async compile(name) {
    const variant = this.manifest.variants[name] ?? fail(name, "this variant was not exported");
    for (const f of variant.features) {
      if (!this.device.features.has(f)) fail(name, `the device was made without feature ${f}`);
    }
    const types = { read: "read-only-storage", read_write: "storage", uniform: "uniform" };
    const layout = this.device.createBindGroupLayout({
      entries: variant.bindings.map((b) => ({
        binding: b.binding,
        visibility: 4,
        buffer: { type: types[b.access] },
      })),
    });
    const module = this.device.createShaderModule({ code: await this.read(variant.file) });
    const pipeline = await this.device.createComputePipelineAsync({
      layout: this.device.createPipelineLayout({ bindGroupLayouts: [layout] }),
      compute: { module, entryPoint: variant.entry_point },
    });
    return { pipeline, layout };
  }
}

/** The kernels that lie beside this module, on a device; `base` is where manifest.json is. */
export async function open(device, { base = new URL(".", import.meta.url) } = {}) {
  const root = new URL(base, globalThis.location?.href);
  const get = async (file) => {
    const answer = await fetch(new URL(file, root));
    return answer.ok ? answer : fail("open", `${file}: ${answer.status} ${answer.statusText}`);
  };
  const manifest = await (await get("manifest.json")).json();
  return new Kernels(device, manifest, async (file) => (await get(file)).text());
}

/** Bodies, for plans of your own: `bodies.NAME.step(caps, views, given)` is one step. */
export const bodies = {};
const kernels = {};
