//! Evaluates plans: statements and expressions of `tree`, with Python's meaning.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::builtins;
use crate::program::Program;
use crate::step::Body;
use crate::tree::{ClassDef, Comp, Compared, Def, Kind, Literal, Node, Statement, Target};
use crate::value::{
    by_name, fail, same, show, Class, Dict, Env, Found, Function, Generator, Named, Object, Stop,
    Value,
};

/// How a block ended.
enum Flow {
    Next,
    Break,
    Continue,
    Return(Value),
}

/// Takes what a generator yields.
type Sink<'a> = &'a mut dyn FnMut(Value) -> Found<()>;

struct Frame<'a> {
    env: Rc<Env>,
    sink: Option<Sink<'a>>,
}

/// One evaluation of plans. Modules are read once in it.
pub struct Interp {
    pub program: &'static Program,
    modules: RefCell<HashMap<Arc<str>, Rc<Env>>>,
    configs: RefCell<HashMap<Arc<str>, Value>>,
}

impl Interp {
    pub fn new(program: &'static Program) -> Interp {
        Interp { program, modules: RefCell::default(), configs: RefCell::default() }
    }

    /// A function of a module of plans.
    pub fn function(&self, module: &str, name: &str) -> Found<Value> {
        match self.program.symbols.find(name).map(|n| self.in_module(module, n)) {
            Some(found) => found,
            None => fail(format!("{module} has no {name}")),
        }
    }

    fn in_module(&self, module: &str, name: u32) -> Found<Value> {
        match self.module(module)?.get(name) {
            Some(value) => Ok(value),
            None => fail(format!("{module} lacks a name")),
        }
    }

    fn module(&self, name: &str) -> Found<Rc<Env>> {
        if let Some(env) = self.modules.borrow().get(name) {
            return Ok(env.clone());
        }
        let Some(module) = self.program.modules.get(name) else {
            return fail(format!("there is no module {name}"));
        };
        let env = Env::new(None, &module.names);
        self.modules.borrow_mut().insert(Arc::from(name), env.clone());
        self.block(&mut Frame { env: env.clone(), sink: None }, &module.body)?;
        Ok(env)
    }

    /// The value of a spec's expression.
    pub fn of_spec(&self, env: &Rc<Env>, node: &Node) -> Found<Value> {
        self.value(&mut Frame { env: env.clone(), sink: None }, node)
    }

    // -- configurations ---------------------------------------------------------------------------

    /// The configurations of a body, by name.
    pub fn configs(&self, name: &str) -> Found<Value> {
        if let Some(found) = self.configs.borrow().get(name) {
            return Ok(found.clone());
        }
        let body = self.body(name)?;
        let fields = body.configs().first().map(|(_, row)| row).into_iter().flatten();
        let class = Rc::new(Class {
            name: Arc::from("Config"),
            tuple: true,
            fields: fields.map(|(k, _)| k.clone()).collect(),
            defaults: vec![],
            methods: vec![],
            getters: vec![],
            statics: vec![],
            of_class: vec![],
            env: Env::new(None, &[]),
        });
        let rows = body.configs().iter().map(|(key, row)| {
            let fields = RefCell::new(row.iter().map(|(_, v)| from_json(v)).collect());
            let one = Object { class: class.clone(), fields };
            (Value::Text(key.clone()), Value::Object(Rc::new(one)))
        });
        let made = Value::dict(rows.collect());
        self.configs.borrow_mut().insert(Arc::from(name), made.clone());
        Ok(made)
    }

    pub fn config(&self, body: &Body, key: &Value) -> Found<Value> {
        builtins::at(&self.configs(&body.name)?, key)
    }

