// /// kernel
// doc = """
// `rope_append` into a cache of quantised keys and values: rotates queries and keys, and writes keys
// and values as blocks, by ggml's rule, to the rows that positions name.
//
// The heads of x are queries, keys and values; queries go to dst. The cache is (..., heads of keys and
// values, rows, width) of the type `quant`, as the planes that `pack_blocks` makes. Keys are
// quantised directly from f32, without rounding to x's dtype first. If there is no table, nothing
// is rotated, and rows are only quantised. If two tokens have the same position, the row of this
// position has numbers of both. For a position outside [0, rows) nothing is written to the cache,
// queries are rotated as at position 0, and IndexRangeError is raised once, at the next
// synchronisation."""
// source = "Su et al. 2021; ggml's rope_ext and SET_ROWS"
// axes.TYPE = ["q4_0", "q8_0"]
// axes.LV = [4]
// axes.T = ["f32", "f16"]
// axes.V = [1, 4]
// pick.LV = "4"
// pick.T = "dtype(x)"
// inputs.x = { dtype = "T", vec = "V", readonly = true, over = "x.with_layout(x.shape[1:], x.strides[1:])", doc = "(..., heads, tokens, width)" }
// inputs.positions = { dtype = "*", dtypes = ["int32", "int64"], bind = "'u32'", readonly = true, over = "positions.with_layout(x.shape[1:], positions.strides[positions.ndim + 2 - x.ndim:] + (0,))", doc = "(..., tokens), whose leading axes repeat to the axes of x before the heads" }
// inputs.table = { dtype = "f32", vec = "V", readonly = true, index = false, optional = true, axes = "l p f k", doc = "(2, 1024, 2, pairs), of `pykernels.rope_table`" }
// outputs.scales = { dtype = "*", dtypes = ["uint32"], bind = "'atomic<u32>'", keeps = true, over = "scales.with_layout(x.shape[1:], scales.strides[1:-3] + (0, 0))", doc = "(batches, width / 32, 1, rows / 2)" }
// outputs.low = { dtype = "u32", vec = "LV", keeps = true, over = "low.with_layout(x.shape[1:], low.strides[1:-3] + (0, 0))", doc = "(batches, width / 32, parts, rows, 4)" }
// outputs.dst = { dtype = "T", vec = "V", over = "dst.with_layout(x.shape[1:], dst.strides[1:])", doc = "(..., heads of queries, tokens, width)" }
// options.style = { type = "Literal['normal', 'neox']", default = "normal", doc = "'normal': pair i is columns 2 i and 2 i + 1; 'neox': columns i and pairs + i." }
// options.quant = { type = "str", default = "q8_0", doc = "The name of the type of the cache." }
// options.room = { type = "int", default = 0, doc = "The number of rows of the cache; the planes may have more." }
// options.check = { type = "bool", default = true, doc = "False skips positions out of range, without an error." }
// iterate = "rows"
// params.pairs = { type = "u32" }
// params.halves = { type = "u32" }
// params.blocks = { type = "u32", value = "x.shape[-1] // 32" }
// params.heads = { type = "u32", value = "x.shape[0]" }
// params.queries = { type = "u32" }
// params.turned = { type = "u32" }
// params.limit = { type = "u32" }
// params.x_step = { type = "u32", value = "x.strides[0] // (x.dtype.itemsize * V) % (1 << 32)" }
// params.dst_step = { type = "u32", value = "dst.strides[0] // (dst.dtype.itemsize * V) % (1 << 32)" }
// params.low_step = { type = "u32", value = "low.strides[0] // 16" }
// params.low_group = { type = "u32", value = "low.strides[-3] // 16" }
// params.low_part = { type = "u32", value = "low.strides[-2] // 16" }
// params.scales_step = { type = "u32", value = "scales.strides[0] // 4" }
// params.scales_group = { type = "u32", value = "scales.strides[-3] // 4" }
// params.index_words = { type = "u32", value = "positions.dtype.itemsize // 4" }
// faults = true
// uses = ["quant/${TYPE}", "convert", "making", "planes", "words", "indices"]
// bytes = "touched(x, positions, dst) + (low.nbytes + scales.nbytes) * positions.shape[-1] // max(low.shape[3], 1) + (4 * 2 * table.shape[3] * (min(positions.shape[-1], 1024) + min(cdiv(positions.shape[-1], 1024), 1024)) if table else 0)"
// operations = "6 * x.size"
// grid = "cdiv(x.shape[-1] // 32 * it.rows * x.shape[0], 64)"
// ///

