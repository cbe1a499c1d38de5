// limits:
enable f16;

alias T = f16;
const WG = 64u;
const TILE = WG * 4u + 2u;

struct Params { count: u32 }
@group(0) @binding(0) var<storage, read> src: array<T>;
@group(0) @binding(1) var<storage, read_write> dst: array<T>;
@group(0) @binding(2) var<uniform> params: Params;

var<workgroup> tile: array<vec2<T>, TILE>;

/* An override in a comment is none,
   and neither is bitcast<vec2<f16>>(x). */
@compute @workgroup_size(WG, 1, 1)
fn main(@builtin(local_invocation_id) lid: vec3<u32>) {
    tile[lid.x] = vec2<T>(src[lid.x], T(1.0));
    workgroupBarrier();
    if (lid.x < params.count) {
        dst[lid.x] = tile[WG - 1u - lid.x].x;
    }
}
