// Reads calls of bodies as JSON lines from stdin and writes what the exported module makes of them.
// node steps.mjs MODULE
import { createInterface } from "node:readline";

const { inner } = await import(process.argv[2]);
const { bodies, kernels, View, Scratch, dtypes, fold, bitsOf, packParams } = inner;

const viewOf = (v) =>
  v && new View(v.slot, dtypes[v.dtype], v.shape, v.strides, v.offset, v.padded);

const run = {
  step({ body, caps, views, given }) {
    const made = Object.fromEntries(
      Object.entries(views).map(([name, v]) => [name, viewOf(v)]),
    );
    const step = bodies[body].step(caps, made, given);
    const bound = step.bound.map((b) => ({ ...b, view: b.view?.slot ?? null }));
    const offsets = bound.map((b, i) => 3 * i);
    const scalars = Object.fromEntries(step.body.args.map((name, i) => [name, i + 1]));
    const params = Buffer.from(packParams(step, offsets, scalars)).toString("hex");
    const { axes, words, values, groups } = step;
    return { axes, bound, words, values, groups, params };
  },
  plan({ kernel, caps, views, options }) {
    const scratch = new Scratch();
    const named = Object.fromEntries(Object.entries(views).map(([n, v]) => [n, viewOf(v)]));
    const steps = kernels[kernel].plan(caps, named, scratch, options);
    return {
      scratch: scratch.sizes,
      steps: steps.map((s) => ({
        body: s.body.name,
        axes: s.axes,
        bound: s.bound.map((b) => ({
          name: b.name,
          role: b.role,
          view: b.view && {
            slot: b.view.slot,
            itemsize: b.view.dtype.itemsize,
            shape: b.view.shape,
            strides: b.view.strides,
            offset: b.view.offset,
          },
          unit: b.unit,
          elem: b.elem,
          strides: b.strides,
          readonly: b.readonly ?? false,
          alias: b.alias ?? "",
        })),
        words: s.words,
        values: s.values,
        groups: s.groups,
        ...(s.scalars.length ? { scalars: s.scalars } : {}),
      })),
    };
  },
  fold: ({ groups, limit }) => fold("op", groups, limit),
  bits: ({ value, dtype }) => bitsOf("op", value === "nan" ? NaN : Number(value), dtype),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { what, ...call } = JSON.parse(line);
  let answer;
  try {
    answer = { answer: run[what](call) };
  } catch (e) {
    answer = { error: `${e.constructor.name}: ${e.message}` };
  }
  console.log(JSON.stringify(answer));
}
