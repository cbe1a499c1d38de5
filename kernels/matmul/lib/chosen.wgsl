// Code of the bodies of mul_mat_id in which a workgroup computes columns of one row.

//% macro functions()
${epilogue.functions(("bias",))}

${gated.functions(more=", to: u32, bias: u32", to="to", bias="bias")}
//% endmacro

// Declares the workgroup's `row`, its number `tile` within the row, and the `expert` that the row
// names. All invocations end here if that expert is out of range, or not among the experts of this
// piece of the weights.
//% macro init()
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  fault_started((g | li) == 0u);
  let row = g / p.across;
  let tile = g - row * p.across;
  let word = (p.ids_off + row * p.ids_rs) * p.index_words;
  let lo = ids_mem[word];
  let hi = ids_mem[word + p.index_words - 1u];
  if (!(${indices.is_inside("lo", "hi")})) {
    if ((tile | li) == 0u) {
      ${indices.report("row", "lo", "hi")}
    }
    return;
  }
  let expert = lo - p.first_expert;
  if (expert >= p.experts) { return; }
  let to = p.dst_off + row * p.dst_rs;
  let bias = p.bias_off + (expert + p.first_expert) * p.bias_es;
//% endmacro
