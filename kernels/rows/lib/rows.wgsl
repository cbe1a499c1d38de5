// Moves rows that an index picks, for set_rows and get_rows.
//
// An invocation moves COLS elements (or vectors) of each of ROWS rows, and 2^lane_bits lanes take
// neighbouring columns of a row. An invocation's rows are `group_rows` apart, as many rows as a
// workgroup takes at a time. `picked` names the side whose row the index gives, "src" or "dst"; its
// step along rows in the index space is 0. This side has `limit` rows in all; a dispatch handles
// `own_rows` rows from `first_row` on and skips the others. PAIR is for halves that are contiguous
// in dst. A column is then a word of dst, which has one or two halves of the row.
//% import "kernels/lib/words.wgsl" as words
//% import "kernels/lib/indices.wgsl" as indices
//% set ROWS, COLS, WG = CFG.ROWS, CFG.COLS, CFG.threads

//% macro main(picked, S, D, V, CAST, PAIR)
@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  fault_started((g | li) == 0u);
  let block = g / p.tiles;
  let lanes = 1u << p.lane_bits;
  let group_rows = ${WG}u >> p.lane_bits;
  let c0 = (g - block * p.tiles) * (${COLS}u * lanes) + (li & (lanes - 1u));
  let r = block * (${ROWS}u * group_rows) + (li >> p.lane_bits);
//% for u in range(1, COLS)
  let c${u} = c0 + ${u}u * lanes;
//% endfor
  // All loads come first, at clamped positions, because loads in branches would wait for each
  // other.
//% for k in range(ROWS)
  let r${k} = min(r + ${k}u * group_rows, p.rows - 1u);
  let i${k} = index_row(r${k}) * p.index_words;
  let lo${k} = index_mem[i${k}];
  let hi${k} = index_mem[i${k} + p.index_words - 1u];
//% if picked == "dst"
  let from${k} = src_row(r${k});
//% if not PAIR
${load(k, S, V, COLS)}
//% endif
//% endif
//% endfor
//% for k in range(ROWS)
//% if picked == "src"
  let from${k} = src_row(r${k}) + min(lo${k} - p.first_row, p.last_row) * p.pitch;
  let to${k} = dst_row(r${k});
//% else
  let to${k} = dst_row(r${k}) + (lo${k} - p.first_row) * p.pitch;
//% endif
//% if PAIR
${load_pairs(k, S, COLS)}
//% elif picked == "src"
${load(k, S, V, COLS)}
//% endif
//% endfor
//% for k in range(ROWS)
  let small${k} = ${indices.is_word("hi" ~ k)};
  let inside${k} = (lo${k} - p.first_row < p.own_rows) & small${k};
  let live${k} = r + ${k}u * group_rows < p.rows;
//% for u in range(COLS)
//% set n = k ~ u
//% if PAIR
  ${converted("x" ~ n, "low" ~ n, S, D, V, CAST)}
  ${converted("y" ~ n, "high" ~ n, S, D, V, CAST)}
  let mask${n} = select(0u, 0xffffu, a${n} < p.width) | select(0u, 0xffff0000u, a${n} + 1u < p.width);
//% else
  ${converted("x" ~ n, "v" ~ n, S, D, V, CAST)}
//% endif
//% endfor
//% endfor
//% for k in range(ROWS)
//% for u in range(COLS)
//% set n = k ~ u
//% if PAIR
  if (inside${k} & live${k} & (mask${n} != 0u)) {
    let word = (to${k} >> 1u) + c${u};
    let both = low${n} | (high${n} << 16u);
    if (mask${n} == 0xffffffffu) {
      atomicStore(&dst_mem[word], both);
    } else {
      ${words.store_masked("dst_mem", "word", "mask" ~ n, "(both & mask" ~ n ~ ")")}
    }
  }
