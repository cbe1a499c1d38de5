// Combines splits of the keys: each split is a normalised result and its lse, a natural logarithm.
//% macro functions()
const LOWEST = -0x1.fffffep+127f;

// e^d for d <= 0 (a difference to a maximum).
fn exp_shifted(d: f32) -> f32 { return select(exp(d), 0.0f, d < -87.0f); }
fn is_lost(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) >= 0x7f800000u; }
//% endmacro

// Finishes a row, including the sink of `head`. Reads `m`, the highest lse of the row, `l`, the sum
// of e^(lse - m), and `lost` (the row is NaN). Declares `factor`, by which e^(lse - m) times the
// result of a split is multiplied, and the parts of the row's lse: `new_max` + log(`total`), unless
// the row is `empty`.
//% macro add_sink(l="l")
  let empty = (${l} == 0.0f) & !lost;
  var total = ${l};
  var new_max = m;
  if (p.has_sinks == 1u) {
    let sink = sinks_load(p.sinks_off + head * p.sinks_hs);
    let none = bitcast<u32>(sink) == 0xff800000u;
    lost |= is_lost(sink) & !none & !empty;
    new_max = max(m, select(sink, LOWEST, is_lost(sink)));
    total = ${l} * exp_shifted(m - new_max) + select(exp_shifted(sink - new_max), 0.0f, none);
  }
  let factor = select(exp_shifted(m - new_max) / total, 0.0f, empty);
//% endmacro
