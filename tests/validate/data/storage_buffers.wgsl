// limits:
// expect: lint:PK005 12 9 storage buffers, but the declared limit is 8
// expect: tint 13 storage buffers (9)
@group(0) @binding(0) var<storage, read> b0: array<u32>;
@group(0) @binding(1) var<storage, read> b1: array<u32>;
@group(0) @binding(2) var<storage, read> b2: array<u32>;
@group(0) @binding(3) var<storage, read> b3: array<u32>;
@group(0) @binding(4) var<storage, read> b4: array<u32>;
@group(0) @binding(5) var<storage, read> b5: array<u32>;
@group(0) @binding(6) var<storage, read> b6: array<u32>;
@group(0) @binding(7) var<storage, read> b7: array<u32>;
@group(0) @binding(8) var<storage, read> b8: array<u32>;
@compute @workgroup_size(1)
fn main() { var sum = 0u; sum += b0[0] + b1[0] + b2[0] + b3[0] + b4[0] + b5[0] + b6[0] + b7[0] + b8[0]; }
