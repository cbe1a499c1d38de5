// Adds one number from each invocation of a workgroup, through workgroup memory. Both bodies of
// norm use it.

//% macro memory(WG)
var<workgroup> shared_sums: array<f32, ${WG}>;
//% endmacro

// In invocation 0, `value` becomes the sum over the workgroup.
//% macro added(value, WG)
  shared_sums[li] = ${value};
  for (var apart = ${WG} / 2u; apart > 0u; apart /= 2u) {
    workgroupBarrier();
    if (li < apart) { shared_sums[li] += shared_sums[li + apart]; }
  }
  ${value} = shared_sums[li];
//% endmacro
