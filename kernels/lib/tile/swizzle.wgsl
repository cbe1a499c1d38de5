// The tile of dst that a workgroup computes, in orders in which neighbouring workgroups share
// operands in the cache.

// For a batched product: `batch`, `row0` and `col0` of workgroup `g`. Groups of eight rows of tiles
// follow each other, and each group is processed column by column.
//% macro grouped_rows(BM, BN)
  let batch = g / (p.across * p.down);
  let t = g - batch * p.across * p.down;
  let tile_group = t / (8u * p.across);
  let group_rows = min(8u, p.down - tile_group * 8u);
  let in_group = t - tile_group * 8u * p.across;
  let column = in_group / group_rows;
  let row0 = (tile_group * 8u + in_group - column * group_rows) * ${BM}u;
  let col0 = column * ${BN}u;
//% endmacro

// For a convolution: `group` and `split` of its sums, `row0` (output channel), `col0` (pixel).
// Workgroups with the same pixels follow each other.
//% macro channels_first(BM, BN)
  let member = g / (p.across * p.down);
  let t = g - member * p.across * p.down;
  let column = t / p.down;
  let row0 = (t - column * p.down) * ${BM}u;
  let col0 = column * ${BN}u;
  let group = member / p.splits;
  let split = member - group * p.splits;
//% endmacro
