// /// kernel
// doc = "A reduction over the second-last axis, for columns that lie next to each other; it reduces whole columns, or pieces of columns."
// part_of = "sum"
// configs.batch8 = { N = 8, threads = 256 }
// axes.OP = "reductions"
// axes.T = { values = ["f32", "f16", "i32", "u32", "bool"], pick = "dtype(x)" }
// axes.PACKED = { values = [false, true], pick = "dst.dtype.itemsize < 4" }
// axes.VEC = { values = [1, 4], pick = "4 if x.vectorizable(4) else 1" }
// axes.BATCH = { values = "configs", pick = "'batch8'" }
// when = ["T in ROW.dtypes", "not PACKED or ROW.packed(T)"]
// inputs.x = { dtype = "T", vec = "VEC", doc = "(..., depth, cols)" }
// outputs.dst = { dtype = "*", bind = "'atomic<u32>' if PACKED else 'u32'", doc = "(..., 1, cols), or for pieces (..., words of a state * pieces, cols)" }
// iterate = "tiles"
// params.rows = { type = "u32", value = "x.shape[-2]" }
// params.cols = { type = "u32", value = "x.shape[-1] // VEC" }
// params."outs across_bits tiles pieces depth is_partial finish kind" = { type = "u32" }
// params.flip = { type = "i32" }
// params.start = { type = "u32" }
// params.divisor = { type = "f32" }
// params.nan = { type = "u32", value = "0x7fc00000" }
// params.plus_inf = { type = "u32", value = "0x7f800000" }
// uses = ["words", "convert", "reductions"]
// grid = "tiles * pieces"
// ///

//% set N, WG = CFG.N, CFG.threads
//% set V, U = ROW.value(T, VEC), "u32" if VEC == 1 else "vec4<u32>"
// A workgroup takes 2^across_bits neighbouring columns (or vectors of four), so that it reads whole
// cache lines, and a piece of `depth` rows. The lanes of a column divide the rows among them. Each
// lane loads N rows at a time, and workgroup memory combines the lanes' states. Columns are
// numbered through all batches, one batch after the other. If one result has several batches
// (`outs` is the number of batches of results), these batches follow each other, and another
// dispatch combines them. Bytes: each element is read once.
var<workgroup> shared_states: array<S, ${WG}>;
${ROW.functions(T, VEC)}
${reductions.batch(ROW, N, V, U)}
//% if PACKED
${convert.half()}
//% endif

// The values to reduce; the body reads x only here.
fn value_batch(batch: u32) -> u32 { return x_batch(batch); }
fn value(batch: u32, r: u32, c: u32) -> ${V} { return ${V}(x_load(x_at(batch, r, c))); }

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let across = 1u << p.across_bits;
  let lanes = ${WG}u >> p.across_bits;
  let lane = li >> p.across_bits;
  // Tiles of columns follow each other, so that workgroups that run at the same time read whole
  // rows.
  let piece = g / p.tiles;
  let own_column = ((g - piece * p.tiles) << p.across_bits) + (li & (across - 1u));
  // Lanes past the end repeat the last column and store nothing.
  let column = min(own_column, p.batches * p.cols - 1u);
  let number = column / p.cols;
  let c = column - number * p.cols;
  let base = value_batch(number);
  let first = number / p.outs * p.rows;  // the batch's first row among the rows of its results
  let end = min((piece + 1u) * p.depth, p.rows);
//% macro take(n)
//% for u in range(N)
    let x${u} = value(base, ${"r" if u == 0 else "r + " ~ u ~ "u * lanes" if n == N else "min(r + " ~ u ~ "u * lanes, end - 1u)"}, c);
//% endfor
    acc = follow(acc, batch(${reductions.values(N)} ${U}(p.start + first + r), lanes, ${n}${"u" if n == N else ""}));
//% endmacro
  var acc = init();
  var r = piece * p.depth + lane;
  for (; r + ${N - 1}u * lanes < end; r += ${N}u * lanes) {
    ${take(N)}
  }
  if (r < end) {
    let n = (end - r + lanes - 1u) / lanes;
    ${take("n")}
  }

  shared_states[li] = acc;
  workgroupBarrier();
  for (var apart = lanes >> 1u; apart > 0u; apart >>= 1u) {
    if (lane < apart) {
      acc = combine(acc, shared_states[li + (apart << p.across_bits)]);
      shared_states[li] = acc;
    }
    workgroupBarrier();
  }
  if ((lane > 0u) | (own_column > column)) { return; }
  let at = dst_batch(number);
//% for e in range(VEC)
  {
    let state = ${"component_" ~ e ~ "(acc)" if VEC == 4 else "acc"};
    let col = c * VEC + ${e}u;
//% if not PACKED
    if (p.is_partial == 1u) {
//% for name, _ in ROW.fields(T)
      dst_mem[dst_at(at, ${loop.index0}u * p.pieces + piece, col)] = bitcast<u32>(state.${name});
//% endfor
    } else {
      ${reductions.store("dst_at(at, 0u, col)", "finish(state)", PACKED)}
    }
//% else
    ${reductions.store("dst_at(at, 0u, col)", "finish(state)", PACKED)}
//% endif
  }
//% endfor
}
