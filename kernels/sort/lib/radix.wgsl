// Digits of four bits of the eight keys of an invocation, counted without branches.
//
// An invocation has sixteen counters of four bits in two words (digits 0 to 7 in `low`, the others
// in `high`). For sums over a workgroup these become eight words; word i has the counts of digits i
// and i + 8.
//% set PER, WG = CFG.PER, CFG.threads

//% macro memory()
// After every 32 words, one word is unused, so that lanes that read eight words in a row use
// different banks.
var<workgroup> cells: array<u32, ${PER * WG + PER * WG // 32}>;
fn cell(i: u32) -> u32 { return i + (i >> 5u); }
//% endmacro

// Loads keys k0 .. k7 of tile g, and writes the counts of all invocations: word i of lane l goes to
// cell i * WG + l. rank0 .. rank7 are the numbers of earlier keys of this invocation with the same
// digit.
//% macro count()
  let first = (p.keys_off >> 2u) + g * ${PER * WG // 4}u + li * ${PER // 4}u;
//% for v in range(PER // 4)
  let keys${v} = keys_mem[first + ${v}u];
//% endfor
  var low = 0u;
  var high = 0u;
//% for k in range(PER)
  let k${k} = keys${k // 4}[${k % 4}];
  let d${k} = (k${k} >> p.shift) & 15u;
  let up${k} = d${k} >= 8u;
  let one${k} = 1u << ((d${k} & 7u) << 2u);
  let rank${k} = (select(low, high, up${k}) >> ((d${k} & 7u) << 2u)) & 15u;
  low += select(one${k}, 0u, up${k});
  high += select(0u, one${k}, up${k});
//% endfor
//% for i in range(8)
  cells[cell(${i * WG}u + li)] = ((low >> ${4 * i}u) & 15u) | (((high >> ${4 * i}u) & 15u) << 16u);
//% endfor
//% endmacro
