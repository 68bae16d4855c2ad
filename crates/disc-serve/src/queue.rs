//! Requests that wait for a worker, in lanes of those that can run as one.
//!
//! Invariants: at most `max_queue` requests wait; a lane runs when it has `max_batch` rows or its
//! oldest request has waited for `max_delay`, the oldest lane first; one that nothing can join runs
//! at once.

use crate::{error::Failure, model::Key, options::ServeOptions};
use disc_ral::{HostTensor, Tensor};
use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

pub(crate) type Answer = Result<Vec<Tensor<'static>>, Failure>;

/// A request.
pub(crate) struct Job {
    pub(crate) inputs: Vec<HostTensor>,
    /// The rows of a request that may be joined with others.
    pub(crate) rows: usize,
    arrived: Instant,
    answer: oneshot::Sender<Answer>,
}

impl Job {
    pub(crate) fn answer(self, answer: Answer) {
        // A client that has gone needs no answer.
        let _ = self.answer.send(answer);
    }
}

/// Requests that can run as one.
struct Lane {
    /// `None`: nothing can join.
    key: Option<Key>,
    jobs: VecDeque<Job>,
    rows: usize,
}

#[derive(Default)]
struct State {
    lanes: Vec<Lane>,
    waiting: usize,
    is_closed: bool,
}

pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    max_batch: usize,
    max_delay: Duration,
    max_queue: usize,
}

impl Queue {
    pub(crate) fn new(options: &ServeOptions) -> Self {
        let ServeOptions { max_batch, max_delay, max_queue, .. } = *options;
        Self { state: Mutex::default(), changed: Condvar::new(), max_batch, max_delay, max_queue }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request. Returns the receiver of its answer.
    ///
    /// # Errors
    /// The queue is full, or closed.
    pub(crate) fn push(&self, inputs: Vec<HostTensor>, key: Option<(Key, usize)>) -> Result<oneshot::Receiver<Answer>, Failure> {
        let (answer, receiver) = oneshot::channel();
        let mut state = self.lock();
        if state.is_closed {
            return Err(Failure::busy("the server is stopping"));
        }
        if state.waiting >= self.max_queue {
            return Err(Failure::busy(format!("{} requests are waiting: try again later", state.waiting)));
        }
        state.waiting += 1;
        let (key, rows) = key.map_or((None, 1), |(key, rows)| (Some(key), rows));
        let job = Job { inputs, rows, arrived: Instant::now(), answer };
        match state.lanes.iter_mut().find(|lane| key.is_some() && lane.key == key) {
            Some(lane) => {
                lane.rows += rows;
                lane.jobs.push_back(job);
            }
            None => state.lanes.push(Lane { key, jobs: VecDeque::from([job]), rows }),
        }
        drop(state);
        self.changed.notify_one();
        Ok(receiver)
    }

    /// Waits for requests to run as one; `None` once the queue is closed and empty.
    pub(crate) fn take(&self) -> Option<Vec<Job>> {
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            let due = |lane: &Lane| lane.jobs.front().map_or(now, |job| job.arrived + self.max_delay);
            let is_full = |lane: &Lane| lane.key.is_none() || lane.rows >= self.max_batch;
            let runs = |lane: &Lane| state.is_closed || is_full(lane) || due(lane) <= now;
            let ready = state.lanes.iter().enumerate().filter(|(_, lane)| runs(lane)).min_by_key(|(_, lane)| due(lane));
            if let Some((at, _)) = ready {
                let jobs = state.pop(at, self.max_batch);
                let is_more = state.waiting > 0;
                drop(state);
                if is_more {
                    self.changed.notify_one();
                }
                return Some(jobs);
            }
            if state.is_closed {
                return None;
            }
            let next = state.lanes.iter().map(due).min();
            state = match next {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(next) => {
                    let wait = self.changed.wait_timeout(state, next.saturating_duration_since(now));
                    wait.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Lets workers run what waits and then stop.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    pub(crate) fn waiting(&self) -> usize {
        self.lock().waiting
    }
}

impl State {
    /// Takes requests of up to so many rows from a lane, one at least.
    fn pop(&mut self, at: usize, max_rows: usize) -> Vec<Job> {
        let lane = &mut self.lanes[at];
        let (mut jobs, mut rows) = (Vec::new(), 0);
        while let Some(job) = lane.jobs.pop_front_if(|job| jobs.is_empty() || rows + job.rows <= max_rows) {
            rows += job.rows;
            jobs.push(job);
        }
        lane.rows -= rows;
        if lane.jobs.is_empty() {
            self.lanes.remove(at);
        }
        self.waiting -= jobs.len();
        // A client that has gone is not computed for.
        jobs.retain(|job| !job.answer.is_closed());
        jobs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(max_batch: usize, max_delay: u64) -> Queue {
        let max_delay = Duration::from_millis(max_delay);
        Queue::new(&ServeOptions { max_batch, max_delay, max_queue: 4, ..ServeOptions::new("x") })
    }

    fn key(size: i64, rows: usize) -> Option<(Key, usize)> {
        Some((vec![vec![size]], rows))
    }

    fn rows(queue: &Queue) -> Vec<usize> {
        queue.take().unwrap().iter().map(|job| job.rows).collect()
    }

    #[test]
    fn requests_of_the_same_sizes_run_as_one() {
        let queue = queue(4, 10_000);
        let wait = [key(8, 2), key(9, 4), key(8, 1), key(8, 2)].map(|key| queue.push(Vec::new(), key).unwrap());
        assert_eq!(rows(&queue), [2, 1], "the oldest lane, up to four rows");
        assert_eq!(rows(&queue), [4]);
        queue.close();
        assert_eq!(rows(&queue), [2], "a closed queue does not wait");
        assert!(queue.take().is_none());
        assert!(queue.push(Vec::new(), None).is_err());
        drop(wait);
    }

    #[test]
    fn a_request_waits_for_others_and_no_longer_than_it_may() {
        let queue = queue(4, 30);
        let start = Instant::now();
        let _wait = queue.push(Vec::new(), key(8, 1)).unwrap();
        assert_eq!(rows(&queue), [1]);
        assert!(start.elapsed() >= Duration::from_millis(30));
        let _wait = queue.push(Vec::new(), None).unwrap();
        let start = Instant::now();
        assert_eq!(rows(&queue), [1]);
        assert!(start.elapsed() < Duration::from_millis(30), "nothing can join it");
    }

    #[test]
    fn a_full_queue_refuses_and_clients_that_have_gone_are_dropped() {
        let queue = queue(8, 0);
        let wait: Vec<_> = (0..4).map(|_| queue.push(Vec::new(), key(8, 1)).unwrap()).collect();
        assert_eq!(queue.push(Vec::new(), None).unwrap_err().status, 503);
        assert_eq!(queue.waiting(), 4);
        drop(wait);
        assert!(rows(&queue).is_empty());
        assert_eq!(queue.waiting(), 0);
    }
}
