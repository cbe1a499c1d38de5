// -- tensors and views ----------------------------------------------------------------------------

/** A GPU buffer with an offset, a shape, strides (bytes) and a dtype. It owns nothing. */
export class Tensor {
  constructor(buffer, shape, dtype, { offset = 0, strides = null } = {}) {
    const kind = dtypes[dtype] ?? fail("Tensor", `there is no dtype ${dtype}`);
    if (typeof buffer?.size !== "number") fail("Tensor", "buffer must be a GPUBuffer");
    if (!Array.isArray(shape)) fail("Tensor", `shape must be an array but is ${shape}`);
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

  with_layout(shape, strides, dtype = null) {
    const kind = dtype ?? this.dtype;
    return new View(this.slot, kind, [...shape], [...strides], this.offset, this.padded);
  }

  /** Leading axes of size 1 added up to `ndim`. */
  as_rank(ndim) {
    const extra = new Array(Math.max(ndim - this.ndim, 0));
    return this.with_layout([...extra.fill(1), ...this.shape], [...extra.fill(0), ...this.strides]);
  }

  /** numpy's broadcast: axes of size 1 get stride 0 (the shapes are known to fit). */
  broadcast_to(shape) {
    const v = this.as_rank(shape.length);
    return v.with_layout(shape, v.strides.map((s, i) => (v.shape[i] === shape[i] ? s : 0)));
  }

  aligned(nbytes, list) {
    const axes = [...list];
    const fits = (a) => this.shape.at(a) === 1 || this.strides.at(a) % nbytes === 0;
    return this.offset % nbytes === 0 && axes.every(fits);
  }

  /** May `n` neighbours along an axis be read as one vector, wherever the first one lies? */
  vectorizable(n, axis = -1) {
    const along = axis < 0 ? axis + this.ndim : axis;
    const others = [...Array(this.ndim).keys()].filter((a) => a !== along);
    return (
      this.shape[along] % n === 0 &&
      this.strides[along] === this.dtype.itemsize &&
      this.aligned(n * this.dtype.itemsize, others)
    );
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

const filled = (values, n, fill) => [...values, ...new Array(n - values.length).fill(fill)];

/** The axes that an axis of n becomes for views of these sizes: proper divisors repeat by modulo. */
const cutAxis = (n, sizes) => {
  const inner = [...new Set(sizes)].filter((m) => m !== 1 && m !== n).sort((a, b) => a - b);
  if (inner.some((m, i) => i && m % inner[i - 1])) {
    throw new KernelError(`an axis of ${n} cannot repeat ${inner.join(" and ")} at once`);
  }
  const from = [1, ...inner];
  return [...inner, n].map((m, i) => m / from[i]).reverse();
};

/** The strides of a view along an axis that was cut: 0 where it repeats. */
const alongCut = (cut, size, stride) => {
  let inner = 1;
  const steps = [...cut].reverse().map((n) => {
    const step = inner < size ? stride * inner : 0;
    inner *= n;
    return step;
  });
  return steps.reverse();
};

/** The shape and the views over it; those of `repeats` fill it by repeatsTo. */
const repeated = (shape, lead, views, repeats) => {
  for (const [name, v] of Object.entries(views)) {
    const fits = repeats.includes(name)
      ? repeatsTo(v.shape, shape)
      : v.ndim === shape.length && same(v.shape.slice(0, lead), shape.slice(0, lead));
    if (!fits) throw new KernelError(`${name} of shape [${v.shape}] does not fill [${shape}]`);
  }
  if (!repeats.length) return [shape, views];
  const full = Object.entries(views).map(([name, v]) => [name, v.as_rank(shape.length)]);
  const sizes = full.filter(([name]) => repeats.includes(name)).map(([, v]) => v.shape);
  const cuts = shape.map((n, axis) => cutAxis(n, sizes.map((size) => size[axis])));
  if (cuts.slice(lead).some((cut) => cut.length > 1)) {
    throw new KernelError(`the last ${shape.length - lead} axes cannot repeat by modulo: [${shape}]`);
  }
  const front = cuts.slice(0, lead).flat();
  const made = full.map(([name, v]) => {
    const strides = cuts.flatMap((cut, axis) => alongCut(cut, v.shape[axis], v.strides[axis]));
    const tail = (repeats.includes(name) ? shape : v.shape).slice(lead);
    return [name, v.with_layout([...front, ...tail], strides)];
  });
  return [[...front, ...shape.slice(lead)], Object.fromEntries(made)];
};

/** Leading axes merged into levels, the innermost first, and the last axes as they are. */
class Space {
  constructor(full, all, repeats = []) {
    const { LEVELS: levels, TAIL: tail } = new.target;
    const given = Object.fromEntries(Object.entries(all).filter(([, v]) => v));
    const those = repeats.filter((name) => given[name]);
    const [shape, views] = repeated(full, full.length - tail, given, those);
    this.views = views;
    const lead = shape.length - tail;
    const names = Object.keys(this.views);
    const strides = names.map((name) => this.views[name].strides.slice(0, lead));
    const [dims, steps] = mergeAxes(shape.slice(0, lead), strides);
    if (dims.length > levels) {
      throw new KernelError(`at most ${levels + tail} axes are left after merging: [${shape}]`);
    }
    this.count = product(shape.slice(0, lead));
    this.levels = dims.length;
    this.dims = filled(dims.reverse(), levels, 1);
    this.strides = {};
    names.forEach((name, i) => {
      const view = this.views[name];
      const all = [...filled(steps[i].reverse(), levels, 0), ...view.strides.slice(lead)];
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
