// Slices of the keys as one: each is a normalised result and its lse, natural logarithms.
//% macro rules()
const LOWEST = -0x1.fffffep+127f;

fn weight(d: f32) -> f32 { return select(exp(d), 0.0f, d < -87.0f); }
fn is_lost(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) >= 0x7f800000u; }
//% endmacro

// From `top`, the highest lse of a row, `sum` of the weights against it and `lost`: with the sink of
// `head`, what results are multiplied with besides their weights (`factor`), and the row's lse,
// `higher` + log(`total`) unless it is `empty`.
//% macro finish()
  let empty = (sum == 0.0f) & !lost;
  var total = sum;
  var higher = top;
  if (p.has_sinks == 1u) {
    let sink = sinks_load(p.sinks_off + head * p.sink_step);
    let none = bitcast<u32>(sink) == 0xff800000u;
    lost |= is_lost(sink) & !none & !empty;
    higher = max(top, select(sink, LOWEST, is_lost(sink)));
    total = sum * weight(top - higher) + select(weight(sink - higher), 0.0f, none);
  }
  let factor = select(weight(top - higher) / total, 0.0f, empty);
//% endmacro
