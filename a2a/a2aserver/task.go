package a2aserver

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
)

// taskID returns the id of a task: the position at which it begins, its turn and its session. The server finds a task
// by its id without an index, so tasks need no storage.
func taskID(seq int64, turnID, contextID string) sdk.TaskID {
	return sdk.TaskID(strconv.FormatInt(seq, 36) + "-" + turnID + "." + contextID)
}

func parseTaskID(id sdk.TaskID) (seq int64, turnID, contextID string, ok bool) {
	head, contextID, _ := strings.Cut(string(id), ".")
	first, turnID, ok := strings.Cut(head, "-")
	if !ok || contextID == "" || turnID == "" {
		return 0, "", "", false
	}
	seq, err := strconv.ParseInt(first, 36, 64)
	return seq, turnID, contextID, err == nil && seq > 0 && strconv.FormatInt(seq, 36) == first
}

// startOf returns the position at which a task begins in its session.
func startOf(id sdk.TaskID) int64 {
	seq, _, _, _ := parseTaskID(id)
	return seq
}

func notFound(id sdk.TaskID) error {
	// Some clients search for the wording of the protocol.
	return sdk.NewError(sdk.ErrTaskNotFound, fmt.Sprintf("task not found: %.300q", string(id)))
}

// storedTask is a task that was read from the log. seq is the last position that was read.
type storedTask struct {
	*projection
	key session.Key
	seq int64
	a2a bool // an A2A message started it
}

// find reads a task of the caller from the log. It does not find tasks of other callers or tenants.
func (s *served) find(ctx context.Context, id sdk.TaskID, extended bool) (*storedTask, error) {
	return s.findAt(ctx, id, nil, extended)
}

// findAt reads a task as it was when the event at had just been stored. If at is nil, it reads the task as it is now.
func (s *served) findAt(ctx context.Context, id sdk.TaskID, at *event.Event, extended bool) (*storedTask, error) {
	seq, turnID, contextID, ok := parseTaskID(id)
	key := s.key(ctx, contextID)
	if !ok || session.CheckKey(key) != nil {
		return nil, notFound(id)
	}
	f := &storedTask{key: key}
	for e, err := range s.store.Load(ctx, key, seq-1) {
		if err != nil {
			return nil, err
		}
		if f.projection == nil {
			user, ok := e.Data.(*event.User)
			if !ok || e.Seq != seq || e.TurnID != turnID {
				return nil, notFound(id)
			}
			f.projection = newProjection(key, e)
			f.maxFile, f.blob = s.maxFile, func(digest string) ([]byte, error) { return s.store.Blob(ctx, key, digest) }
			f.extended, f.private = extended, live.Private(s.turns.Runner().Tree())
			f.a2a = startedByA2A(user)
		}
		f.apply(e)
		f.seq = e.Seq
		if f.superseded || at != nil && e.Seq >= at.Seq {
			break
		}
	}
	if f.projection == nil {
		return nil, notFound(id)
	}
	return f, nil
}

// snapshot returns a copy of the task with its last n messages, or with all of them if n is nil.
func (p *projection) snapshot(n *int) *sdk.Task {
	t := *p.task
	t.Artifacts = append([]*sdk.Artifact(nil), t.Artifacts...)
	t.History = append([]*sdk.Message(nil), t.History...)
	if n != nil && len(t.History) > *n {
		t.History = t.History[len(t.History)-*n:]
	}
	return &t
}

// current returns a snapshot that also contains the incomplete text that was shown so far, because later updates append
// to it.
func (p *projection) current() *sdk.Task {
	t := p.snapshot(nil)
	for _, b := range p.log.Blocks {
		if p.isShown(b) {
			t.Artifacts = append(t.Artifacts, p.block(b.Event, textPart(string(b.Shown))))
		}
	}
	return t
}
