// expect: tint 15 'workgroupBarrier' must only be called from uniform control flow
// expect: lint:PK007 15 workgroupBarrier after a continue of some invocations (line 13)
@group(0) @binding(0) var<storage, read_write> dst: array<f32>;
var<workgroup> tile: array<f32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) li: u32) {
    let mine = li / 2u;
    tile[li] = 0.0;
    for (var i = 0u; i < 8u; i++) {
        switch (i) {
            case 3u: { break; }
            default: { if (mine == i) { continue; } }
        }
        workgroupBarrier();
    }
    workgroupBarrier();
    dst[li] = tile[63u - li];
}
