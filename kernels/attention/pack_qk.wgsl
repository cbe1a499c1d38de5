// /// kernel
// doc = "Packs queries and keys for attention_tile: transposed to depth first, as f32, padded with zeros. Also converts values to f32."
// part_of = "flash_attn"
// axes.VEC = { values = [4], pick = "4" }
// axes.LENGTHS = { values = ["", "i32"], pick = "dtype(lengths)" }
// inputs.q = { dtype = "*", dtypes = ["float32", "float16"], bind = "'vec2<u32>'", readonly = true, axes = "b h t d", doc = "(B, H, S, D)" }
// inputs.k = { dtype = "*", dtypes = ["float32", "float16"], bind = "'vec2<u32>'", readonly = true, axes = "b h t d", doc = "(B, Hkv, T, D)" }
// inputs.v = { dtype = "*", dtypes = ["float32", "float16"], bind = "'vec2<u32>'", readonly = true, axes = "b h t d", doc = "(B, Hkv, T, Dv)" }
// inputs.lengths = { dtype = "LENGTHS", when = "LENGTHS != ''", optional = true, readonly = true, axes = "b" }
// outputs.packed_q = { dtype = "f32", vec = "VEC", doc = "(B * Hkv, padded depth, width): head in group and position are one axis" }
// outputs.packed_k = { dtype = "f32", vec = "VEC", doc = "(B * Hkv, padded depth, width)" }
// outputs.values = { dtype = "f32", vec = "VEC", optional = true, doc = "(B * Hkv, T, padded Dv)" }
// params.kv_heads = { type = "u32", value = "k.shape[1]" }
// params.group = { type = "u32", value = "q.shape[1] // k.shape[1]" }
// params.pitch = { type = "u32" }
// params.queries = { type = "u32", value = "q.shape[2]" }
// params.keys = { type = "u32", value = "k.shape[2]" }
// params.depth = { type = "u32", value = "q.shape[3]" }
// params.value_depth = { type = "u32", value = "v.shape[3]" }
// params.padded = { type = "u32", value = "packed_q.shape[1]" }
// params.q_width = { type = "u32", value = "packed_q.shape[2]" }
// params.k_width = { type = "u32", value = "packed_k.shape[2]" }
// params.q_groups = { type = "u32", value = "packed_q.shape[0] * cdiv(packed_q.shape[1], 64) * cdiv(packed_q.shape[2], 64)" }
// params.k_groups = { type = "u32", value = "packed_k.shape[0] * cdiv(packed_k.shape[1], 64) * cdiv(packed_k.shape[2], 64)" }
// params."q_kind k_kind v_kind" = { type = "u32" }
// uses = ["key_range"]
// grid = "packed_q.shape[0] * (cdiv(packed_q.shape[1], 64) * (cdiv(packed_q.shape[2], 64) + cdiv(packed_k.shape[2], 64)) + (cdiv(k.shape[2], 64) * cdiv(v.shape[3], 64) if values else 0))"
// ///

// One workgroup moves a tile of 64 positions x 64 depths. An invocation moves 4 x 4 of them, which
// it transposes in registers. Eight lanes read 128 bytes of a position, and four lanes store 64
// bytes of a depth. The tiles of q come first, then the tiles of k, then the tiles of v, which are
// not transposed.
//
// Kinds of tensors: 0 and 1 are f32 and f16 with any strides, which are read element by element. 2
// and 3 are f32 and f16 with four neighbouring depths in a vector.

// Sets x0 to x3, each to four neighbouring depths of tensor `x`, from the elements at0 to at3 on.
//% macro load(x)
  if (kind == 2u) {
//% for r in range(4)
    let a${r} = ${x}_mem[at${r} >> 1u];
    let b${r} = ${x}_mem[(at${r} >> 1u) + 1u];
//% endfor
//% for r in range(4)
    x${r} = bitcast<vec4<f32>>(vec4<u32>(a${r}, b${r}));
//% endfor
  } else if (kind == 3u) {
//% for r in range(4)
    let a${r} = ${x}_mem[at${r} >> 2u];
//% endfor
//% for r in range(4)
    x${r} = vec4<f32>(unpack2x16float(a${r}.x), unpack2x16float(a${r}.y));
//% endfor
  } else {
//% for r in range(4)
//% for c in range(4)
    let i${r}_${c} = at${r} + ${"min(%du, deepest) * ds" % c if c else "0u"};
    let w${r}_${c} = ${x}_mem[i${r}_${c} >> (1u + kind)][(i${r}_${c} >> kind) & 1u];
//% endfor
//% endfor
//% for r in range(4)
    x${r} = vec4<f32>(
//% for c in range(4)
      element(w${r}_${c}, i${r}_${c}, kind)${"," if c < 3 else ""}
//% endfor
    );
//% endfor
  }