// One invocation takes a block of 32 columns of one head of one token, and reads the other columns
// of its pairs. Two rows share a word of scales, so scales are stored by atomics.
${convert.half()}
${making.functions()}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let id = group_id(wg);
  fault_started((id | li) == 0u);
  if (id >= p.groups) { return; }
  let i = id * 64u + li;
  let line = i / p.blocks;
  let block = i - line * p.blocks;
  let head = line / p.rows;
  let r = line - head * p.rows;
  if (head >= p.heads) { return; }

  let word = positions_row(r) * p.index_words;
  let lo = positions_mem[word];
  let hi = positions_mem[word + p.index_words - 1u];
  let inside = ${indices.is_inside("lo", "hi")};
  if (!inside & (head == 0u) & (block == 0u)) {
    ${indices.report("r", "lo", "hi")}
  }
  let q = select(0u, lo, inside);
  let turns = head < p.turned;
  let base = x_row(r);
  let coarse = p.table_off + (q >> 10u) * p.table_ps;
  let fine = p.table_off + p.table_ls + (q & 1023u) * p.table_ps;
  let queries = dst_row(r);

  // Column c, or vector c of four columns; the other column of a pair lies in the other half of the
  // row, or next to it.
//% for e in range(32 // V)
  {
    let c = block * ${32 // V}u + ${e}u;
    let apart = p.halves == 1u;
    let front = c < p.pairs;
    var x = x_load(x_at(base, c) + head * p.x_step);
    if (turns & (c < 2u * p.pairs)) {
      let pair = select(c >> 1u, select(c - p.pairs, c, front), apart) * p.table_ks;
      let cc = table_load(coarse + pair);
      let sc = table_load(coarse + p.table_fs + pair);
      let cf = table_load(fine + pair);
      let sf = table_load(fine + p.table_fs + pair);
      let cosine = cc * cf - sc * sf;
      let sine = sc * cf + cc * sf;
      let over = select(c ^ 1u, select(c - p.pairs, c + p.pairs, front), apart);
//% if V == 4
      let other = x_load(x_at(base, select(c, over, apart)) + head * p.x_step);
      let near = select(cosine.xy, cosine.zw, (c & 1u) == 1u).xxyy;
      let side = select(sine.xy, sine.zw, (c & 1u) == 1u).xxyy * vec4<f32>(-1.0f, 1.0f, -1.0f, 1.0f);
      x = select(
        x * near + x.yxwz * side,
        x * cosine + other * select(sine, -sine, front),
        apart);
//% else
      let other = x_load(x_at(base, over) + head * p.x_step);
      let first = select((c & 1u) == 0u, front, apart);
      x = x * cosine + other * select(sine, -sine, first);
//% endif
    }
    if (head < p.queries) { dst_store(dst_at(queries, c) + head * p.dst_step, x); }
//% for k in range(V)
    numbers[${e * V + k}] = x${"[%d]" % k if V == 4 else ""};
//% endfor
  }
//% endfor
  if ((head < p.queries) | !inside) { return; }
  let record = make_block();
//% for t in range(16)
  let c${t} = stored[${2 * t}] | (stored[${2 * t + 1}] << 16u);
//% endfor
  let kept = head - p.queries;
${planes.store_low("low_row(r) + kept * p.low_step + block * p.low_group + q", "p.low_part")}
  let half_at = 2u * (scales_row(r) + kept * p.scales_step + block * p.scales_group) + q;
  ${words.replace("scales_mem", 2, "half_at", "record")}
}
