// /// kernel
// doc = """
// The positions of values in sorted rows: for each value, the number of elements below it (with
// right, below or equal).
//
// Rows must ascend in the order of `sort`: NaN is above everything, -0 equals 0."""
// source = "numpy.searchsorted (meaning)"
// configs.one = { threads = 256 }
// axes.S = { values = [1, 2, 4], pick = "sorted.dtype.itemsize" }
// axes.SHARE = { values = "configs", pick = "'one'" }
// inputs.sorted = { dtype = "*", dtypes = ["float32", "float16", "bfloat16", "int32", "uint32", "int16", "uint16", "int8", "uint8", "bool"], bind = "'u32'", doc = "(n,), or (..., n) with the leading axes of values" }
// inputs.values = { dtype = "*", dtypes = ["float32", "float16", "bfloat16", "int32", "uint32", "int16", "uint16", "int8", "uint8", "bool"], bind = "'u32'", doc = "(..., m)" }
// outputs.dst = { dtype = "i32", like = "values" }
// options.side = { type = "Literal['left', 'right']", default = "left", doc = "The position before or after elements that equal a value." }
// iterate = "rows"
// params.length = { type = "u32" }
// params.width = { type = "u32", value = "dst.shape[-1]" }
// params.right = { type = "u32" }
// params.kind = { type = "u32", value = "2 if sorted.dtype.kind == 'f' else 1 if sorted.dtype.kind == 'i' else 0" }
// params.infinity = { type = "u32", value = "0x7f800000 if S == 4 else 0x7f80 if dtype(sorted) == 'bf16' else 0x7c00" }
// uses = ["order", "words"]
// moves_bytes = true
// grid = "cdiv(dst.size, CFG.threads)"
// ///

// One invocation searches one value by bisection.
${order.functions(S, "0u")}

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * ${CFG.threads}u + li;
  let row = i / p.width;
  if (row >= p.rows) { return; }
  let v = values_at(values_row(row), i - row * p.width);
  let key = order_of(${words.bits("values_mem", S, "v")});
  let base = sorted_row(row);
  var low = 0u;
  var high = p.length;
  while (low < high) {
    let middle = (low + high) >> 1u;
    let s = sorted_at(base, middle);
    let found = order_of(${words.bits("sorted_mem", S, "s")});
    let below = (found < key) | ((p.right == 1u) & (found == key));
    low = select(low, middle + 1u, below);
    high = select(middle, high, below);
  }
  dst_store(dst_at(dst_row(row), i - row * p.width), i32(low));
}
