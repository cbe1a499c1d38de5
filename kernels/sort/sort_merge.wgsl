// /// kernel
// doc = "Merges the sorted pieces of each row: each element goes to its place in the whole row, if the place is below `keep`."
// part_of = "sort"
// configs.one = { threads = 256 }
// axes.S = { values = [1, 2, 4], pick = "x.dtype.itemsize" }
// axes.POSITIONS = { values = [false, true], pick = "positions is not None" }
// axes.SHARE = { values = "configs", pick = "'one'" }
// inputs.x = { dtype = "*", bind = "'u32'", doc = "Sorted in pieces" }
// inputs.positions = { dtype = "i32", when = "POSITIONS", optional = true, doc = "The positions of the elements of x in the unsorted row" }
// outputs.values = { dtype = "*", bind = "'atomic<u32>' if S < 4 else 'u32'", optional = true }
// outputs.index = { dtype = "i32", when = "POSITIONS", optional = true }
// iterate = "rows"
// params.cols = { type = "u32", value = "it.cols" }
// params."keep piece_bits" = { type = "u32" }
// params.has_values = { type = "u32", value = "1 if values else 0" }
// params.kind = { type = "u32", value = "2 if x.dtype.kind == 'f' else 1 if x.dtype.kind == 'i' else 0" }
// params.infinity = { type = "u32", value = "0x7f800000 if S == 4 else 0x7f80 if dtype(x) == 'bf16' else 0x7c00" }
// params.descending = { type = "u32" }
// uses = ["order", "words"]
// grid = "cdiv(x.size, CFG.threads)"
// ///

//% set WG = CFG.threads
// One invocation takes one element. Its place is the number of elements before it. In its own piece
// this number is its position; in the other pieces bisection finds the number, for four pieces at a
// time. Equal elements of earlier pieces come first, so the result equals that of a stable sort.
${order.functions(S)}

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * ${WG}u + li;
  let row = i / p.cols;
  if (row >= p.rows) { return; }
  let c = i - row * p.cols;
  let size = 1u << p.piece_bits;
  let piece = c >> p.piece_bits;
  let base = x_row(row);
  let s = x_at(base, c);
  let v = ${words.bits("x_mem", S, "s")};
  let key = order_of(v);
  var place = c & (size - 1u);
  for (var n = 0u; (n << p.piece_bits) < p.cols; n += 4u) {
//% for k in range(4)
    let first${k} = min((n + ${k}u) << p.piece_bits, p.cols);
    let length${k} = select(min(p.cols - first${k}, size), 0u, n + ${k}u == piece);
    var found${k} = 0u;
//% endfor
    for (var step = size; step > 0u; step >>= 1u) {
//% for k in range(4)
      let to${k} = found${k} + step;
      let s${k} = x_at(base, min(first${k} + to${k}, p.cols) - 1u);
      let key${k} = order_of(${words.bits("x_mem", S, "s" ~ k)});
      let before${k} = (key${k} < key) | ((key${k} == key) & (n + ${k}u < piece));
      found${k} = select(found${k}, to${k}, before${k} & (to${k} <= length${k}));
//% endfor
    }
    place += (found0 + found1) + (found2 + found3);
  }
  if (place >= p.keep) { return; }
  if (p.has_values == 1u) {
    let d = values_at(values_row(row), place);
//% if S == 4
    values_mem[d] = v;
//% else
    ${words.replace("values_mem", S, "d", "v")}
//% endif
  }
//% if POSITIONS
  index_store(index_at(index_row(row), place), positions_load(positions_at(positions_row(row), c)));
//% endif
}
