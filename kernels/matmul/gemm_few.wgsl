// /// kernel
// doc = "Products of mul_mat with 9 to 64 rows, both operands with k last: loads of whole cache lines."
// part_of = "mul_mat"
// configs.16x64 = { BM = 16, BN = 64, BK = 16, threads = 32, TM = 4, TN = 8, LM = 4, LN = 8 }
// configs.32x128 = { BM = 32, BN = 128, BK = 16, threads = 64, TM = 8, TN = 8, LM = 4, LN = 8 }
// configs.64x128 = { BM = 64, BN = 128, BK = 16, threads = 128, TM = 8, TN = 8, LM = 4, LN = 8 }
// axes.A = { values = ["f32", "u32"], pick = "dtype(a)" }
// axes.D = { values = ["f32", "f16"], pick = "dtype(dst)" }
// axes.V = { values = [4], pick = "4" }
// axes.TILE = "configs"
// when = ["(A, D) in (('f32', 'f32'), ('u32', 'f32'), ('u32', 'f16'))"]
// inputs.a = { dtype = "A", vec = "V", doc = "(..., M, K), k in whole vectors; u32: eight halves a vector" }
// inputs.b = { dtype = "A", vec = "V", doc = "(..., N, K) in the same form" }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true }
// inputs.residual = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true }
// outputs.dst = { dtype = "D", doc = "(..., N, M)" }
// include product
// params.down = { type = "u32" }
// include epilogue
// params.scale = { type = "f32", default = 1.0 }
// uses = ["tile/epilogue", "tile/outer_product", "tile/split_k", "tile/swizzle"]
// grid = "it.batches * across * down"
// ///

// One workgroup computes BM rows (from b) x BN columns (from a) of dst in f32, TM x TN an invocation, as
// mul_mat does. A few rows wait for the weights, so memory must give whole lines: eight neighbouring
// loads of 16 bytes read 128 bytes of one row, 32 k of f32 or 64 of halves. Such a run is multiplied in
// PARTS tiles of BK = 16 k each: tile t has elements 2 t and 2 t + 1 of each load, because the order of
// the sum over k is free, and is the same for both operands. While the last tile of a run is multiplied,
// the next run is loaded.
//
// An invocation loads four rows at the same k, so that it stores whole vectors of four rows; several
// invocations must not write components of one vector.
//
// Bounds, for unchecked compilation: rows of loads are clamped to their counts; vectors of k are clamped
// to those of the first run, which holds the remainder of k and has zeros beyond it, and in the other
// runs are below the end of the split; stores are guarded; indices into workgroup memory are lane numbers
// below the sizes of the arrays.
//% set E = 4 if A == "f32" else 8
//% set PARTS = E // 2
//% set RUN = 8 * E
//% set GROUPS = CFG.threads // 8
//% set LOW = 8 if GROUPS >= 8 else GROUPS
//% set OPERANDS = (("a", "col0", "p.cols", CFG.BN // 4 // GROUPS), ("b", "row0", "p.rows", CFG.BM // 4 // GROUPS))
${outer_product.memory(CFG.BM, CFG.BN, CFG.BK)}
${epilogue.functions()}
${epilogue.of_rows()}

// The two elements of a load that are its part of the tile.
//% macro pair(v)
${"unpack2x16float(" ~ v ~ ".x)" if A == "u32" else v ~ ".xy"}
//%- endmacro

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  ${swizzle.grouped_rows(CFG.BM, CFG.BN)}
  ${split_k.k_range("(batch / p.split_batches)")}
  let chunk = (li / ${LOW}u) & 7u;
  let four = li % ${LOW}u + (li / ${8 * LOW}u) * ${LOW}u;
  let prologue = (((k_count - 1u) & ${RUN - 1}u) + 1u) / ${E}u;  // vectors of the first run
  let inside = chunk < prologue;
  let at = min(chunk, prologue - 1u);
//% for x, first, count, rounds in OPERANDS
  let ${x}_start = ${x}_batch(batch) + k_first / ${E}u;
//% for u in range(rounds)
//% for i in range(4)
  let ${x}_from${u}${i} = ${x}_at(${x}_start, min(${first} + (four + ${u * GROUPS}u) * 4u + ${i}u, ${count} - 1u), 0u);
//% endfor
//% endfor
//% for u in range(rounds)
//% for i in range(4)
  let ${x}_h${u}${i} = ${x}_mem[${x}_from${u}${i} + at];
//% endfor
//% endfor
//% for u in range(rounds)
//% for i in range(4)
  var ${x}_v${u}${i} = select(vec4<${A}>(), ${x}_h${u}${i}, inside);
//% endfor
//% endfor
//% endfor
  var position = prologue + chunk;

  ${outer_product.lane_layout(CFG.TM, CFG.TN, CFG.LM, CFG.LN, CFG.BN)}
  ${outer_product.accumulators(CFG.TM, CFG.TN)}
  for (var left = ((k_count + ${RUN - 1}u) / ${RUN}u) * ${PARTS}u; left > 0u; left -= 1u) {
    workgroupBarrier();  // the last tiles have been read
//% for x, first, count, rounds in OPERANDS
//% for u in range(rounds)
    {
//% for i in range(4)
      let e${i} = ${pair(x ~ "_v" ~ u ~ i)};
//% endfor
      ${x}_tile[chunk * 2u][four + ${u * GROUPS}u] = vec4<f32>(e0.x, e1.x, e2.x, e3.x);
      ${x}_tile[chunk * 2u + 1u][four + ${u * GROUPS}u] = vec4<f32>(e0.y, e1.y, e2.y, e3.y);
    }
//% endfor
//% endfor
    workgroupBarrier();
    if ((left & ${PARTS - 1}u) != 1u) {
//% for x, first, count, rounds in OPERANDS
//% for u in range(rounds)
//% for i in range(4)
      ${x}_v${u}${i} = ${x}_v${u}${i}.${"yzww" if A == "u32" else "zwzw"};
//% endfor
//% endfor
//% endfor
    } else if (left > 1u) {
//% for x, first, count, rounds in OPERANDS
//% for u in range(rounds)
//% for i in range(4)
      ${x}_v${u}${i} = ${x}_mem[${x}_from${u}${i} + position];
//% endfor
//% endfor
//% endfor
      position += 8u;
    }
    ${outer_product.multiply(CFG.TM, CFG.TN, CFG.LM, CFG.LN, CFG.BK)}
  }
  ${epilogue.store_tile(CFG.TM, CFG.TN, CFG.LM, CFG.LN, 1)}
}
