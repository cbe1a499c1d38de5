//! Calls of functions, classes and methods, and attributes.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use crate::builtins;
use crate::eval::{Flow, Frame, Interp};
use crate::methods;
use crate::value::{
    by_name, fail, show, Class, Env, Found, Function, Generator, Named, Object, Value,
};

impl Interp {
    pub fn call(&self, f: &Value, args: Vec<Value>, named: Named<Value>) -> Found<Value> {
        match f {
            Value::Function(f) => self.run(f, args, named),
            Value::Class(class) => self.make(class, args, named),
            Value::Bound(of) => self.method(&of.0, &of.1, args, named),
            Value::Runtime(name) => builtins::call(self, name, args, named),
            other => fail(format!("{} cannot be called", show(other))),
        }
    }

    pub fn run(&self, f: &Function, mut args: Vec<Value>, named: Named<Value>) -> Found<Value> {
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

    pub fn make(&self, class: &Rc<Class>, args: Vec<Value>, named: Named<Value>) -> Found<Value> {
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
        methods::method(self, of, name, args, named)
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
            other => methods::attribute(other, name),
        }
    }
}
