// -- what plans translated from Python are made of --------------------------------------------------

/** Python's meaning of calls, types, built-ins and modules, as far as plans use them. */
Object.assign(py, (() => {
  const key = (x) =>
    Array.isArray(x) ? `[${x.map(key)}]` : typeof x === "object" && x !== null ? identity(x) : `${typeof x}${x}`;
  const seen = new WeakMap();
  const identity = (x) => {
    if (x.itemsize !== undefined && x.short !== undefined) return `dtype${x.name},${x.itemsize}`;
    if (!seen.has(x)) seen.set(x, `object${(count += 1)}`);
    return seen.get(x);
  };
  let count = 0;

  const Failure = (message) => new KernelError(message);

  class Dict {
    constructor(pairs = []) {
      this.map = new Map();
      for (const [k, v] of pairs) this.map.set(key(k), [k, v]);
    }
    get(k, other = null) { return this.map.get(key(k))?.[1] ?? other; }
    put(k, v) { this.map.set(key(k), [k, v]); }
    has(k) { return this.map.has(key(k)); }
    $has(k) { return this.has(k); }
    $at(k) { return this.has(k) ? this.get(k) : py.missing(`key ${k}`); }
    $or(other) { return new Dict([...this.items(), ...items(other)]); }
    get length() { return this.map.size; }
    keys() { return [...this.map.values()].map(([k]) => k); }
    values() { return [...this.map.values()].map(([, v]) => v); }
    items() { return [...this.map.values()]; }
    setdefault(k, v) {
      if (!this.has(k)) this.put(k, v);
      return this.get(k);
    }
    update(other) { for (const [k, v] of items(other)) this.put(k, v); }
    [Symbol.iterator]() { return this.keys()[Symbol.iterator](); }
  }
  class PySet extends Dict {
    constructor(values = []) { super([...values].map((v) => [v, v])); }
    add(v) { this.put(v, v); }
    $less(other) { return this.length < other.length && [...this].every((x) => other.has(x)); }
    $sub(other) { return new PySet([...this].filter((x) => !other.has(x))); }
    $and(other) { return new PySet([...this].filter((x) => other.has(x))); }
    $or(other) { return new PySet([...this, ...other]); }
  }
  const items = (x) => (x instanceof Dict ? x.items() : Object.entries(x));
  const keywords = (x) => Object.fromEntries(items(x));

  // -- functions and types --

  /** Keyword arguments of a built-in come last, as one of these. */
  class Named {
    constructor(values) { Object.assign(this, values); }
  }
  const options = (args) => (args.at(-1) instanceof Named ? args.pop() : {});

  const def = (marks, defaults, body) => Object.assign(body, { marks, defaults });
  const bind = (f, args, named) => {
    const { names, positional, rest, named: more } = f.marks;
    const rested = args.slice(positional);
    if (rested.length && !rest) throw new TypeError(`${args.length} arguments`);
    const left = { ...named };
    const out = names.map((name, i) => {
      if (i < positional && i < args.length) return args[i];
      if (name in left) {
        const value = left[name];
        delete left[name];
        return value;
      }
      if (!(name in f.defaults)) throw new TypeError(`argument ${name} is missing`);
      return f.defaults[name]();
    });
    if (rest) out.push(rested);
    if (more) out.push(new Dict(Object.entries(left)));
    else if (Object.keys(left).length) throw new TypeError(`unknown arguments ${Object.keys(left)}`);
    return out;
  };
  const call = (f, args, named) => {
    if (f.marks) return f(...bind(f, args, named));
    if (f.fields) return make(f, args, named);
    if (f.LEVELS) return new f(args[0], keywords(args[1]), ...args.slice(2)); // an index space
    return f(...args, ...(Object.keys(named).length ? [new Named(named)] : []));
  };
  const type = (name, kind, fields, defaults, methods, getters, statics) => {
    const base = kind === "tuple" ? Array : Object;
    const made = class extends base {};
    Object.assign(made, { kind, fields, defaults, methods, title: name });
    const marks = { names: fields, positional: fields.length, rest: null, named: null };
    made.marked = { marks, defaults };
    for (const [field, i] of fields.map((f, i) => [f, i])) {
      if (kind === "tuple") {
        Object.defineProperty(made.prototype, field, { get() { return this[i]; } });
      }
    }
    for (const [n, f] of Object.entries(getters)) {
      Object.defineProperty(made.prototype, n, { get() { return f(this); } });
    }
    for (const [n, f] of Object.entries(methods)) {
      if (f === true) continue;
      made.prototype[`m_${n}`] = f;
      // As views have them; what arrays have stays theirs.
      if (!(n in made.prototype)) made.prototype[n] = function (...args) { return call(f, [this, ...args], {}); };
    }
    for (const [n, f] of Object.entries(statics)) {
      made[`s_${n}`] = methods[`_class_${n}`] ? (...args) => f(made, ...args) : f;
      if (methods[`_class_${n}`]) {
        made[`s_${n}`] = Object.assign((...args) => f(made, ...args), {
          marks: { ...f.marks, names: f.marks.names.slice(1), positional: f.marks.positional - 1 },
          defaults: f.defaults,
        });
      }
    }
    return made;
  };
  const make = (kind, args, named) => {
    const values = bind(kind.marked, args, named);
    const one = new kind();
    if (kind.kind === "tuple") one.push(...values);
    else kind.fields.forEach((f, i) => { one[f] = values[i]; });
    return one;
  };
  const replace = (of, changes) => {
    if (of instanceof View) {
      const { slot, dtype, shape, strides, offset, padded } = { ...of, ...changes };
      return new View(slot, dtype, shape, strides, offset, padded);
    }
    if (of instanceof Step) {
      const { body, axes, bound, words, values, groups, scalars } = { ...of, ...changes };
      return new Step(body, axes, bound, words, values, groups, scalars);
    }
    const kind = of.constructor;
    return make(kind, kind.fields.map((f) => (f in changes ? changes[f] : of[f])), {});
  };

  /** The configurations of a body by name, as in Python. */
  const tables = new Map();
  const configs = (body) => {
    if (!tables.has(body)) {
      const rows = Object.entries(body.configs);
      const Config = type("Config", "tuple", Object.keys(rows[0][1]), {}, {}, {}, {});
      tables.set(body, new Dict(rows.map(([name, row]) => [name, make(Config, [], row)])));
    }
    return tables.get(body);
  };

  // -- methods --

  const arrays = {
    append: (a, x) => { a.push(x); return null; },
    extend: (a, more) => { a.push(...more); return null; },
    insert: (a, i, x) => { a.splice(i, 0, x); return null; },
    pop: (a, i = -1) => a.splice(i, 1)[0],
    index: (a, x) => {
      const i = a.findIndex((y) => same(x, y));
      if (i < 0) throw new RangeError("not in list");
      return i;
    },
    count: (a, x) => a.filter((y) => same(x, y)).length,
    reverse: (a) => { a.reverse(); return null; },
    sort: (a, ...args) => { a.splice(0, a.length, ...sorted(a, ...args)); return null; },
    _replace: (a, changes) => replace(a, changes),
    _asdict: (a) => new Dict(a.constructor.fields.map((f, i) => [f, a[i]])),
  };
  const strings = {
    join: (s, parts) => [...parts].join(s),
    startswith: (s, x) => s.startsWith(x),
    endswith: (s, x) => s.endsWith(x),
    split: (s, x) => s.split(x),
    find: (s, x) => s.indexOf(x),
    index: (s, x) => {
      if (!s.includes(x)) throw new RangeError("not in text");
      return s.indexOf(x);
    },
    replace: (s, x, y) => s.replaceAll(x, y),
    strip: (s) => s.trim(),
    upper: (s) => s.toUpperCase(),
    lower: (s) => s.toLowerCase(),
  };
  const numbers = {
    bit_length: (n) => (n === 0 ? 0 : Math.abs(n).toString(2).length),
    is_integer: (n) => Number.isInteger(n),
  };
  const method = (of, name, args, named) => {
    if (of?.step && of.tensors && name === "step") return step(of, args, named);
    const own = of?.[`m_${name}`];
    if (own) return call(own, [of, ...args], named);
    const fixed = of?.[`s_${name}`];
    if (fixed) return call(fixed, args, named);
    if (Array.isArray(of) && arrays[name]) {
      return arrays[name](of, ...args, ...(Object.keys(named).length ? [new Named(named)] : []));
    }
    const table = typeof of === "string" ? strings : typeof of === "number" ? numbers : null;
    if (table?.[name]) return table[name](of, ...args);
    const f = of?.[name];
    if (typeof f !== "function") throw new TypeError(`there is no ${name}`);
    if (f.marks || f.fields) return call(f, args, named);
    const params = natives[name];
    if (params && Object.keys(named).length) {
      const given = params.map((p, i) => args[i] ?? named[p]);
      return f.apply(of, given);
    }
    return f.apply(of, Object.keys(named).length ? [...args, new Named(named)] : args);
  };
  const natives = {
    with_layout: ["shape", "strides", "dtype"], aligned: ["nbytes", "axes"], vectorizable: ["n", "axis"],
    steps: ["name", "vec"], empty: ["shape", "name"],
  };
  const step = (body, args, named) => {
    const [caps, ...views] = args;
    const left = { ...named };
    const by = Object.fromEntries(body.tensors.map((name, i) => {
      const value = i < views.length ? views[i] : left[name];
      delete left[name];
      return [name, value];
    }));
    return body.step(caps, by, left);
  };

  // -- sequences --

  const sorted = (values, ...args) => {
    const { key: by, reverse } = { key: (x) => x, reverse: false, ...options(args) };
    const order = (a, b) => (py.less(a[0], b[0]) ? -1 : py.less(b[0], a[0]) ? 1 : 0);
    const marked = [...values].map((v) => [by(v), v]);
    // Stable in both directions, as in Python.
    marked.sort(reverse ? (a, b) => order(b, a) : order);
    return marked.map(([, v]) => v);
  };
  const extreme = (better) => (...args) => {
    const { key: by, ...more } = { key: (x) => x, ...options(args) };
    const values = args.length === 1 ? [...args[0]] : args;
    if (!values.length && "default" in more) return more.default;
    return values.reduce((a, b) => (better(by(b), by(a)) ? b : a)); // of nothing: a TypeError
  };
  const list = (x = []) => [...iter(x)];
  const iter = (x) => {
    if (x === null || x === undefined || typeof x[Symbol.iterator] !== "function") {
      throw new TypeError("not iterable");
    }
    return x;
  };
  const zip = (...args) => {
    const { strict } = options(args);
    const all = args.map(list);
    const n = Math.min(...all.map((a) => a.length));
    if (strict && all.some((a) => a.length !== n)) throw new RangeError("zip: lengths differ");
    return Array.from({ length: n }, (_, i) => all.map((a) => a[i]));
  };
  const unpack = (value, shape) => {
    const parts = list(value);
    const star = shape.indexOf("*");
    if (star < 0 ? parts.length !== shape.length : parts.length < shape.length - 1) {
      throw new RangeError(`${shape.length} values wanted, ${parts.length} there`);
    }
    if (star >= 0) {
      const n = parts.length - shape.length + 1;
      parts.splice(star, n, parts.slice(star, star + n));
    }
    return parts.map((p, i) => (Array.isArray(shape[i]) ? unpack(p, shape[i]) : p));
  };
  const text = (x) => {
    if (x === null) return "None";
    if (typeof x === "boolean") return python(x);
    return Array.isArray(x) ? `(${x.map(text).join(", ")}${x.length === 1 ? "," : ""})` : `${x}`;
  };

  const VIEW = ["slot", "dtype", "shape", "strides", "offset", "padded"];

  return {
    Failure, Dict, def, configs, call, method, type, keywords, items, unpack, list, zip, iter, sorted,
    put: (x, i, v) => { if (x instanceof Dict) x.put(i, v); else x[i < 0 ? x.length + i : i] = v; },
    grow: (a, b) => {
      if (Array.isArray(a) && !a.constructor.fields) { a.push(...iter(b)); return a; }
      return py.add(a, b);
    },
    // -- built-ins
    abs: Math.abs,
    all: (x) => { for (const v of x) if (!py.truth(v)) return false; return true; },
    any: (x) => { for (const v of x) if (py.truth(v)) return true; return false; },
    bool: py.truth,
    dict: (x = [], more = {}) => new Dict([...(x instanceof Named ? Object.entries(x) : x instanceof Dict ? x.items() : x), ...Object.entries(more)]),
    divmod: (a, b) => [py.floordiv(a, b), py.modulo(a, b)],
    enumerate: (x, start = 0) => list(x).map((v, i) => [i + (start instanceof Named ? start.start : start), v]),
    filter: (f, x) => list(x).filter((v) => py.truth(f === null ? v : f(v))),
    float: Number,
    frozenset: (x = []) => new PySet(x),
    id: (x) => identity(x),
    int: (x) => Math.trunc(Number(x)),
    isinstance: (x, kinds) => (Array.isArray(kinds) ? kinds : [kinds]).some((k) => is(x, k)),
    len: (x) => x.length,
    max: extreme((a, b) => py.less(b, a)),
    min: extreme((a, b) => py.less(a, b)),
    map: (f, ...xs) => zip(...xs).map((v) => call(f, v, {})),
    next: (x, ...other) => {
      const { done, value } = x[Symbol.iterator]().next();
      if (!done) return value;
      if (!other.length) throw new RangeError("nothing is left");
      return other[0];
    },
    range: (a, b, by = 1) => {
      const [from, to] = b === undefined ? [0, a] : [a, b];
      return Array.from({ length: Math.max(0, Math.ceil((to - from) / by)) }, (_, i) => from + i * by);
    },
    repr: (x) => (typeof x === "string" ? `'${x}'` : text(x)),
    reversed: (x) => list(x).reverse(),
    round: (x) => { const r = Math.round(x); return Math.abs(x % 1) === 0.5 && r % 2 ? r - 1 : r; },
    set: (x = []) => new PySet(x),
    str: text,
    sum: (x, start = 0) => list(x).reduce(py.add, start),
    tuple: list,
    // -- modules
    math: {
      prod: (x) => list(x).reduce((a, b) => a * b, 1),
      ceil: Math.ceil, floor: Math.floor, sqrt: Math.sqrt, log2: Math.log2, inf: Infinity, nan: NaN,
      isqrt: (n) => Math.floor(Math.sqrt(n)),
      gcd: (...ns) => ns.reduce((a, b) => { while (b) [a, b] = [b, py.modulo(a, b)]; return Math.abs(a); }, 0),
      lcm: (...ns) => ns.reduce((a, b) => { let [x, y] = [a, b]; while (y) [x, y] = [y, py.modulo(x, y)]; return Math.abs(a * b) / x; }, 1),
    },
    operator: {
      index: (x) => { if (!Number.isInteger(py.number(x))) throw new TypeError("no integer"); return py.number(x); },
    },
    itertools: {
      chain: (...xs) => xs.flatMap(list),
      pairwise: (x) => list(x).slice(1).map((v, i, rest) => [i ? rest[i - 1] : list(x)[0], v]),
      product: (...xs) =>
        xs.map(list).reduce((a, b) => a.flatMap((x) => b.map((y) => [...x, y])), [[]]),
    },
    dataclasses: { dataclass: null, replace },
    // -- layouts
    View: def({ names: VIEW, positional: 6, rest: null, named: null }, { padded: () => true },
      (...fields) => new View(...fields)),
    merge_axes: mergeAxes,
    repeated: (shape, lead, views, names) => {
      const [full, over] = repeated(shape, lead, keywords(views), list(names));
      return [full, new Dict(Object.entries(over))];
    },
    contiguous_strides: contiguousStrides,
    extent,
    DTYPES: new Dict(Object.entries(dtypes)),
    DType: (name, short, itemsize, kind) => ({ name, short, itemsize, kind }),
    Watch: Object.assign(() => null, { marks: null }), // what is out of range is left out in silence
    forced: () => null, // only Python's tests and benches force choices
    Scratch: null, Caps: null, Step: null, Ints: null, DTypeName: null,
  };

  function is(x, kind) {
    if (kind === text) return typeof x === "string";
    if (kind === py.truth) return typeof x === "boolean";
    if (kind === Number) return typeof x === "number" && !Number.isInteger(x);
    if (kind === list) return Array.isArray(x);
    if (typeof kind === "function" && kind.prototype) return x instanceof kind;
    return typeof x === "boolean" || Number.isInteger(x);
  }
})());

/** Plans by kernel. */
const plans = {};
