// /// kernel
// doc = "Sorts rows, or pieces of them, that workgroup memory holds, and gives the first `keep` of each."
// part_of = "sort"
// configs.block2048 = { SIZE = 2048, threads = 256 }
// axes.S = [1, 2, 4]
// axes.POSITIONS = [false, true]
// axes.BLOCK = "configs"
// pick.S = "x.dtype.itemsize"
// pick.POSITIONS = "positions is not None"
// pick.BLOCK = "'block2048'"
// inputs.x = { dtype = "*", bind = "'u32'" }
// inputs.positions = { dtype = "i32", when = "POSITIONS", optional = true, doc = "Where the elements of x are from; without it where they are" }
// outputs.values = { dtype = "*", bind = "'atomic<u32>' if S < 4 else 'u32'", optional = true }
// outputs.index = { dtype = "i32", optional = true }
// iterate = "rows"
// params.cols = { type = "u32", value = "it.cols" }
// params.bits = { type = "u32" }
// params.pieces = { type = "u32" }
// params.keep = { type = "u32" }
// params.has_values = { type = "u32", value = "1 if values else 0" }
// params.has_index = { type = "u32", value = "1 if index else 0" }
// params.kind = { type = "u32", value = "2 if x.dtype.kind == 'f' else 1 if x.dtype.kind == 'i' else 0" }
// params.infinity = { type = "u32", value = "0x7f800000 if S == 4 else 0x7f80 if dtype(x) == 'bf16' else 0x7c00" }
// params.descending = { type = "u32" }
// uses = ["order", "words"]
// grid = "pieces * cdiv(it.rows, CFG.SIZE >> bits)"
// ///

//% set SIZE, WG = CFG.SIZE, CFG.threads
// One workgroup sorts blocks of 2^bits elements, as many as it holds, by a bitonic network on keys
// and positions: no two are equal, so the order is that of a stable sort.
${order.functions(S)}
var<workgroup> keys: array<u32, ${SIZE}>;
var<workgroup> order: array<u32, ${SIZE}>;

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let block = g / p.pieces;
  let base = (g - block * p.pieces) << p.bits;
  let size = 1u << p.bits;
  let first_row = block * (${SIZE}u >> p.bits);
  // All loads first, at clamped positions; what is no element of the row comes last.
//% for k in range(SIZE // WG)
  let e${k} = li + ${k * WG}u;
  let at${k} = base + (e${k} & (size - 1u));
  let row${k} = first_row + (e${k} >> p.bits);
  let s${k} = x_at(x_row(min(row${k}, p.rows - 1u)), min(at${k}, p.cols - 1u));
  let b${k} = ${words.bits("x_mem", S, "s" ~ k)};
//% endfor
//% for k in range(SIZE // WG)
  keys[e${k}] = select(0xffffffffu, order_of(b${k}), at${k} < p.cols);
  order[e${k}] = e${k} & (size - 1u);
//% endfor
  workgroupBarrier();
  for (var run = 2u; run <= size; run <<= 1u) {
    for (var step = run >> 1u; step > 0u; step >>= 1u) {
//% for k in range(SIZE // WG // 2)
      {
        let t = li + ${k * WG}u;
        let i = 2u * t - (t & (step - 1u));
        let j = i + step;
        let ki = keys[i];
        let kj = keys[j];
        let oi = order[i];
        let oj = order[j];
        // Runs go up and down in turn; the last one goes up.
        let up = (i & run & (size - 1u)) == 0u;
        let above = (ki > kj) | ((ki == kj) & (oi > oj));
        if (above == up) {
          keys[i] = kj;
          keys[j] = ki;
          order[i] = oj;
          order[j] = oi;
        }
      }
//% endfor
      workgroupBarrier();
    }
  }
  let kept = min(p.keep, p.cols - base);
  let first = (g - block * p.pieces) * p.keep;
  for (var e = li; e < ${SIZE}u; e += ${WG}u) {
    let n = e & (size - 1u);
    let row = first_row + (e >> p.bits);
    if ((n < kept) & (row < p.rows)) {
      let c = base + order[e];
      if (p.has_values == 1u) {
        let s = x_at(x_row(row), c);
        let v = ${words.bits("x_mem", S, "s")};
        let d = values_at(values_row(row), first + n);
//% if S == 4
        values_mem[d] = v;
//% else
        ${words.replace("values_mem", S, "d", "v")}
//% endif
      }
      if (p.has_index == 1u) {
        let place = ${"positions_load(positions_at(positions_row(row), c))" if POSITIONS else "i32(c)"};
        index_store(index_at(index_row(row), first + n), place);
      }
    }
  }
}
