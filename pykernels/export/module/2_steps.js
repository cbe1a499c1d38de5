// -- steps ----------------------------------------------------------------------------------------

/** One dispatch: a variant of a body, what it binds, its params and its number of workgroups. */
class Step {
  constructor(body, axes, bound, words, values, groups, scalars = []) {
    Object.assign(this, { body, axes, bound, words, values, groups, scalars });
  }
}

/** Temporary buffers that a plan asks for. */
class Scratch {
  constructor() {
    this.sizes = [];
  }

  /** A contiguous temporary of this shape and dtype. */
  empty(shape, name) {
    const dtype = dtypes[name];
    const strides = contiguousStrides(shape, dtype.itemsize);
    const slot = this.reserve(product(shape) * dtype.itemsize);
    return new View(slot, dtype, [...shape], strides, 0, true);
  }

  /** The slot of a temporary of this size, for a view of it. */
  reserve(nbytes) {
    this.sizes.push(Math.max(nbytes, 4));
    return ~(this.sizes.length - 1);
  }
}

/** The steps of a view along some of its axes, a letter each, in units of `elem` bytes. */
const axisSteps = (op, name, view, axes, wanted, elem) => {
  if (!view) return new Array(wanted.length).fill(0);
  if (view.ndim !== axes.length) {
    fail(op, `${name} must have ${axes.length} axes (${[...axes].join(" ")}) but has shape [${view.shape}]`);
  }
  return [...wanted].map((axis) => Math.floor(view.strides[axes.indexOf(axis)] / elem));
};

const python = (value) => (value === true ? "True" : value === false ? "False" : `${value}`);

const variantName = (step, mode) =>
  [step.body.name, ...step.body.axes.map((a, i) => `${a}=${python(step.axes[i])}`), `mode=${mode}`]
    .join(" ");

/** A linear number of workgroups as a grid: x in full, or rows (`group_id` in WGSL). */
const fold = (op, groups, limit) => {
  if (groups <= limit) return [groups, 1];
  const { row, max } = contract.grid;
  const rows = Math.ceil(groups / row);
  return rows <= max ? [row, rows] : fail(op, `${groups} workgroups are too many`);
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
  step.body.args.forEach((name, i) => put(step.body.argsFormat[i], step.scalars[i] ?? scalars[name]));
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
  } else if (kind === "c" || name === "float32") data.setFloat32(0, Number(value), true);
  else if (name === "float16") data.setUint16(0, halfBits(Number(value), 5, 10), true);
  else if (name === "bfloat16") data.setUint16(0, halfBits(Number(value), 8, 7), true);
  else data.setUint8(0, value ? 1 : 0);
  for (let i = itemsize; i < 8; i++) data.setUint8(i, data.getUint8(i - itemsize));
  return [data.getUint32(0, true), data.getUint32(4, true)];
};