//% endmacro

fn element(word: u32, i: u32, kind: u32) -> f32 {
  let pair = unpack2x16float(word);
  return select(select(pair.x, pair.y, (i & 1u) == 1u), bitcast<f32>(word), kind == 0u);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let is_q = g < p.q_groups;
  let is_k = !is_q & (g < p.q_groups + p.k_groups);
  let transposes = is_q | is_k;
//% for name in ("kind", "bs", "hs", "ts", "ds")
  let ${name} = select(select(p.v_${name}, p.k_${name}, is_k), p.q_${name}, is_q);
//% endfor
  let group = select(1u, p.group, is_q);
  let pitch = select(p.k_width, p.pitch, is_q);
//% if not LENGTHS
  let count = select(p.keys, p.queries, is_q);
//% endif
  let depth = select(p.value_depth, p.depth, transposes);
  let padded = select((p.value_depth + 3u) & ~3u, p.padded, transposes);
  let width = select(select(p.keys, p.k_width, is_k), p.q_width, is_q);

  let tile = g - select(select(p.q_groups + p.k_groups, p.q_groups, is_k), 0u, is_q);
  let across = (width + 63u) >> 6u;
  let down = (padded + 63u) >> 6u;
  let line = tile / across;
  let first_row = (tile - line * across) << 6u;
  let local = line / down;
  let first_depth = (line - local * down) << 6u;
  let batch = local / p.kv_heads;
//% if LENGTHS
  ${key_range.count()}
  if (!is_q & (first_row >= key_count)) { return; }  // nothing reads these keys
  let count = select(key_count, p.queries, is_q);
//% endif
  let first_head = (local - batch * p.kv_heads) * group;
  let start = select(select(p.v_off, p.k_off, is_k), p.q_off, is_q) + batch * bs;

  let row = first_row + ((li & 3u) + ((li >> 3u) & 12u)) * 4u;
  let column = first_depth + (((li >> 2u) & 7u) + ((li >> 7u) << 3u)) * 4u;
  let near = min(column, ((depth + 3u) & ~3u) - 4u);
  let deepest = min(depth - near, 4u) - 1u;
  let first_member = first_row / pitch;
  // The block has rows of several heads.
  let apart = (group > 1u) & (first_row - first_member * pitch + 64u > pitch);
//% for r in range(4)
  var member${r} = first_member;
  if (apart) { member${r} = (row + ${r}u) / pitch; }
  let position${r} = row + ${r}u - member${r} * pitch;
  let at${r} = start + (first_head + min(member${r}, group - 1u)) * hs + min(position${r}, count - 1u) * ts + near * ds;
//% endfor
//% for r in range(4)
  var x${r} = vec4<f32>();
//% endfor
  if (is_q) {
    ${load("q")}
  } else if (is_k) {
    ${load("k")}
  } else {
    ${load("v")}
  }
  let inside = vec4<u32>(column) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(depth);
//% for r in range(4)
  x${r} = select(vec4<f32>(), x${r}, inside & vec4<bool>((member${r} < group) & (position${r} < count)));
//% endfor
  if ((column >= padded) | (row >= width)) { return; }
  if (transposes) {
    let to = ((local * padded + column) * width + row) >> 2u;
//% for c in range(4)
    let y${c} = vec4<f32>(x0[${c}], x1[${c}], x2[${c}], x3[${c}]);
//% endfor
    if (is_q) {
//% for c in range(4)
      packed_q_store(p.packed_q_off + to + ${c}u * (width >> 2u), y${c});
//% endfor
    } else {
//% for c in range(4)
      packed_k_store(p.packed_k_off + to + ${c}u * (width >> 2u), y${c});
//% endfor
    }
  } else {
//% for r in range(4)
    if (position${r} < count) { values_store(p.values_off + (((local * p.keys + row + ${r}u) * padded + column) >> 2u), x${r}); }
//% endfor
  }
}
