// /// kernel
// doc = "flash_attn of a few rows and heads of depth up to 256, with split-KV; lane groups read keys in one pass."
// part_of = "flash_attn"
// configs.lanes8 = { LANES = 8, DEPTHS = 8, ROWS = 4, LOADS = 4, threads = 128, workgroup_bytes = 16384 }
// configs.lanes16 = { LANES = 16, DEPTHS = 8, ROWS = 4, LOADS = 4, threads = 128, workgroup_bytes = 16384 }
// configs.lanes16x2 = { LANES = 16, DEPTHS = 8, ROWS = 4, LOADS = 4, threads = 256, workgroup_bytes = 25600 }
// configs.lanes32 = { LANES = 32, DEPTHS = 8, ROWS = 4, LOADS = 4, threads = 128, workgroup_bytes = 16384 }
// axes.T = ["f32", "f16"]
// axes.GROUP = "configs"
// axes.SG = [true, false]
// axes.LENGTHS = ["", "i32"]
// pick.T = "dtype(k)"
// pick.SG = "caps.subgroups"
// pick.LENGTHS = "dtype(lengths)"
// when = ["SG or GROUP == 'lanes16'"]
// workgroup_bytes = "CFG.workgroup_bytes"
// subgroups = "SG"
// inputs.q = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", axes = "b h s d", doc = "(B, H, S, D)" }
// inputs.k = { dtype = "*", dtypes = ["float32", "float16"], bind = "'vec4<u32>'", doc = "(B, Hkv, T, D)" }
// inputs.v = { dtype = "*", dtypes = ["float32", "float16"], bind = "'vec4<u32>'", doc = "(B, Hkv, T, Dv)" }
// inputs.mask = { dtype = "*", dtypes = ["float32", "float16", "bool"], bind = "'u32'", optional = true, axes = "b h s t" }
// inputs.lengths = { dtype = "LENGTHS", when = "LENGTHS != ''", optional = true, readonly = true, axes = "b" }
// outputs.sums = { dtype = "f32", doc = "(splits, B, H, S): lse of each split" }
// outputs.partials = { dtype = "*", dtypes = ["float32"], bind = "'vec4<u32>'", doc = "(splits, B, H, S, padded Dv)" }
// include sizes
// params.matrices = { type = "u32" }
// params.row_groups = { type = "u32" }
// params.splits = { type = "u32" }
// params.first_key = { type = "u32" }
// params.last_key = { type = "u32" }
// params.band_low = { type = "i32" }
// params.band_high = { type = "i32" }
// params.q_kind = { type = "u32", value = "q.dtype.itemsize" }
// params.k_sb = { type = "u32", value = "k.strides[0] // 16 & 0xffffffff" }
// params.k_sh = { type = "u32", value = "k.strides[1] // 16 & 0xffffffff" }
// params.k_st = { type = "u32", value = "k.strides[2] // 16 & 0xffffffff" }
// params.v_sb = { type = "u32", value = "v.strides[0] // 16 & 0xffffffff" }
// params.v_sh = { type = "u32", value = "v.strides[1] // 16 & 0xffffffff" }
// params.v_st = { type = "u32", value = "v.strides[2] // 16 & 0xffffffff" }
// params.mask_kind = { type = "u32", value = "0 if mask is None else 3 if mask.dtype.name == 'bool' else 1 if mask.dtype.itemsize == 4 else 2" }
// include scores
// uses = ["scalar", "key_range", "decode_layout", "lane_group", "tile/mask", "online_softmax", "decode_split"]
// grid = "matrices * row_groups * splits"
// ///

// Decoding means few query rows and all keys. One workgroup takes up to ROWS rows of one KV head
// and one split of the keys, so that k and v are read once. A lane group of LANES lanes reads a key
// together; each lane reads DEPTHS depths. A group takes KEYS keys at a time and has its own
// running maximum. It adds the products of its keys and rows across its lanes, so that each lane
// ends with one logit. The lane turns the logit into a weight and sends it to all lanes. No barrier
// is needed until the groups are combined. But if subgroups are smaller than a group, lanes
// exchange values through workgroup memory, with barriers.
//
// Bounds, for unchecked compilation: keys and depths are clamped to their counts, rows to the last
// row; stores are guarded.
${decode_split.functions(decode_layout)}

${decode_split.main(decode_layout)}
