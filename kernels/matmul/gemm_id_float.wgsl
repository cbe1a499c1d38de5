// /// kernel
// doc = "Tiles of mul_mat_id with weights of floats."
// part_of = "mul_mat_id"
// configs.16x64 = { BM = 16, BN = 64, BK = 16, threads = 64, TM = 4, TN = 4, LM = 4, LN = 8 }
// axes.A = ["f32", "u32"]
// axes.B = ["f32", "u32"]
// axes.D = ["f32", "f16"]
// axes.AV = [4]
// axes.BV = [4]
// axes.TILE = "configs"
// when = ["(B, D) in (('f32', 'f32'), ('u32', 'f32'), ('u32', 'f16'))"]
// pick.A = "dtype(a)"
// pick.B = "dtype(b)"
// pick.D = "dtype(dst)"
// pick.AV = "4"
// pick.BV = "4"
// pick.TILE = "'16x64'"
// include id_rows
// inputs.a = { dtype = "A", vec = "AV", readonly = true, axes = "e m k", doc = "(experts, M, K), f32 or words of two halves" }
// include id_sums
// uses = ["tile/outer_product", "tile/epilogue", "gated", "id_tile"]
// grid = "across * tiles_n"
// ///

// The work is split as in gemm_id; an invocation takes 16 neighbouring weights of one column at a
// time.
//
// Bounds, for unchecked compilation: as in gemm_id; k is a multiple of 16.
${id_tile.memory()}
//% set UNITS = 4 if A == "f32" else 2

//% macro load(k)
//% for u in range(UNITS)
    a_v${u} = a_mem[a_from + (${k}) / ${16 // UNITS}u + ${u}u];
//% endfor
    ${id_tile.load_rows("(%s) / %du" % (k, id_tile.EACH))}
//% endmacro

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  ${id_tile.init()}
  let a_from = p.a_off + expert * p.a_es + n * p.a_ms;
//% for u in range(UNITS)
  var a_v${u}: vec4<${A}>;
//% endfor
  ${load("0u")}

  ${outer_product.lane_layout(CFG.TM, CFG.TN, CFG.LM, CFG.LN, CFG.BN)}
  ${outer_product.accumulators(CFG.TM, CFG.TN)}
  for (var k = 0u; k < p.depth; k += 16u) {
    workgroupBarrier();  // the last tiles have been read
//% for u in range(UNITS)
//% for e in range(4)
//% if A == "f32"
    a_tile[${4 * u + e}][li >> 2u][li & 3u] = a_v${u}[${e}];
//% else
    let w${u}_${e} = unpack2x16float(a_v${u}[${e}]);
    a_tile[${8 * u + 2 * e}][li >> 2u][li & 3u] = w${u}_${e}.x;
    a_tile[${8 * u + 2 * e + 1}][li >> 2u][li & 3u] = w${u}_${e}.y;
//% endif
//% endfor
//% endfor
    ${id_tile.store_rows()}
    workgroupBarrier();
    if (k + 16u < p.depth) {
      ${load("k + 16u")}
    }
    ${id_tile.multiply()}
  }
  ${id_tile.store()}
}
