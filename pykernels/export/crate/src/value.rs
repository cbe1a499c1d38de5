//! Values of plans: what Python's integers, texts, tuples and objects are here.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use crate::layout::{DType, Space, View};
use crate::step::{Caps, Step};
use crate::tree::{Comp, Def};

/// Why an evaluation ended early.
pub enum Stop {
    /// An error, as Python raises it.
    Fail(String),
    /// The reader of a generator has enough.
    Enough,
}

pub type Found<T> = Result<T, Stop>;

pub fn fail<T>(message: impl Into<String>) -> Found<T> {
    Err(Stop::Fail(message.into()))
}

#[derive(Clone)]
pub enum Value {
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(Arc<str>),
    /// A list, which is shared and grows, or a tuple.
    List(Rc<RefCell<Vec<Value>>>),
    Tuple(Rc<Vec<Value>>),
    Dict(Rc<RefCell<Dict>>),
    Set(Rc<RefCell<Dict>>),
    DType(&'static DType),
    View(Rc<View>),
    Space(Rc<RefCell<Space>>),
    Step(Rc<Step>),
    Caps(Rc<Caps>),
    /// The sizes of temporary buffers that a plan asks for.
    Scratch(Rc<RefCell<Vec<i128>>>),
    Function(Rc<Function>),
    Class(Rc<Class>),
    Object(Rc<Object>),
    /// A method with its object.
    Bound(Rc<(Value, Arc<str>)>),
    /// A function or module of the runtime, by name.
    Runtime(Arc<str>),
    /// A module of plans.
    Module(Arc<str>),
    /// A shader body.
    Body(Arc<str>),
    Generator(Rc<Generator>),
}

pub struct Function {
    pub def: Arc<Def>,
    pub env: Rc<Env>,
    /// The class, for a class method.
    pub class: RefCell<Option<Rc<Class>>>,
}

pub enum Generator {
    Comp(Arc<Comp>, Rc<Env>, Value),
    Call(Arc<Def>, Rc<Env>),
}

pub type Named<T> = Vec<(Arc<str>, T)>;

pub fn by_name<'a, T>(all: &'a Named<T>, name: &str) -> Option<&'a T> {
    all.iter().find(|(n, _)| &**n == name).map(|(_, v)| v)
}

pub struct Class {
    pub name: Arc<str>,
    pub tuple: bool,
    pub fields: Vec<Arc<str>>,
    pub defaults: Named<Arc<crate::tree::Node>>,
    pub methods: Named<Rc<Function>>,
    pub getters: Named<Rc<Function>>,
    pub statics: Named<Rc<Function>>,
    pub of_class: Vec<Arc<str>>,
    pub env: Rc<Env>,
}

pub struct Object {
    pub class: Rc<Class>,
    pub fields: RefCell<Vec<Value>>,
}

/// Names and their values; a function's environment has that of its module, or of the function
/// around it, as its parent.
pub struct Env {
    pub vars: RefCell<Vec<(u32, Option<Value>)>>,
    pub parent: Option<Rc<Env>>,
}

impl Env {
    pub fn new(parent: Option<Rc<Env>>, names: &[u32]) -> Rc<Env> {
        let vars = names.iter().map(|n| (*n, None)).collect();
        Rc::new(Env { vars: RefCell::new(vars), parent })
    }

    pub fn get(&self, name: u32) -> Option<Value> {
        for (n, value) in self.vars.borrow().iter() {
            if *n == name {
                return value.clone();
            }
        }
        self.parent.as_ref()?.get(name)
    }

    /// Set a name that this environment, or else one around it, declares.
    pub fn set(&self, name: u32, value: Value) {
        for (n, old) in self.vars.borrow_mut().iter_mut() {
            if *n == name {
                *old = Some(value);
                return;
            }
        }
        match &self.parent {
            Some(parent) => parent.set(name, value),
            None => self.declare(name, value),
        }
    }

    pub fn declare(&self, name: u32, value: Value) {
        self.vars.borrow_mut().push((name, Some(value)));
    }
}

/// Pairs in the order in which they came. Plans have a few dozen of them at most.
#[derive(Clone, Default)]
pub struct Dict {
    pub pairs: Vec<(Value, Value)>,
}

impl Dict {
    pub fn get(&self, key: &Value) -> Option<&Value> {
        self.pairs.iter().find(|(k, _)| same(k, key)).map(|(_, v)| v)
    }

    pub fn put(&mut self, key: Value, value: Value) {
        match self.pairs.iter_mut().find(|(k, _)| same(k, &key)) {
            Some((_, old)) => *old = value,
            None => self.pairs.push((key, value)),
        }
    }
}

impl Value {
    pub fn text(of: impl AsRef<str>) -> Value {
        Value::Text(Arc::from(of.as_ref()))
    }

    pub fn list(of: Vec<Value>) -> Value {
        Value::List(Rc::new(RefCell::new(of)))
    }

    pub fn tuple(of: Vec<Value>) -> Value {
        Value::Tuple(Rc::new(of))
    }

