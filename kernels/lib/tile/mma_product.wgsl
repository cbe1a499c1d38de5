// The part of products on matrix units between loads and stores: one workgroup computes BM x BN
// sums, each of its subgroups WM x WN. `L` and `R` describe the tiles (mma_loader) of the left
// operand, which has the rows, and of the right operand, which has the columns.
//
// Results leave through workgroup memory in strips, 16 rows of each subgroup at a time, because
// WGSL has no access to the elements of a fragment and no arithmetic on them. With CFG.SLICED, the
// sums of a slice of K leave in the same way, and lanes add them up in plain f32, because the sums
// of a matrix unit lose more digits the longer they are.
//
// The number of 16-byte units from one row of a strip to the next, which is odd, so that rows fall
// on different banks; and the number of vectors of four columns in a row.
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

// Processes all tiles from `k_first` to `k_end`. `loads(k)` loads the tiles at k; `product()`
// multiplies them, if it is given instead of `multiply`.
//% macro accumulate(L, R, loads, product=none)
  var k0 = k_first;
  ${loads("k0")}
  ${multiply_to(L, R, loads, "k_end", product)}
//% endmacro
//% macro multiply_to(L, R, loads, end, product=none)
  for (; k0 < ${end}; k0 += ${CFG.BK}u) {
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

// Stores rows from 16 i on to the strip.
//% macro store_strip(i)
  workgroupBarrier();  // the operands, or the previous rows, have been read
//% for j in range(CFG.WN // mma.N)
  ${mma.store("c%d_%d" % (i, j), "strip + %du" % (4 * j), "%du" % STRIP)}
//% endfor
  workgroupBarrier();
//% endmacro

// Slices of K: after every `p.slice` steps of k (a multiple of BK), each invocation adds its part
// of the matrix unit's sums to its own sums in plain f32: EACH vectors of a strip, APART units from
// each other. The invocation's own sums do not fit into registers. The code uses loops, because
// code that rarely runs costs only the fetch of its instructions.
//% set EACH, APART = CFG.WN // 8, 32 // QUADS * STRIP
//% macro _own()
  let own = strip + lane / ${QUADS}u * ${STRIP}u + lane % ${QUADS}u;
//%- endmacro
//% macro slices()
  ${_own()}
  var own_sums = array<vec4<f32>, ${CFG.WM // mma.M * EACH}>();
//% endmacro

//% macro add_slice()
//% for i in range(CFG.WM // mma.M)
    ${store_strip(i)}
    for (var n = 0u; n < ${EACH}u; n += 1u) {
      own_sums[${i * EACH}u + n] += ${mma.result_unit("own + n * %du" % APART)};
    }
//% endfor
//% endmacro

// Like `accumulate`, but in slices; `add()` adds the sums of a slice to the sums of earlier slices.
//% macro accumulate_slices(L, R, loads, add, product=none)
  var k0 = k_first;
  ${loads("k0")}
  loop {
    let slice_end = min(k0 + p.slice, k_end);
    ${multiply_to(L, R, loads, "slice_end", product)}
    if (k0 >= k_end) { break; }
    ${add()}
//% for i in range(CFG.WM // mma.M)
//% for j in range(CFG.WN // mma.N)
      ${mma.clear("c%d_%d" % (i, j))}
//% endfor
//% endfor
  }
//% endmacro

// Slices of K with the invocation's own sums in registers, for tiles that are small enough;
// t<i>_<n> is vector n of strip i.
//% macro register_slices()
  ${_own()}
//% for i in range(CFG.WM // mma.M)
//% for n in range(EACH)
  var t${i}_${n} = vec4<f32>();
//% endfor
//% endfor
//% endmacro

//% macro add_to_registers()
//% for i in range(CFG.WM // mma.M)
  ${store_strip(i)}
//% for n in range(EACH)
  t${i}_${n} += ${mma.result_unit("own + %du" % (n * APART))};
//% endfor
//% endfor
//% endmacro

// Adds these sums to the sums of the last slice in strip i. After that every lane may read every element.
//% macro add_slices(i)
//% for n in range(EACH)
  ${mma.store_result_unit("own + %du" % (n * APART), mma.result_unit("own + %du" % (n * APART)) ~ " + t%d_%d" % (i, n))}
//% endfor
  workgroupBarrier();
//% endmacro
