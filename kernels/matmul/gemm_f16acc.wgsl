// /// kernel
// doc = "Large products of mul_mat with precision='fast', by packed f16 products; up to 256 products are summed in f16."
// part_of = "mul_mat"
// configs.64x128 = { BM = 64, BN = 128, BK = 8, threads = 128, TM = 8, TN = 8, LM = 4 }
// axes.A = { values = ["u32"], pick = "dtype(a)" }
// axes.B = { values = ["f16"], pick = "dtype(b)" }
// axes.D = { values = ["f32", "f16"], pick = "dtype(dst)" }
// axes."AV BV" = [4]
// axes.DV = [1, 4]
// axes.TILE = { values = "configs", pick = "'64x128'" }
// inputs.a = { dtype = "A", vec = "AV", doc = "(..., K, M), eight halves a vector" }
// inputs.b = { dtype = "B", vec = "BV", doc = "(..., K, N) in whole vectors" }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true }
// inputs.residual = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true }
// outputs.dst = { dtype = "D", vec = "DV", doc = "(..., N, M)" }
// include part
// params."across down blocks" = { type = "u32" }
// include epilogue
// params.scale = { type = "f32", default = 1.0 }
// uses = ["tile/epilogue", "tile/outer_product", "tile/split_k", "tile/swizzle"]
// grid = "it.batches * across * down"
// ///

