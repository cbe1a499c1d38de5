// pykernels for browsers: views of GPU buffers, index spaces, and launches. No dependencies.
//
// Mirrors pykernels/layout.py and prepare.py. What follows the marked line at the end is generated
// from the specs of the kernels. Strides and offsets are bytes, as in numpy.

const SLOT = 256; // bytes of Params of one dispatch: the largest alignment of a uniform offset
const MAX_INDEX = 2 ** 31 - 1;

export class KernelError extends Error {}

const fail = (op, message) => {
  throw new KernelError(`[${op}] ${message}`);
};

// -- dtypes ---------------------------------------------------------------------------------------

const dtypes = {};
for (const [name, short, itemsize, kind, array] of [
  ["float32", "f32", 4, "f", Float32Array],
  ["float16", "f16", 2, "f", globalThis.Float16Array ?? Uint16Array],
  ["bfloat16", "bf16", 2, "f", Uint16Array],
  ["int32", "i32", 4, "i", Int32Array],
  ["uint32", "u32", 4, "u", Uint32Array],
  ["int16", "i16", 2, "i", Int16Array],
  ["uint16", "u16", 2, "u", Uint16Array],
  ["int8", "i8", 1, "i", Int8Array],
  ["uint8", "u8", 1, "u", Uint8Array],
  ["int64", "i64", 8, "i", BigInt64Array],
  ["bool", "bool", 1, "b", Uint8Array],
]) {
  dtypes[name] = Object.freeze({ name, short, itemsize, kind, array });
}

const dtypeOf = (data) => {
  const found = Object.values(dtypes).find((d) => d.name !== "bool" && data.constructor === d.array);
  return found ? found.name : fail("tensor", `dtype must be given for a ${data.constructor.name}`);
};

// -- arithmetic that the generated expressions use -------------------------------------------------

const cdiv = (a, b) => Math.ceil(a / b);
const mod = (a, b) => a - b * Math.floor(a / b);
const bits = (a) => BigInt.asUintN(64, BigInt(a));
const bitAnd = (a, b) => Number(bits(a) & bits(b));
const bitOr = (a, b) => Number(bits(a) | bits(b));
const same = (a, b) =>
  Array.isArray(a) && Array.isArray(b)
    ? a.length === b.length && a.every((x, i) => same(x, b[i]))
    : a === b;
const contains = (list, x) => list.some((y) => same(x, y));
const dtype = (view) => (view ? view.dtype.short : "");
const unitOf = (storage) =>
  ({ u32: 4, "atomic<u32>": 4, "vec2<u32>": 8, "vec4<u32>": 16 })[storage];
const product = (shape) => shape.reduce((a, b) => a * b, 1);

const contiguousStrides = (shape, itemsize) => {
  const strides = new Array(shape.length);
  let step = itemsize;
  for (let i = shape.length - 1; i >= 0; i--) {
    strides[i] = step;
    step *= Math.max(shape[i], 1);
  }
  return strides;
};

const extent = (shape, strides, itemsize) => {
  if (shape.includes(0)) return [0, 0];
  let lo = 0;
  let hi = itemsize;
  shape.forEach((n, i) => {
    if (strides[i] < 0) lo += (n - 1) * strides[i];
    else hi += (n - 1) * strides[i];
  });
  return [lo, hi];
};

// -- tensors and views ----------------------------------------------------------------------------

/** A GPU buffer with an offset, a shape, strides (bytes) and a dtype. It owns nothing. */
export class Tensor {
  constructor(buffer, shape, dtype, { offset = 0, strides = null } = {}) {
    const kind = dtypes[dtype] ?? fail("Tensor", `there is no dtype ${dtype}`);
    if (![...shape].every((n) => Number.isSafeInteger(n) && n >= 0)) {
      fail("Tensor", `shape must be whole numbers but is [${shape}]`);
    }
    this.buffer = buffer;
    this.shape = [...shape];
    this.dtype = dtype;
    this.strides = strides ? [...strides] : contiguousStrides(this.shape, kind.itemsize);
    this.offset = offset;
    if (this.strides.length !== this.shape.length) {
      fail("Tensor", `strides [${this.strides}] do not fit shape [${this.shape}]`);
    }
    const all = [this.offset, ...this.strides];
    if (!all.every((n) => Number.isSafeInteger(n) && n % kind.itemsize === 0)) {
      fail("Tensor", `offset and strides must be multiples of ${kind.itemsize} bytes: ${all}`);
    }
    const [lo, hi] = extent(this.shape, this.strides, kind.itemsize);
    if (offset + lo < 0 || offset + hi > buffer.size) {
      fail("Tensor", `bytes ${offset + lo} to ${offset + hi} leave the buffer of ${buffer.size}`);
    }
  }

