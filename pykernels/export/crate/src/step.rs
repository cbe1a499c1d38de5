//! Steps of plans: a variant of a body, what it binds, and its params.

use std::rc::Rc;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::contract::UNITS;
use crate::eval::Interp;
use crate::layout::{Ints, Space, View};
use crate::tree::{list, text, Node, Symbols};
use crate::value::{by_name, fail, show, Env, Found, Named, Value};

/// What plans know of the device.
#[derive(Clone)]
pub struct Caps {
    pub f16: bool,
    pub subgroups: bool,
    pub alignment: i128,
    pub max_invocations: i128,
    pub max_workgroup_bytes: i128,
    pub max_binding: i128,
    pub max_groups: i128,
    pub tuning: Arc<Json>,
}

/// One storage binding of a step.
#[derive(Clone)]
pub struct Bound {
    pub name: Arc<str>,
    pub out: bool,
    /// None: an optional tensor that was not given.
    pub view: Option<Rc<View>>,
    /// Bytes of one element of the bound array.
    pub unit: i128,
    /// Bytes of one step of the index that the kernel uses.
    pub elem: i128,
    pub strides: Ints,
    pub readonly: bool,
    pub alias: Arc<str>,
}

/// One dispatch.
#[derive(Clone)]
pub struct Step {
    pub body: &'static Body,
    pub axes: Vec<Value>,
    pub bound: Vec<Bound>,
    pub words: Ints,
    pub values: Vec<Value>,
    pub groups: i128,
    /// The body's scalar arguments, if they are not the call's.
    pub scalars: Vec<Value>,
}

impl Step {
    /// The name of its variant.
    pub fn variant(&self, mode: &str) -> String {
        let pairs = self.body.axes.iter().zip(&self.axes);
        let axes = pairs.map(|(a, v)| format!("{}={}", a.name, show(v)));
        let words = [self.body.name.to_string()].into_iter().chain(axes);
        words.chain([format!("mode={mode}")]).collect::<Vec<String>>().join(" ")
    }
}

struct Tensor {
    name: Arc<str>,
    symbol: u32,
    out: bool,
    optional: bool,
    itemsize: i128,
    vec: Option<Node>,
    bools: bool,
    bind: Option<Node>,
    when: Option<Node>,
    index: Option<Node>,
    axes: String,
    steps: String,
    readonly: bool,
    alias: Arc<str>,
}

struct Axis {
    name: Arc<str>,
    symbol: u32,
    pick: Option<Node>,
}

struct IndexSpace {
    kind: String,
    of: Node,
    vectors: String,
    repeats: Vec<String>,
}

/// A shader body: its variants and its Params.
pub struct Body {
    pub name: Arc<str>,
    axes: Vec<Axis>,
    tensors: Vec<Tensor>,
    space: Option<IndexSpace>,
    config: String,
    configs: Vec<(Arc<str>, Vec<(Arc<str>, Json)>)>,
    pub formats: Vec<char>,
    values: Vec<Node>,
    /// Scalars of the call, packed last: their names and formats.
    pub args: Vec<(String, char)>,
    pub faults: bool,
    groups: Node,
    it: u32,
    caps: u32,
    cfg: u32,
}

fn letter(of: &Json) -> char {
    text(of).chars().next().unwrap_or('I')
}

impl Body {
    pub fn new(name: &str, of: &Json, symbols: &mut Symbols) -> Body {
        let mut optional = |of: &Json| (!text(of_tree(of)).is_empty()).then(|| symbols.node(of));
        let tensors = list(&of["tensors"])
            .iter()
            .map(|t| Tensor {
                name: Arc::from(text(&t["name"])),
                symbol: 0,
                out: t["role"] == "out",
                optional: t["optional"] == true,
                itemsize: t["itemsize"].as_i64().unwrap_or(4).into(),
                vec: optional(&t["vec"]),
                bools: t["bools"] == true,
                bind: optional(&t["bind"]),
                when: optional(&t["when"]),
                index: optional(&t["index"]),
                axes: text(&t["axes"]).into(),
                steps: text(&t["steps"]).into(),
                readonly: t["readonly"] == true,
                alias: Arc::from(text(&t["alias"])),
            })
            .collect::<Vec<_>>();
        let axes = list(&of["axes"])
            .iter()
            .map(|a| Axis { name: Arc::from(text(&a[0])), symbol: 0, pick: optional(&a[1]) })
            .collect::<Vec<_>>();
        let space = &of["space"];
        let space = (!space.is_null()).then(|| IndexSpace {
            kind: text(&space["kind"]).into(),
            of: symbols.node(&space["of"]),
            vectors: text(&space["vectors"]).into(),
            repeats: list(&space["repeats"]).iter().map(|r| text(r).into()).collect(),
        });
        let configs = list(&of["configs"]).iter().map(|c| {
            let row = list(&c[1]).iter().map(|e| (Arc::from(text(&e[0])), e[1].clone()));
            (Arc::from(text(&c[0])), row.collect())
        });
        let args = list(&of["args"]).iter().map(|a| (text(&a[0]).into(), letter(&a[1])));
        let mut body = Body {
            name: Arc::from(name),
            axes,
            tensors,
            space,
            config: text(&of["config"]).into(),
            configs: configs.collect(),
            formats: list(&of["values"]).iter().map(|v| letter(&v[0])).collect(),
            values: list(&of["values"]).iter().map(|v| symbols.node(&v[1])).collect(),
            args: args.collect(),
            faults: of["faults"] == true,
            groups: symbols.node(&of["groups"]),
            it: symbols.number("it"),
            caps: symbols.number("caps"),
            cfg: symbols.number("CFG"),
        };
        for t in &mut body.tensors {
            t.symbol = symbols.number(&t.name);
        }
        for a in &mut body.axes {
            a.symbol = symbols.number(&a.name);
        }
        body
    }

