// What the bodies of mul_mat share: tiles of operands, and the epilogue.
//
// An operand reaches workgroup memory as f32, `shared[k][i]`, where i counts vectors of four rows
// of the operand (a row is what is multiplied with all rows of the other). One invocation loads
// four neighbouring rows at V neighbouring k and stores V whole vectors: writing components of a
// vector from several invocations would be a race. Eight neighbouring lanes take eight groups of
// rows, so that their stores meet different banks; a subgroup of 32 still reads whole sectors.

//% set BK = 16

// NT, EDGE, TR, TC, LR, LC: invocations; rows and columns of the workgroup's part of dst; of one
// invocation's; and of the 32 lanes over it.
//% set TILES = {"32": (64, 32, 4, 4, 4, 8), "64": (128, 64, 8, 4, 4, 8)}

// Workgroup memory: columns of dst come from a_tile, rows from b_tile.
//% macro memory(cols, rows, depth=BK)
var<workgroup> a_tile: array<array<vec4<f32>, ${cols // 4}>, ${depth}>;
var<workgroup> b_tile: array<array<vec4<f32>, ${rows // 4}>, ${depth}>;
//% endmacro

// `at_row`, `at_col`: this invocation's first vectors of the tiles. 32 neighbouring invocations take
// LR x LC blocks of 4 x 4, the others lie LR and LC vectors further; a quad meets two rows of each.
//% macro lanes(TR, TC, LR, LC, cols)
//% set WARPS_ACROSS = cols // (LC * TC)
  let w = li >> 5u;
//% if LR == 4
  let lr = (li & 1u) | ((li >> 2u) & 2u);
  let lc = ((li >> 1u) & 3u) | ((li >> 2u) & 4u);
//% else
  let lc = (li & 1u) | ((li >> 1u) & 2u);
  let lr = ((li >> 1u) & 1u) | ((li >> 2u) & 6u);
//% endif
  let at_row = (w / ${WARPS_ACROSS}u) * ${LR * TR // 4}u + lr;
  let at_col = (w % ${WARPS_ACROSS}u) * ${LC * TC // 4}u + lc;
//% endmacro

// The sums c<row>_<vector of columns>: row i is `(at_row + i // 4 * LR) * 4 + i % 4` of the
// workgroup's part, vector j starts at column `(at_col + j * LC) * 4`.
//% macro sums(TR, TC)
//% for i in range(TR)
//% for j in range(TC // 4)
  var c${i}_${j} = vec4<f32>();
//% endfor
//% endfor
//% endmacro

// Adds the product of the two tiles to the sums.
//% macro multiply(TR, TC, LR, LC, depth=BK)
//% for k in range(depth)
    {
//% for i in range(TR // 4)
      let r${i} = b_tile[${k}][at_row + ${i * LR}u];
//% endfor
//% for j in range(TC // 4)
      let q${j} = a_tile[${k}][at_col + ${j * LC}u];
//% endfor
//% for i in range(TR)
//% for j in range(TC // 4)
      c${i}_${j} = fma(vec4<f32>(r${i // 4}[${i % 4}]), q${j}, c${i}_${j});
//% endfor
//% endfor
    }
//% endfor
//% endmacro

// Where this invocation loads from. `x`: operand; T: k runs along its rows (V is 4 then); `edge`:
// rows of a tile; `first`: the first of them; `count`: rows in all; `start`: index of the first k.
//% macro place(x, V, T, edge, NT, first, count)
//% if T
//% set across = edge // 4
  let ${x}_i = li % ${across}u;
  let ${x}_k = li / ${across}u;
  let ${x}_from = ${x}_start + min(${first} / 4u + ${x}_i, ${count} / 4u - 1u);
//% else
//% set chunks = BK // V
//% set groups = NT // chunks
//% set low = 8 if groups >= 8 else groups
  let ${x}_k = (li / ${low}u) % ${chunks}u;
  let ${x}_i = li % ${low}u + (li / ${low * chunks}u) * ${low}u;
//% for u in range(edge // 4 // groups)
//% for i in range(4)
  let ${x}_from${u}${i} = ${x}_at(${x}_start, min(${first} + (${x}_i + ${u * groups}u) * 4u + ${i}u, ${count} - 1u), 0u);
//% endfor
//% endfor
//% endif
//% endmacro

// Loads of the first tile, which holds `head` k (the others are whole): beyond them, zero.
//% macro first(x, X, V, T, edge, NT)
//% if T
//% set per = NT // (edge // 4)
//% for u in range(BK // per)
  let ${x}_k${u} = ${x}_k + ${u * per}u;
  let ${x}_h${u} = ${x}_mem[${x}_from + min(${x}_k${u}, head - 1u) * p.${x}_rs];
//% endfor
//% for u in range(BK // per)
  var ${x}_v${u} = select(vec4<${X}>(), ${x}_h${u}, ${x}_k${u} < head);
//% endfor
  var ${x}_pos = (head + ${x}_k) * p.${x}_rs;
//% else
//% set kind = X if V == 1 else "vec" ~ V ~ "<" ~ X ~ ">"
//% set step = " * p." ~ x ~ "_cs" if V == 1 else ""
  let ${x}_last = min(${x}_k, head / ${V}u - 1u)${step};
//% for u in range(edge // 4 // (NT * V // BK))
//% for i in range(4)
  let ${x}_h${u}${i} = ${x}_mem[${x}_from${u}${i} + ${x}_last];
//% endfor
//% endfor
  let ${x}_in = ${x}_k * ${V}u < head;
//% for u in range(edge // 4 // (NT * V // BK))
//% for i in range(4)
  var ${x}_v${u}${i} = select(${kind}(), ${x}_h${u}${i}, ${x}_in);
//% endfor
//% endfor
  var ${x}_pos = (head / ${V}u + ${x}_k)${step};
//% endif
//% endmacro

// Loads of the next tile.
//% macro next(x, V, T, edge, NT)
//% if T
//% set per = NT // (edge // 4)
//% for u in range(BK // per)
      ${x}_v${u} = ${x}_mem[${x}_from + ${x}_pos + ${u * per}u * p.${x}_rs];
//% endfor
      ${x}_pos += ${BK}u * p.${x}_rs;
//% else
//% for u in range(edge // 4 // (NT * V // BK))
//% for i in range(4)
      ${x}_v${u}${i} = ${x}_mem[${x}_from${u}${i} + ${x}_pos];
//% endfor
//% endfor
      ${x}_pos += ${BK // V}u${" * p." ~ x ~ "_cs" if V == 1 else ""};
//% endif
//% endmacro

// The loaded values to workgroup memory.
//% macro keep(x, V, T, edge, NT)
//% if T
//% set per = NT // (edge // 4)
//% for u in range(BK // per)
    ${x}_tile[${x}_k + ${u * per}u][${x}_i] = vec4<f32>(${x}_v${u});
//% endfor
//% else
//% set groups = NT * V // BK
//% for u in range(edge // 4 // groups)
//% for j in range(V)
//% set at = "" if V == 1 else "[" ~ j ~ "]"
    ${x}_tile[${x}_k * ${V}u + ${j}u][${x}_i + ${u * groups}u] = vec4<f32>(vec4(${x}_v${u}0${at}, ${x}_v${u}1${at}, ${x}_v${u}2${at}, ${x}_v${u}3${at}));
//% endfor
//% endfor
//% endif
//% endmacro

// The parts of act(scale * sum + bias + residual). These terms are bound as words: kind 0 is none,
// 1 f32, 2 f16.
//% macro epilogue(terms=("bias", "residual"))
fn word_value(word: u32, i: u32, kind: u32) -> f32 {
  let pair = unpack2x16float(word);
  return select(bitcast<f32>(word), select(pair.x, pair.y, (i & 1u) == 1u), kind == 2u);
}

//% for t in terms
fn ${t}_value(i: u32) -> f32 {
  return word_value(${t}_mem[select(i, i >> 1u, p.${t}_kind == 2u)], i, p.${t}_kind);
}
//% endfor

// The rows of ops.toml that have an activation's number. NaN stays NaN in all of them.
//% set gates = ACTIVATIONS | selectattr("gate") | list
//% set gate = namespace(text=gates[0].gate.text)
//% for row in gates[1:]
//% set gate.text = "select(" ~ gate.text ~ ", " ~ row.gate.text ~ ", kind == " ~ row.activation ~ "u)"
//% endfor
fn activate(x: vec4<f32>, kind: u32) -> vec4<f32> {
//% for row in ACTIVATIONS if not row.gate
  if (kind == ${row.activation}u) {
${row.statements("f32", 4)}
  }
//% endfor
  // x times the logistic function of a gate.
  let u = ${gate.text};
  ${gated("f32", 4)}
}
//% endmacro

// bias, residual and activation for four columns of one row of dst. `finishes`: is there any?
//% macro finish()
fn finishes() -> bool { return (p.bias_kind | p.residual_kind | p.act) != 0u; }

fn finish(scaled: vec4<f32>, bias_row: u32, residual_row: u32, columns: vec4<u32>) -> vec4<f32> {
  var v = scaled;
  let cols = min(columns, vec4<u32>(p.cols - 1u));
  if (p.bias_kind != 0u) {
    let i = vec4<u32>(bias_row) + cols * p.bias_cs;
    v += vec4<f32>(bias_value(i.x), bias_value(i.y), bias_value(i.z), bias_value(i.w));
  }
  if (p.residual_kind != 0u) {
    let i = vec4<u32>(residual_row) + cols * p.residual_cs;
    v += vec4<f32>(residual_value(i.x), residual_value(i.y), residual_value(i.z), residual_value(i.w));
  }
  if (p.act != 0u) { v = activate(v, p.act); }
  return v;
}
//% endmacro

// Which tile of which batch workgroup `g` computes.
//% macro where(ROWS, COLS)
  // Bands of eight tiles down, column by column: neighbours share operands in the cache.
  let batch = g / (p.across * p.down);
  let t = g - batch * p.across * p.down;
  let band = t / (8u * p.across);
  let high = min(8u, p.down - band * 8u);
  let inside = t - band * 8u * p.across;
  let column = inside / high;
  let row0 = (band * 8u + inside - column * high) * ${ROWS}u;
  let col0 = column * ${COLS}u;
//% endmacro

// The sums, scaled, with bias, residual and activation, to dst: in vectors of DV along its rows, or
// where DT along its columns.
//% macro write(TR, TC, LR, LC, DV, DT=false, times="")
  let dst_start = dst_batch(batch);
  var factor = select(p.scale, 1.0f, p.raw == 1u);  // at the stores: before them it costs 2.5 %
  if (finishes()) {
    // A loop over an array: unrolled, it would be larger than the product.
    var c = array<vec4<f32>, ${TR * TC // 4}>(
//% for i in range(TR)
//% for j in range(TC // 4)
      c${i}_${j},
//% endfor
//% endfor
    );
    let bias_start = bias_batch(batch);
    let residual_start = residual_batch(batch);
    for (var n = 0u; n < ${TR * TC // 4}u; n += 1u) {
      let i = n / ${TC // 4}u;
      let j = n % ${TC // 4}u;
      let row = min(row0 + (at_row + (i >> 2u) * ${LR}u) * 4u + (i & 3u), p.rows - 1u);
      let m = vec4<u32>(col0 + (at_col${times} + j * ${LC}u) * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
      c[n] = finish(c[n] * factor, bias_at(bias_start, row, 0u), residual_at(residual_start, row, 0u), m);
    }
//% for i in range(TR)
//% for j in range(TC // 4)
    c${i}_${j} = c[${i * (TC // 4) + j}];
//% endfor
//% endfor
    factor = 1.0f;
  }
//% if DT
//% for i in range(TR // 4)
  {
    let row = row0 + (at_row + ${i * LR}u) * 4u;
    if (row < p.rows) {
//% for j in range(TC // 4)
      let m${j} = col0 + (at_col${times} + ${j * LC}u) * 4u;
//% for e in range(4)
      if (m${j} + ${e}u < p.cols) { dst_store(dst_at(dst_start, m${j} + ${e}u, row / 4u), factor * vec4<f32>(c${4 * i}_${j}[${e}], c${4 * i + 1}_${j}[${e}], c${4 * i + 2}_${j}[${e}], c${4 * i + 3}_${j}[${e}])); }
//% endfor
//% endfor
    }
  }
//% endfor
//% else
//% for i in range(TR)
  {
    let row = row0 + (at_row + ${i // 4 * LR}u) * 4u + ${i % 4}u;
    if (row < p.rows) {
//% for j in range(TC // 4)
      let m${j} = col0 + (at_col${times} + ${j * LC}u) * 4u;
//% if DV == 4
      if (m${j} < p.cols) { dst_store(dst_at(dst_start, row, m${j} / 4u), factor * c${i}_${j}); }
//% else
//% for e in range(4)
      if (m${j} + ${e}u < p.cols) { dst_store(dst_at(dst_start, row, m${j} + ${e}u), factor * c${i}_${j}[${e}]); }
//% endfor
//% endif
//% endfor
    }
  }
//% endfor
//% endif
//% endmacro
