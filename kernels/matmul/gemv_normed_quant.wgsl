// /// kernel
// doc = "One row of rms_norm_linear with quantised weights: gemv_quant of the row times the gains, divided by the row's root mean square at the end."
// part_of = "rms_norm_linear"
// configs.rows1 = { threads = 256 }
// axes.TYPE = ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs", "mxfp4", "nbits4", "nbits8", "nbits4_16", "nbits8_16"]
// axes.LV = [2, 4]
// axes.B = ["f32", "u32"]
// axes.D = ["f32", "f16"]
// axes.BV = [4]
// axes.HELD = "configs"
// pick.B = "dtype(x)"
// pick.D = "dtype(dst)"
// pick.BV = "4"
// pick.HELD = "'rows1'"
// when = ["LV == (2 if TYPE in ('q2_k', 'q3_k') else 4)", "(B, D) in (('f32', 'f32'), ('u32', 'f32'), ('u32', 'f16'))"]
// inputs.low = { dtype = "u32", index = false, readonly = true, vec = "LV", axes = "b g p n" }
// inputs.scales = { dtype = "u32", index = false, readonly = true, axes = "b g w n" }
// inputs.high = { dtype = "u32", index = false, readonly = true, axes = "b g p n", optional = true, when = "TYPE in ('q5_0', 'q5_1', 'q3_k', 'q5_k', 'q6_k')" }
// inputs.x = { dtype = "B", vec = "BV", index = false, readonly = true }
// inputs.gain = { dtype = "B", vec = "BV", index = false, readonly = true }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", readonly = true, optional = true, axes = "m" }
// outputs.dst = { dtype = "D", index = false, axes = "m" }
// include normed
// params.col_bits = { type = "u32" }
// uses = ["tile/epilogue", "quant/${TYPE}", "quantised", "quant_sums", "gated", "normed", "runs"]
// grid = "cdiv(rows, 1 << col_bits)"
// ///

// The work is split as in gemv_quant: a workgroup takes 2^col_bits columns, and its runs of
// invocations divide k. Each invocation also adds up the squares of its part of x; the sums of all
// runs of a column together are the sum of the whole row.
//
// Bounds, for unchecked compilation: columns of loads are clamped to their count, groups to the last group;
// stores are guarded; indices into workgroup memory are below its size by construction.
//% set WG = CFG.threads
//% set GROUPS = quant.BLOCK // 32
//% set PER = (4 if quant.HIGH == 0 else 2) if GROUPS > 1 else 2
// The sums of products, and the sums of squares.
var<workgroup> partial: array<array<f32, ${WG}>, 2>;

${normed.functions()}
${quantised.functions()}
${quant_sums.functions()}

//% macro add_group(u, inside)
${quant_sums.numbers("w%d" % u, "s%d" % u, "g%d" % u)}
    {
      var own = 0.0f;
//% for o in range(4)
//% if B == "f32"
//% for e in range(2)
      let x${o}_${e} = x_load(p.x_off + g${u} * 8u + ${2 * o + e}u);
      let y${o}_${e} = x${o}_${e} * gain_load(p.gain_off + g${u} * 8u + ${2 * o + e}u);
      own += dot(x${o}_${e}, x${o}_${e});
//% endfor
      let xe${o} = vec4<f32>(y${o}_0.xz, y${o}_1.xz);
      let xd${o} = vec4<f32>(y${o}_0.yw, y${o}_1.yw);
//% else
      let h${o} = x_load(p.x_off + g${u} * 4u + ${o}u);
      let f${o} = gain_load(p.gain_off + g${u} * 4u + ${o}u);
//% for i in range(4)
      let h${o}_${i} = unpack2x16float(h${o}[${i}]);
      let y${o}_${i} = h${o}_${i} * unpack2x16float(f${o}[${i}]);
      own += dot(h${o}_${i}, h${o}_${i});
//% endfor
      let xe${o} = vec4<f32>(y${o}_0.x, y${o}_1.x, y${o}_2.x, y${o}_3.x);
      let xd${o} = vec4<f32>(y${o}_0.y, y${o}_1.y, y${o}_2.y, y${o}_3.y);
//% endif
//% endfor
//% if inside
      acc0 = select(acc0, ${quant_sums.sum("acc0")|trim}, ${inside});
      square += select(0.0f, own, ${inside});
//% else
      acc0 = ${quant_sums.sum("acc0")|trim};
      square += own;
//% endif
    }
//% endmacro

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let id = group_id(wg);
  if (id >= p.groups) { return; }
  let first = id << p.col_bits;
  let columns = 1u << p.col_bits;
  let runs = ${WG}u >> p.col_bits;
  let run = li >> p.col_bits;
  let n = row_of(min(first + (li & (columns - 1u)), p.rows - 1u));
  var acc0 = vec4<f32>();
  var square = 0.0f;
  ${runs.bounds(PER)}
  for (var r = start; r < end; r += 1u) {
    ${runs.load(PER)}
//% for u in range(PER)
    {
      ${add_group(u, "r * %du + %du < groups" % (PER, u) if GROUPS == 1 and u > 0 else "")}
    }
//% endfor
  }
  partial[0][li] = dot(acc0, vec4<f32>(1.0f));
  partial[1][li] = square;
  workgroupBarrier();
  let slot = li;
  ${runs.sums(2, 1)}

  let own = li * 4u;
  if (own < columns) { store_four(${runs.four("0", "own")} * factor_of(partial[1][own]), first + own); }
}
