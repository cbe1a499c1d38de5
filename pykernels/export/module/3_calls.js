// -- checks and plans of a call -------------------------------------------------------------------

const split = (kernel, args) => {
  if (typeof args !== "object" || !args) fail(kernel.name, "arguments must be an object by name");
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
    } else scalars[s.member ?? s.name] = Number(value);
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
  const sizes = {};
  const by = Object.fromEntries(kernel.tensors.map((a, i) => [a.name, tensors[i]]));
  for (const a of kernel.tensors) {
    const t = by[a.name];
    if (t === null && a.optional) continue;
    if (!(t instanceof Tensor)) fail(op, `${a.name} must be a Tensor`);
    if (!a.dtypes.includes(t.dtype)) {
      fail(op, `${a.name} must be ${a.dtypes.join(", ").replace(/, (\w+)$/, " or $1")} but is ${t.dtype}`);
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
    if (a.axes && t.shape.length !== a.axes.length) {
      fail(op, `${a.name} must have ${a.axes.length} axes (${[...a.axes].join(" ")}) but has shape [${t.shape}]`);
    }
    for (const [i, letter] of [...(a.axes ?? "")].entries()) {
      const [name, size] = (sizes[letter] ??= [a.name, t.shape[i]]);
      if (size !== t.shape[i]) {
        fail(op, `axis ${letter} must have one size but is ${size} in ${name} and ${t.shape[i]} in ${a.name}`);
      }
    }
    const target = by[a.expand];
    if (target && !expandsTo(t.shape, target.shape)) {
      fail(op, `${a.name} must broadcast to [${target.shape}] but has shape [${t.shape}]`);
    }
    const wide = by[a.broadcast];
    if (wide && !repeatsTo(t.shape, wide.shape)) {
      fail(op, `${a.name} must broadcast to [${wide.shape}] but has shape [${t.shape}]`);
    }
  }
};

const USAGES = { 0x04: "COPY_SRC", 0x08: "COPY_DST", 0x80: "STORAGE" };
const owners = new WeakMap(); // the devices of the buffers that this module has made

/** What is known of a buffer before the device is asked. */
const checkBuffer = (op, name, buffer, usage, device) => {
  if (!(buffer.usage & usage)) fail(op, `${name} must be in a buffer with usage ${USAGES[usage]}`);
  if ((owners.get(buffer) ?? device) !== device) {
    fail(op, `${name} must be in a buffer of this device but is of another one`);
  }
};

/** numpy's broadcast: axes of size 1 repeat. */
const expandsTo = (shape, target) =>
  shape.length <= target.length &&
  shape.every((n, i) => n === 1 || n === target[target.length - shape.length + i]);

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

const planKey = (kernel, views, options) => {
  const layouts = kernel.tensors.flatMap((a, i) => {
    const v = views[i];
    const strides = v?.strides.map((s) => s / v.dtype.itemsize);
    return v ? [`${a.name}=${v.dtype.name}[${v.shape}]:${strides}`] : [];
  });
  return [...layouts, JSON.stringify(options)].join(" ");
};

/** Why there is no plan for a call. */
const unplanned = (manifest, kernel, views, options) => {
  const key = planKey(kernel, views, options);
  const { plans } = manifest.kernels[kernel.name];
  if (plans.some((p) => p.key === key)) {
    const name = (v) => kernel.tensors[v.slot].name;
    const moved = views.find((v) => v && v.offset % 256);
    if (moved) {
      fail(kernel.name, `${name(moved)} has offset ${moved.offset}: a recorded plan takes multiples of 256`);
    }
    const short = views.find((v) => v && !v.padded);
    const end = (Math.ceil(short.window[1] / 16) * 16).toLocaleString("en");
    fail(kernel.name, `the buffer of ${name(short)} must go on to ${end} bytes for a recorded plan`);
  }
  const known = plans.map((p) => `\n  ${p.key}`).join("") || " none";
  fail(kernel.name, `no plan was exported (--shape) for ${key}; there are:${known}`);
};

/** The steps that Python's plan computed for these layouts at export, null if it did not. */
const recorded = (manifest, kernel, views, options, scratch) => {
  const key = planKey(kernel, views, options);
  const plan = manifest.kernels[kernel.name].plans.find((p) => p.key === key);
  if (!plan || views.some((v) => v && (v.offset % 256 || !v.padded))) return null;
  scratch.sizes.push(...plan.scratch);
  return plan.steps.map((s) => {
    const bound = s.bound.map((b) => {
      if (!b.view) return b;
      const { slot, itemsize, shape, strides, offset } = b.view;
      const base = slot >= 0 ? views[slot].offset : 0;
      return { ...b, view: new View(slot, { itemsize }, shape, strides, base + offset, true) };
    });
    return new Step(bodies[s.body], s.axes, bound, s.words, s.values, s.groups, s.scalars);
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
      where.push([null, SLOT * nulls++, Math.max(b.unit, 16)]);
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
