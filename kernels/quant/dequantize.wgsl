// /// kernel
// doc = """
// Numbers of quantised weights: dst[..., n, k] = scale q (+ offset), as ggml computes them in f32.
//
// The planes are those of `pack_blocks`. The numbers of all types are exact products, or one sum of two
// of them, rounded once; float16 is rounded to nearest even from there."""
// source = "ggml's dequantize_row"
// include quantised
// configs.rows32 = { ROWS = 32, GROUPS = 8, threads = 256 }
// axes.D = [2, 4]
// axes.V = [1, 4]
// axes.SHARE = "configs"
// pick.D = "dst.dtype.itemsize"
// pick.SHARE = "'rows32'"
// include planes
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], vec = "V", bind = "'vec4<u32>' if D * V == 16 else 'vec2<u32>' if D * V == 8 else 'atomic<u32>' if D < 4 else 'u32'", doc = "(..., rows, K)" }
// options.type = { type = "str", default = "q4_0", doc = "The name of the type." }
// iterate = "rows"
// params.rows_n = { type = "u32", value = "dst.shape[-2]" }
// params.groups_k = { type = "u32" }
// params.across = { type = "u32" }
// uses = ["quant/${TYPE}", "quantised", "convert", "words", "numbers"]
// grid = "across * cdiv(it.rows, CFG.ROWS)"
// ///

// One invocation takes a group of a row.
${numbers.functions(D)}

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let id = group_id(wg);
  let line = id / p.across;
  let g = (id - line * p.across) * ${CFG.GROUPS}u + li % ${CFG.GROUPS}u;
  let r = line * ${CFG.ROWS}u + li / ${CFG.GROUPS}u;
  if ((id >= p.groups) | (g >= p.groups_k) | (r >= p.rows)) { return; }
  let b = r / p.rows_n;
  let n = r - b * p.rows_n;
  let w = load_quants(b, g, n);
  let s = load_scales(b, g / ${quant.BLOCK // 32}u, n);
  let scales = scales_of(s, g % ${quant.BLOCK // 32}u);
//% if quant.OFFSET
  let offsets = offsets_of(s, g % ${quant.BLOCK // 32}u);
//% endif
  let row = dst_row(r);
${numbers.store("w", "scales", "offsets", "row", "32u * g", D, V)}
}