//% else
  if (inside${k} & live${k} & (c${u} < p.width)) {
    let at = dst_at(to${k}, c${u});
//% if D >= 4 or V == 4
    dst_mem[at] = v${n};
//% else
    ${words.replace("dst_mem", D, "at", "v" ~ n)}
//% endif
  }
//% endif
//% endfor
//% endfor
//% for k in range(ROWS)
  if (live${k} & !((lo${k} < p.limit) & small${k}) & (c0 == 0u)) {
    ${indices.report("r" ~ k, "lo" ~ k, "hi" ~ k)}
  }
//% endfor
}
//% endmacro

//% macro load(k, S, V, COLS)
//% for u in range(COLS)
  let s${k}${u} = src_at(from${k}, min(c${u}, p.width - 1u));
  let x${k}${u} = ${words.bits("src_mem", S, "s" ~ k ~ u) if S < 4 and V == 1 else "src_mem[s" ~ k ~ u ~ "]"};
//% endfor
//% endmacro

// Loads both halves of a word; `a` is the column of the first half. If a row begins in the middle of a
// word, the first half of this word lies before the row, and `a` is a large number.
//% macro load_pairs(k, S, COLS)
//% for u in range(COLS)
//% set n = k ~ u
  let a${n} = 2u * c${u} - (to${k} & 1u);
  let s${n} = src_at(from${k}, min(a${n}, p.width - 1u));
  let t${n} = src_at(from${k}, min(a${n} + 1u, p.width - 1u));
  let x${n} = ${words.bits("src_mem", S, "s" ~ n)};
  let y${n} = ${words.bits("src_mem", S, "t" ~ n)};
//% endfor
//% endmacro

// The bits of x that are stored: its own bits, or four converted elements.
//% macro converted(x, v, S, D, V, CAST)
//% if not CAST
  let ${v} = ${x};
//% elif V == 1
  let ${v} = convert(${x}, p.src_kind, p.dst_kind);
//% else
//% if S == 4
  let ${x}_bits = ${x};
//% else
  let ${x}_bits = vec4<u32>(${x}.x & 0xffffu, ${x}.x >> 16u, ${x}.y & 0xffffu, ${x}.y >> 16u);
//% endif
  let ${v}_bits = convert_four(${x}_bits);
//% if D == 4
  let ${v} = ${v}_bits;
//% else
  let ${v} = vec2<u32>(${v}_bits.x | (${v}_bits.y << 16u), ${v}_bits.z | (${v}_bits.w << 16u));
//% endif
//% endif
//% endmacro

// Four conversions; they are made at once if all four results are normal halves or zero, which is
// the most frequent case.
//% macro functions(S, D, V)
//% if V == 4
fn convert_four(bits: vec4<u32>) -> vec4<u32> {
//% if (S, D) == (4, 2)
  let a = bits & vec4<u32>(0x7fffffffu);
  let normal = a - 0x38800000u < vec4<u32>(0x477ff000u - 0x38800000u);
  if ((p.dst_kind == 1u) & all(normal | (a == vec4<u32>()))) {
    let half = (a - 0x38000000u + 0xfffu + ((a >> vec4<u32>(13u)) & vec4<u32>(1u))) >> vec4<u32>(13u);
    return ((bits >> vec4<u32>(16u)) & vec4<u32>(0x8000u)) | select(vec4<u32>(), half, normal);
  }
//% elif (S, D) == (2, 4)
  let a = bits & vec4<u32>(0x7fffu);
  let normal = a - 0x400u < vec4<u32>(0x7c00u - 0x400u);
  if ((p.src_kind == 1u) & all(normal | (a == vec4<u32>()))) {
    let single = (a << vec4<u32>(13u)) + 0x38000000u;
    return ((bits & vec4<u32>(0x8000u)) << vec4<u32>(16u)) | select(vec4<u32>(), single, normal);
  }
//% endif
  return vec4<u32>(
//% for e in range(4)
    convert(bits[${e}], p.src_kind, p.dst_kind),
//% endfor
  );
}
//% endif
//% endmacro
