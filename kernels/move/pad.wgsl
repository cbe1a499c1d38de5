// /// kernel
// doc = """
// Copy a tensor into the inside of a larger tensor and fill the border.
//
// Along each axis, `before` elements of dst come before the elements of src, and the others after
// them. Mode "constant" fills the border with `value`, converted to the dtype as numpy does;
// "replicate" repeats the element at the edge, "reflect" mirrors without repeating it, "circular"
// continues at the other end. A reflected border must have fewer elements than the axis, a circular
// border at most as many. The bits of elements are copied by one dispatch. Mode "constant" takes
// one more dispatch for each side; other modes take one more for each side, edge and corner."""
// source = "numpy pad, torch.nn.functional.pad"
// bodies = ["cpy", "cpy_block", "cpy_bytes", "cpy_rows", "cpy_tile", "fill", "memset"]
// inputs.src = { dtype = "*", bind = "'u32'" }
// outputs.dst = { dtype = "*", bind = "'u32'" }
// params.value = { type = "bits", of = "dst", default = 0, doc = "The number in a constant border." }
// options.before = { type = "tuple[int, ...] | None", doc = "Numbers of elements before src, for each axis; None is 0." }
// options.mode = { type = "Literal['constant', 'reflect', 'replicate', 'circular']", default = "constant", doc = "The kind of border." }
// moves_bytes = true
// bytes = "src.nbytes + dst.nbytes"
// ///
