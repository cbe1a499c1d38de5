// /// kernel
// doc = """
// Read elements from the positions along one axis that an index gives: dst[i, j, k] = src[i, index[i, j, k], k].
//
// dst has the shape of index. src has as many axes, with sizes at least as large except along `axis`.
// The bits of elements are copied. For an index outside [0, m) nothing is written, and IndexRangeError
// is raised once, at the next synchronisation; negative indices do not count from the end."""
// source = "torch gather, numpy take_along_axis"
// axes.S = [1, 2, 4, 8]
// axes.WG = { values = [256], pick = "256" }
// inputs.src = { dtype = "*", bind = "'u32' if S <= 4 else 'vec2<u32>'", over = "src.with_layout(dst.shape, src.strides[:-1])" }
// inputs.index = { dtype = "*", dtypes = ["int32", "int64"], bind = "'u32'", readonly = true }
// outputs.dst = { dtype = "*", skips = true, bind = "'atomic<u32>' if S < 4 else 'u32' if S == 4 else 'vec2<u32>'" }
// options.axis = { type = "int", default = -1, doc = "The axis that the index refers to." }
// options.check = { type = "bool", default = true, doc = "False skips indices out of range, without an error." }
// params.index_words = { type = "u32", value = "index.dtype.itemsize // 4" }
// params."limit last" = { type = "u32" }
// params.pitch = { type = "u32", value = "src.strides[-1] // src.dtype.itemsize % (1 << 32)" }
// iterate = "nd"
// faults = true
// bytes = "2 * dst.nbytes + touched(index)"
// moves_bytes = true
// uses = ["words", "indices"]
// grid = "cdiv(it.total, 4 * WG)"
// ///

// An invocation takes four elements that lie a workgroup apart. The plan makes the picked axis the
// last axis of src; the axes before it repeat to the shape of dst.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  fault_started((g | li) == 0u);
  let first = g * (4u * WG) + li;
  let last = p.total - 1u;
  // All loads come first, at clamped positions, because loads in branches would wait for each
  // other.
//% for k in range(4)
  let e${k} = min(first + ${k}u * WG, last);
  let i${k} = index_index(e${k}) * p.index_words;
  let lo${k} = index_mem[i${k}];
  let hi${k} = index_mem[i${k} + p.index_words - 1u];
//% endfor
//% for k in range(4)
  let s${k} = src_index(e${k}) + min(lo${k}, p.last) * p.pitch;
  let x${k} = ${words.bits("src_mem", S, "s" ~ k) if S < 4 else "src_mem[s" ~ k ~ "]"};
//% endfor
//% for k in range(4)
  if (first + ${k}u * WG <= last) {
    if (${indices.is_inside("lo" ~ k, "hi" ~ k)}) {
      let d = dst_index(e${k});
//% if S >= 4
      dst_mem[d] = x${k};
//% else
      ${words.store_shared("dst_mem", S, "d", "x" ~ k)}
//% endif
    } else {
      ${indices.report("e" ~ k, "lo" ~ k, "hi" ~ k)}
    }
  }
//% endfor
}