    /// The configurations by name, and the names of their members.
    pub fn configs(&self) -> &[(Arc<str>, Vec<(Arc<str>, Json)>)] {
        &self.configs
    }

    /// One step: `views` are the tensors in order, `given` the rest by name.
    pub fn step(
        &'static self,
        interp: &Interp,
        caps: Value,
        views: Vec<Value>,
        given: Named<Value>,
    ) -> Found<Step> {
        let env = Env::new(None, &[]);
        env.declare(self.caps, caps);
        let mut views = views.into_iter();
        for t in &self.tensors {
            let named = || by_name(&given, &t.name).cloned();
            env.declare(t.symbol, views.next().or_else(named).unwrap_or(Value::None));
        }
        for (name, value) in &given {
            if let Some(symbol) = interp.program.symbols.find(name) {
                if self.tensors.iter().all(|t| t.symbol != symbol) {
                    env.declare(symbol, value.clone());
                }
            }
        }
        self.open_space(interp, &env)?;
        let mut axes = vec![];
        for a in &self.axes {
            if let Some(pick) = &a.pick {
                env.declare(a.symbol, interp.of_spec(&env, pick)?);
            }
            let Some(value) = env.get(a.symbol) else {
                return fail(format!("{}: {} is missing", self.name, a.name));
            };
            if *self.config == *a.name {
                env.declare(self.cfg, interp.config(self, &value)?);
            }
            if self.space.as_ref().is_some_and(|s| *s.vectors == *a.name) {
                if let Some(Value::Space(it)) = env.get(self.it) {
                    it.borrow_mut().in_vectors(value.int()?);
                }
            }
            axes.push(value);
        }
        let mut bound = vec![];
        for t in &self.tensors {
            if let Some(when) = &t.when {
                if !interp.truth(&interp.of_spec(&env, when)?)? {
                    continue;
                }
            }
            bound.push(self.bind(interp, &env, t)?);
        }
        let words = match env.get(self.it) {
            Some(Value::Space(it)) => it.borrow().params(),
            _ => vec![],
        };
        let values = self.values.iter().map(|v| interp.of_spec(&env, v));
        let values = values.collect::<Found<Vec<Value>>>()?;
        let groups = interp.of_spec(&env, &self.groups)?.int()?;
        Ok(Step { body: self, axes, bound, words, values, groups, scalars: vec![] })
    }

    fn open_space(&self, interp: &Interp, env: &Rc<Env>) -> Found<()> {
        let Some(space) = &self.space else { return Ok(()) };
        let mut views = vec![];
        for t in &self.tensors {
            if let Some(index) = &t.index {
                if let Value::View(v) = interp.of_spec(env, index)? {
                    views.push((t.name.to_string(), (*v).clone()));
                }
            }
        }
        let of = interp.of_spec(env, &space.of)?.as_view()?;
        let made = Space::new(&space.kind, &of.shape, views, &space.repeats)?;
        env.declare(self.it, Value::Space(Rc::new(made.into())));
        Ok(())
    }

    fn bind(&self, interp: &Interp, env: &Rc<Env>, t: &Tensor) -> Found<Bound> {
        let view = match env.get(t.symbol) {
            Some(Value::View(v)) => Some(v),
            _ => None,
        };
        let vec = match &t.vec {
            Some(node) => interp.of_spec(env, node)?.int()?,
            None => 1,
        };
        if view.is_none() && !t.optional {
            return fail(format!("{}: {} is missing", self.name, t.name));
        }
        let elem = view.as_ref().map_or(t.itemsize, |v| v.dtype.itemsize) * vec;
        let unit = match &t.bind {
            Some(node) => {
                let storage = interp.of_spec(env, node)?.as_text()?;
                match UNITS.iter().find(|(name, _)| *name == &*storage) {
                    Some((_, bytes)) => *bytes,
                    None => return fail(format!("{}: no unit {storage}", self.name)),
                }
            }
            None if t.bools => elem.max(4),
            None => elem,
        };
        let mut strides = vec![];
        if t.index.is_some() {
            if let Some(Value::Space(it)) = env.get(self.it) {
                let it = it.borrow();
                if view.is_none() && t.when.is_none() {
                    strides.extend(&it.absent);
                } else {
                    strides.extend(it.steps(&t.name, vec)?);
                }
            }
        }
        if !t.steps.is_empty() {
            strides.extend(self.along_axes(t, view.as_deref(), elem)?);
        }
        Ok(Bound {
            name: t.name.clone(),
            out: t.out,
            view,
            unit,
            elem,
            strides,
            readonly: t.readonly,
            alias: t.alias.clone(),
        })
    }

    /// The steps of a view along some of its axes, a letter each, in units of `elem` bytes.
    fn along_axes(&self, t: &Tensor, view: Option<&View>, elem: i128) -> Found<Ints> {
        let Some(v) = view else { return Ok(vec![0; t.steps.len()]) };
        if v.ndim() != t.axes.len() {
            let (op, name, n) = (&self.name, &t.name, t.axes.len());
            let shape = &v.shape;
            return fail(format!("[{op}] {name} must have {n} axes but has shape {shape:?}"));
        }
        let at = |axis| t.axes.find(axis).unwrap_or(0);
        Ok(t.steps.chars().map(|axis| v.strides[at(axis)].div_euclid(elem)).collect())
    }
}

fn of_tree(of: &Json) -> &Json {
    of.get(0).unwrap_or(&Json::Null)
}
