// Stores the planes of a group, whose couples are c0 to c15. docs/design/quant.md has the order.

//% macro store_low(place="p.low_off + b * p.low_bs + g * p.low_gs + n", step="p.low_ps")
  let to = ${place};
//% for part in range(quant.PARTS)
  low_store(to${" + " ~ step if part else ""}, vec${quant.VEC}<u32>(
//% for word in range(quant.VEC)
    ${joined(part * quant.VEC + word, quant.BITS, 0)|trim},
//% endfor
  ));
//% endfor
//% endmacro

//% macro store_high()
  let above = p.high_off + b * p.high_bs + g * p.high_gs + n;
//% for word in range(quant.HIGH)
  high_store(above${" + p.high_ps" if word else ""}, ${joined(word, quant.HIGH, quant.BITS)|trim});
//% endfor
//% endmacro

// Word j of a plane that holds some bits of each number, from bit `first` on.
//% macro joined(j, bits, first)
//% set each = 16 // bits
//% for s in range(each)
${" | " if s else ""}(((c${j * each + s}${" >> %du" % first if first else ""}) & ${"0x%04x%04xu" % (2 ** bits - 1, 2 ** bits - 1)}) << ${s * bits}u)
//%- endfor
//% endmacro
