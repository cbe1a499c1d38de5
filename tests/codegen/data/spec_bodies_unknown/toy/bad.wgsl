// /// kernel
// doc = "y = x * factor."
// inputs.x = { dtype = "f32" }
// outputs.dst = { dtype = "f32" }
// bodies = ["other"]
// ///
