//! Views of tensors and index spaces, as in pykernels/tensors/layout.py. Strides and offsets are
//! bytes.

use crate::contract::DTYPES;
use crate::value::{fail, Found};

pub type Ints = Vec<i128>;

/// The type of a tensor's elements.
#[derive(Debug)]
pub struct DType {
    pub name: &'static str,
    pub short: &'static str,
    pub itemsize: i128,
    pub kind: &'static str,
}

pub fn dtype(name: &str) -> Option<&'static DType> {
    DTYPES.iter().find(|d| d.name == name)
}

pub fn contiguous_strides(shape: &[i128], itemsize: i128) -> Ints {
    let mut strides = vec![0; shape.len()];
    let mut step = itemsize;
    for (i, n) in shape.iter().enumerate().rev() {
        strides[i] = step;
        step *= (*n).max(1);
    }
    strides
}

/// Lowest byte and one past the highest byte, relative to the first element.
pub fn extent(shape: &[i128], strides: &[i128], itemsize: i128) -> (i128, i128) {
    if shape.contains(&0) {
        return (0, 0);
    }
    let reach = shape.iter().zip(strides).map(|(n, s)| (n - 1) * s);
    let low = reach.clone().filter(|r| *r < 0).sum();
    (low, reach.filter(|r| *r > 0).sum::<i128>() + itemsize)
}

pub fn product(of: &[i128]) -> i128 {
    of.iter().product()
}

/// One tensor for a plan: slot 0 and up; scratch memory has the slots below 0.
#[derive(Clone, Debug)]
pub struct View {
    pub slot: i128,
    pub dtype: &'static DType,
    pub shape: Ints,
    pub strides: Ints,
    pub offset: i128,
    pub padded: bool,
}

impl View {
    pub fn equals(&self, o: &View) -> bool {
        self.slot == o.slot
            && self.dtype.name == o.dtype.name
            && self.shape == o.shape
            && self.strides == o.strides
            && self.offset == o.offset
            && self.padded == o.padded
    }

    pub fn ndim(&self) -> usize {
        self.shape.len()
    }

    pub fn size(&self) -> i128 {
        product(&self.shape)
    }

    pub fn contiguous(&self) -> bool {
        let mut expected = self.dtype.itemsize;
        for (n, s) in self.shape.iter().zip(&self.strides).rev() {
            if *n != 1 && *s != expected && !self.shape.contains(&0) {
                return false;
            }
            expected *= n;
        }
        true
    }

    pub fn window(&self) -> (i128, i128) {
        let (lo, hi) = extent(&self.shape, &self.strides, self.dtype.itemsize);
        (self.offset + lo, self.offset + hi)
    }

    pub fn with_layout(&self, shape: Ints, strides: Ints, dtype: Option<&'static DType>) -> View {
        View { shape, strides, dtype: dtype.unwrap_or(self.dtype), ..self.clone() }
    }

    /// Leading axes of size 1 added, up to `ndim` axes.
    pub fn as_rank(&self, ndim: usize) -> View {
        let extra = ndim.saturating_sub(self.ndim());
        let shape = vec![1; extra].into_iter().chain(self.shape.iter().copied()).collect();
        let strides = vec![0; extra].into_iter().chain(self.strides.iter().copied()).collect();
        self.with_layout(shape, strides, None)
    }

    /// numpy's broadcast; the shapes are known to fit.
    pub fn broadcast_to(&self, shape: &[i128]) -> View {
        let v = self.as_rank(shape.len());
        let strides = (0..shape.len())
            .map(|i| if v.shape[i] == shape[i] { v.strides[i] } else { 0 })
            .collect();
        v.with_layout(shape.to_vec(), strides, None)
    }

    pub fn aligned(&self, nbytes: i128, axes: impl IntoIterator<Item = i128>) -> bool {
        let at = |a: i128| (if a < 0 { a + self.ndim() as i128 } else { a }) as usize;
        self.offset % nbytes == 0
            && axes
                .into_iter()
                .all(|a| self.shape[at(a)] == 1 || self.strides[at(a)] % nbytes == 0)
    }

    /// May `n` neighbours along an axis be read as one vector, wherever the first of them lies?
    pub fn vectorizable(&self, n: i128, axis: i128) -> bool {
        if self.shape.is_empty() {
            return false;
        }
        let along = axis.rem_euclid(self.ndim() as i128);
        self.shape[along as usize] % n == 0
            && self.strides[along as usize] == self.dtype.itemsize
            && self.aligned(
                n * self.dtype.itemsize,
                (0..self.ndim() as i128).filter(|a| *a != along),
            )
    }
}

