//! Watches calls and kernels: by subscribers of `tracing`, and by an observer.

use crate::harness::{entry, executable, input, launch, plain, run};
use disc_abi::{Context, STATUS_OK, Tensor};
use disc_ral::*;
use std::{
    fmt::{Debug, Write},
    sync::{Arc, Mutex},
};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::with_default,
};
use tracing_subscriber::{
    Layer, Registry,
    filter::Targets,
    layer::{Context as LayerContext, SubscriberExt},
    registry::LookupSpan,
};

unsafe extern "C" fn nothing(_: *const u64, _: i64, _: i64, _: *mut u8) -> i32 {
    STATUS_OK
}

unsafe extern "C" fn two_launches(ctx: *mut Context, _: *const Tensor, _: *mut Tensor) -> i32 {
    launch(ctx, nothing, &[], 3, 100);
    launch(ctx, nothing, &[], 5, 200)
}

/// Writes down what happens, without numbers that differ from run to run.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<String>>);

impl Visit for Notes {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "nanoseconds" => write!(self.0.lock().unwrap(), " nanoseconds").unwrap(),
            name => write!(self.0.lock().unwrap(), " {name}={value:?}").unwrap(),
        }
    }
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for Notes {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: LayerContext<'_, S>) {
        write!(self.0.lock().unwrap(), "{}", attributes.metadata().name()).unwrap();
        attributes.record(&mut self.clone());
        writeln!(self.0.lock().unwrap()).unwrap();
    }

    fn on_record(&self, _: &Id, values: &Record<'_>, _: LayerContext<'_, S>) {
        values.record(&mut self.clone());
        writeln!(self.0.lock().unwrap()).unwrap();
    }

    fn on_event(&self, event: &Event<'_>, _: LayerContext<'_, S>) {
        write!(self.0.lock().unwrap(), "event").unwrap();
        event.record(&mut self.clone());
        writeln!(self.0.lock().unwrap()).unwrap();
    }

    fn on_close(&self, id: Id, context: LayerContext<'_, S>) {
        writeln!(self.0.lock().unwrap(), "end {}", context.span(&id).unwrap().name()).unwrap();
    }
}

/// Returns what a subscriber for this level of the runtime's target notes of a call.
fn noted(level: Level) -> String {
    let inputs = vec![input("x", DType::F32, &["B", "2*B", "S"]), input("y", DType::F32, &["S"])];
    let executable = executable(two_launches, entry("f", inputs, Vec::new()), Vec::new());
    let (x, y) = (HostTensor::zeros(DType::F32, &[3, 6, 4]).unwrap(), HostTensor::zeros(DType::F32, &[4]).unwrap());
    let notes = Notes::default();
    let subscriber = Registry::default().with(notes.clone()).with(Targets::new().with_target(TRACE, level));
    let mut session = executable.session();
    with_default(subscriber, || run(&executable, &mut session, &[x.as_input(), y.as_input()]).unwrap());
    assert!(session.take_profile().is_empty(), "nobody asked for a profile");
    notes.0.lock().unwrap().clone()
}

#[test]
fn a_call_is_a_span_with_its_kernels_in_it() {
    let expected = "call entry=\"f\"
 sizes=\"B=3 S=4\"
kernel name=\"kernel\" units=3
event message=launched nanoseconds threads=1 estimated=100
end kernel
kernel name=\"kernel\" units=5
event message=launched nanoseconds threads=1 estimated=200
end kernel
end call
";
    assert_eq!(noted(Level::TRACE), expected);
}

#[test]
fn a_subscriber_of_another_level_sees_nothing() {
    assert_eq!(noted(Level::DEBUG), "");
}

/// Counts the kernels that begin and those that end.
struct Seen(Arc<Mutex<Vec<String>>>);

impl LaunchObserver for Seen {
    fn begin(&mut self, name: &str) {
        self.0.lock().unwrap().push(format!("begin {name}"));
    }

    fn end(&mut self) {
        self.0.lock().unwrap().push("end".into());
    }
}

#[test]
fn an_observer_is_called_around_each_kernel() {
    let (executable, seen) = (plain(two_launches), Arc::new(Mutex::new(Vec::new())));
    let mut session = executable.session();
    session.observe(Box::new(Seen(Arc::clone(&seen))));
    run(&executable, &mut session, &[]).unwrap();
    let records = session.take_profile();
    run(&executable, &mut session, &[]).unwrap();
    assert_eq!(records.iter().map(|record| (record.units, record.name.clone())).collect::<Vec<_>>(), [(3, None), (5, None)]);
    assert_eq!(*seen.lock().unwrap(), ["begin kernel", "end", "begin kernel", "end"]);
}
