// /// kernel
// doc = """
// The numbers of quantised weights: dst[..., n, k] = scale q (+ offset), as ggml computes them in f32.
//
// The planes are the planes that `pack_blocks` makes. For every type, a number is an exact product,
// or the sum of two exact products, rounded once to f32; float16 is then rounded to nearest
// even."""
// source = "ggml's dequantize_row"
// include quantised
// configs.rows32 = { ROWS = 32, GROUPS = 8, threads = 256 }
// axes.D = [2, 4]
// axes.V = [4]
// axes.SHARE = "configs"
// pick.D = "dst.dtype.itemsize"
// pick.V = "4"
// pick.SHARE = "'rows32'"
// include planes
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], vec = "V", bind = "'vec4<u32>' if D * V == 16 else 'vec2<u32>' if D * V == 8 else 'atomic<u32>' if D < 4 else 'u32'", axes = "b n k", doc = "(..., rows, K)" }
// options.quant = { type = "str", default = "q4_0", doc = "The name of the type." }
// params.rows_n = { type = "u32" }
// params.first_row = { type = "u32" }
// params.groups_k = { type = "u32" }
// params.across = { type = "u32" }
// params.down = { type = "u32" }
// operations = "2 * dst.size"
// uses = ["quant/${TYPE}", "quantised", "convert", "words", "numbers"]
// grid = "across * down * dst.shape[0]"
// ///

// One invocation takes a group of a row.
${numbers.functions(D)}

fn place(row: u32, k: u32) -> u32 { return row + k * p.dst_ks; }

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let id = group_id(wg);
  let line = id / p.across;
  let b = line / p.down;
  let g = (id - line * p.across) * ${CFG.GROUPS}u + li % ${CFG.GROUPS}u;
  let r = (line - b * p.down) * ${CFG.ROWS}u + li / ${CFG.GROUPS}u;
  if ((id >= p.groups) | (g >= p.groups_k) | (r >= p.rows_n)) { return; }
  let row = p.dst_off + b * p.dst_bs + r * p.dst_ns;
${numbers.store_group("b", "g", "p.first_row + r", "place(row", D, V)}
}
