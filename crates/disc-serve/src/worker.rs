//! Runs requests: one session in each worker thread.

use crate::{
    batch,
    error::Failure,
    metrics::Metrics,
    model::Model,
    queue::{Answer, Job, Queue},
};
use disc_ral::{HostTensor, Session, Tensor};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

pub(crate) struct Worker {
    pub(crate) model: Arc<Model>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) session: Session,
}

impl Worker {
    /// Runs requests until the queue is closed and empty.
    pub(crate) fn run(mut self) {
        while let Some(jobs) = self.queue.take() {
            if jobs.len() > 1 {
                self.run_joined(jobs);
            } else {
                self.run_each(jobs);
            }
        }
    }

    fn run_each(&mut self, jobs: Vec<Job>) {
        for mut job in jobs {
            let answer = self.call(std::mem::take(&mut job.inputs));
            job.answer(answer);
        }
    }

    /// Runs requests as one. If that fails, it runs each separately: the failure of one affects no
    /// other.
    fn run_joined(&mut self, mut jobs: Vec<Job>) {
        let Ok(answers) = self.joined(&jobs) else { return self.run_each(jobs) };
        if !self.model.starts_trial() {
            jobs.into_iter().zip(answers).for_each(|(job, answer)| job.answer(Ok(answer)));
            return;
        }
        let alone: Vec<Answer> = jobs.iter_mut().map(|job| self.call(std::mem::take(&mut job.inputs))).collect();
        let same = |(joined, alone): (&Vec<Tensor<'_>>, &Answer)| {
            alone.as_ref().is_ok_and(|alone| joined.iter().zip(alone).all(|(a, b)| batch::is_close(a, b)))
        };
        if !answers.iter().zip(&alone).all(same) {
            self.model.stop_joining();
        }
        jobs.into_iter().zip(alone).for_each(|(job, answer)| job.answer(answer));
    }

    /// Returns the results of each request, computed as one.
    fn joined(&mut self, jobs: &[Job]) -> Result<Vec<Vec<Tensor<'static>>>, Failure> {
        let inputs = (0..jobs[0].inputs.len()).map(|i| {
            let parts: Vec<&HostTensor> = jobs.iter().map(|job| &job.inputs[i]).collect();
            batch::join(&parts)
        });
        let inputs = inputs.collect::<Result<_, _>>()?;
        let rows: Vec<usize> = jobs.iter().map(|job| job.rows).collect();
        let split = self.call(inputs)?.into_iter().map(|result| Ok(batch::split(&result, &rows)?.into_iter()));
        let mut split = split.collect::<Result<Vec<_>, Failure>>()?;
        Ok(jobs.iter().map(|_| split.iter_mut().filter_map(Iterator::next).collect()).collect())
    }

    /// Runs the entry. A panic costs the session, and fails only these requests.
    fn call(&mut self, inputs: Vec<HostTensor>) -> Answer {
        self.metrics.count_call();
        let inputs: Vec<Tensor<'_>> = inputs.into_iter().map(Tensor::from).collect();
        let entry = self.model.entry_name();
        match catch_unwind(AssertUnwindSafe(|| self.session.run(entry, &inputs))) {
            Ok(result) => result.map_err(Failure::from),
            Err(_) => {
                self.session = self.model.session()?;
                Err(Failure::internal("disc panicked"))
            }
        }
    }
}
