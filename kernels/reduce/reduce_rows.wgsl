// /// kernel
// doc = "A reduction over the last axis, of whole rows or of pieces of rows."
// part_of = "sum"
// configs.batch1 = { N = 1, threads = 256 }
// configs.batch8 = { N = 8, threads = 256 }
// axes.OP = "reductions"
// axes.T = { values = ["f32", "f16", "i32", "u32", "bool"], pick = "dtype(x)" }
// axes.PACKED = { values = [false, true], pick = "dst.dtype.itemsize < 4" }
// axes.VEC = { values = [1, 4], pick = "4 if x.vectorizable(4) else 1" }
// axes.BATCH = "configs"
// when = ["T in ROW.dtypes", "not PACKED or ROW.packed(T)"]
// inputs.x = { dtype = "T", vec = "VEC", doc = "(..., cols)" }
// outputs.dst = { dtype = "*", bind = "'atomic<u32>' if PACKED else 'u32'", doc = "(..., 1), or for pieces (..., words of a state * pieces)" }
// iterate = "rows"
// params.cols = { type = "u32", value = "x.shape[-1] // VEC" }
// params."outs lane_bits pieces depth is_partial finish kind" = { type = "u32" }
// params.flip = { type = "i32" }
// params.start = { type = "u32" }
// params.divisor = { type = "f32" }
// params.nan = { type = "u32", value = "0x7fc00000" }
// params.plus_inf = { type = "u32", value = "0x7f800000" }
// uses = ["words", "convert", "reductions"]
// grid = "cdiv(it.rows, CFG.threads >> lane_bits) * pieces"
// ///

//% set N, WG = CFG.N, CFG.threads
//% set V, U = ROW.value(T, VEC), "u32" if VEC == 1 else "vec4<u32>"
// 2^lane_bits lanes reduce a row, or a piece of `depth` vectors of it. Each lane loads N vectors at a
// time, and workgroup memory combines the lanes' states. If one result has several rows (`outs` is the
// number of results), these rows follow each other, and another dispatch combines them. Bytes: each
// element is read once.
var<workgroup> shared_states: array<Z, ${WG}>;
${ROW.functions(T, VEC)}
${reductions.batch(ROW, N, V, U)}
//% if PACKED
${convert.half()}
//% endif

// The values to reduce; the body reads x only here.
fn value_row(row: u32) -> u32 { return x_row(row); }
fn value(row: u32, c: u32) -> ${V} { return ${V}(x_load(x_at(row, c))); }

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let lanes = 1u << p.lane_bits;
  let lane = li & (lanes - 1u);
  let tile = g / p.pieces;
  let piece = g - tile * p.pieces;
  let own_row = tile * (${WG}u >> p.lane_bits) + (li >> p.lane_bits);
  let row = min(own_row, p.rows - 1u);  // lanes past the end repeat the last row and store nothing
  let base = value_row(row);
  let first = row / p.outs * p.cols;  // the row's first vector among the vectors of its result
  let end = min((piece + 1u) * p.depth, p.cols);
//% macro take(n)
//% for u in range(N)
    let x${u} = value(base, ${"c" if u == 0 else "c + " ~ u ~ "u * lanes" if n == N else "min(c + " ~ u ~ "u * lanes, end - 1u)"});
//% endfor
    let i = ${U}(p.start + (first + c) * VEC)${" + vec4<u32>(0u, 1u, 2u, 3u)" if VEC == 4 else ""};
    acc = follow(acc, batch(${reductions.values(N)} i, lanes * VEC, ${n}${"u" if n == N else ""}));
//% endmacro
  var acc = init();
  var c = piece * p.depth + lane;
  for (; c + ${N - 1}u * lanes < end; c += ${N}u * lanes) {
    ${take(N)}
  }
//% if N > 1
  if (c < end) {
    let n = (end - c + lanes - 1u) >> p.lane_bits;
    ${take("n")}
  }
//% endif

//% if VEC == 4
  var state = combine_z(combine_z(component_0(acc), component_1(acc)), combine_z(component_2(acc), component_3(acc)));
//% else
  var state = acc;
//% endif
  shared_states[li] = state;
  workgroupBarrier();
  for (var apart = lanes >> 1u; apart > 0u; apart >>= 1u) {
    if (lane < apart) {
      state = combine_z(state, shared_states[li + apart]);
      shared_states[li] = state;
    }
    workgroupBarrier();
  }
  if ((lane > 0u) | (own_row >= p.rows)) { return; }
  let at = dst_row(row);
//% if not PACKED
  if (p.is_partial == 1u) {
//% for name, _ in ROW.fields(T)
    dst_mem[dst_at(at, ${loop.index0}u * p.pieces + piece)] = bitcast<u32>(state.${name});
//% endfor
    return;
  }
//% endif
  ${reductions.store("dst_at(at, 0u)", "finish(state)", PACKED)}
}
