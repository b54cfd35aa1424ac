package temporal

import "time"

// WithTries and WithTimeToBegin make short what takes long.
func WithTries(n int) Option                 { return func(e *Engine) { e.tries = n } }
func WithTimeToBegin(d time.Duration) Option { return func(e *Engine) { e.toBegin = d } }

var WorkflowID = workflowID

// Queue is the task queue.
func (e *Engine) Queue() string { return e.queue }

// WithQueue sets the task queue, for processes of one test.
func WithQueue(q string) Option { return func(e *Engine) { e.queue = q } }