/// numpy's broadcast, or ggml's: a leading axis may repeat if its size divides the target's.
pub fn repeats_to(shape: &[i128], target: &[i128]) -> bool {
    if shape.len() > target.len() {
        return false;
    }
    let tail = &target[target.len() - shape.len()..];
    shape.iter().zip(tail).enumerate().all(|(i, (n, m))| {
        n == m || if i + 1 == shape.len() { *n == 1 } else { *n > 0 && m % n == 0 }
    })
}

/// numpy's broadcast: axes of size 1 repeat.
pub fn expands_to(shape: &[i128], target: &[i128]) -> bool {
    shape.len() <= target.len()
        && shape
            .iter()
            .zip(&target[target.len() - shape.len()..])
            .all(|(n, m)| *n == 1 || n == m)
}

/// The same elements in the same order with as few axes as possible, at least one.
pub fn merge_axes(shape: &[i128], strides: &[Ints]) -> (Ints, Vec<Ints>) {
    let mut dims: Ints = vec![];
    let mut steps: Vec<Ints> = vec![vec![]; strides.len()];
    for (axis, n) in shape.iter().enumerate() {
        if *n == 1 {
            continue;
        }
        let joins = !dims.is_empty()
            && steps.iter().zip(strides).all(|(s, all)| s.last() == Some(&(n * all[axis])));
        if joins {
            *dims.last_mut().unwrap() *= n;
        } else {
            dims.push(*n);
        }
        for (s, all) in steps.iter_mut().zip(strides) {
            if joins {
                s.pop();
            }
            s.push(all[axis]);
        }
    }
    if dims.is_empty() {
        return (vec![1], vec![vec![0]; strides.len()]);
    }
    (dims, steps)
}

pub type Views = Vec<(String, View)>;

/// The axes, outermost first, that an axis of n becomes for views of these sizes along it.
fn cut(n: i128, sizes: impl Iterator<Item = i128>) -> Found<Ints> {
    let mut inner: Ints = sizes.filter(|m| *m != 1 && *m != n).collect();
    inner.sort();
    inner.dedup();
    if inner.windows(2).any(|pair| pair[1] % pair[0] != 0) {
        return fail(format!("an axis of {n} cannot repeat {inner:?} at once"));
    }
    let from: Ints = std::iter::once(1).chain(inner.iter().copied()).collect();
    let to = inner.iter().copied().chain([n]);
    let mut made: Ints = to.zip(from).map(|(b, a)| b / a).collect();
    made.reverse();
    Ok(made)
}

/// The strides of a view along an axis that was cut: 0 where it repeats.
fn along(cut: &[i128], size: i128, stride: i128) -> Ints {
    let mut inner = 1;
    let mut steps: Ints = vec![];
    for n in cut.iter().rev() {
        steps.push(if inner < size { stride * inner } else { 0 });
        inner *= n;
    }
    steps.reverse();
    steps
}

/// The shape, and the views over it; views in `repeats` fill it by the rule of `repeats_to`.
pub fn repeated(
    shape: &[i128],
    lead: usize,
    views: Views,
    repeats: &[String],
) -> Found<(Ints, Views)> {
    for (name, v) in &views {
        let fits = if repeats.contains(name) {
            repeats_to(&v.shape, shape)
        } else {
            v.ndim() == shape.len() && v.shape[..lead] == shape[..lead]
        };
        if !fits {
            return fail(format!("{name} of shape {:?} does not fill {shape:?}", v.shape));
        }
    }
    if repeats.is_empty() {
        return Ok((shape.to_vec(), views));
    }
    let full: Views = views.into_iter().map(|(k, v)| (k, v.as_rank(shape.len()))).collect();
    let mut cuts: Vec<Ints> = vec![];
    for (axis, n) in shape.iter().enumerate() {
        let sizes = full.iter().filter(|(k, _)| repeats.contains(k)).map(|(_, v)| v.shape[axis]);
        cuts.push(cut(*n, sizes)?);
    }
    if cuts[lead..].iter().any(|c| c.len() > 1) {
        return fail(format!("the last axes of {shape:?} cannot repeat by modulo"));
    }
    let front: Ints = cuts[..lead].iter().flatten().copied().collect();
    let mut made = vec![];
    for (name, v) in full {
        let strides = cuts.iter().enumerate().flat_map(|(i, c)| along(c, v.shape[i], v.strides[i]));
        let strides: Ints = strides.collect();
        let tail = if repeats.contains(&name) { &shape[lead..] } else { &v.shape[lead..] };
        let whole = front.iter().chain(tail).copied().collect();
        made.push((name, v.with_layout(whole, strides, None)));
    }
    Ok((front.iter().chain(&shape[lead..]).copied().collect(), made))
}

