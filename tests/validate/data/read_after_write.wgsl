@group(0) @binding(0) var<storage, read_write> dst: array<f32>;
var<workgroup> tile: array<vec4<f32>, 64>;
var<workgroup> hits: atomic<u32>;
var<workgroup> last: f32;

fn clear(li: u32) { tile[li].x = 0.0; }

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) li: u32) {
    clear(li);
    if (li == 0u) { atomicStore(&hits, 0u); }
    workgroupBarrier();
    for (var i = 0u; i < 4u; i++) {
        if (i > 0u) { dst[li] += last; }
        workgroupBarrier();
        if (li == i) { last = tile[i].x; }
        workgroupBarrier();
    }
    tile[li] = tile[63u - li];
    atomicAdd(&hits, u32(tile[li].y == 1.0));
}
