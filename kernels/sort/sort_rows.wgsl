// /// kernel
// doc = "Sorts rows, or pieces of rows, that fit into workgroup memory, and stores the first `keep` elements of each."
// part_of = "sort"
// configs.block2048 = { SIZE = 2048, threads = 256 }
// axes.S = { values = [1, 2, 4], pick = "x.dtype.itemsize" }
// axes.POSITIONS = { values = [false, true], pick = "positions is not None" }
// axes.BLOCK = { values = "configs", pick = "'block2048'" }
// inputs.x = { dtype = "*", bind = "'u32'" }
// inputs.positions = { dtype = "i32", when = "POSITIONS", optional = true, doc = "The position of each element of x in the unsorted row; without this input, elements are numbered by their positions in x" }
// outputs.values = { dtype = "*", bind = "'atomic<u32>' if S < 4 else 'u32'", optional = true }
// outputs.index = { dtype = "i32", optional = true }
// iterate = "rows"
// params.cols = { type = "u32", value = "it.cols" }
// params."bits keep_bits pieces keep" = { type = "u32" }
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
//% set SIZE_BITS = SIZE.bit_length() - 1
// One workgroup sorts as many blocks of 2^bits elements as fit, by a bitonic network on pairs of
// key and position. No two pairs are equal, so the result equals that of a stable sort. If only the
// first 2^keep_bits elements are needed, runs of that length are sorted, and then each pair of runs
// is reduced to one run.
${order.functions(S)}
var<workgroup> keys: array<u32, ${SIZE}>;
var<workgroup> order: array<u32, ${SIZE}>;

// The location of element i. If each lane takes eight elements at a distance of any power of two,
// no two lanes use the same bank.
fn cell(i: u32) -> u32 { return i ^ ((i >> 3u) & 31u); }

// Three steps of the network at a time: an invocation takes the eight elements that differ in three
// bits of their index, and compares those that differ in one bit, for the bits from `low` to below
// `high`. If a bit of `down` is set, larger elements come first.
fn exchange_eight(t: u32, low: u32, high: u32, down: u32, left: u32) {
  let bit = min(low, ${SIZE_BITS - 3}u);
  let base = ((t >> bit) << (bit + 3u)) | (t & ((1u << bit) - 1u));
  if (base >= left) { return; }
//% for e in range(8)
  let i${e} = base + (${e}u << bit);
  var k${e} = keys[cell(i${e})];
  var o${e} = order[cell(i${e})];
//% endfor
//% for k in (2, 1, 0)
  if ((bit + ${k}u >= low) & (bit + ${k}u < high)) {
//% for e in range(8) if not (e // 2 ** k) % 2
//% set f = e + 2 ** k
    let swap${e} = ((k${e} > k${f}) | ((k${e} == k${f}) & (o${e} > o${f}))) == ((i${e} & down) == 0u);
    let key${e} = select(k${e}, k${f}, swap${e});
    k${f} = select(k${f}, k${e}, swap${e});
    k${e} = key${e};
    let place${e} = select(o${e}, o${f}, swap${e});
    o${f} = select(o${f}, o${e}, swap${e});
    o${e} = place${e};
//% endfor
  }
//% endfor
//% for e in range(8)
  keys[cell(i${e})] = k${e};
  order[cell(i${e})] = o${e};
//% endfor
}

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let block = g / p.pieces;
  let base = (g - block * p.pieces) << p.bits;
  let size = 1u << p.bits;
  let first_row = block * (${SIZE}u >> p.bits);
  // All loads come first, at clamped positions. Elements outside the row are sorted to the end.
//% for k in range(SIZE // WG)
  let e${k} = li + ${k * WG}u;
  let at${k} = base + (e${k} & (size - 1u));
  let row${k} = first_row + (e${k} >> p.bits);
  let s${k} = x_at(x_row(min(row${k}, p.rows - 1u)), min(at${k}, p.cols - 1u));
  let b${k} = ${words.bits("x_mem", S, "s" ~ k)};
//% endfor
//% for k in range(SIZE // WG)
  keys[cell(e${k})] = select(0xffffffffu, order_of(b${k}), at${k} < p.cols);
  order[cell(e${k})] = e${k} & (size - 1u);
//% endfor
  workgroupBarrier();
  let most = 1u << p.keep_bits;
  for (var phase = 1u; phase <= p.bits; phase += 1u) {
    // Runs of 2^r elements ascend and descend in turn; a run that fills the block ascends.
    let r = min(phase, p.keep_bits);
    var left = ${SIZE}u;
    var down = (1u << r) & (size - 1u);
    if (phase > p.keep_bits) {
      // Keeps the smaller element of each pair of an ascending and a descending run; the result
      // ascends, then descends.
      let length = size >> (phase - p.keep_bits);
      left = (${SIZE}u >> p.bits) * length;
      down = most & (length - 1u);
//% for k in range(PAIRS)
      let i${k} = min(((e${k} >> p.keep_bits) << (p.keep_bits + 1u)) + (e${k} & (most - 1u)), ${SIZE - 1}u - most);
      let j${k} = i${k} + most;
      let ki${k} = keys[cell(i${k})];
      let kj${k} = keys[cell(j${k})];
      let oi${k} = order[cell(i${k})];
      let oj${k} = order[cell(j${k})];
      let above${k} = (ki${k} > kj${k}) | ((ki${k} == kj${k}) & (oi${k} > oj${k}));
//% endfor
      workgroupBarrier();
//% for k in range(PAIRS)
      if (e${k} < left) {
        keys[cell(e${k})] = select(ki${k}, kj${k}, above${k});
        order[cell(e${k})] = select(oi${k}, oj${k}, above${k});
      }
//% endfor
      workgroupBarrier();
    }
    for (var n = (r + 2u) / 3u; n > 0u; n -= 1u) {
      exchange_eight(li, 3u * n - 3u, min(3u * n, r), down, left);
      workgroupBarrier();
    }
  }
  let kept = min(p.keep, p.cols - base);
  let first = (g - block * p.pieces) * p.keep;
  for (var e = li; e < (${SIZE}u >> p.bits) << p.keep_bits; e += ${WG}u) {
    let n = e & (most - 1u);
    let row = first_row + (e >> p.keep_bits);
    if ((n < kept) & (row < p.rows)) {
      let c = base + order[cell(e)];
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
