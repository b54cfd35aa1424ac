package push

import (
	"context"
	"reflect"
	"slices"
	"sync"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// maxJoined is the largest number of parts of a joined artifact update.
const maxJoined = 256

// webhook is a config with its waiting events. At most one worker posts them, so that they arrive in order.
type webhook struct {
	task  Task
	id    string
	limit int

	ctx    context.Context // canceled when the config is deleted
	cancel context.CancelFunc

	mu      sync.Mutex
	record  Record
	waiting []sdk.Event
	stale   bool // an event was lost, so the next one must be a snapshot
	working bool // a worker is running
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

// open reports whether the webhook still expects the end of its task.
func (w *webhook) open() bool {
	return w.current().Ended.IsZero()
}

func (w *webhook) replace(r Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.record = r
}

// drop removes the waiting events and cancels the request that is being sent.
func (w *webhook) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone, w.waiting = true, nil
	w.cancel()
}

// add queues the event and reports whether the caller must start a worker. It ignores events after the end of the task.
func (w *webhook) add(e sdk.Event, snapshot func() *sdk.Task) (start bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone || !w.record.Ended.IsZero() {
		return false
	}
	if isLegacy(w.record.Protocol) {
		// Receivers of protocol 0.3 expect tasks. The specification does not require it, but its SDKs do.
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
			// The state is not known. Drop the oldest event, because the one that ends the task matters most.
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

// next removes and returns the next event with the current config. If it returns false, the worker ends.
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

// lost records that an event was not delivered. It also removes waiting updates that append to artifacts, because they
// are useless without the earlier ones. A snapshot will replace them.
func (w *webhook) lost() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stale = true
	w.waiting = slices.DeleteFunc(w.waiting, func(e sdk.Event) bool {
		u, ok := e.(*sdk.TaskArtifactUpdateEvent)
		return ok && u.Append
	})
}

// joinUpdates returns one artifact update with the effect of both, or nil if they cannot be joined. It does not change
// the updates, because they are shared.
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

// endsTask reports whether the event is the last one of the task.
func endsTask(e sdk.Event) bool {
	switch e := e.(type) {
	case *sdk.Task:
		return e.Status.State.Terminal()
	case *sdk.TaskStatusUpdateEvent:
		return e.Status.State.Terminal()
	}
	return false
}
