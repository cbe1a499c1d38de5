// /// kernel
// doc = "Pools with the usual windows, 2 x 2 and 3 x 3, of contiguous columns; each invocation computes a block of results."
// part_of = "max_pool2d"
// configs.k2s2 = { K = 2, S = 2, PAD = 0, R = 2 }
// configs.k3s2 = { K = 3, S = 2, PAD = 1, R = 2 }
// configs.k3s1 = { K = 3, S = 1, PAD = 1, R = 2 }
// axes.OP = ["max", "index", "avg"]
// include types
// axes.WINDOW = "configs"
// axes.V = [1, 4]
// axes.D = [1, 2, 4]
// when = ["D == (1 if V == 1 else 4 // CFG.S)"]
// pick.T = "dtype(x)"
// inputs.x = { dtype = "T", vec = "V", doc = "(..., H, W)" }
// outputs.index = { dtype = "i32", vec = "D", like = "dst", optional = true, when = "OP == 'index'", doc = "(..., OH, OW)" }
// outputs.dst = { dtype = "T", vec = "D", doc = "(..., OH, OW)" }
// params.rows = { type = "u32", value = "dst.shape[-2]" }
// params.down = { type = "u32", value = "cdiv(dst.shape[-2], CFG.R)" }
// params.across = { type = "u32", value = "dst.shape[-1] // D" }
// params.items = { type = "u32", value = "it.batches * cdiv(dst.shape[-2], CFG.R) * (dst.shape[-1] // D)" }
// params.height = { type = "i32", value = "x.shape[-2]" }
// params.width = { type = "i32", value = "x.shape[-1]" }
// params."pad_h pad_w" = { type = "i32" }
// include counted
// iterate = "tiles"
// uses = ["pool"]
// grid = "cdiv(it.batches * cdiv(dst.shape[-2], CFG.R) * (dst.shape[-1] // D), 256)"
// ///

// One invocation computes R rows of D neighbouring results. With V = 4 their windows lie in one vector
// of x and one element on each side of the vector, and neighbouring invocations load neighbouring vectors.
// Otherwise an invocation computes one column. All loads come first, at clamped positions. A clamped load
// repeats an element of its own window, so a maximum does not change. Sums skip clamped loads.
// Bytes: x is read once, if the caches hold the rows that blocks share, and dst is written once.
//% set K, S, R, PAD = CFG.K, CFG.S, CFG.R, CFG.PAD
//% set ROWS, COLS = (R - 1) * S + K, (D - 1) * S + K

// f(f(a, b), c), or a + b + c, where a, b and c are the variables whose names are `name` and a
// number, from `first` on; there are K of them.
//% macro chain(f, name, first, tail)
//% set ns = namespace(text=name ~ first ~ tail)
//% for i in range(first + 1, first + K)
//% set ns.text = f ~ "(" ~ ns.text ~ ", " ~ name ~ i ~ tail ~ ")" if f else ns.text ~ " + " ~ name ~ i ~ tail
//% endfor
${ns.text}
//%- endmacro

//% macro joined(name, type)
//% if D == 1
${name}0
//%- else
vec${D}<${type}>(${name}0, ${name}1${", " ~ name ~ "2, " ~ name ~ "3" if D == 4 else ""})
//%- endif
//%- endmacro
${pool.divisor() if OP == "avg" else pool.keys(1)}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * 256u + li;
  if (i >= p.items) { return; }
  let above = i / p.across;
  let block = i - above * p.across;
  let plane = above / p.down;
  let oy = ${R}u * (above - plane * p.down);
  let image = x_batch(plane);
  let y0 = i32(${S}u * oy) - p.pad_h;
  let x0 = ${"i32(4u * block) - " ~ PAD if V == 4 else "i32(" ~ S ~ "u * block) - p.pad_w"};
//% for j in range(COLS)
  let x${j}_in = clamp(x0 + ${j}, 0, p.width - 1);
//% endfor
//% for r in range(ROWS)
  let y${r}_in = clamp(y0 + ${r}, 0, p.height - 1);
//% if V == 4
  let row${r} = x_at(image, u32(y${r}_in), block);
  let mid${r} = x_load(row${r});
