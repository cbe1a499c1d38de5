// The transforms of Winograd's convolutions F(M x M, 3 x 3) (Lavin and Gray 2016), by Toom and Cook:
// M x M pixels of the output are A^T ((G w G^T) * (B^T x B)) A, where x are the (M + 2) x (M + 2) pixels
// of the image that they depend on. `*` multiplies element by element; sums over channels are taken
// before A is applied.
//
// The points are 0, 1, -1 and infinity for M = 2, and 0, 3/4, -3/4, 3/2, -3/2 and infinity for M = 4.
// Errors are half as large as with the points 0, 1, -1, 2, -2 (Barabasz et al. 2020 compare points). All
// numbers of A and B are exact in f32; the reference has the same matrices.

// B^T, G and A^T of M = 2 and of M = 4.
//% set B2 = [[-1, 0, 1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, -1, 0, 1]]
//% set G2 = [[-1, 0, 0], [1 / 2, 1 / 2, 1 / 2], [1 / 2, -1 / 2, 1 / 2], [0, 0, 1]]
//% set A2 = [[1, 1, 1, 0], [0, 1, -1, 1]]
//% set B4_ENDS = [[81 / 64, 0, -45 / 16, 0, 1, 0], [0, 81 / 64, 0, -45 / 16, 0, 1]]
//% set B4_NEAR = [[0, -27 / 16, -9 / 4, 3 / 4, 1, 0], [0, 27 / 16, -9 / 4, -3 / 4, 1, 0]]
//% set B4_FAR = [[0, -27 / 32, -9 / 16, 3 / 2, 1, 0], [0, 27 / 32, -9 / 16, -3 / 2, 1, 0]]
//% set G4_ENDS = [[64 / 81, 0, 0], [0, 0, 1]]
//% set G4_NEAR = [[-128 / 243, -32 / 81, -8 / 27], [-128 / 243, 32 / 81, -8 / 27]]
//% set G4_FAR = [[32 / 243, 16 / 81, 8 / 27], [32 / 243, -16 / 81, 8 / 27]]
//% set A4_LOW = [[1, 1, 1, 1, 1, 0], [0, 3 / 4, -3 / 4, 3 / 2, -3 / 2, 0]]
//% set A4_HIGH = [[0, 9 / 16, 9 / 16, 9 / 4, 9 / 4, 0], [0, 27 / 64, -27 / 64, 27 / 8, -27 / 8, 1]]
//% set B = {2: B2, 4: B4_ENDS[:1] + B4_NEAR + B4_FAR + B4_ENDS[1:]}
//% set G = {2: G2, 4: G4_ENDS[:1] + G4_NEAR + G4_FAR + G4_ENDS[1:]}
//% set A = {2: A2, 4: A4_LOW + A4_HIGH}

// Declares <to><row>_<column>: matrix * v * matrix^T of the values v<row>_<column>.
//% macro both_sides(matrix, v, to)
//% set size = matrix[0] | length
//% for row in matrix
//% set i = loop.index0
//% for j in range(size)
  let ${to}_half${i}_${j} = ${_sum(row, v, "", "_" ~ j)};
//% endfor
//% endfor
//% for i in range(matrix | length)
//% for row in matrix
  let ${to}${i}_${loop.index0} = ${_sum(row, to ~ "_half" ~ i ~ "_", "", "")};
//% endfor
//% endfor
//% endmacro

// The tile and the channel (`channel`) of number `item`, which is below tiles * channels.
// Neighbouring invocations take neighbouring tiles, or neighbouring channels if these are
// contiguous (channels_last).
//% macro tile_and_channel(tiles, channels, channel)
  let last = p.channels_last == 1u;
  let inner = select(${tiles}, ${channels}, last);
  let high = item / inner;
  let low = item - high * inner;
  let ${channel} = select(high, low, last);
  let tile = select(low, high, last);
//% endmacro

// The image n of a tile, and the row and column (y, x) of the output where it begins.
//% macro corner(tile, M)
  let row = ${tile} / p.tiles_w;
  let n = row / p.tiles_h;
  let y = (row - n * p.tiles_h) * ${M}u;
  let x = (${tile} - row * p.tiles_w) * ${M}u;
//% endmacro

// The sum of the values <before><n><after>, each times its factor.
//% macro _sum(factors, before, between, after)
//% set terms = namespace(text="")
//% for f in factors
//% if f != 0
//% set value = before ~ between ~ loop.index0 ~ after
//% set term = value if f == 1 else "-" ~ value if f == -1 else (f | float) ~ "f * " ~ value
//% set terms.text = terms.text ~ (" + " if terms.text else "") ~ term
//% endif
//% endfor
${terms.text}
//%- endmacro