  get size() {
    return product(this.shape);
  }

  get nbytes() {
    return this.size * dtypes[this.dtype].itemsize;
  }

  /** The same elements with the axes in another order; without an order, reversed. */
  transpose(...axes) {
    const order = axes.length ? axes : this.shape.map((_, i) => this.shape.length - 1 - i);
    return new Tensor(this.buffer, order.map((a) => this.shape[a]), this.dtype, {
      offset: this.offset,
      strides: order.map((a) => this.strides[a]),
    });
  }
}

/** What plans and bodies see of a tensor (slot 0 and up) or of scratch memory (~index). */
class View {
  constructor(slot, dtype, shape, strides, offset, padded) {
    Object.assign(this, { slot, dtype, shape, strides, offset, padded });
  }

  get ndim() {
    return this.shape.length;
  }

  get size() {
    return product(this.shape);
  }

  get nbytes() {
    return this.size * this.dtype.itemsize;
  }

  get contiguous() {
    if (this.shape.includes(0)) return true;
    let expected = this.dtype.itemsize;
    for (let i = this.ndim - 1; i >= 0; i--) {
      if (this.shape[i] !== 1 && this.strides[i] !== expected) return false;
      expected *= this.shape[i];
    }
    return true;
  }

  get window() {
    const [lo, hi] = extent(this.shape, this.strides, this.dtype.itemsize);
    return [this.offset + lo, this.offset + hi];
  }

  with_layout(shape, strides) {
    return new View(this.slot, this.dtype, shape, strides, this.offset, this.padded);
  }

  aligned(nbytes, axes) {
    const fits = (a) => this.shape.at(a) === 1 || this.strides.at(a) % nbytes === 0;
    return this.offset % nbytes === 0 && axes.every(fits);
  }
}

// -- index spaces ---------------------------------------------------------------------------------

const mergeAxes = (shape, strides) => {
  const dims = [];
  const steps = strides.map(() => []);
  shape.forEach((n, axis) => {
    if (n === 1) return;
    const joins = dims.length && steps.every((s, t) => s.at(-1) === n * strides[t][axis]);
    if (joins) dims[dims.length - 1] *= n;
    else dims.push(n);
    steps.forEach((s, t) => {
      if (joins) s.pop();
      s.push(strides[t][axis]);
    });
  });
  return dims.length ? [dims, steps] : [[1], strides.map(() => [0])];
};

const pad = (values, n, fill) => [...values, ...new Array(n - values.length).fill(fill)];

/** Leading axes merged into levels, the innermost first, and the last axes as they are. */
class Space {
  constructor(shape, views, levels, tail) {
    this.views = Object.fromEntries(Object.entries(views).filter(([, v]) => v));
    const lead = shape.length - tail;
    const names = Object.keys(this.views);
    const strides = names.map((name) => this.views[name].strides.slice(0, lead));
    const [dims, steps] = mergeAxes(shape.slice(0, lead), strides);
    if (dims.length > levels) {
      throw new KernelError(`at most ${levels + tail} axes are left after merging: [${shape}]`);
    }
    this.count = product(shape.slice(0, lead));
    this.levels = dims.length;
    this.dims = pad(dims.reverse(), levels, 1);
    this.strides = {};
    names.forEach((name, i) => {
      const view = this.views[name];
      const all = [...pad(steps[i].reverse(), levels, 0), ...view.strides.slice(lead)];
      this.strides[name] = all.map((s) => Math.floor(s / view.dtype.itemsize));
    });
    this.absent = new Array(levels + tail).fill(0);
  }

