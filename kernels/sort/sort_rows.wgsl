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
// params.keep_bits = { type = "u32" }
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
//% set PAIRS = SIZE // WG // 2
// One workgroup sorts blocks of 2^bits elements, as many as it holds, by a bitonic network on keys
// and positions: no two are equal, so the order is that of a stable sort. Where only the first
// 2^keep_bits are wanted, runs of that length are sorted, and halved pair by pair.
${order.functions(S)}
var<workgroup> keys: array<u32, ${SIZE}>;
var<workgroup> order: array<u32, ${SIZE}>;

fn exchange(i: u32, j: u32, up: bool) {
  let ki = keys[i];
  let kj = keys[j];
  let oi = order[i];
  let oj = order[j];
  if (((ki > kj) | ((ki == kj) & (oi > oj))) == up) {
    keys[i] = kj;
    keys[j] = ki;
    order[i] = oj;
    order[j] = oi;
  }
}

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
  // Runs go up and down in turn, the only one of a block up.
  let most = 1u << p.keep_bits;
  for (var run = 2u; run <= most; run <<= 1u) {
    for (var step = run >> 1u; step > 0u; step >>= 1u) {
//% for k in range(PAIRS)
      {
        let i = 2u * e${k} - (e${k} & (step - 1u));
        exchange(i, i + step, (i & run & (size - 1u)) == 0u);
      }
//% endfor
      workgroupBarrier();
    }
  }
  for (var length = size >> 1u; length >= most; length >>= 1u) {
    // The smaller one of each pair of an upward and a downward run: these go up, then down.
    let left = (${SIZE}u >> p.bits) * length;
//% for k in range(PAIRS)
    let i${k} = min(((e${k} >> p.keep_bits) << (p.keep_bits + 1u)) + (e${k} & (most - 1u)), ${SIZE - 1}u - most);
    let j${k} = i${k} + most;
    let ki${k} = keys[i${k}];
    let kj${k} = keys[j${k}];
    let oi${k} = order[i${k}];
    let oj${k} = order[j${k}];
    let above${k} = (ki${k} > kj${k}) | ((ki${k} == kj${k}) & (oi${k} > oj${k}));
//% endfor
    workgroupBarrier();
//% for k in range(PAIRS)
    if (e${k} < left) {
      keys[e${k}] = select(ki${k}, kj${k}, above${k});
      order[e${k}] = select(oi${k}, oj${k}, above${k});
    }
//% endfor
    workgroupBarrier();
    for (var step = most >> 1u; step > 0u; step >>= 1u) {
//% for k in range(PAIRS // 2)
      {
        let i = 2u * e${k} - (e${k} & (step - 1u));
        if (i < left) { exchange(i, i + step, (i & most & (length - 1u)) == 0u); }
      }
//% endfor
      workgroupBarrier();
    }
  }
  let kept = min(p.keep, p.cols - base);
  let first = (g - block * p.pieces) * p.keep;
  for (var e = li; e < (${SIZE}u >> p.bits) << p.keep_bits; e += ${WG}u) {
    let n = e & (most - 1u);
    let row = first_row + (e >> p.keep_bits);
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
