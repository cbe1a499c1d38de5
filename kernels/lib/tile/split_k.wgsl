// Split-K: the sums over k are cut into splits. Each split is one more tile, and another kernel adds up
// the partial sums.

// The range of k of split `index`: `k_count` k from `k_first` on.
//% macro k_range(index)
  let k_first = ${index} * p.split_depth;
  let k_count = min(p.split_depth, p.depth - k_first);
//% endmacro

// The number of k in the first tile, from 1 to 16, so that all other tiles have 16.
//% macro prologue()
  let k_prologue = ((k_count - 1u) & 15u) + 1u;
//% endmacro

// Adds the values in `partial[li]` of `lanes` invocations, which are `apart` from each other.
//% macro tree(apart)
    for (var n = lanes >> 1u; n > 0u; n >>= 1u) {
      if (lane < n) { partial[li] += partial[li + n * ${apart}]; }
      workgroupBarrier();
    }
//% endmacro
