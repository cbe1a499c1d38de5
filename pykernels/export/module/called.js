py.same = same;
py.cdiv = (a, b) => Math.ceil(a / b);
py.dtype = (view) => (view ? view.dtype.short : "");
py.truth = (x) => (typeof x === "function" ? true : Boolean(x?.length ?? x));
py.all_of = (...parts) => parts.reduce((value, part) => (py.truth(value) ? part() : value), true);
py.one_of = (...parts) => parts.reduce((value, part) => (py.truth(value) ? value : part()), false);
py.number = (x) => {
  if (typeof x !== "number" && typeof x !== "boolean") throw new TypeError(`${x} is no number`);
  return Number(x);
};
py.divisor = (x) => py.number(x) || py.missing("quotient: a division by zero");
py.missing = (what) => {
  throw new RangeError(`there is no ${what}`);
};
py.add = (a, b) => {
  if (Array.isArray(a)) return [...a, ...b];
  return typeof a === "string" ? a + b : py.number(a) + py.number(b);
};
py.sub = (a, b) => (a?.$sub ? a.$sub(b) : py.number(a) - py.number(b));
py.mul = (a, b) => {
  const [list, n] = Array.isArray(b) ? [b, a] : [a, b];
  if (!Array.isArray(list)) return py.number(a) * py.number(b);
  return Array.from({ length: Math.max(n, 0) }, () => [...list]).flat();
};
py.div = (a, b) => py.number(a) / py.divisor(b);
py.floordiv = (a, b) => Math.floor(py.number(a) / py.divisor(b));
py.modulo = (a, b) => a - b * py.floordiv(a, b);
py.pow = (a, b) => py.number(a) ** py.number(b);
py.shl = (a, b) => py.number(a) * 2 ** py.number(b);
py.shr = (a, b) => Math.floor(py.number(a) / 2 ** py.number(b));
py.bits = (x) => BigInt.asUintN(64, BigInt(py.number(x)));
py.and_ = (a, b) => {
  if (a?.$and) return a.$and(b);
  const both = py.bits(a) & py.bits(b);
  return typeof a === "boolean" && typeof b === "boolean" ? Boolean(both) : Number(both);
};
py.or_ = (a, b) => {
  if (a?.$or) return a.$or(b);
  const either = py.bits(a) | py.bits(b);
  return typeof a === "boolean" && typeof b === "boolean" ? Boolean(either) : Number(either);
};
py.less = (a, b) => {
  if (a?.$less) return a.$less(b);
  if (typeof a === "string" && typeof b === "string") return a < b;
  if (!Array.isArray(a) || !Array.isArray(b)) return py.number(a) < py.number(b);
  const i = a.findIndex((x, j) => !same(x, b[j]));
  return i < 0 || i >= b.length ? a.length < b.length : py.less(a[i], b[i]);
};
py.has = (x, v) => {
  if (x.$has) return x.$has(v);
  if (typeof x === "string") return x.includes(v);
  return x[Symbol.iterator] ? [...x].some((y) => same(y, v)) : Object.hasOwn(x, v);
};
py.at = (x, i) => {
  if (x.$at) return x.$at(i);
  if (x.length === undefined) return Object.hasOwn(x, i) ? x[i] : py.missing(`key ${i}`);
  const n = py.number(i);
  return n < x.length && n >= -x.length ? x.at(n) : py.missing(`element ${i}`);
};
py.cut = (x, from, to, by) => {
  const step = by ?? 1;
  const [low, high] = step > 0 ? [0, x.length] : [-1, x.length - 1];
  const within = (i) => Math.min(Math.max(i < 0 ? i + x.length : i, low), high);
  const end = to === null ? (step > 0 ? high : low) : within(to);
  const out = [];
  let i = from === null ? (step > 0 ? low : high) : within(from);
  for (; step > 0 ? i < end : i > end; i += step) out.push(x[i]);
  return typeof x === "string" ? out.join("") : out;
};
py.largest = (...values) => values.reduce((a, b) => (py.less(a, b) ? b : a));
py.smallest = (...values) => values.reduce((a, b) => (py.less(b, a) ? b : a));
py.Nd = class extends Space {
  static LEVELS = 6;
  static TAIL = 0;

  get total() {
    return this.count;
  }

  repeats(name) {
    return this.strides[name][0] === 0;
  }

  vec(n, mayRepeat = []) {
    if (this.dims[0] % n !== 0) return false;
    if (mayRepeat.length && mayRepeat.every((name) => this.repeats(name))) return false;
    const fits = ([name, v]) => {
      const [first, ...rest] = this.strides[name];
      if (mayRepeat.includes(name) && first === 0) return true;
      return first === 1 && rest.every((s) => s % n === 0) && v.offset % (n * v.dtype.itemsize) === 0;
    };
    return Object.entries(this.views).every(fits);
  }

  /** The same space, of vectors of `n` along the innermost level. */
  in_vectors(n) {
    this.count = Math.floor(this.count / n);
    this.dims[0] = Math.floor(this.dims[0] / n);
    for (const steps of Object.values(this.strides)) steps[0] *= n;
  }

  steps(name, vec = 1) {
    return this.strides[name].map((s) => Math.floor(s / vec));
  }
};
py.Rows = class extends Space {
  static LEVELS = 5;
  static TAIL = 1;

  constructor(shape, ...views) {
    super(shape, ...views);
    this.rows = this.count;
    this.cols = shape.at(-1);
  }

  vec(n) {
    return Object.values(this.views).every((v) => v.vectorizable(n));
  }

  columns_apart(name) {
    const steps = this.strides[name].map(Math.abs);
    return this.rows > 1 && this.cols > 1 && steps.at(-1) > steps[0] && steps[0] > 0;
  }
};
py.Tiles = class extends Space {
  static LEVELS = 4;
  static TAIL = 2;

  get batches() {
    return this.count;
  }
};
