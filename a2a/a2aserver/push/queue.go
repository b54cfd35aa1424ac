package push

import (
	"context"
	"reflect"
	"slices"
	"sync"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// maxJoined is how many parts a joined artifact update may have.
const maxJoined = 256

// webhook is a config with the events that wait for it. At most one worker posts
// them, so that they arrive in their order.
type webhook struct {
	task  Task
	id    string
	limit int

	ctx    context.Context // canceled when the config is deleted
	cancel context.CancelFunc

	mu      sync.Mutex
	record  Record
	waiting []sdk.Event
	stale   bool // an event was lost, so that the next one must be a snapshot
	working bool // a worker runs
	gone    bool
}

func newWebhook(ctx context.Context, r Record, limit int) *webhook {
	w := &webhook{task: r.task(), id: r.Config.ID, limit: limit, record: r}
	w.ctx, w.cancel = context.WithCancel(ctx)
	return w
}

func (w *webhook) current() Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.record
}

// open reports whether the webhook has not heard the end of its task.
func (w *webhook) open() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.record.Ended.IsZero()
}

func (w *webhook) replace(r Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.record = r
}

// Drop forgets what waits and cancels what is being sent.
func (w *webhook) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone, w.waiting = true, nil
	w.cancel()
}

// add queues the event and reports whether a worker must be started. To who has
// heard the end of the task there is nothing more to say.
func (w *webhook) add(e sdk.Event, snapshot func() *sdk.Task) (start bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone || !w.record.Ended.IsZero() {
		return false
	}
	if isLegacy(w.record.Protocol) {
		// Its receivers expect tasks (A2A 0.3 leaves it open, and its SDKs do so).
		switch e.(type) {
		case *sdk.TaskArtifactUpdateEvent:
			return false
		case *sdk.TaskStatusUpdateEvent:
			if t := snapshot(); t != nil {
				e = t
			}
		}
	}
	joined := joinUpdates(w.last(), e)
	switch {
	case w.stale || joined == nil && len(w.waiting) >= w.limit:
		if t := snapshot(); t != nil {
			w.waiting, w.stale = []sdk.Event{t}, false
		} else {
			// Nobody knows the state. What ends the task is worth more than the rest.
			w.waiting = append(slices.Delete(w.waiting, 0, min(1, len(w.waiting))), e)
		}
	case joined != nil:
		w.waiting[len(w.waiting)-1] = joined
	default:
		w.waiting = append(w.waiting, e)
	}
	start, w.working = !w.working, true
	return start
}

func (w *webhook) last() sdk.Event {
	if len(w.waiting) == 0 {
		return nil
	}
	return w.waiting[len(w.waiting)-1]
}

// next takes the event that is to be posted, and the config as it is now. False
// ends the worker.
func (w *webhook) next() (sdk.Event, Record, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) == 0 {
		w.waiting, w.working = nil, false
		return nil, Record{}, false
	}
	e := w.waiting[0]
	w.waiting[0] = nil
	w.waiting = w.waiting[1:]
	return e, w.record, true
}

// lost notes that an event was not delivered. Updates that append to artifacts
// are of no use any more to who has not seen all before, so they go as well; a
// snapshot will take their place.
func (w *webhook) lost() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stale = true
	w.waiting = slices.DeleteFunc(w.waiting, func(e sdk.Event) bool {
		u, ok := e.(*sdk.TaskArtifactUpdateEvent)
		return ok && u.Append
	})
}

// joinUpdates returns one artifact update that does what both would do one after
// the other, or nil if there is none. The updates are shared with others and
// stay as they are.
func joinUpdates(before, after sdk.Event) sdk.Event {
	a, ok := before.(*sdk.TaskArtifactUpdateEvent)
	b, ok2 := after.(*sdk.TaskArtifactUpdateEvent)
	if !ok || !ok2 || !b.Append || a.LastChunk || a.Artifact == nil || b.Artifact == nil ||
		a.Artifact.ID != b.Artifact.ID || a.TaskID != b.TaskID || a.ContextID != b.ContextID ||
		len(a.Artifact.Parts)+len(b.Artifact.Parts) > maxJoined || !reflect.DeepEqual(a.Metadata, b.Metadata) {
		return nil
	}
	if b.Artifact.Name != "" && b.Artifact.Name != a.Artifact.Name ||
		b.Artifact.Description != "" && b.Artifact.Description != a.Artifact.Description ||
		b.Artifact.Extensions != nil && !slices.Equal(a.Artifact.Extensions, b.Artifact.Extensions) ||
		b.Artifact.Metadata != nil && !reflect.DeepEqual(a.Artifact.Metadata, b.Artifact.Metadata) {
		return nil
	}
	joined, artifact := *a, *a.Artifact
	artifact.Parts = slices.Concat(a.Artifact.Parts, b.Artifact.Parts)
	joined.Artifact, joined.LastChunk = &artifact, b.LastChunk
	return &joined
}

// endsTask reports whether there will be nothing more to say of the task.
func endsTask(e sdk.Event) bool {
	switch e := e.(type) {
	case *sdk.Task:
		return e.Status.State.Terminal()
	case *sdk.TaskStatusUpdateEvent:
		return e.Status.State.Terminal()
	}
	return false
}