/// Leading axes merged into levels, the innermost first, and the last axes as they are.
pub struct Space {
    pub kind: &'static str,
    pub views: Views,
    pub count: i128,
    pub levels: i128,
    pub dims: Ints,
    pub strides: Vec<(String, Ints)>,
    pub absent: Ints,
    pub cols: i128,
}

/// Levels and kept axes of an index space, by name.
pub fn kind_of_space(name: &str) -> Option<(&'static str, usize, usize)> {
    match name {
        "Nd" => Some(("Nd", 6, 0)),
        "Rows" => Some(("Rows", 5, 1)),
        "Tiles" => Some(("Tiles", 4, 2)),
        _ => None,
    }
}

impl Space {
    pub fn new(name: &str, full: &[i128], views: Views, repeats: &[String]) -> Found<Space> {
        let Some((kind, levels, tail)) = kind_of_space(name) else {
            return fail(format!("there is no index space {name}"));
        };
        if full.len() < tail {
            return fail(format!("{full:?} has fewer than {tail} axes"));
        }
        let repeats: Vec<String> =
            repeats.iter().filter(|r| views.iter().any(|(k, _)| k == *r)).cloned().collect();
        let (shape, views) = repeated(full, full.len() - tail, views, &repeats)?;
        let lead = shape.len() - tail;
        let leading: Vec<Ints> = views.iter().map(|(_, v)| v.strides[..lead].to_vec()).collect();
        let (mut dims, steps) = merge_axes(&shape[..lead], &leading);
        if dims.len() > levels {
            let most = levels + tail;
            return fail(format!("at most {most} axes are left after merging: {shape:?}"));
        }
        let used = dims.len() as i128;
        dims.reverse();
        dims.resize(levels, 1);
        let mut strides = vec![];
        for ((name, v), mut step) in views.iter().zip(steps) {
            step.reverse();
            step.resize(levels, 0);
            step.extend(&v.strides[lead..]);
            let whole = step.iter().map(|s| s.div_euclid(v.dtype.itemsize)).collect();
            strides.push((name.clone(), whole));
        }
        Ok(Space {
            kind,
            count: product(&shape[..lead]),
            levels: used,
            dims,
            strides,
            absent: vec![0; levels + tail],
            cols: shape.last().copied().unwrap_or(1),
            views,
        })
    }

    pub fn params(&self) -> Ints {
        let words = [self.count, self.levels].into_iter();
        words.chain(self.dims[..self.dims.len() - 1].iter().copied()).collect()
    }

    pub fn of(&self, name: &str) -> Found<&Ints> {
        match self.strides.iter().find(|(k, _)| k == name) {
            Some((_, strides)) => Ok(strides),
            None => fail(format!("there is no {name} in this index space")),
        }
    }

    /// The strides of one tensor in the form of Params.
    pub fn steps(&self, name: &str, vec: i128) -> Found<Ints> {
        let steps = self.of(name)?;
        let last = if self.kind == "Nd" { steps.len() } else { steps.len() - 1 };
        let cut = |(i, s): (usize, &i128)| if i < last { s.div_euclid(vec) } else { *s };
        Ok(steps.iter().enumerate().map(cut).collect())
    }

    pub fn repeats(&self, name: &str) -> Found<bool> {
        Ok(self.of(name)?[0] == 0)
    }

    pub fn vec(&self, n: i128, may_repeat: &[String]) -> Found<bool> {
        if self.kind != "Nd" {
            return Ok(self.views.iter().all(|(_, v)| v.vectorizable(n, -1)));
        }
        let mut all = !may_repeat.is_empty();
        for name in may_repeat {
            all &= self.repeats(name)?;
        }
        if self.dims[0] % n != 0 || all {
            return Ok(false);
        }
        for (name, v) in &self.views {
            let steps = self.of(name)?;
            let one = may_repeat.contains(name) && steps[0] == 0;
            let fits = steps[0] == 1
                && steps[1..].iter().all(|s| s % n == 0)
                && v.offset % (n * v.dtype.itemsize) == 0;
            if !(one || fits) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The same space, of vectors of `n` along the innermost level.
    pub fn in_vectors(&mut self, n: i128) {
        self.count = self.count.div_euclid(n);
        self.dims[0] = self.dims[0].div_euclid(n);
        for (_, steps) in &mut self.strides {
            steps[0] *= n;
        }
    }

    pub fn columns_apart(&self, name: &str) -> Found<bool> {
        let steps: Ints = self.of(name)?.iter().map(|s| s.abs()).collect();
        let col = steps[steps.len() - 1];
        Ok(self.count > 1 && self.cols > 1 && col > steps[0] && steps[0] > 0)
    }
}
