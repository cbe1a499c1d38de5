// The blocks of a file, byte by byte. The macros of a type give the place of each field.

//% macro reading()
fn raw_byte(at: u32) -> u32 { return (raw_mem[at >> 2u] >> ((at & 3u) << 3u)) & 0xffu; }
fn raw_half(at: u32) -> u32 { return raw_byte(at) | (raw_byte(at + 1u) << 8u); }
fn raw_word(at: u32) -> u32 { return raw_half(at) | (raw_half(at + 2u) << 16u); }
${quant.reading()}
//% endmacro

// The numbers and the records of block `own_block` of row `own_row` of batch `own_batch`.
//% macro writing()
var<private> own_batch: u32;
var<private> own_row: u32;
var<private> own_block: u32;

fn number(i: u32) -> u32 {
  let g = own_block * ${quant.BLOCK // 32}u + (i >> 5u);
  let t = (i & 31u) >> 1u;
  let j = t / ${16 // quant.BITS}u;
  let at = p.low_off + own_batch * p.low_bs + g * p.low_gs + own_row;
  let word = low_load(at${" + (j / %du) * p.low_ps" % quant.VEC if quant.PARTS > 1 else ""})[j % ${quant.VEC}u];
  let side = (i & 1u) << 4u;
  var found = (word >> (side + (t % ${16 // quant.BITS}u) * ${quant.BITS}u)) & ${2 ** quant.BITS - 1}u;
//% if quant.HIGH
  let above = p.high_off + own_batch * p.high_bs + g * p.high_gs + own_row;
  let more = high_load(above${" + (t / %du) * p.high_ps" % (16 // quant.HIGH) if quant.HIGH > 1 else ""});
  found |= ((more >> (side + (t % ${16 // quant.HIGH}u) * ${quant.HIGH}u)) & ${2 ** quant.HIGH - 1}u) << ${quant.BITS}u;
//% endif
  return found;
}
fn record(k: u32) -> u32 {
  let at = p.scales_off + own_batch * p.scales_bs + own_block * p.scales_gs;
  let word = scales_load(at${" + k * p.scales_ws" if quant.WORDS > 1 else ""} + own_row / ${quant.SHARE}u);
//% if quant.SHARE == 1
  return word;
//% else
  return (word >> ((own_row % ${quant.SHARE}u) * ${32 // quant.SHARE}u)) & ${2 ** (32 // quant.SHARE) - 1}u;
//% endif
}
${quant.writing()}
//% endmacro
