// limits:
@group(0) @binding(0) var<storage, read_write> dst: array<f32>;
@group(0) @binding(1) var<uniform> count: vec4<u32>;
@group(0) @binding(2) var<storage, read> steps: array<u32, 64>;
var<workgroup> tile: array<f32, 64>;
var<workgroup> more: u32;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    let group = wg.x + (wg.y << 15u);
    if (group >= count.x) { return; }
    var rounds = li;
    rounds = steps[group];
    for (var i = 0u; i < rounds; i++) {
        if (li < 32u) { tile[li] = f32(li); } else { tile[li] = f32(li + i); }
        if (li == 0u) { more = i; }
        workgroupBarrier();
        let mean = tile[63u - li];
        if (workgroupUniformLoad(&more) > 5u) { break; }
        workgroupBarrier();
        dst[group * 64u + li] = mean;
    }
    workgroupBarrier();
    while (true) { if (li > 3u) { break; } }
    workgroupBarrier();
}
