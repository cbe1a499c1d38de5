//! Evaluates plans, the nodes of `tree`, with Python's meaning: modules and statements.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::operators;
use crate::program::Program;
use crate::step::Body;
use crate::tree::{ClassDef, Def, Literal, Node, Statement, Target};
use crate::value::{
    fail, show, Class, Env, Found, Function, Named, Object, Stop, Value,
};

/// How a block ended.
pub enum Flow {
    Next,
    Break,
    Continue,
    Return(Value),
}

/// Takes what a generator yields.
pub type Sink<'a> = &'a mut dyn FnMut(Value) -> Found<()>;

pub struct Frame<'a> {
    pub env: Rc<Env>,
    pub sink: Option<Sink<'a>>,
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

    pub fn in_module(&self, module: &str, name: u32) -> Found<Value> {
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
        operators::at(&self.configs(&body.name)?, key)
    }

    pub fn body(&self, name: &str) -> Found<&'static Body> {
        match self.program.bodies.get(name) {
            Some(body) => Ok(body),
            None => fail(format!("the body {name} was not exported")),
        }
    }

    // -- statements -------------------------------------------------------------------------------

    pub fn block(&self, frame: &mut Frame, body: &[Statement]) -> Found<Flow> {
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
                    let made = operators::binary(op, &left, &right)?;
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

    pub fn define(&self, env: &Rc<Env>, def: &Arc<Def>) -> Rc<Function> {
        Rc::new(Function { def: def.clone(), env: env.clone(), class: RefCell::new(None) })
    }

    pub fn class(&self, env: &Rc<Env>, def: &ClassDef) -> Rc<Class> {
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

    pub fn assign(&self, frame: &mut Frame, target: &Target, value: Value) -> Found<()> {
        match target {
            Target::To(name) => frame.env.set(*name, value),
            Target::Star(inner) => return self.assign(frame, inner, value),
            Target::Item(of, index) => {
                let (of, index) = (self.value(frame, of)?, self.value(frame, index)?);
                return operators::put(&of, &index, value);
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
}

pub fn from_literal(of: &Literal) -> Value {
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
