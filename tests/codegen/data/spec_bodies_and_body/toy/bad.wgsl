// /// kernel
// doc = "y = x * factor."
// inputs.x = { dtype = "f32" }
// outputs.dst = { dtype = "f32" }
// bodies = ["other"]
// ///

@compute @workgroup_size(64)
fn main() {}
