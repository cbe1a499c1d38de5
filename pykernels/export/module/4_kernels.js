/** What was made under a name, or is made now; a failure is not kept. */
const once = (made, name, make) => {
  if (!made.has(name)) {
    made.set(name, make());
    made.get(name).catch(() => made.delete(name));
  }
  return made.get(name);
};

/** Make something on the device; its validation, if it fails, is a KernelError. */
const checked = async (device, op, make) => {
  device.pushErrorScope("validation");
  let made;
  let told;
  try {
    made = make();
  } finally {
    told = device.popErrorScope();
  }
  const error = await told;
  if (error) fail(op, error.message);
  return made;
};

// -- launches -------------------------------------------------------------------------------------

/** A checked and prepared call: run it as often as you like. */
export class Call {
  constructor(name, gpu, dispatches, owned) {
    Object.assign(this, { name, gpu, device: gpu.device, dispatches, owned, destroyed: false });
  }

  /** Record into a compute pass of yours. */
  encode(pass) {
    if (this.destroyed) fail(this.name, "the call must not be destroyed before it runs");
    this.gpu.alive(this.name);
    for (const d of this.dispatches) {
      pass.setPipeline(d.pipeline);
      pass.setBindGroup(0, d.group);
      pass.dispatchWorkgroups(...d.grid);
    }
  }

  /** Record and submit. What validation finds later goes to `onerror` and `settled`. */
  run() {
    if (this.destroyed) fail(this.name, "the call must not be destroyed before it runs");
    this.gpu.alive(this.name);
    const submit = () => {
      const encoder = this.device.createCommandEncoder();
      const pass = encoder.beginComputePass();
      this.encode(pass);
      pass.end();
      this.device.queue.submit([encoder.finish()]);
    };
    const told = checked(this.device, this.name, submit).catch((e) => this.gpu.report(e));
    this.gpu.pending.add(told);
    told.then(() => this.gpu.pending.delete(told));
    return this;
  }

  /** Free params and scratch memory; the tensors are yours. */
  destroy() {
    this.destroyed = true;
    this.owned.forEach((buffer) => buffer.destroy());
  }
}

/** The exported kernels on one device. */
export class Kernels {
  constructor(device, manifest, read) {
    Object.assign(this, { device, manifest, read });
    this.pipelines = new Map();
    this.bundles = new Map();
    this.pending = new Set(); // runs whose validation has not been told
    this.onerror = null; // called with a KernelError that a run found out later
    this.failure = null; // the first one since `settled`
    this.lost = null;
    device.lost.then((info) => (this.lost = info));
    const { limits, features } = device;
    this.caps = {
      f16: features.has(contract.features.f16),
      subgroups: features.has(contract.features.subgroups) && manifest.dialect === "tint",
      alignment: limits.minStorageBufferOffsetAlignment,
      max_invocations: limits.maxComputeInvocationsPerWorkgroup,
      max_workgroup_bytes: limits.maxComputeWorkgroupStorageSize,
      max_binding: limits.maxStorageBufferBindingSize,
      max_groups: Math.min(limits.maxComputeWorkgroupsPerDimension, manifest.grid.max),
      matrix: null,
      tuning: manifest.tuning,
    };
    this.nothing = device.createBuffer({ size: 4096, usage: 0x80 }); // for absent tensors
    this.faults = device.createBuffer({ size: 1024, usage: 0x80 });
  }

  /** Throws where the device is lost. */
  alive(op) {
    if (this.lost) fail(op, `the device is lost: ${this.lost.message || this.lost.reason}`);
  }

  /** An error that is known after the call that made it. */
  report(error) {
    this.failure ??= error;
    if (this.onerror) this.onerror(error);
    else console.error(error.message);
  }

  /** Waits for the validation of all runs; rejects with the first error since it was last asked. */
  async settled() {
    await Promise.all(this.pending);
    const error = this.failure;
    this.failure = null;
    if (error) throw error;
    this.alive("settled");
  }

  /** A tensor of its own buffer with these elements. */
  tensor(data, shape = [data?.length], dtype = dtypeOf(data)) {
    const kind = dtypes[dtype] ?? fail("tensor", `there is no dtype ${dtype}`);
    // Halves may come as their bits.
    const fits = data instanceof kind.array || (dtype === "float16" && data instanceof Uint16Array);
    if (!fits) {
      const got = data?.constructor?.name ?? data;
      fail("tensor", `data of ${dtype} must be a ${kind.array.name} but is ${got}`);
    }
    const count = data.length / (kind.kind === "c" ? 2 : 1); // real and imaginary parts
    if (product([...shape]) !== count) {
      fail("tensor", `shape [${shape}] has ${product([...shape])} elements but data has ${count}`);
    }
    const t = this.empty(shape, dtype);
    const whole = new Uint8Array(Math.ceil(data.byteLength / 4) * 4);
    whole.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    this.device.queue.writeBuffer(t.buffer, 0, whole);
    return t;
  }

  /** A tensor of its own buffer, filled with zeros. */
  empty(shape, dtype) {
    this.alive("empty");
    const kind = dtypes[dtype] ?? fail("empty", `there is no dtype ${dtype}`);
    if (!Array.isArray(shape) || !shape.every((n) => Number.isSafeInteger(n) && n >= 0)) {
      fail("empty", `shape must be an array of whole numbers but is ${JSON.stringify(shape)}`);
    }
    const size = Math.max(Math.ceil((product(shape) * kind.itemsize) / 16) * 16, 16);
    const most = this.device.limits.maxBufferSize;
    if (size > most) fail("empty", `${size} bytes are more than a buffer holds here, ${most}`);
    const buffer = this.device.createBuffer({ size, usage: 0x80 | 0x04 | 0x08 });
    owners.set(buffer, this.device);
    return new Tensor(buffer, shape, dtype);
  }