    pub fn body(&self, name: &str) -> Found<&'static Body> {
        match self.program.bodies.get(name) {
            Some(body) => Ok(body),
            None => fail(format!("the body {name} was not exported")),
        }
    }

    // -- statements -------------------------------------------------------------------------------

    fn block(&self, frame: &mut Frame, body: &[Statement]) -> Found<Flow> {
        for statement in body {
            match self.statement(frame, statement)? {
                Flow::Next => {}
                other => return Ok(other),
            }
        }
        Ok(Flow::Next)
    }

    fn statement(&self, frame: &mut Frame, of: &Statement) -> Found<Flow> {
        match of {
            Statement::Define(name, def) => {
                let made = self.define(&frame.env, def);
                frame.env.set(*name, Value::Function(made));
            }
            Statement::Class(def) => {
                let made = self.class(&frame.env, def);
                frame.env.set(def.symbol, Value::Class(made));
            }
            Statement::Assign(target, value) => {
                let value = self.value(frame, value)?;
                self.assign(frame, target, value)?;
            }
            Statement::Augment(target, op, left, right) => {
                let (left, right) = (self.value(frame, left)?, self.value(frame, right)?);
                if let (Value::List(into), "add") = (&left, &**op) {
                    let more = self.list(&right)?;
                    into.borrow_mut().extend(more);
                } else {
                    let made = builtins::binary(op, &left, &right)?;
                    self.assign(frame, target, made)?;
                }
            }
            Statement::Return(value) => return Ok(Flow::Return(self.value(frame, value)?)),
            Statement::Expr(value) => {
                self.value(frame, value)?;
            }
            Statement::Raise(value) => return fail(show(&self.value(frame, value)?)),
            Statement::Assert(test) => {
                if !self.test(frame, test)? {
                    return fail("an assertion does not hold");
                }
            }
            Statement::If(test, body, other) => {
                let chosen = if self.test(frame, test)? { body } else { other };
                return self.block(frame, chosen);
            }
            Statement::While(test, body) => {
                while self.test(frame, test)? {
                    match self.block(frame, body)? {
                        Flow::Break => break,
                        Flow::Return(value) => return Ok(Flow::Return(value)),
                        _ => {}
                    }
                }
            }
            Statement::For(target, source, body) => return self.repeat(frame, target, source, body),
            Statement::Try(body, other) => match self.block(frame, body) {
                Err(Stop::Fail(_)) => return self.block(frame, other),
                ended => return ended,
            },
            Statement::Break => return Ok(Flow::Break),
            Statement::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn repeat(
        &self,
        frame: &mut Frame,
        target: &Target,
        source: &Node,
        body: &[Statement],
    ) -> Found<Flow> {
        let source = self.value(frame, source)?;
        let mut ended = Flow::Next;
        self.each(&source, &mut |item| {
            self.assign(frame, target, item)?;
            match self.block(frame, body)? {
                Flow::Break => Ok(false),
                Flow::Return(value) => {
                    ended = Flow::Return(value);
                    Ok(false)
                }
                _ => Ok(true),
            }
        })?;
        Ok(ended)
    }

    fn define(&self, env: &Rc<Env>, def: &Arc<Def>) -> Rc<Function> {
        Rc::new(Function { def: def.clone(), env: env.clone(), class: RefCell::new(None) })
    }

    fn class(&self, env: &Rc<Env>, def: &ClassDef) -> Rc<Class> {
        let functions = |of: &[(Arc<str>, Arc<Def>)]| -> Named<Rc<Function>> {
            of.iter().map(|(name, f)| (name.clone(), self.define(env, f))).collect()
        };
        let made = Rc::new(Class {
            name: def.name.clone(),
            tuple: def.tuple,
            fields: def.fields.clone(),
            defaults: def.defaults.clone(),
            methods: functions(&def.methods),
            getters: functions(&def.getters),
            statics: functions(&def.statics),
            of_class: def.of_class.clone(),
            env: env.clone(),
        });
        for (name, f) in &made.statics {
            if made.of_class.contains(name) {
                *f.class.borrow_mut() = Some(made.clone());
            }
        }
        made
    }

    fn assign(&self, frame: &mut Frame, target: &Target, value: Value) -> Found<()> {
        match target {
            Target::To(name) => frame.env.set(*name, value),
            Target::Star(inner) => return self.assign(frame, inner, value),
            Target::Item(of, index) => {
                let (of, index) = (self.value(frame, of)?, self.value(frame, index)?);
                return builtins::put(&of, &index, value);
            }
            Target::Parts(targets) => {
                let mut parts = self.list(&value)?;
                let star = targets.iter().position(|t| matches!(t, Target::Star(_)));
                match star {
                    None if parts.len() != targets.len() => {
                        let (wanted, there) = (targets.len(), parts.len());
                        return fail(format!("{wanted} values are wanted, but {there} are there"));
                    }
                    Some(_) if parts.len() + 1 < targets.len() => {
                        return fail("too few values to unpack");
                    }
                    Some(i) => {
                        let n = parts.len() + 1 - targets.len();
                        let inside: Vec<Value> = parts.drain(i..i + n).collect();
                        parts.insert(i, Value::list(inside));
                    }
                    None => {}
                }
                for (target, part) in targets.iter().zip(parts) {
                    self.assign(frame, target, part)?;
                }
            }
        }
        Ok(())
    }

    // -- expressions ------------------------------------------------------------------------------

    fn test(&self, frame: &mut Frame, node: &Node) -> Found<bool> {
        let value = self.value(frame, node)?;
        self.truth(&value)
    }

    /// `bool` of Python.
    pub fn truth(&self, of: &Value) -> Found<bool> {
        Ok(match of {
            Value::None => false,
            Value::Bool(b) => *b,
            Value::Int(n) => *n != 0,
            Value::Float(x) => *x != 0.0,
            Value::Text(t) => !t.is_empty(),
            Value::Dict(d) | Value::Set(d) => !d.borrow().pairs.is_empty(),
            other => other.parts().is_none_or(|parts| !parts.is_empty()),
        })
    }

    fn value(&self, frame: &mut Frame, node: &Node) -> Found<Value> {
        Ok(match node {
            Node::Const(literal) => from_literal(literal),
            Node::Local(name) => match frame.env.get(*name) {
                Some(value) => value,
                None => return fail("a name is read before it has a value"),
            },
            Node::Runtime(name) => builtins::runtime(name),
            Node::Body(name) => Value::Body(name.clone()),
            Node::Configs(name) => self.configs(name)?,
            Node::Plan(name, None) => Value::Module(name.clone()),
            Node::Plan(module, Some(name)) => self.in_module(module, *name)?,
            Node::Table(pairs) => {
                let pairs = pairs.iter().map(|(k, v)| (from_json(k), from_json(v)));
                Value::dict(pairs.collect())
            }
            Node::Attr(of, name) => {
                let of = self.value(frame, of)?;
                self.attribute(&of, name)?
            }
            Node::At(of, index) => {
                let (of, index) = (self.value(frame, of)?, self.value(frame, index)?);
                builtins::at(&of, &index)?
            }
            Node::Cut(of, ends) => {
                let of = self.value(frame, of)?;
                let mut found = [None; 3];
                for (to, end) in found.iter_mut().zip(ends) {
                    if let Some(node) = end {
                        let value = self.value(frame, node)?;
                        *to = if value.is_none() { None } else { Some(value.int()?) };
                    }
                }
                builtins::cut(&of, found)?
            }
            Node::Call(function, args, named) => {
                let function = self.value(frame, function)?;
                let (args, named) = (self.all(frame, args)?, self.named(frame, named)?);
                self.call(&function, args, named)?
            }
            Node::Method(of, name, args, named) => {
                let of = self.value(frame, of)?;
                let (args, named) = (self.all(frame, args)?, self.named(frame, named)?);
                self.method(&of, name, args, named)?
            }
            Node::Bin(op, a, b) => {
                let (a, b) = (self.value(frame, a)?, self.value(frame, b)?);
                builtins::binary(op, &a, &b)?
            }
            Node::Neg(of) => match self.value(frame, of)? {
                Value::Float(x) => Value::Float(-x),
                other => Value::Int(-other.int()?),
            },
            Node::Not(of) => Value::Bool(!self.test(frame, of)?),
            Node::Invert(of) => Value::Int(!self.value(frame, of)?.int()?),
            Node::And(nodes) => self.first(frame, nodes, false)?,
            Node::Or(nodes) => self.first(frame, nodes, true)?,
            Node::Compare(left, rest) => {
                let mut left = self.value(frame, left)?;
                for (op, right) in rest {
                    let right = self.value(frame, right)?;
                    if !compare(op, &left, &right)? {
                        return Ok(Value::Bool(false));
                    }
                    left = right;
                }
                Value::Bool(true)
            }
            Node::If(test, a, b) => {
                let chosen = if self.test(frame, test)? { a } else { b };
                self.value(frame, chosen)?
            }
            Node::List(nodes) => Value::list(self.all(frame, nodes)?),
            Node::Tuple(nodes) => Value::tuple(self.all(frame, nodes)?),
            Node::Set(nodes) => Value::set(self.all(frame, nodes)?),
            Node::Dict(pairs) => {
                let mut made = Dict::default();
                for (key, value) in pairs {
                    let value = self.value(frame, value)?;
                    match key {
                        Some(key) => made.put(self.value(frame, key)?, value),
                        None => {
                            for (k, v) in builtins::pairs(&value)? {
                                made.put(k, v);
                            }
                        }
                    }
                }
                Value::Dict(Rc::new(RefCell::new(made)))
            }
            Node::Def(def) => Value::Function(self.define(&frame.env, def)),
            Node::Text(nodes) => {
                let parts = self.all(frame, nodes)?;
                Value::text(parts.iter().map(show).collect::<String>())
            }
            Node::Walrus(name, value) => {
                let value = self.value(frame, value)?;
                frame.env.set(*name, value.clone());
                value
            }
            Node::Yield(of) => {
                let value = self.value(frame, of)?;
                self.give(frame, value)?;
                Value::None
            }
            Node::YieldFrom(of) => {
                let source = self.value(frame, of)?;
                self.each(&source, &mut |value| {
                    self.give(frame, value)?;
                    Ok(true)
                })?;
                Value::None
            }
            Node::Comp(comp) => self.comp(frame, comp)?,
            Node::Star(_) => return fail("a starred value stands alone"),
        })
    }

    fn give(&self, frame: &mut Frame, value: Value) -> Found<()> {
        match &mut frame.sink {
            Some(sink) => sink(value),
            None => fail("yield outside of a generator"),
        }
    }

    /// The first value whose truth is `wanted`, else the last one.
    fn first(&self, frame: &mut Frame, nodes: &[Node], wanted: bool) -> Found<Value> {
        let mut value = Value::None;
        for node in nodes {
            value = self.value(frame, node)?;
            if self.truth(&value)? == wanted {
                break;
            }
        }
        Ok(value)
    }

    fn all(&self, frame: &mut Frame, nodes: &[Node]) -> Found<Vec<Value>> {
        let mut made = Vec::with_capacity(nodes.len());
        for node in nodes {
            if let Node::Star(of) = node {
                let of = self.value(frame, of)?;
                made.extend(self.list(&of)?);
            } else {
                made.push(self.value(frame, node)?);
            }
        }
        Ok(made)
    }

    fn named(
        &self,
        frame: &mut Frame,
        nodes: &[(Option<Arc<str>>, Node)],
    ) -> Found<Named<Value>> {
        let mut made = vec![];
        for (name, node) in nodes {
            let value = self.value(frame, node)?;
            match name {
                Some(name) => made.push((name.clone(), value)),
                None => {
                    for (k, v) in builtins::pairs(&value)? {
                        made.push((k.as_text()?, v));
                    }
                }
            }
        }
        Ok(made)
    }

    fn comp(&self, frame: &mut Frame, comp: &Arc<Comp>) -> Found<Value> {
        let first = self.value(frame, &comp.loops[0].source)?;
        let made = Generator::Comp(comp.clone(), frame.env.clone(), first);
        let made = Value::Generator(Rc::new(made));
        Ok(match comp.kind {
            Kind::Generator => made,
            Kind::List => Value::list(self.list(&made)?),
            Kind::Set => Value::set(self.list(&made)?),
            Kind::Dict => {
                let mut dict = Dict::default();
                self.each(&made, &mut |pair| {
                    let parts = pair.parts().unwrap_or_default();
                    dict.put(parts[0].clone(), parts[1].clone());
                    Ok(true)
                })?;
                Value::Dict(Rc::new(RefCell::new(dict)))
            }
        })
    }

    /// The loops of a comprehension from number `i` on.
    fn loops(
        &self,
        frame: &mut Frame,
        comp: &Comp,
        i: usize,
        first: &Value,
        sink: Sink,
    ) -> Found<()> {
        let Some(own) = comp.loops.get(i) else {
            let value = self.value(frame, &comp.element)?;
            return sink(value);
        };
        let source = if i == 0 { first.clone() } else { self.value(frame, &own.source)? };
        self.each(&source, &mut |item| {
            self.assign(frame, &own.target, item)?;
            for test in &own.tests {
                if !self.test(frame, test)? {
                    return Ok(true);
                }
            }
            self.loops(frame, comp, i + 1, first, sink)?;
            Ok(true)
        })
    }

    // -- iteration --------------------------------------------------------------------------------

    /// Calls `f` with each element until it says false.
    pub fn each(&self, of: &Value, f: &mut dyn FnMut(Value) -> Found<bool>) -> Found<()> {
        let all = match of {
            Value::Generator(g) => return self.generate(g, f),
            Value::Dict(d) | Value::Set(d) => {
                d.borrow().pairs.iter().map(|(k, _)| k.clone()).collect()
            }
            Value::Text(t) => t.chars().map(|c| Value::text(c.to_string())).collect(),
            other => match other.parts() {
                Some(parts) => parts,
                None => return fail(format!("{} is not iterable", show(other))),
            },
        };
        for value in all {
            if !f(value)? {
                break;
            }
        }
        Ok(())
    }

    fn generate(&self, of: &Generator, f: &mut dyn FnMut(Value) -> Found<bool>) -> Found<()> {
        let mut sink = |value| if f(value)? { Ok(()) } else { Err(Stop::Enough) };
        let ended = match of {
            Generator::Comp(comp, env, first) => {
                let env = Env::new(Some(env.clone()), &comp.names);
                self.loops(&mut Frame { env, sink: None }, comp, 0, first, &mut sink)
            }
            Generator::Call(def, env) => {
                // A generator may be read twice by `next`: each reading begins anew.
                let vars = env.vars.borrow().clone();
                let own = Rc::new(Env { vars: RefCell::new(vars), parent: env.parent.clone() });
                let mut frame = Frame { env: own, sink: Some(&mut sink) };
                self.block(&mut frame, &def.body).map(|_| ())
            }
        };
        match ended {
            Err(Stop::Enough) => Ok(()),
            other => other,
        }
    }

    pub fn list(&self, of: &Value) -> Found<Vec<Value>> {
        let mut made = vec![];
        self.each(of, &mut |value| {
            made.push(value);
            Ok(true)
        })?;
        Ok(made)
    }

    // -- calls ------------------------------------------------------------------------------------

    pub fn call(&self, f: &Value, args: Vec<Value>, named: Named<Value>) -> Found<Value> {
        match f {
            Value::Function(f) => self.run(f, args, named),
            Value::Class(class) => self.make(class, args, named),
            Value::Bound(of) => self.method(&of.0, &of.1, args, named),
            Value::Runtime(name) => builtins::call(self, name, args, named),
            other => fail(format!("{} cannot be called", show(other))),
        }
    }

    fn run(&self, f: &Function, mut args: Vec<Value>, named: Named<Value>) -> Found<Value> {
        if let Some(class) = &*f.class.borrow() {
            args.insert(0, Value::Class(class.clone()));
        }
        let def = &f.def;
        let env = Env::new(Some(f.env.clone()), &def.locals);
        let mut named = named;
        for (i, (symbol, name)) in def.names.iter().enumerate() {
            let at = named.iter().position(|(n, _)| n == name);
            let value = if i < def.positional && i < args.len() {
                args[i].clone()
            } else if let Some(at) = at {
                named.remove(at).1
            } else if let Some(node) = by_name(&def.defaults, name) {
                self.value(&mut Frame { env: f.env.clone(), sink: None }, node)?
            } else {
                return fail(format!("the argument {name} is missing"));
            };
            env.declare(*symbol, value);
        }
        let rest = args.split_off(def.positional.min(args.len()));
        match def.rest {
            Some(name) => env.declare(name, Value::tuple(rest)),
            None if !rest.is_empty() => return fail("too many arguments"),
            None => {}
        }
        match def.named {
            Some(name) => {
                let pairs = named.into_iter().map(|(k, v)| (Value::Text(k), v)).collect();
                env.declare(name, Value::dict(pairs));
            }
            None if !named.is_empty() => {
                return fail(format!("there is no argument {}", named[0].0));
            }
            None => {}
        }
        if def.generator {
            return Ok(Value::Generator(Rc::new(Generator::Call(def.clone(), env))));
        }
        match self.block(&mut Frame { env, sink: None }, &def.body)? {
            Flow::Return(value) => Ok(value),
            _ => Ok(Value::None),
        }
    }

    fn make(&self, class: &Rc<Class>, args: Vec<Value>, named: Named<Value>) -> Found<Value> {
        if args.len() > class.fields.len() {
            return fail(format!("{} takes {} values", class.name, class.fields.len()));
        }
        let mut fields = vec![];
        for (i, name) in class.fields.iter().enumerate() {
            fields.push(match (args.get(i), by_name(&named, name)) {
                (Some(value), _) | (None, Some(value)) => value.clone(),
                _ => match by_name(&class.defaults, name) {
                    Some(node) => {
                        self.value(&mut Frame { env: class.env.clone(), sink: None }, node)?
                    }
                    None => return fail(format!("{}: {name} is missing", class.name)),
                },
            });
        }
        if let Some((name, _)) = named.iter().find(|(n, _)| !class.fields.contains(n)) {
            return fail(format!("{} has no {name}", class.name));
        }
        let fields = RefCell::new(fields);
        Ok(Value::Object(Rc::new(Object { class: class.clone(), fields })))
    }

    pub fn method(
        &self,
        of: &Value,
        name: &Arc<str>,
        mut args: Vec<Value>,
        named: Named<Value>,
    ) -> Found<Value> {
        match of {
            Value::Object(o) => {
                if let Some(f) = by_name(&o.class.methods, name) {
                    args.insert(0, of.clone());
                    return self.run(f, args, named);
                }
                if let Some(f) = by_name(&o.class.statics, name) {
                    return self.run(f, args, named);
                }
                if o.class.fields.contains(name) || by_name(&o.class.getters, name).is_some() {
                    return self.call(&self.attribute(of, name)?, args, named);
                }
            }
            Value::Class(class) => {
                if let Some(f) = by_name(&class.statics, name) {
                    return self.run(f, args, named);
                }
                if let Some(f) = by_name(&class.methods, name) {
                    return self.run(f, args, named);
                }
            }
            Value::Module(module) => {
                return self.call(&self.function(module, name)?, args, named);
            }
            Value::Body(body) if &**name == "step" => {
                if args.is_empty() {
                    return fail("a step needs caps");
                }
                let caps = args.remove(0);
                let step = self.body(body)?.step(self, caps, args, named)?;
                return Ok(Value::Step(Rc::new(step)));
            }
            _ => {}
        }
        builtins::method(self, of, name, args, named)
    }

    pub fn attribute(&self, of: &Value, name: &Arc<str>) -> Found<Value> {
        match of {
            Value::Object(o) => {
                if let Some(i) = o.class.fields.iter().position(|f| f == name) {
                    return Ok(o.fields.borrow()[i].clone());
                }
                if let Some(f) = by_name(&o.class.getters, name) {
                    return self.run(f, vec![of.clone()], vec![]);
                }
                if by_name(&o.class.methods, name).is_some() {
                    return Ok(Value::Bound(Rc::new((of.clone(), name.clone()))));
                }
                fail(format!("{} has no {name}", o.class.name))
            }
            Value::Class(class) => match by_name(&class.statics, name) {
                Some(f) => Ok(Value::Function(f.clone())),
                None => fail(format!("{} has no {name}", class.name)),
            },
            Value::Module(module) => self.function(module, name),
            Value::Body(body) if &**name == "CONFIGS" => self.configs(body),
            other => builtins::attribute(other, name),
        }
    }
}

fn compare(op: &Compared, a: &Value, b: &Value) -> Found<bool> {
    let is = |a: &Value, b: &Value| match (a, b) {
        (Value::Bool(x), Value::Bool(y)) => x == y,
        (Value::Bool(_), _) | (_, Value::Bool(_)) => false,
        _ => same(a, b),
    };
    Ok(match op {
        Compared::Eq => same(a, b),
        Compared::NotEq => !same(a, b),
        Compared::Lt => builtins::less(a, b)?,
        Compared::LtE => !builtins::less(b, a)?,
        Compared::Gt => builtins::less(b, a)?,
        Compared::GtE => !builtins::less(a, b)?,
        Compared::In => builtins::has(b, a)?,
        Compared::NotIn => !builtins::has(b, a)?,
        Compared::Is => is(a, b),
        Compared::IsNot => !is(a, b),
    })
}

fn from_literal(of: &Literal) -> Value {
    match of {
        Literal::None => Value::None,
        Literal::Bool(b) => Value::Bool(*b),
        Literal::Int(n) => Value::Int(*n),
        Literal::Float(x) => Value::Float(*x),
        Literal::Text(t) => Value::Text(t.clone()),
    }
}

/// Data as plans see it: an object is a dict whose keys are attributes, too.
pub fn from_json(of: &Json) -> Value {
    match of {
        Json::Array(all) => Value::tuple(all.iter().map(from_json).collect()),
        Json::Object(all) => {
            Value::dict(all.iter().map(|(k, v)| (Value::text(k), from_json(v))).collect())
        }
        other => from_literal(&crate::tree::literal(other)),
    }
}
