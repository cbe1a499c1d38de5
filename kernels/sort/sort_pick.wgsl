// /// kernel
// doc = "The elements of each row that positions name."
// part_of = "top_k"
// configs.one = { threads = 256 }
// axes.S = { values = [1, 2, 4], pick = "x.dtype.itemsize" }
// axes.SHARE = { values = "configs", pick = "'one'" }
// inputs.x = { dtype = "*", bind = "'u32'" }
// inputs.index = { dtype = "i32" }
// outputs.dst = { dtype = "*", bind = "'atomic<u32>' if S < 4 else 'u32'" }
// iterate = "rows"
// params.width = { type = "u32", value = "dst.shape[-1]" }
// uses = ["words"]
// grid = "cdiv(dst.size, CFG.threads)"
// ///

// One invocation takes one element.
@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * ${CFG.threads}u + li;
  let row = i / p.width;
  if (row >= p.rows) { return; }
  let c = i - row * p.width;
  let s = x_at(x_row(row), u32(index_load(index_at(index_row(row), c))));
  let v = ${words.bits("x_mem", S, "s")};
  let d = dst_at(dst_row(row), c);
//% if S == 4
  dst_mem[d] = v;
//% else
  ${words.replace("dst_mem", S, "d", "v")}
//% endif
}
