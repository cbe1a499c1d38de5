// /// kernel
// doc = "GEMV of mul_mat_quant with a row of bytes, by packed dot products; the weights are read once."
// part_of = "mul_mat_quant"
// configs.rows1 = { threads = 256 }
// include quantised
// axes.D = ["f32", "f16"]
// axes.BV = [4]
// axes.HELD = "configs"
// pick.BV = "4"
// pick.HELD = "'rows1'"
// pick.D = "dtype(dst)"
// inputs.low = { dtype = "u32", index = false, readonly = true, vec = "LV", axes = "b g p n" }
// inputs.scales = { dtype = "u32", index = false, readonly = true, axes = "b g w n" }
// inputs.high = { dtype = "u32", index = false, readonly = true, axes = "b g p n", optional = true, when = "TYPE in ('q5_0', 'q5_1', 'q3_k', 'q5_k', 'q6_k')" }
// inputs.b = { dtype = "u32", index = false, readonly = true, vec = "BV", doc = "(K / 32, 8): bytes of rows_i8" }
// inputs.sums = { dtype = "f32", index = false, readonly = true, vec = "BV", doc = "(K / 32, 4): the scales and sums of these bytes" }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true }
// inputs.residual = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true }
// outputs.dst = { dtype = "D" }
// iterate = "tiles"
// params.cols = { type = "u32", value = "dst.shape[-1]" }
// params.depth = { type = "u32" }
// params.col_bits = { type = "u32" }
// include epilogue
// params.scale = { type = "f32", arg = true }
// uses = ["tile/epilogue", "quant/${TYPE}", "quantised", "runs"]
// grid = "cdiv(dst.shape[-1], 1 << col_bits)"
// ///

// The work is split as in gemv_quant, but b has one row, whose numbers are bytes with a scale for each
// group. So a group takes eight packed dot products of integers, which are exact. A weight is
// scale (q - WORD_BIAS - zero) + offset; the parts without q are multiplied with the sum of b's bytes.
//% set WG = CFG.threads
//% set GROUPS = quant.BLOCK // 32
//% set PER = 4 if GROUPS > 1 and quant.HIGH == 0 else 2
var<workgroup> partial: array<array<f32, ${WG}>, 1>;

${epilogue.functions()}
${epilogue.of_rows()}
${quantised.functions()}

// The sum of one group.
//% macro add_group(u, inside)
    {
      let x0 = b_load(p.b_off + g${u} * 2u);
      let x1 = b_load(p.b_off + g${u} * 2u + 1u);
      let own = sums_load(p.sums_off + g${u});
//% set j = "g%d %% %du" % (u, GROUPS) if GROUPS > 1 else "0u"
      let scales = scales_of(s${u}, ${j});
      let dots = vec2<f32>(
//% for half in range(2)
        f32(${half_of_dots(u, half)}),
//% endfor
      );
//% if quantised.ZERO
      var v = (dots - (zeros_of(s${u}, ${j}) + ${quant.WORD_BIAS}.0f) * own.yz) * scales;
//% else
      var v = ${"(dots - %d.0f * own.yz)" % quant.WORD_BIAS if quant.WORD_BIAS else "dots"} * scales;
//% endif
//% if quant.OFFSET
      v = fma(offsets_of(s${u}, ${j}), own.yz, v);
//% endif
//% if inside
      acc = select(acc, fma(own.x, v.x + v.y, acc), ${inside});
//% else
      acc = fma(own.x, v.x + v.y, acc);
//% endif
    }
//% endmacro

//% macro half_of_dots(u, half)
//% for i in range(4)
${" + " if i else ""}dot4I8Packed(${quantised.word("w%d" % u, 4 * half + i)}, x${half}[${i}])
//%- endfor
//%- endmacro

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let id = group_id(wg);
  if (id >= p.groups) { return; }
  let first = id << p.col_bits;
  let columns = 1u << p.col_bits;
  let runs = ${WG}u >> p.col_bits;
  let run = li >> p.col_bits;
  let n = min(first + (li & (columns - 1u)), p.cols - 1u);
  ${runs.bounds(PER)}
  var acc = 0.0f;
  for (var r = start; r < end; r += 1u) {
//% for u in range(PER)
//% if GROUPS == 1 and u > 0
    let g${u} = min(r * ${PER}u + ${u}u, groups - 1u);
//% else
    let g${u} = r * ${PER}u + ${u}u;
//% endif
    let w${u} = load_quants(0u, g${u}, n);
//% endfor
//% for u in range(PER)
    let s${u} = ${"s0" if GROUPS > 1 and u > 0 else "load_scales(0u, g%d / %du, n)" % (u, GROUPS)};
//% endfor
//% for u in range(PER)
${add_group(u, "r * %du + %du < groups" % (PER, u) if GROUPS == 1 and u > 0 else "")}
//% endfor
  }
  partial[0][li] = acc;
  workgroupBarrier();
  let slot = li;
  ${runs.sums(1, 1)}

  let own = li * 4u;
  if (own < columns) {
    var v = ${runs.four("0", "own")};
    v *= select(p.scale, 1.0f, p.is_partial == 1u);
    let m = vec4<u32>(first + own) + vec4<u32>(0u, 1u, 2u, 3u);
    let dst_start = dst_batch(0u);
    if (has_epilogue()) { v = epilogue(v, bias_at(bias_batch(0u), 0u, 0u), residual_at(residual_batch(0u), 0u, 0u), m); }
//% for j in range(4)
    if (m[${j}] < p.cols) { dst_store(dst_at(dst_start, 0u, m[${j}]), v[${j}]); }
//% endfor
  }
}
