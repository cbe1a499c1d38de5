// Code that the bodies of rope share. An invocation rotates V pairs of one token in HEADS heads, so
// the angles are loaded once. Invocations are in the order of columns, then tokens, then heads, so
// that neighbouring invocations read neighbouring elements.
//% import "kernels/lib/indices.wgsl" as indices

// The column c of pairs, the row r of tokens, the heads from `first` on, and the elements a<h> and b<h>
// of their pairs.
//% macro load()
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

  // The two vectors of the pairs, from the two halves of the row or next to each other. Columns
  // after the pairs are copied; if the last of them has no neighbour, it is loaded as both vectors.
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
//% endmacro

// The position q of the token (0 if it is not below `limit`), a flag that says if it is below
// `limit`, and the cosine and sine.
//% macro angles(limit)
  let word = positions_row(r) * p.index_words;
  let low = positions_mem[word];
  let high = positions_mem[word + p.index_words - 1u];
  let inside = ${indices.is_inside("low", "high", limit)};
  let q = select(0u, low, inside);
  let k = p.table_off + min(c, p.pairs - 1u) * p.table_ks;
  let coarse = k + (q >> 10u) * p.table_ps;
  let fine = k + p.table_ls + (q & 1023u) * p.table_ps;
  let cc = table_load(coarse);
  let sc = table_load(coarse + p.table_fs);
  let cf = table_load(fine);
  let sf = table_load(fine + p.table_fs);
  let cosine = cc * cf - sc * sf;
  let sine = sc * cf + cc * sf;
//% endmacro

// Declares near_turned and far_turned, the rotated pairs of head h.
//% macro turn(h, sine)
//% if V == 4
    // A pair of neighbours lies in one vector; a pair from the two halves lies in both vectors.
    let u = select(vec4<f32>(a${h}.xz, b${h}.xz), a${h}, apart);
    let w = select(vec4<f32>(a${h}.yw, b${h}.yw), b${h}, apart);
    let y = u * cosine - w * ${sine};
    let z = u * ${sine} + w * cosine;
    let near_turned = select(vec4<f32>(y.x, z.x, y.y, z.y), y, apart);
    let far_turned = select(vec4<f32>(y.z, z.z, y.w, z.w), z, apart);
//% else
    let near_turned = a${h} * cosine - b${h} * ${sine};
    let far_turned = a${h} * ${sine} + b${h} * cosine;
//% endif
//% endmacro

// Reports a position out of range, once.
//% macro report()
  if (!inside & (c == 0u) & (block == 0u)) {
    ${indices.report("r", "low", "high")}
  }
//% endmacro