    pub fn ints(of: &[i128]) -> Value {
        Value::tuple(of.iter().map(|n| Value::Int(*n)).collect())
    }

    pub fn dict(pairs: Vec<(Value, Value)>) -> Value {
        let mut made = Dict::default();
        for (k, v) in pairs {
            made.put(k, v);
        }
        Value::Dict(Rc::new(RefCell::new(made)))
    }

    pub fn set(values: Vec<Value>) -> Value {
        let mut made = Dict::default();
        for v in values {
            made.put(v.clone(), v);
        }
        Value::Set(Rc::new(RefCell::new(made)))
    }

    pub fn view(of: View) -> Value {
        Value::View(Rc::new(of))
    }

    pub fn int(&self) -> Found<i128> {
        match self {
            Value::Int(n) => Ok(*n),
            Value::Bool(b) => Ok(*b as i128),
            Value::Float(x) if x.fract() == 0.0 => Ok(*x as i128),
            other => fail(format!("{} is no whole number", show(other))),
        }
    }

    pub fn float(&self) -> Found<f64> {
        match self {
            Value::Int(n) => Ok(*n as f64),
            Value::Bool(b) => Ok(*b as i64 as f64),
            Value::Float(x) => Ok(*x),
            other => fail(format!("{} is no number", show(other))),
        }
    }

    pub fn is_none(&self) -> bool {
        matches!(self, Value::None)
    }

    pub fn as_text(&self) -> Found<Arc<str>> {
        match self {
            Value::Text(t) => Ok(t.clone()),
            other => fail(format!("{} is no text", show(other))),
        }
    }

    pub fn as_view(&self) -> Found<Rc<View>> {
        match self {
            Value::View(v) => Ok(v.clone()),
            other => fail(format!("{} is no view", show(other))),
        }
    }

    /// The elements of a list, a tuple or an object that is one.
    pub fn parts(&self) -> Option<Vec<Value>> {
        match self {
            Value::List(of) => Some(of.borrow().clone()),
            Value::Tuple(of) => Some(of.to_vec()),
            Value::Object(of) if of.class.tuple => Some(of.fields.borrow().clone()),
            _ => None,
        }
    }
}

/// `==` of Python. A list equals a tuple of the same elements.
pub fn same(a: &Value, b: &Value) -> bool {
    use Value::*;
    match (a, b) {
        (None, None) => true,
        (Text(x), Text(y)) => x == y,
        (DType(x), DType(y)) => x.name == y.name,
        (View(x), View(y)) => Rc::ptr_eq(x, y) || x.equals(y),
        (Body(x), Body(y)) => x == y,
        (Runtime(x), Runtime(y)) => x == y,
        (Object(x), Object(y)) if !x.class.tuple => {
            Rc::ptr_eq(x, y)
                || (Rc::ptr_eq(&x.class, &y.class)
                    && x.fields.borrow().iter().zip(y.fields.borrow().iter()).all(|(p, q)| same(p, q)))
        }
        (Function(x), Function(y)) => Rc::ptr_eq(x, y),
        (Class(x), Class(y)) => Rc::ptr_eq(x, y),
        (Step(x), Step(y)) => Rc::ptr_eq(x, y),
        (Dict(x), Dict(y)) | (Set(x), Set(y)) => {
            let (x, y) = (x.borrow(), y.borrow());
            x.pairs.len() == y.pairs.len()
                && x.pairs.iter().all(|(k, v)| y.get(k).is_some_and(|w| same(v, w)))
        }
        _ => {
            if let (Some(x), Some(y)) = (a.parts(), b.parts()) {
                return x.len() == y.len() && x.iter().zip(&y).all(|(p, q)| same(p, q));
            }
            match (a, b) {
                (Int(_) | Bool(_), Int(_) | Bool(_)) => a.int().ok() == b.int().ok(),
                (Int(_) | Bool(_) | Float(_), Int(_) | Bool(_) | Float(_)) => {
                    a.float().ok() == b.float().ok()
                }
                _ => false,
            }
        }
    }
}

/// `str` of Python.
pub fn show(of: &Value) -> String {
    match of {
        Value::None => "None".into(),
        Value::Bool(b) => if *b { "True" } else { "False" }.into(),
        Value::Int(n) => n.to_string(),
        Value::Float(x) => format!("{x:?}"),
        Value::Text(t) => t.to_string(),
        Value::DType(d) => d.name.into(),
        Value::Object(o) if !o.class.tuple => format!("{}(...)", o.class.name),
        _ => match of.parts() {
            Some(parts) => {
                let inner: Vec<String> = parts.iter().map(repr).collect();
                match (of, inner.len()) {
                    (Value::List(_), _) => format!("[{}]", inner.join(", ")),
                    (_, 1) => format!("({},)", inner[0]),
                    _ => format!("({})", inner.join(", ")),
                }
            }
            None => "an object".into(),
        },
    }
}

/// `repr` of Python.
pub fn repr(of: &Value) -> String {
    match of {
        Value::Text(t) => format!("'{t}'"),
        other => show(other),
    }
}
