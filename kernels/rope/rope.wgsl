// /// kernel
// doc = """
// Rotary position embedding: pairs of elements of each row turned by angles of the row's position.
//
// Pair i of a row at position q becomes (a c - b s, a s + b c), c and s being the cosine and sine of
// q w[i] times a magnitude; `backward` turns the other way, which is the gradient. They come from
// `table`, (2, 1024, 2, pairs): [0, j] has the cosines and sines of 1024 j w, [1, j] those of j w, and
// the theorem of addition joins them. Columns behind the 2 pairs of a row are copied. A position
// outside [0, 1048576) counts as 0 and raises IndexRangeError at the next synchronisation, once.
// float16 is computed in f32; `dst` may be `x`."""
// source = "Su et al. 2021; ggml's rope_ext (normal and neox)"
// configs.heads4 = { HEADS = 4, threads = 256 }
// axes.T = ["f32", "f16"]
// axes.V = [1, 4]
// axes.SHARE = "configs"
// pick.T = "dtype(x)"
// pick.SHARE = "'heads4'"
// inputs.x = { dtype = "T", vec = "V", over = "x.with_layout(x.shape[1:], x.strides[1:])", doc = "(..., heads, tokens, width)" }
// inputs.positions = { dtype = "*", dtypes = ["int32", "int64"], bind = "'u32'", readonly = true, over = "positions.with_layout(dst.shape[1:], positions.strides + (0,))", doc = "(..., tokens), whose leading axes repeat to those before the heads" }
// inputs.table = { dtype = "f32", vec = "V", index = false, axes = "l p f k", doc = "(2, 1024, 2, pairs), of `pykernels.rope_table`" }
// outputs.dst = { dtype = "T", vec = "V", alias = "x", over = "dst.with_layout(dst.shape[1:], dst.strides[1:])", doc = "Has the shape of x" }
// options.style = { type = "Literal['normal', 'neox']", default = "normal", doc = "Pair i is columns 2 i and 2 i + 1, or ('neox') i and pairs + i." }
// iterate = "rows"
// params.pairs = { type = "u32" }
// params.halves = { type = "u32" }
// params.columns = { type = "u32" }
// params.width = { type = "u32", value = "dst.shape[-1] // V" }
// params.heads = { type = "u32", value = "dst.shape[0]" }
// params.x_step = { type = "u32", value = "x.strides[0] // (x.dtype.itemsize * V) % (1 << 32)" }
// params.dst_step = { type = "u32", value = "dst.strides[0] // (dst.dtype.itemsize * V) % (1 << 32)" }
// params.index_words = { type = "u32", value = "positions.dtype.itemsize // 4" }
// params.backward = { type = "u32", default = false, doc = "Turn the other way." }
// faults = true
// bytes = "touched(x, positions) + dst.nbytes"
// operations = "3 * x.size"
// grid = "cdiv(columns * it.rows * cdiv(dst.shape[0], CFG.HEADS), CFG.threads)"
// ///

// An invocation turns V pairs of one token in HEADS heads: the angles are loaded once for all of them.
// Columns come first, then tokens, then heads, so that neighbours read neighbours.
//% set F = "vec4<f32>" if V == 4 else "f32"
@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  fault_started((g | li) == 0u);
  if (g >= p.groups) { return; }
  let i = g * ${CFG.threads}u + li;
  let line = i / p.columns;
  let block = line / p.rows;
  let first = block * ${CFG.HEADS}u;
  if (first >= p.heads) { return; }
  let c = i - line * p.columns;
  let r = line - block * p.rows;

  // Both vectors of the pairs: of halves, or neighbours. Behind the pairs come columns to copy, of
  // which the last one may be alone, and stands for both.
  let turned = c < p.pairs;
  let apart = turned & (p.halves == 1u);
  let at = select(2u * c, c, apart);
  let partner = select(2u * c + 1u, c + p.pairs, apart);
  let near = min(at, p.width - 1u);
  let far = min(partner, p.width - 1u);
  let base = x_row(r);
//% for h in range(CFG.HEADS)
  let head${h} = min(first + ${h}u, p.heads - 1u);
  let a${h} = x_load(x_at(base, near) + head${h} * p.x_step);
  let b${h} = x_load(x_at(base, far) + head${h} * p.x_step);
//% endfor

  let word = positions_row(r) * p.index_words;
  let low = positions_mem[word];
  let high = positions_mem[word + p.index_words - 1u];
  // int32 has no second word: the first stands for it, and says the same of the sign.
  let inside = (low < 1048576u) & ((p.index_words == 1u) | (high == 0u));
  let q = select(0u, low, inside);
  let k = p.table_off + min(c, p.pairs - 1u) * p.table_ks;
  let coarse = k + (q >> 10u) * p.table_ps;
  let fine = k + p.table_ls + (q & 1023u) * p.table_ps;
  let cc = table_load(coarse);
  let sc = table_load(coarse + p.table_fs);
  let cf = table_load(fine);
  let sf = table_load(fine + p.table_fs);
  let cosine = cc * cf - sc * sf;
  let sum = sc * cf + cc * sf;
  let sine = select(sum, -sum, p.backward == 1u);

  let to = dst_row(r);
//% for h in range(CFG.HEADS)
  {
//% if V == 4
    // Pairs of neighbours lie in one vector, those of halves in both.
    let u = select(vec4<f32>(a${h}.xz, b${h}.xz), a${h}, apart);
    let w = select(vec4<f32>(a${h}.yw, b${h}.yw), b${h}, apart);
    let y = u * cosine - w * sine;
    let z = u * sine + w * cosine;
    let near_turned = select(vec4<f32>(y.x, z.x, y.y, z.y), y, apart);
    let far_turned = select(vec4<f32>(y.z, z.z, y.w, z.w), z, apart);
//% else
    let near_turned = a${h} * cosine - b${h} * sine;
    let far_turned = a${h} * sine + b${h} * cosine;
//% endif
    if (first + ${h}u < p.heads) {
      dst_store(dst_at(to, near) + head${h} * p.dst_step, select(a${h}, near_turned, turned));
      dst_store(dst_at(to, far) + head${h} * p.dst_step, select(b${h}, far_turned, turned));
    }
  }
//% endfor
  if (!inside & (c == 0u) & (block == 0u)) {
    let sign = select(0u, 0xffffffffu, low >= 0x80000000u);
    fault(r, low, select(high, sign, p.index_words == 1u));
  }
}
