// /// kernel
// doc = "The loss of rows of logits whose targets are weights of classes, or the states of pieces of such rows."
// part_of = "cross_entropy"
// source = "Milakov and Gimelshein 2018 (online form)"
// configs.batch1 = { N = 1, threads = 256 }
// configs.batch8 = { N = 8, threads = 256 }
// axes.T = { values = ["f32", "f16"], pick = "dtype(x)" }
// axes.VEC = [1, 4]
// axes.BATCH = "configs"
// inputs."x target" = { dtype = "T", vec = "VEC", doc = "(..., classes)" }
// inputs.weight = { dtype = "T", optional = true, index = false, axes = "c", doc = "(classes,)" }
// outputs.stats = { dtype = "f32", doc = "(..., 2): the largest logit of each row, and share / (the sum of exponentials)" }
// outputs.dst = { dtype = "f32", doc = "(..., 1): loss; (..., 2): loss and weight; or for pieces (..., 6 * pieces)" }
// iterate = "rows"
// params.cols = { type = "u32", value = "x.shape[-1] // VEC" }
// params."lanes_apart lane_bits pieces depth" = { type = "u32" }
// params.weighted = { type = "u32", value = "1 if dst.shape[-1] == 2 else 0" }
// params.has_stats = { type = "u32" }
// params.has_weight = { type = "u32", value = "1 if weight else 0" }
// params."hard spread" = { type = "f32" }
// params.nan = { type = "u32", value = "0x7fc00000" }
// params.minus_inf = { type = "u32", value = "0xff800000" }
// uses = ["cross_entropy"]
// grid = "cdiv(it.rows, CFG.threads >> lane_bits) * pieces"
// ///

// lib/cross_entropy.wgsl says how the work is split. Each logit and each target is read once.
${cross_entropy.rows(true, VEC, CFG.N, CFG.threads)}