//% if PAD
  let left${r} = f32(x_mem[row${r} - select(0u, 1u, x0 >= 0)].w);
//% endif
//% if COLS > PAD + 4
  let right${r} = f32(x_mem[row${r} + select(0u, 1u, x0 + ${COLS - 1} < p.width)].x);
//% endif
//% else
  let row${r} = x_at(image, u32(y${r}_in), 0u);
//% for j in range(COLS)
  let v${r}_${j} = x_load(row${r} + u32(x${j}_in) * p.x_cs);
//% endfor
//% endif
//% endfor
//% if V == 4
//% for r in range(ROWS)
//% for j in range(COLS)
//% if j < PAD
  let v${r}_${j} = select(mid${r}.x, left${r}, x0 >= 0);
//% elif j < PAD + 4
  let v${r}_${j} = mid${r}.${"xyzw"[j - PAD]};
//% else
  let v${r}_${j} = select(mid${r}.w, right${r}, x0 + ${j} < p.width);
//% endif
//% endfor
//% endfor
//% endif

//% if OP == "max"
//% for r in range(ROWS)
//% for j in range(COLS)
  let k${r}_${j} = key_of(v${r}_${j});
//% endfor
//% for c in range(D)
  let row_best${r}_${c} = ${chain("max", "k" ~ r ~ "_", S * c, "")};
//% endfor
//% endfor
//% for e in range(R)
//% for c in range(D)
  let r${e}_${c} = value_of(${chain("max", "row_best", S * e, "_" ~ c)});
//% endfor
//% endfor
//% elif OP == "index"
//% for r in range(ROWS)
  let base${r} = y${r}_in * p.width;
//% for j in range(COLS)
  let k${r}_${j} = rank_of(v${r}_${j});
//% endfor
//% endfor
//% for e in range(R)
//% for c in range(D)
  var best${e}_${c} = k${S * e}_${S * c};
  var r${e}_${c} = v${S * e}_${S * c};
  var at${e}_${c} = base${S * e} + x${S * c}_in;
//% for r in range(S * e, S * e + K)
//% for j in range(S * c, S * c + K)
//% if r > S * e or j > S * c
  {
    let taken = k${r}_${j} > best${e}_${c};
    best${e}_${c} = max(best${e}_${c}, k${r}_${j});
    r${e}_${c} = select(r${e}_${c}, v${r}_${j}, taken);
    at${e}_${c} = select(at${e}_${c}, base${r} + x${j}_in, taken);
  }
//% endif
//% endfor
//% endfor
//% endfor
//% endfor
//% else
//% for r in range(ROWS)
//% for j in range(COLS)
  let s${r}_${j} = ${"v" ~ r ~ "_" ~ j if V == 4 and PAD <= j < PAD + 4 else "select(0.0f, v" ~ r ~ "_" ~ j ~ ", x" ~ j ~ "_in == x0 + " ~ j ~ ")"};
//% endfor
//% for c in range(D)
  let row_sum${r}_${c} = select(0.0f, ${chain("", "s" ~ r ~ "_", S * c, "")}, y${r}_in == y0 + ${r});
//% endfor
//% endfor
//% for c in range(D)
  let cols${c} = min(x0 + ${S * c + K}, p.high_w) - max(x0 + ${S * c}, p.low_w);
//% endfor
//% for e in range(R)
  let rows${e} = min(y0 + ${S * e + K}, p.high_h) - max(y0 + ${S * e}, p.low_h);
//% for c in range(D)
  let r${e}_${c} = (${chain("", "row_sum", S * e, "_" ~ c)}) / divisor(rows${e}, cols${c});
//% endfor
//% endfor
//% endif

  let there = dst_batch(plane);
//% if OP == "index"
  let index_there = index_batch(plane);
//% endif
//% for e in range(R)
  if (oy + ${e}u < p.rows) {
    dst_store(dst_at(there, oy + ${e}u, block), ${joined("r" ~ e ~ "_", "f32")});
//% if OP == "index"
    index_store(index_at(index_there, oy + ${e}u, block), ${joined("at" ~ e ~ "_", "i32")});
//% endif
  }
//% endfor
}
