// /// kernel
// doc = """
// Prepares new tokens for attention in one pass: rotates their queries and keys by rotary
// positions, and writes keys and values to a cache at these positions.
//
// The heads of x are queries, keys and values, in this order. The heads of the cache are keys and
// values, so their number is even. Pairs are rotated as in `rope`. The token at position q goes to
// row q of the cache; other rows do not change. If two tokens have the same position, each element of
// its row is from one of the two tokens. For a position outside of the cache's rows (or from 1048576
// on) no row is written, queries are rotated as at position 0, and IndexRangeError is raised once, at
// the next synchronisation. float16 is computed in f32."""
// source = "Su et al. 2021; ggml's rope_ext and SET_ROWS"
// configs.heads4 = { HEADS = 4, threads = 256 }
// axes.T = { values = ["f32", "f16"], pick = "dtype(x)" }
// axes.V = [1, 4]
// axes.SHARE = { values = "configs", pick = "'heads4'" }
// inputs.x = { dtype = "T", vec = "V", over = "x.with_layout(x.shape[1:], x.strides[1:])", doc = "(..., heads, tokens, width)" }
// inputs.positions = { dtype = "*", dtypes = ["int32", "int64"], bind = "'u32'", readonly = true, over = "positions.with_layout(x.shape[1:], positions.strides + (0,))", doc = "(..., tokens), whose leading axes repeat to the axes of x before the heads" }
// inputs.table = { dtype = "f32", vec = "V", index = false, axes = "l p f k", doc = "(2, 1024, 2, pairs), of `pykernels.rope_table`" }
// outputs.cache = { dtype = "T", vec = "V", in_place = true, keeps = true, over = "cache.with_layout(x.shape[1:], cache.strides[1:-2] + (0, cache.strides[-1]))", doc = "(..., heads of keys and values, room, width)" }
// outputs.dst = { dtype = "T", vec = "V", over = "dst.with_layout(x.shape[1:], dst.strides[1:])", doc = "(..., heads of queries, tokens, width)" }
// options.style = { type = "Literal['normal', 'neox']", default = "normal", doc = "'normal': pair i is columns 2 i and 2 i + 1; 'neox': columns i and pairs + i." }
// iterate = "rows"
// params."pairs halves columns" = { type = "u32" }
// params.width = { type = "u32", value = "x.shape[-1] // V" }
// params.heads = { type = "u32", value = "x.shape[0]" }
// params."queries turned limit" = { type = "u32" }
// params.x_step = { type = "u32", value = "x.strides[0] // (x.dtype.itemsize * V) % (1 << 32)" }
// params.dst_step = { type = "u32", value = "dst.strides[0] // (dst.dtype.itemsize * V) % (1 << 32)" }
// params.cache_step = { type = "u32", value = "cache.strides[0] // (cache.dtype.itemsize * V) % (1 << 32)" }
// params.pitch = { type = "u32", value = "cache.strides[-2] // (cache.dtype.itemsize * V) % (1 << 32)" }
// params.index_words = { type = "u32", value = "positions.dtype.itemsize // 4" }
// faults = true
// uses = ["rope"]
// bytes = "touched(x, positions) + x.nbytes + 4 * 2 * table.shape[3] * (min(positions.shape[-1], 1024) + min(cdiv(positions.shape[-1], 1024), 1024))"
// operations = "3 * x.size"
// grid = "cdiv(columns * it.rows * cdiv(x.shape[0], CFG.HEADS), CFG.threads)"
// ///

// lib/rope.wgsl says how the work is split.
@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  ${rope.load()}
  ${rope.angles("p.limit")}
  let to = dst_row(r);
  let kept = cache_row(r) + q * p.pitch;
//% for h in range(CFG.HEADS)
  {
    ${rope.turn(h, "sine")}
    let head = first + ${h}u;
    let near_found = select(a${h}, near_turned, turned & (head < p.turned));
    let far_found = select(b${h}, far_turned, turned & (head < p.turned));
    if (head < p.queries) {
      dst_store(dst_at(to, near) + head * p.dst_step, near_found);
      dst_store(dst_at(to, far) + head * p.dst_step, far_found);
    } else if ((head < p.heads) & inside) {
      let at_head = kept + (head - p.queries) * p.cache_step;
      cache_store(cache_at(at_head, near), near_found);
      cache_store(cache_at(at_head, far), far_found);
    }
  }
//% endfor
  ${rope.report()}
}
