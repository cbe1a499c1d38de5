// What products on matrix units have between their loads and their stores: one workgroup computes
// BM x BN sums, each of its subgroups WM x WN. `L` and `R` describe the tiles (mma_loader) of the left
// operand, which has the rows, and of the right one, which has the columns.
//
// Results leave through workgroup memory in strips, 16 rows of each subgroup at a time: a fragment has
// neither elements nor arithmetic.
// Units from one row of a strip to the next, an odd number for the banks; vectors of four columns.
//% set STRIP, QUADS = CFG.WN // 4 + 1, CFG.WN // 4
//% set SUBGROUPS = CFG.threads // 32

//% macro memory(L, R)
//% set units = [L.BASE + L.ROWS * (L.ACROSS + 1), R.BASE + R.ROWS * (R.ACROSS + 1)] | max
${mma.memory(units, SUBGROUPS * 16 * STRIP, CFG.threads)}
//% endmacro

// The subgroup's part of the tile, and its sums.
//% macro sums(L, R)
  let warp_row = (warp / ${CFG.BN // CFG.WN}u) * ${CFG.WM}u;
  let warp_col = (warp % ${CFG.BN // CFG.WN}u) * ${CFG.WN}u;
  let ${L.x}_at = ${mma_loader.base(L, "warp_row", CFG.WM)};
  let ${R.x}_at = ${mma_loader.base(R, "warp_col", CFG.WN)};
//% for i in range(CFG.WM // mma.M)
//% for j in range(CFG.WN // mma.N)
  ${mma.zero("c%d_%d" % (i, j))}
//% endfor
//% endfor
//% endmacro

// Multiplies the tiles in workgroup memory.
//% macro multiply(L, R)
//% for k in range(0, CFG.BK, mma.K)
    {
//% for j in range(CFG.WN // mma.N)
      ${mma_loader.right(R, j, k)}
//% endfor
//% for i in range(CFG.WM // mma.M)
      ${mma_loader.left(L, i, k)}
//% for j in range(CFG.WN // mma.N)
      ${mma.multiply_add("c%d_%d" % (i, j), L.x ~ i, R.x ~ j)}
//% endfor
//% endfor
    }
//% endfor
//% endmacro

// All tiles from `k_first` to `k_end`. `loads(k)` loads those at k; `product()` multiplies them, where
// it is another than `multiply`.
//% macro accumulate(L, R, loads, product=none)
  var k0 = k_first;
  ${loads("k0")}
  for (; k0 < k_end; k0 += ${CFG.BK}u) {
    workgroupBarrier();  // the last tiles have been read
    ${mma_loader.store_stage(L)}
    ${mma_loader.store_stage(R)}
    workgroupBarrier();
    ${loads("(k0 + %du)" % CFG.BK)}
    ${product() if product else multiply(L, R)}
  }
//% endmacro

// The first unit of the subgroup's strip.
//% macro strip()
  let strip = min(warp * ${16 * STRIP}u, ${(SUBGROUPS - 1) * 16 * STRIP}u);
//% endmacro

// Rows 16 i and on to the strip.
//% macro store_strip(i)
  workgroupBarrier();  // the operands, or the rows before, have been read
//% for j in range(CFG.WN // mma.N)
  ${mma.store("c%d_%d" % (i, j), "strip + %du" % (4 * j), "%du" % STRIP)}
//% endfor
  workgroupBarrier();
//% endmacro