  /** The elements of a contiguous tensor, as a typed array; rejects where they cannot be read. */
  async data(t) {
    if (!(t instanceof Tensor)) fail("data", "what is read must be a Tensor");
    this.alive("data");
    checkBuffer("data", "the tensor", t.buffer, 0x04, this.device);
    const { itemsize, array } = dtypes[t.dtype];
    if (!same(t.strides, contiguousStrides(t.shape, itemsize))) fail("data", "not contiguous");
    const start = Math.floor(t.offset / 4) * 4;
    const size = Math.max(Math.ceil((t.offset + t.nbytes - start) / 4) * 4, 4);
    const staging = this.device.createBuffer({ size, usage: 0x01 | 0x08 });
    try {
      await checked(this.device, "data", () => {
        const encoder = this.device.createCommandEncoder();
        encoder.copyBufferToBuffer(t.buffer, start, staging, 0, size);
        this.device.queue.submit([encoder.finish()]);
      });
      await staging.mapAsync(1);
      const bytes = staging.getMappedRange().slice(t.offset - start, t.offset - start + t.nbytes);
      return new array(bytes);
    } catch (e) {
      throw e instanceof KernelError ? e : new KernelError(`[data] ${e.message}`);
    } finally {
      staging.destroy();
    }
  }

  /** Check a call, find or make its plan, and prepare it. */
  async call(kernel, args, plan = null) {
    const { tensors, scalars, options } = split(kernel, args);
    this.alive(kernel.name);
    checkTensors(kernel, tensors);
    for (const [i, t] of tensors.entries()) {
      if (t) checkBuffer(kernel.name, kernel.tensors[i].name, t.buffer, 0x80, this.device);
    }
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
          group: await checked(this.device, kernel.name, () =>
            this.device.createBindGroup({ layout, entries }),
          ),
          grid: fold(kernel.name, step.groups, this.caps.max_groups),
        };
      }),
    );
    return new Call(kernel.name, this, dispatches, [params, ...temps]);
  }

  /** The pipeline of a variant, compiled once. */
  pipeline(name) {
    return once(this.pipelines, name, () => this.compile(name));
  }

  /** The facts of a variant and its text, from the file of its body, which is read once. */
  async variant(name) {
    const [body, key] = [name.split(" ", 1)[0], name.slice(name.indexOf(" ") + 1)];
    const missing = () => fail(name, "this variant was not exported");
    const file = this.manifest.bodies[body]?.file ?? missing();
    const read = async () => ofThisBuild(file, parsed(file, await this.read(file)));
    const { lines, pieces, facts, variants } = await once(this.bundles, file, read);
    const [head, tail, number] = (variants[key] ?? missing()).split(" ");
    const piece = (n) => pieces[n].split(" ").filter(Boolean).flatMap((span) => {
      const [first, last = first] = span.split("-").map(Number);
      return lines.slice(first, last + 1);
    }).join("\n");
    const found = facts[number];
    const enable = this.manifest.dialect === "tint" && found.features.includes(contract.features.subgroups);
    return { ...found, code: (enable ? "enable subgroups;\n" : "") + piece(head) + piece(tail) };
  }

  async compile(name) {
    const variant = await this.variant(name);
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
    const module = this.device.createShaderModule({ code: variant.code });
    const pipeline = await this.device.createComputePipelineAsync({
      layout: this.device.createPipelineLayout({ bindGroupLayouts: [layout] }),
      compute: { module, entryPoint: variant.entry_point },
    });
    return { pipeline, layout };
  }
}

const parsed = (file, text) => {
  try {
    return JSON.parse(text);
  } catch {
    return fail("open", `${file} must be JSON but begins with ${JSON.stringify(text.slice(0, 20))}`);
  }
};

const ofThisBuild = (file, content) =>
  content?.build === BUILD
    ? content
    : fail("open", `${file} must be of this module's build, ${BUILD}, but is of ${content?.build}`);

/** The kernels that lie beside this module, on a device; `base` is the folder of manifest.json. */
export async function open(device, { base = null } = {}) {
  if (!device?.limits) fail("open", `device must be a GPUDevice but is ${device}`);
  const root = new URL(base ?? new URL(/* @vite-ignore */ ".", import.meta.url), globalThis.location?.href);
  if (!root.pathname.endsWith("/")) root.pathname += "/";
  const read = async (file) => {
    if (bundled.has(file) && base === null) return bundled.get(file);
    const url = new URL(file, root);
    const answer = await fetch(url).catch((e) => fail("open", `${url}: ${e.message}`));
    return answer.ok ? answer.text() : fail("open", `${url}: ${answer.status} ${answer.statusText}`);
  };
  const where = bundled.has("manifest.json") && base === null ? "manifest.json" : new URL("manifest.json", root);
  const manifest = ofThisBuild(where, parsed(where, await read("manifest.json")));
  const gpu = new Kernels(device, manifest, read);
  await Promise.race([device.lost, Promise.resolve()]);
  gpu.alive("open");
  return gpu;
}

/** Bodies, for plans of your own: `bodies.NAME.step(caps, views, given)` is one step. */
export const bodies = {};
const kernels = {};
