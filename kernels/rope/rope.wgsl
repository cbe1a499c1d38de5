// /// kernel
// doc = """
// Rotary position embedding: rotates pairs of elements of each row by angles of the row's position.
//
// Pair i = (a, b) of a row at position q becomes (a c - b s, a s + b c), where c and s are the cosine and
// sine of q w[i], times a magnitude. `backward` rotates in the opposite direction, which is the gradient.
// Cosines and sines come from `table`, (2, 1024, 2, pairs): [0, j] is for the angles 1024 j w and
// [1, j] for the angles j w; the addition theorem combines them. Columns after the pairs of a row
// are copied. A position outside [0, 1048576) counts as 0 and raises IndexRangeError once, at the
// next synchronisation. float16 is computed in f32; `dst` may be `x`."""
// source = "Su et al. 2021; ggml's rope_ext (normal and neox)"
// configs.heads4 = { HEADS = 4, threads = 256 }
// axes.T = { values = ["f32", "f16"], pick = "dtype(x)" }
// axes.V = [1, 4]
// axes.SHARE = { values = "configs", pick = "'heads4'" }
// inputs.x = { dtype = "T", vec = "V", over = "x.with_layout(x.shape[1:], x.strides[1:])", doc = "(..., heads, tokens, width)" }
// inputs.positions = { dtype = "*", dtypes = ["int32", "int64"], bind = "'u32'", readonly = true, over = "positions.with_layout(dst.shape[1:], positions.strides + (0,))", doc = "(..., tokens), whose leading axes repeat to the axes of x before the heads" }
// inputs.table = { dtype = "f32", vec = "V", index = false, axes = "l p f k", doc = "(2, 1024, 2, pairs), of `pykernels.rope_table`" }
// outputs.dst = { dtype = "T", vec = "V", alias = "x", over = "dst.with_layout(dst.shape[1:], dst.strides[1:])", doc = "Has the shape of x" }
// options.style = { type = "Literal['normal', 'neox']", default = "normal", doc = "'normal': pair i is columns 2 i and 2 i + 1; 'neox': columns i and pairs + i." }
// iterate = "rows"
// params."pairs halves columns" = { type = "u32" }
// params.width = { type = "u32", value = "dst.shape[-1] // V" }
// params.heads = { type = "u32", value = "dst.shape[0]" }
// params.x_step = { type = "u32", value = "x.strides[0] // (x.dtype.itemsize * V) % (1 << 32)" }
// params.dst_step = { type = "u32", value = "dst.strides[0] // (dst.dtype.itemsize * V) % (1 << 32)" }
// params.index_words = { type = "u32", value = "positions.dtype.itemsize // 4" }
// params.backward = { type = "u32", default = false, doc = "True rotates in the opposite direction." }
// faults = true
// uses = ["rope"]
// bytes = "touched(x, positions) + dst.nbytes + 4 * 2 * table.shape[3] * (min(positions.shape[-1], 1024) + min(cdiv(positions.shape[-1], 1024), 1024))"
// operations = "3 * x.size"
// grid = "cdiv(columns * it.rows * cdiv(dst.shape[0], CFG.HEADS), CFG.threads)"
// ///

// lib/rope.wgsl says how the work is split.
@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  ${rope.load()}
  ${rope.angles("1048576u")}
  let way = select(sine, -sine, p.backward == 1u);
  let to = dst_row(r);
//% for h in range(CFG.HEADS)
  {
    ${rope.turn(h, "way")}
    if (first + ${h}u < p.heads) {
      dst_store(dst_at(to, near) + head${h} * p.dst_step, select(a${h}, near_turned, turned));
      dst_store(dst_at(to, far) + head${h} * p.dst_step, select(b${h}, far_turned, turned));
    }
  }
//% endfor
  ${rope.report()}
}