  params() {
    return [this.count, this.levels, ...this.dims.slice(0, -1)];
  }

  steps(name, vec = 1) {
    const steps = this.strides[name];
    if (vec === 1) return steps;
    return [...steps.slice(0, -1).map((s) => Math.floor(s / vec)), steps.at(-1)];
  }
}

class Nd extends Space {
  constructor(shape, views) {
    super(shape, views, 6, 0);
    this.total = this.count;
  }
}

class Rows extends Space {
  constructor(shape, views) {
    super(shape, views, 5, 1);
    this.rows = this.count;
    this.cols = shape.at(-1);
  }

  vec(n) {
    const fits = (v) =>
      v.strides.at(-1) === v.dtype.itemsize &&
      v.aligned(n * v.dtype.itemsize, [...Array(v.ndim - 1).keys()]);
    return this.cols % n === 0 && Object.values(this.views).every(fits);
  }

  columns_apart(name) {
    const steps = this.strides[name].map(Math.abs);
    return this.rows > 1 && this.cols > 1 && steps.at(-1) > steps[0] && steps[0] > 0;
  }
}

class Tiles extends Space {
  constructor(shape, views) {
    super(shape, views, 4, 2);
    this.batches = this.count;
  }
}

// -- steps ----------------------------------------------------------------------------------------

/** One dispatch: a variant of a body, what it binds, its params and its number of workgroups. */
class Step {
  constructor(body, axes, bound, words, values, groups) {
    Object.assign(this, { body, axes, bound, words, values, groups });
  }
}

const python = (value) => (value === true ? "True" : value === false ? "False" : `${value}`);

const variantName = (step, mode) =>
  [step.body.name, ...step.body.axes.map((a, i) => `${a}=${python(step.axes[i])}`), `mode=${mode}`]
    .join(" ");

/** A linear number of workgroups as a grid: x in full, or rows of 32768 (`group_id` in WGSL). */
const fold = (op, groups, limit) => {
  if (groups <= limit) return [groups, 1];
  const rows = Math.ceil(groups / 32768);
  return rows <= 65535 ? [32768, rows] : fail(op, `${groups} workgroups are too many`);
};

/** First and last byte of a binding, in whole elements of the bound array and whole words. */
const windowOf = (b, alignment) => {
  const [lo, hi] = b.view.window;
  const start = Math.floor(lo / alignment) * alignment;
  const end = start + Math.max(Math.ceil((hi - start) / b.unit), 1) * b.unit;
  return [start, Math.ceil(end / 4) * 4];
};

const packParams = (step, offsets, scalars) => {
  const data = new DataView(new ArrayBuffer(SLOT));
  let at = 0;
  const put = (format, value) => {
    if (format === "f") data.setFloat32(at, value, true);
    else data.setUint32(at, Number(BigInt.asUintN(32, BigInt(value))), true);
    at += 4;
  };
  put("I", step.groups);
  step.words.forEach((w) => put("I", w));
  step.bound.forEach((b, i) => [offsets[i], ...b.strides].forEach((w) => put("I", w)));
  step.values.forEach((v, i) => put(step.body.values[i], v));
  if (step.body.faults) put("I", 0); // slot 0: what is wrong is left out in silence
  step.body.args.forEach((name, i) => put(step.body.argsFormat[i], scalars[name]));
  return data.buffer;
};

// -- scalars --------------------------------------------------------------------------------------

const halfBits = (value, exponent, mantissa) => {
  // A float of few bits, rounded to nearest even from the double.
  const sign = value < 0 || Object.is(value, -0) ? 1 : 0;
  const bias = 2 ** (exponent - 1) - 1;
  const top = 2 ** exponent - 1;
  const a = Math.abs(value);
  const join = (e, m) => (sign << (exponent + mantissa)) | ((e << mantissa) + m);
  if (Number.isNaN(value)) return join(top, 2 ** (mantissa - 1));
  if (a === Infinity) return join(top, 0);
  let e = a === 0 ? 1 - bias : Math.max(Math.floor(Math.log2(a)), 1 - bias);
  if (a < 2 ** e && e > 1 - bias) e -= 1; // log2 rounds
  const units = a / 2 ** (e - mantissa);
  let m = Math.floor(units);
  if (units - m > 0.5 || (units - m === 0.5 && m % 2)) m += 1;
  const packed = m < 2 ** mantissa ? m : (e + bias - 1) * 2 ** mantissa + m;
  return join(0, Math.min(packed, top * 2 ** mantissa));
};

