// /// kernel
// doc = "attention_decode for keys and values in blocks, without a mask."
// part_of = "flash_attn_quant"
// configs.lanes8 = { LANES = 8, DEPTHS = 8, ROWS = 4, LOADS = 4, threads = 128, workgroup_bytes = 16384 }
// configs.lanes16 = { LANES = 16, DEPTHS = 8, ROWS = 4, LOADS = 4, threads = 128, workgroup_bytes = 16384 }
// configs.lanes16x2 = { LANES = 16, DEPTHS = 8, ROWS = 4, LOADS = 4, threads = 256, workgroup_bytes = 25600 }
// configs.lanes32 = { LANES = 32, DEPTHS = 8, ROWS = 4, LOADS = 4, threads = 128, workgroup_bytes = 16384 }
// axes.TYPE = ["q4_0", "q8_0"]
// axes.GROUP = "configs"
// axes.SG = [true, false]
// axes.LENGTHS = ["", "i32"]
// pick.SG = "caps.subgroups"
// pick.LENGTHS = "dtype(lengths)"
// when = ["SG or GROUP == 'lanes16'"]
// workgroup_bytes = "CFG.workgroup_bytes"
// subgroups = "SG"
// inputs.q = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", readonly = true, axes = "b h s d", doc = "(B, H, S, D)" }
// inputs.k_low = { dtype = "*", dtypes = ["uint32"], bind = "'u32' if TYPE == 'q4_0' else 'vec2<u32>'", readonly = true, axes = "b h g p t w", doc = "(B, Hkv, depth / 32, parts, rows, 4)" }
// inputs.k_scales = { dtype = "*", dtypes = ["uint32"], bind = "'u32'", readonly = true, axes = "b h g w t", doc = "(B, Hkv, depth / 32, 1, rows / 2)" }
// inputs.v_low = { dtype = "*", dtypes = ["uint32"], bind = "'u32' if TYPE == 'q4_0' else 'vec2<u32>'", readonly = true, axes = "b h g p t w", doc = "(B, Hkv, depth / 32, parts, rows, 4)" }
// inputs.v_scales = { dtype = "*", dtypes = ["uint32"], bind = "'u32'", readonly = true, axes = "b h g w t", doc = "(B, Hkv, depth / 32, 1, rows / 2)" }
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
// include scores
// uses = ["quant/${TYPE}", "scalar", "key_range", "decode_layout", "lane_group", "tile/mask", "online_softmax", "decode_split"]
// grid = "matrices * row_groups * splits"
// ///

// The work is split as in attention_decode.wgsl. A lane reads its own 8 numbers of a block (one
// word of numbers of 4 bits, or two words of numbers of 8 bits) and the scale that it shares with
// its neighbours.
${decode_split.functions(decode_layout)}

${decode_split.main(decode_layout)}
