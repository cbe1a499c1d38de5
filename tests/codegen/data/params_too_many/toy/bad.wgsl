// /// kernel
// doc = "y = x * factor."
// axes.T = ["f32", "f16"]
// axes.WG = [64]
// pick.T = "dtype(x)"
// pick.WG = "64"
// inputs.x = { dtype = "T" }
// outputs.dst = { dtype = "T", like = "x" }
// params.p0 = { type = "u32", value = "0" }
// params.p1 = { type = "u32", value = "1" }
// params.p2 = { type = "u32", value = "2" }
// params.p3 = { type = "u32", value = "3" }
// params.p4 = { type = "u32", value = "4" }
// params.p5 = { type = "u32", value = "5" }
// params.p6 = { type = "u32", value = "6" }
// params.p7 = { type = "u32", value = "7" }
// params.p8 = { type = "u32", value = "8" }
// params.p9 = { type = "u32", value = "9" }
// params.p10 = { type = "u32", value = "10" }
// params.p11 = { type = "u32", value = "11" }
// params.p12 = { type = "u32", value = "12" }
// params.p13 = { type = "u32", value = "13" }
// params.p14 = { type = "u32", value = "14" }
// params.p15 = { type = "u32", value = "15" }
// params.p16 = { type = "u32", value = "16" }
// params.p17 = { type = "u32", value = "17" }
// params.p18 = { type = "u32", value = "18" }
// params.p19 = { type = "u32", value = "19" }
// params.p20 = { type = "u32", value = "20" }
// params.p21 = { type = "u32", value = "21" }
// params.p22 = { type = "u32", value = "22" }
// params.p23 = { type = "u32", value = "23" }
// params.p24 = { type = "u32", value = "24" }
// params.p25 = { type = "u32", value = "25" }
// params.p26 = { type = "u32", value = "26" }
// params.p27 = { type = "u32", value = "27" }
// params.p28 = { type = "u32", value = "28" }
// params.p29 = { type = "u32", value = "29" }
// params.p30 = { type = "u32", value = "30" }
// params.p31 = { type = "u32", value = "31" }
// params.p32 = { type = "u32", value = "32" }
// params.p33 = { type = "u32", value = "33" }
// params.p34 = { type = "u32", value = "34" }
// params.p35 = { type = "u32", value = "35" }
// params.p36 = { type = "u32", value = "36" }
// params.p37 = { type = "u32", value = "37" }
// params.p38 = { type = "u32", value = "38" }
// params.p39 = { type = "u32", value = "39" }
// params.p40 = { type = "u32", value = "40" }
// params.p41 = { type = "u32", value = "41" }
// params.p42 = { type = "u32", value = "42" }
// params.p43 = { type = "u32", value = "43" }
// params.p44 = { type = "u32", value = "44" }
// params.p45 = { type = "u32", value = "45" }
// params.p46 = { type = "u32", value = "46" }
// params.p47 = { type = "u32", value = "47" }
// params.p48 = { type = "u32", value = "48" }
// params.p49 = { type = "u32", value = "49" }
// params.p50 = { type = "u32", value = "50" }
// params.p51 = { type = "u32", value = "51" }
// params.p52 = { type = "u32", value = "52" }
// params.p53 = { type = "u32", value = "53" }
// params.p54 = { type = "u32", value = "54" }
// params.p55 = { type = "u32", value = "55" }
// params.p56 = { type = "u32", value = "56" }
// params.p57 = { type = "u32", value = "57" }
// params.p58 = { type = "u32", value = "58" }
// params.p59 = { type = "u32", value = "59" }
// params.factor = { type = "f32", default = 1.0 }
// iterate = "nd"
// grid = "cdiv(it.total, WG)"
// ///

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * WG + li;
  if (i >= p.total) { return; }
  dst_store(dst_index(i), x_load(x_index(i)) * p.factor + f32(p.p0 + p.p1 + p.p2 + p.p3 + p.p4 + p.p5 + p.p6 + p.p7 + p.p8 + p.p9 + p.p10 + p.p11 + p.p12 + p.p13 + p.p14 + p.p15 + p.p16 + p.p17 + p.p18 + p.p19 + p.p20 + p.p21 + p.p22 + p.p23 + p.p24 + p.p25 + p.p26 + p.p27 + p.p28 + p.p29 + p.p30 + p.p31 + p.p32 + p.p33 + p.p34 + p.p35 + p.p36 + p.p37 + p.p38 + p.p39 + p.p40 + p.p41 + p.p42 + p.p43 + p.p44 + p.p45 + p.p46 + p.p47 + p.p48 + p.p49 + p.p50 + p.p51 + p.p52 + p.p53 + p.p54 + p.p55 + p.p56 + p.p57 + p.p58 + p.p59));
}