// The algorithm is that of gemm_tile. A packed multiply-add takes one row and two neighbouring
// columns. Rows are stored twice in workgroup memory, because copying a row into both halves of a
// vector inside the loop would halve the rate. One vector load brings eight columns or four rows.
// After every 16 * p.blocks steps of k, the f16 sums are added to f32 sums and set to 0.
//
// The f16 sums change their sign at every k. Otherwise a driver would sum even and odd k
// separately. That would take twice the registers, so fewer workgroups would share a
// multiprocessor.
//
// The order of the multiply-adds: four rows (one vector), alternately down and up, for two columns
// at a time; then the other four rows. Stores and loads at the beginning of a tile are faster than in
// its middle.
//
// Bounds, for unchecked compilation, are the same as in gemm_tile.
struct Eight { low: vec4<f16>, high: vec4<f16> }
//% for s in range(2)
var<workgroup> a_tile${s}: array<array<Eight, ${CFG.BN // 8}>, ${CFG.BK}>;
var<workgroup> b_tile${s}: array<array<Eight, ${CFG.BM // 4}>, ${CFG.BK}>;
//% endfor

${epilogue.functions()}
${epilogue.of_rows()}

// An invocation loads eight columns and four rows of one k.
//% macro loader_init()
  let i_at = li & 15u;
  let i_k = li >> 4u;
  let a_base = a_batch(batch) + k_first * p.a_rs + min(col0 / 8u + i_at, (p.cols + 7u) / 8u - 1u);
  let b_base = b_batch(batch) + k_first * p.b_rs + min(row0 / 4u + i_at, (p.rows + 3u) / 4u - 1u);
//% for x in "ab"
//% for s in range(2)
  let ${x}_from${s} = ${x}_base + min(i_k + ${CFG.BK * s}u, k_count - 1u) * p.${x}_rs;
//% endfor
  let ${x}_step = ${2 * CFG.BK}u * p.${x}_rs;
  let ${x}_end = last_pair * p.${x}_rs;
  var ${x}_pos = min(k_prologue * p.${x}_rs, ${x}_end);
//% endfor
  var a_v: vec4<u32>;
  var b_v: vec4<f16>;
//% endmacro

// Loads one of the first two tiles, which hold `k_prologue` steps of k and zeros beyond.
//% macro load_prologue(s)
  {
    let far = min(i_k + ${CFG.BK * s}u, k_prologue - 1u);
    let a_h = a_mem[a_base + far * p.a_rs];
    let b_h = b_mem[b_base + far * p.b_rs];
    let inside = i_k + ${CFG.BK * s}u < k_prologue;
    a_v = select(vec4<u32>(), a_h, inside);
    b_v = select(vec4<f16>(), b_h, inside);
  }
//% endmacro

//% macro load_next(s)
    a_v = a_mem[a_from${s} + a_pos];
    b_v = b_mem[b_from${s} + b_pos];
//% endmacro

//% macro store_stage(s)
    a_tile${s}[i_k][i_at] = Eight(
      vec4<f16>(vec2<f16>(unpack2x16float(a_v.x)), vec2<f16>(unpack2x16float(a_v.y))),
      vec4<f16>(vec2<f16>(unpack2x16float(a_v.z)), vec2<f16>(unpack2x16float(a_v.w))),
    );
    b_tile${s}[i_k][i_at] = Eight(b_v.xxyy, b_v.zzww);
//% endmacro

// The same as outer_product.lane_layout, but the two vectors of columns are neighbours.
//% macro lane_layout()
  let w = li >> 5u;
  let at_row = (w / 2u) * 8u + ((li & 1u) | ((li >> 2u) & 2u));
  let at_eight = (w % 2u) * 8u + (((li >> 1u) & 3u) | ((li >> 2u) & 4u));
  let at_col = at_eight * 2u;
//% endmacro

//% macro multiply(s, k)
    {
//% for i in range(CFG.TM // 4)
      let r${i} = b_tile${s}[${k}][at_row + ${i * CFG.LM}u];
//% endfor
      let q = a_tile${s}[${k}][at_eight];
//% for half in range(2)
//% for j in range(CFG.TN // 2)
//% for n in range(4)
//% set i = half * 4 + (n if (half + j) % 2 == 0 else 3 - n)
      h${i}_${j} = fma(${"-" if k % 2 else ""}r${i // 4}.${"low" if i % 4 < 2 else "high"}.${"zw" if i % 2 else "xy"}, q.${"low" if j < 2 else "high"}.${"zw" if j % 2 else "xy"}, -h${i}_${j});
//% endfor
//% endfor
//% endfor
    }
//% endmacro

// The product of two tiles, and the loads and stores of the next two tiles.
//% macro two_tiles()
//% for s in range(2)
//% for k in range(CFG.BK)
    ${multiply(s, k)}
//% if k == 1
    ${store_stage(1 - s)}
    ${load_next(s)}
//% endif
//% endfor
    workgroupBarrier();  // the other tiles are complete, and these tiles have been read
//% endfor
    a_pos = min(a_pos + a_step, a_end);
    b_pos = min(b_pos + b_step, b_end);
//% endmacro

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  ${swizzle.grouped_rows(CFG.BM, CFG.BN)}
  ${split_k.k_range("(batch / p.split_batches)")}
  ${split_k.prologue()}
  let last_pair = max(k_count, 16u) - 16u;

  ${loader_init()}
  ${load_prologue(0)}
  ${store_stage(0)}
  ${load_prologue(1)}

  ${lane_layout()}
  ${outer_product.accumulators(CFG.TM, CFG.TN)}
//% for i in range(CFG.TM)
//% for j in range(CFG.TN // 2)
  var h${i}_${j} = vec2<f16>();
//% endfor
//% endfor

  workgroupBarrier();
  for (var left = (k_count + 15u) >> 4u; left > 0u;) {
    let blocks = min(left, p.blocks);
    left -= blocks;
    // Two rounds in one iteration, because the compiler moves registers at the end of each
    // iteration.
    for (var n = blocks; n > 0u; n -= 1u) {
    ${two_tiles()}
      if (n == 1u) { break; }
      n -= 1u;
    ${two_tiles()}
    }
//% for i in range(CFG.TM)
//% for j in range(CFG.TN // 4)
    c${i}_${j} -= vec4<f32>(vec4(h${i}_${2 * j}, h${i}_${2 * j + 1}));
    h${i}_${2 * j} = vec2<f16>();
    h${i}_${2 * j + 1} = vec2<f16>();
//% endfor
//% endfor
  }
  ${epilogue.store_tile(CFG.TM, CFG.TN, CFG.LM, 1, DV)}
}
