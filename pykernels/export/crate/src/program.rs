//! The exported kernels: their arguments, plans and bodies, read once from data/.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use serde_json::Value as Json;

use crate::eval::{from_json, Interp};
use crate::layout::View;
use crate::step::{Body, Caps, Step};
use crate::tree::{list, text, Module, Symbols};
use crate::value::{fail, Found, Stop, Value};
use crate::Error;

/// A tensor of a kernel, with the rules that a call checks.
pub struct Argument {
    pub name: String,
    pub out: bool,
    pub dtypes: Vec<String>,
    pub optional: bool,
    pub readonly: bool,
    pub same: String,
    pub like: String,
    pub broadcast: String,
    pub expand: String,
    pub axes: String,
    pub alias: String,
}

/// A scalar of a kernel.
pub struct Scalar {
    pub name: String,
    pub kind: String,
    pub of: String,
    pub member: String,
    pub default: Option<Json>,
    pub fixed: Option<Json>,
}

pub struct Kernel {
    pub name: String,
    pub tensors: Vec<Argument>,
    pub scalars: Vec<Scalar>,
    /// Options: arguments of the plan, with their defaults.
    pub options: Vec<(String, Json)>,
    of: String,
    named: bool,
    /// The module of its plan; "" for one step of `body`.
    module: String,
    body: String,
    fixed_axes: Vec<(Arc<str>, String)>,
}

pub struct Program {
    pub symbols: Symbols,
    pub modules: HashMap<String, Module>,
    pub bodies: HashMap<String, Body>,
    pub kernels: HashMap<String, Kernel>,
    pub tuning: Arc<Json>,
}

impl Program {
    pub fn get() -> &'static Program {
        static MADE: OnceLock<Program> = OnceLock::new();
        MADE.get_or_init(|| {
            let read = |text: &str| -> Json { serde_json::from_str(text).expect("data/ is JSON") };
            let plans = read(include_str!("../data/plans.json"));
            let bodies = read(include_str!("../data/bodies.json"));
            let kernels = read(include_str!("../data/kernels.json"));
            let tuning = Arc::new(read(include_str!("../data/tuning.json")));
            let mut symbols = Symbols::default();
            let entries = |of: &Json| -> Vec<(String, Json)> {
                let all = of.as_object().into_iter().flatten();
                all.map(|(k, v)| (k.clone(), v.clone())).collect()
            };
            Program {
                modules: entries(&plans)
                    .iter()
                    .map(|(name, of)| (name.clone(), symbols.module(of)))
                    .collect(),
                bodies: entries(&bodies)
                    .iter()
                    .map(|(name, of)| (name.clone(), Body::new(name, of, &mut symbols)))
                    .collect(),
                kernels: entries(&kernels)
                    .iter()
                    .map(|(name, of)| (name.clone(), Kernel::new(name, of)))
                    .collect(),
                symbols,
                tuning,
            }
        })
    }
}

impl Kernel {
    fn new(name: &str, of: &Json) -> Kernel {
        let word = |of: &Json| text(of).to_string();
        let given = |of: &Json| (!of.is_null()).then(|| of.clone());
        Kernel {
            name: name.into(),
            tensors: list(&of["tensors"])
                .iter()
                .map(|t| Argument {
                    name: word(&t["name"]),
                    out: t["role"] == "out",
                    dtypes: list(&t["dtypes"]).iter().map(word).collect(),
                    optional: t["optional"] == true,
                    readonly: t["readonly"] == true,
                    same: word(&t["same"]),
                    like: word(&t["like"]),
                    broadcast: word(&t["broadcast"]),
                    expand: word(&t["expand"]),
                    axes: word(&t["axes"]),
                    alias: word(&t["alias"]),
                })
                .collect(),
            scalars: list(&of["scalars"])
                .iter()
                .map(|s| Scalar {
                    name: word(&s["name"]),
                    kind: word(&s["type"]),
                    of: word(&s["of"]),
                    member: s["member"].as_str().unwrap_or(text(&s["name"])).into(),
                    default: given(&s["default"]),
                    fixed: given(&s["fixed"]),
                })
                .collect(),
            options: list(&of["options"])
                .iter()
                .map(|o| (word(&o["name"]), o["default"].clone()))
                .collect(),
            of: word(&of["of"]),
            named: of["named"] == true,
            module: word(&of["module"]),
            body: word(&of["body"]),
            fixed_axes: list(&of["fixed_axes"])
                .iter()
                .map(|a| (Arc::from(text(&a[0])), word(&a[1])))
                .collect(),
        }
    }

    /// The steps of a call, and the sizes of the temporary buffers that they use.
    pub fn plan(
        &self,
        caps: &Caps,
        views: Vec<Option<View>>,
        options: Vec<Value>,
    ) -> Result<(Vec<Rc<Step>>, Vec<i128>), Error> {
        self.steps(caps, views, options).map_err(|stop| match stop {
            Stop::Fail(why) if why.starts_with('[') => Error(why),
            Stop::Fail(why) => Error(format!("[{}] {why}", self.name)),
            Stop::Enough => Error(format!("[{}] a generator ended too early", self.name)),
        })
    }

    fn steps(
        &self,
        caps: &Caps,
        views: Vec<Option<View>>,
        options: Vec<Value>,
    ) -> Found<(Vec<Rc<Step>>, Vec<i128>)> {
        let interp = Interp::new(Program::get());
        let caps = Value::Caps(Rc::new(caps.clone()));
        let views = views.into_iter().map(|v| v.map_or(Value::None, Value::view));
        if self.module.is_empty() {
            let axes = self.fixed_axes.iter().map(|(k, v)| (k.clone(), Value::text(v)));
            let body = interp.body(&self.body)?;
            let step = body.step(&interp, caps, views.collect(), axes.collect())?;
            return Ok((vec![Rc::new(step)], vec![]));
        }
        let sizes: Rc<std::cell::RefCell<Vec<i128>>> = Rc::default();
        let mut args = vec![caps, Value::Scratch(sizes.clone())];
        args.extend(views);
        args.extend(options);
        let named = match self.named {
            true => vec![(Arc::from("name"), Value::text(&self.of))],
            false => vec![],
        };
        let plan = interp.function(&self.module, "plan")?;
        let made = interp.call(&plan, args, named)?;
        let mut steps = vec![];
        for step in interp.list(&made)? {
            match step {
                Value::Step(step) => steps.push(step),
                _ => return fail("a plan returned something else than steps"),
            }
        }
        let sizes = sizes.borrow().clone();
        Ok((steps, sizes))
    }

    /// The value of an option, from data.
    pub fn default_of(&self, i: usize) -> Value {
        from_json(&self.options[i].1)
    }
}
