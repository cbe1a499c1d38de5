// expect: tint 8 'workgroupBarrier' must only be called from uniform control flow
@group(0) @binding(0) var<storage, read_write> dst: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) li: u32) {
    // What is read from a read_write buffer may differ, which only Tint follows.
    if (dst[0] > 1.0) { return; }
    workgroupBarrier();
    dst[li] = 1.0;
}
