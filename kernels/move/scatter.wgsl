// /// kernel
// doc = """
// Write elements to the positions along one axis that an index gives: dst[i, index[i, j, k], k] = src[i, j, k].
//
// src has the shape of index. dst has as many axes, with sizes at least as large except along `axis`.
// The bits of elements are copied; elements of dst that no index names do not change. For an index
// outside [0, m) nothing is written, and IndexRangeError is raised once, at the next synchronisation. If
// several elements go to one place, the element that is furthest along the axis is stored (numpy).
// Finding this element takes passes over the index, which are left out with `distinct`."""
// source = "torch scatter, numpy put_along_axis"
// axes.S = [1, 2, 4, 8]
// axes.WG = { values = [256], pick = "256" }
// inputs.src = { dtype = "*", bind = "'u32' if S <= 4 else 'vec2<u32>'" }
// inputs.index = { dtype = "*", dtypes = ["int32", "int64"], bind = "'u32'", readonly = true }
// outputs.dst = { dtype = "*", keeps = true, bind = "'atomic<u32>' if S < 4 else 'u32' if S == 4 else 'vec2<u32>'", over = "dst.with_layout(src.shape, dst.strides[:-1])" }
// options.axis = { type = "int", default = -1, doc = "The axis that the index refers to." }
// options.check = { type = "bool", default = true, doc = "False skips indices out of range, without an error." }
// options.distinct = { type = "bool", default = false, doc = "True promises that no two elements go to one place; this is not checked. If two elements do, one of them is stored there." }
// params.index_words = { type = "u32", value = "index.dtype.itemsize // 4" }
// params.limit = { type = "u32" }
// params.pitch = { type = "u32", value = "dst.strides[-1] // dst.dtype.itemsize % (1 << 32)" }
// iterate = "nd"
// faults = true
// bytes = "touched(src, index) + src.nbytes"
// moves_bytes = true
// uses = ["words", "indices"]
// grid = "cdiv(it.total, 4 * WG)"
// ///

// An invocation takes four elements that lie a workgroup apart. The plan makes the picked axis the
// last axis of dst; the axes before it have the shape of src.
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
  let s${k} = src_index(e${k});
  let x${k} = ${words.bits("src_mem", S, "s" ~ k) if S < 4 else "src_mem[s" ~ k ~ "]"};
//% endfor
//% for k in range(4)
  if (first + ${k}u * WG <= last) {
    if (${indices.is_inside("lo" ~ k, "hi" ~ k)}) {
      let d = dst_index(e${k}) + lo${k} * p.pitch;
//% if S >= 4
      dst_mem[d] = x${k};
//% else
      ${words.replace("dst_mem", S, "d", "x" ~ k)}
//% endif
    } else {
      ${indices.report("e" ~ k, "lo" ~ k, "hi" ~ k)}
    }
  }
//% endfor
}