/** Eight bytes filled with the scalar as a dtype, as two words. Integers must fit. */
const bitsOf = (op, value, name) => {
  const { itemsize, kind } = dtypes[name];
  const data = new DataView(new ArrayBuffer(8));
  if (kind === "i" || kind === "u") {
    if (typeof value !== "bigint" && !Number.isInteger(Number(value))) {
      fail(op, `value must be an integer for ${name} but is ${value}`);
    }
    const n = BigInt(value);
    const cut = kind === "i" ? BigInt.asIntN : BigInt.asUintN;
    if (cut(8 * itemsize, n) !== n) fail(op, `value must fit ${name} but is ${value}`);
    data.setBigUint64(0, BigInt.asUintN(64, n), true);
  } else if (name === "float32") data.setFloat32(0, Number(value), true);
  else if (name === "float16") data.setUint16(0, halfBits(Number(value), 5, 10), true);
  else if (name === "bfloat16") data.setUint16(0, halfBits(Number(value), 8, 7), true);
  else data.setUint8(0, value ? 1 : 0);
  for (let i = itemsize; i < 8; i++) data.setUint8(i, data.getUint8(i - itemsize));
  return [data.getUint32(0, true), data.getUint32(4, true)];
};

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
  async call(kernel, args) {
    const { tensors, scalars, options } = split(kernel, args);
    checkTensors(kernel, tensors);
    const views = kernel.tensors.map((a, slot) => viewOf(tensors[slot], slot));
    const named = Object.fromEntries(kernel.tensors.map((a, i) => [a.name, views[i]]));
    const scratch = [];
    const steps = kernel.plan
      ? kernel.plan(this.caps, named)
      : recorded(this.manifest, kernel, views, options, scratch);
    return this.prepare(kernel, steps, tensors, scalars, scratch);
  }

  /** Lower steps to dispatches: `scratch` holds the sizes of temporary buffers. */
  async prepare(kernel, steps, tensors, scalars, scratch = []) {
    const temps = scratch.map((size) =>
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
  const get = async (file) => {
    const answer = await fetch(new URL(file, base));
    return answer.ok ? answer : fail("open", `${file}: ${answer.status} ${answer.statusText}`);
  };
  const manifest = await (await get("manifest.json")).json();
  return new Kernels(device, manifest, async (file) => (await get(file)).text());
}

const split = (kernel, args) => {
  const tensors = kernel.tensors.map((a) => args[a.name] ?? null);
  const scalars = {};
  for (const s of kernel.scalars) {
    const value = "fixed" in s ? s.fixed : (args[s.name] ?? s.default);
    if (!["number", "boolean", "bigint"].includes(typeof value)) {
      fail(kernel.name, `${s.name} must be a number but is ${value}`);
    }
    if (s.type === "bits") {
      const of = dtypes[s.of] ? s.of : args[s.of]?.dtype;
      const [lo, hi] = bitsOf(kernel.name, value, of ?? fail(kernel.name, `${s.of} is missing`));
      Object.assign(scalars, { [`${s.name}_lo`]: lo, [`${s.name}_hi`]: hi });
    } else if (s.type !== "f32" && !Number.isInteger(Number(value))) {
      fail(kernel.name, `${s.name} must be a whole number but is ${value}`);
    } else scalars[s.name] = Number(value);
  }
  const options = kernel.options.map((o) => args[o.name] ?? o.default ?? null);
  const free = kernel.scalars.filter((s) => !("fixed" in s));
  const known = [...kernel.tensors, ...free, ...kernel.options].map((a) => a.name);
  for (const name of Object.keys(args)) {
    if (!known.includes(name)) fail(kernel.name, `there is no argument ${name}: ${known}`);
  }
  return { tensors, scalars, options };
};

const checkTensors = (kernel, tensors) => {
  const op = kernel.name;
  const first = {};
  const by = Object.fromEntries(kernel.tensors.map((a, i) => [a.name, tensors[i]]));
  for (const a of kernel.tensors) {
    const t = by[a.name];
    if (t === null && a.optional) continue;
    if (!(t instanceof Tensor)) fail(op, `${a.name} must be a Tensor`);
    if (!a.dtypes.includes(t.dtype)) {
      fail(op, `${a.name} must be ${a.dtypes.join(" or ")} but is ${t.dtype}`);
    }
    if (a.same) {
      first[a.same] ??= [a.name, t.dtype];
      const [name, want] = first[a.same];
      if (want !== t.dtype) {
        fail(op, `${a.name} must have the dtype of ${name}, ${want}, but is ${t.dtype}`);
      }
    }
    if (a.role === "out" && overlapsItself(t)) fail(op, `${a.name} overlaps itself`);
    const like = by[a.like];
    if (like && !same(like.shape, t.shape)) {
      fail(op, `${a.name} must have the shape of ${a.like}, [${like.shape}], not [${t.shape}]`);
    }
    const wide = by[a.broadcast];
    if (wide && !repeatsTo(t.shape, wide.shape)) {
      fail(op, `${a.name} must broadcast to [${wide.shape}] but has shape [${t.shape}]`);
    }
  }
};

/** numpy's broadcast, or ggml's: a leading axis may repeat if its size divides the target's. */
const repeatsTo = (shape, target) => {
  const tail = target.slice(target.length - shape.length);
  return (
    shape.length <= target.length &&
    shape.every((n, i) => {
      if (i === shape.length - 1) return n === 1 || n === tail[i];
      return n === tail[i] || (n > 0 && tail[i] % n === 0);
    })
  );
};

/** May two elements share a byte? Yes where the strides do not nest. */
const overlapsItself = (t) => {
  if (t.shape.includes(0)) return false;
  let reach = dtypes[t.dtype].itemsize;
  const axes = t.shape.map((n, i) => [Math.abs(t.strides[i]), n]).filter(([, n]) => n > 1);
  for (const [step, n] of axes.sort((a, b) => a[0] - b[0])) {
    if (step < reach) return true;
    reach += step * (n - 1);
  }
  return false;
};

const viewOf = (t, slot) => {
  if (t === null) return null;
  const view = new View(slot, dtypes[t.dtype], t.shape, t.strides, t.offset, true);
  view.padded = t.buffer.size >= Math.ceil(view.window[1] / 16) * 16;
  return view;
};

/** The slots of inputs that live in the buffer of an output. */
const inOutputs = (kernel, tensors) => {
  const outputs = kernel.tensors.map((a, i) => (a.role === "out" ? tensors[i]?.buffer : null));
  return [...tensors.keys()].filter(
    (i) =>
      kernel.tensors[i].role === "in" && tensors[i]?.size && outputs.includes(tensors[i].buffer),
  );
};

/** How inputs may stay in the output's buffer: merged (the same view) or rw (windows apart). */
const decide = (kernel, tensors, shared, alignment) => {
  const spans = tensors.map((t, slot) => {
    if (t === null) return null;
    const [lo, hi] = viewOf(t, slot).window;
    return [Math.floor(lo / alignment) * alignment, Math.ceil(hi / 16) * 16];
  });
  const apart = (i, j) =>
    tensors[i].buffer !== tensors[j].buffer ||
    spans[i][1] <= spans[j][0] ||
    spans[j][1] <= spans[i][0];
  const outputs = [...tensors.keys()].filter((i) => kernel.tensors[i].role === "out" && tensors[i]);
  const modes = shared.map((i) => {
    const out = outputs.find((o) => kernel.tensors[o].alias === kernel.tensors[i].name);
    if (kernel.tensors[i].readonly) return "copy";
    if (outputs.every((o) => apart(i, o))) return "rw";
    const [a, b] = [tensors[i], tensors[out]];
    const equal = (key) => same(a[key], b[key]);
    return b && ["offset", "shape", "strides", "dtype"].every(equal) ? "merged" : "copy";
  });
  const writable = [...tensors.keys()].filter((i) => tensors[i] && !kernel.tensors[i].readonly);
  const clash = writable.some((i) => writable.some((j) => i < j && !apart(i, j)));
  const mode = modes.every((m) => m === modes[0]) ? modes[0] : "copy";
  if (mode === "copy" || (mode === "rw" && clash)) {
    const names = shared.map((i) => kernel.tensors[i].name);
    fail(kernel.name, `${names} overlaps an output in one buffer: copy it to another buffer first`);
  }
  return mode;
};

/** The steps that Python's plan computed for these layouts at export. */
const recorded = (manifest, kernel, views, options, scratch) => {
  const layouts = kernel.tensors.flatMap((a, i) => {
    const v = views[i];
    const strides = v?.strides.map((s) => s / v.dtype.itemsize);
    return v ? [`${a.name}=${v.dtype.name}[${v.shape}]:${strides}`] : [];
  });
  const key = [...layouts, JSON.stringify(options)].join(" ");
  const plans = manifest.kernels[kernel.name].plans;
  const plan = plans.find((p) => p.key === key);
  if (!plan) {
    const known = plans.map((p) => `\n  ${p.key}`).join("") || " none";
    fail(kernel.name, `no plan was exported (--shape) for ${key}; there are:${known}`);
  }
  for (const v of views) {
    if (v && (v.offset % 256 || !v.padded)) {
      fail(kernel.name, "a recorded plan needs offsets in multiples of 256 and padded buffers");
    }
  }
  scratch.push(...plan.scratch);
  return plan.steps.map((s) => {
    const bound = s.bound.map((b) => {
      if (!b.view) return b;
      const { slot, itemsize, shape, strides, offset } = b.view;
      const base = slot >= 0 ? views[slot].offset : 0;
      return { ...b, view: new View(slot, { itemsize }, shape, strides, base + offset, true) };
    });
    return new Step(bodies[s.body], s.axes, bound, s.words, s.values, s.groups);
  });
};

/** Binding windows and element offsets of one step. */
const lower = (kernel, step, wanted, shared, caps, buffers) => {
  const outputs = (slot) => slot >= 0 && kernel.tensors[slot].role === "out";
  const touches = step.bound.some((b) => b.role === "in" && shared.includes(b.view?.slot));
  const writes = step.bound.some((b) => b.role === "out" && b.view && outputs(b.view.slot));
  const mode = touches && writes ? wanted : "read";
  const out = mode === "merged" ? step.bound.find((b) => b.role === "out" && b.alias) : null;
  const skip = out && step.bound.find((b) => b.name === out.alias);
  const where = [];
  const offsets = [];
  let nulls = 0;
  for (const b of step.bound) {
    if (!b.view) {
      offsets.push(0);
      where.push([null, 256 * nulls++, Math.max(b.unit, 16)]);
      continue;
    }
    let [start, end] = windowOf(b, caps.alignment);
    if (out && (b === skip || b === out)) {
      const [other] = windowOf(b === skip ? out : skip, caps.alignment);
      start = Math.min(start, other);
      end = Math.max(end, windowOf(b === skip ? out : skip, caps.alignment)[1]);
    }
    if (end - start > caps.max_binding) {
      fail(kernel.name, `${b.name} spans ${end - start} bytes; a binding holds ${caps.max_binding}`);
    }
    if ((end - start) / b.elem > MAX_INDEX) fail(kernel.name, `${b.name} is beyond 2^31 elements`);
    if (end > buffers(b.view.slot).size) {
      fail(kernel.name, `${b.name} ends in the last word of its buffer: add up to 16 bytes to it`);
    }
    offsets.push(Math.floor((b.view.offset - start) / b.elem));
    if (b !== skip) where.push([b.view.slot, start, end - start]);
  }
  return { mode, where, offsets };
};

/** Bodies, for plans of your own: `bodies.NAME.step(caps, views, given)` is one dispatch. */
export const bodies = {};
const kernels = {};

// -- generated from the specs ---------------------------------------------------------------------
