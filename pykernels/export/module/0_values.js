// pykernels for browsers: views of GPU buffers, index spaces, and launches. No dependencies.
//
// Mirrors pykernels/tensors/layout.py and runtime/lower.py. What follows the last marked line is generated from the
// specs of the kernels. Strides and offsets are bytes, as in numpy.

const contract = @CONTRACT@; // pykernels/contract.py
const SLOT = contract.paramsBytes;
const MAX_INDEX = 2 ** 31 - 1;

export class KernelError extends Error {}

const BUILD = "@BUILD@"; // of the manifest and the texts that belong to this module
const bundled = new Map(); // files that stand in this module, by name

const fail = (op, message) => {
  throw new KernelError(`[${op}] ${message}`);
};

// -- dtypes ---------------------------------------------------------------------------------------

const dtypes = {};
for (const [name, short, itemsize, kind, arrays] of contract.dtypes) {
  const array = globalThis[arrays] ?? Uint16Array; // not every browser has Float16Array
  dtypes[name] = Object.freeze({ name, short, itemsize, kind, array });
}

const dtypeOf = (data) => {
  if (!ArrayBuffer.isView(data)) fail("tensor", "data must be a typed array");
  const found = Object.values(dtypes).find((d) => d.name !== "bool" && data.constructor === d.array);
  return found ? found.name : fail("tensor", `dtype must be given for a ${data.constructor.name}`);
};

// -- comparisons and shapes ------------------------------------------------------------------------

const same = (a, b) => {
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((x, i) => same(x, b[i]));
  }
  if (a?.itemsize && b?.itemsize) return a.name === b.name && a.itemsize === b.itemsize;
  return a === b;
};
const unitOf = (storage) => contract.units[storage];
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
