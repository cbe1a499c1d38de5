// /// kernel
// doc = """
// Copy a tensor into the inside of a larger one and fill what lies around it.
//
// Along each axis `before` elements of dst lie in front of those of src, the others behind. Mode
// "constant" fills them with `value`, converted to the dtype as numpy does; "replicate" repeats the
// element at the edge, "reflect" mirrors without repeating it, "circular" goes on at the other end. A
// mirror needs more elements than it makes, a circle as many. The elements are copied bit for bit, by
// one dispatch, and one for each side that is filled, or for each side, edge and corner in other modes."""
// source = "numpy pad, torch.nn.functional.pad"
// bodies = ["cpy", "cpy_block", "cpy_bytes", "cpy_rows", "cpy_tile", "fill", "memset"]
// inputs.src = { dtype = "*", bind = "'u32'" }
// outputs.dst = { dtype = "*", bind = "'u32'" }
// params.value = { type = "bits", of = "dst", default = 0, doc = "What a constant border has." }
// options.before = { type = "tuple[int, ...] | None", doc = "Elements in front, for each axis; None is 0." }
// options.mode = { type = "Literal['constant', 'reflect', 'replicate', 'circular']", default = "constant", doc = "What the border is made of." }
// moves_bytes = true
// bytes = "src.nbytes + dst.nbytes"
// ///
