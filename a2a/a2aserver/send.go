package a2aserver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/internal/origin"
	"github.com/agentarbor/arbor/a2a/internal/wire"
	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// send gives a message to the tree and returns the task that it began, or that it
// belongs to. What the task becomes is not waited for. A session that is busy is waited
// for; then the message is looked at anew, because what it answers may be over, or it
// may have been sent twice and be known by now. So it is if the session has changed
// between the look at the message and the turn, which other processes can bring about.
func (s *served) send(ctx context.Context, req *sdk.SendMessageRequest) (*found, error) {
	m := req.Message
	from, err := s.origin(m)
	if err != nil {
		return nil, err
	}
	content, err := contentOf(m.Parts)
	if err != nil {
		return nil, sdk.NewError(sdk.ErrInvalidParams, err.Error())
	}
	extended := wants(ctx)
	contextID := m.ContextID
	switch {
	case m.TaskID != "":
		var ok bool
		if _, _, contextID, ok = parseTaskID(m.TaskID); !ok {
			return nil, notFound(m.TaskID)
		}
	case contextID == "" && extended:
		// Such a client sends a message again, under the same id, when it did not hear
		// what became of it: then it finds the context that it began. Other words under
		// the id, of a client that numbers its messages, begin another one.
		words, err := json.Marshal(partsOf(content))
		if err != nil {
			return nil, sdk.NewError(sdk.ErrInvalidParams, "the message has no JSON form")
		}
		sum := sha256.Sum256([]byte(s.app + "\x00" + access.UserOf(ctx).Name + "\x00" + m.ID + "\x00" + string(words)))
		contextID = hex.EncodeToString(sum[:16])
	case contextID == "":
		contextID = sdk.NewContextID()
	}
	key := s.key(ctx, contextID)
	came := int64(-1)
	for deadline, tries := time.Now().Add(s.wait), 1; ; tries++ {
		f, err := s.give(ctx, key, m, content, from, extended, &came)
		busy := errors.Is(err, agent.ErrSessionBusy)
		if !busy && !errors.Is(err, agent.ErrConflict) || !time.Now().Before(deadline) {
			return f, refused(err, key)
		}
		if !busy && tries < 4 { // else the log is not what the store says it is, or much is going on
			continue
		}
		if err := s.turns.WaitFree(ctx, key, deadline); err != nil {
			return nil, err
		}
	}
}

// give is one attempt to send. Those of one session go one after the other, so that of
// two that are the same message, or answer the same question, the second one sees what
// the first has made of it. Those of other processes are told apart by the store: a turn
// begins only if the log ends where it was looked at. came is where the log ended when
// the message came, and negative until that is known.
func (s *served) give(ctx context.Context, key session.Key, m *sdk.Message, content llm.Content, from origin.Origin, extended bool, came *int64) (*found, error) {
	unlock, err := s.turns.Lock(ctx, key, func() (err error) {
		if *came < 0 && session.CheckKey(key) == nil {
			*came, _, err = s.since(ctx, key, -1)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	defer unlock()
	sent := &sdk.Message{ID: m.ID, Role: m.Role, Parts: partsOf(content)} // as the log has it
	msg := llm.Message{Role: llm.RoleUser, Content: content}
	if m.TaskID != "" {
		f, err := s.find(ctx, m.TaskID, extended)
		if err != nil {
			return nil, err
		}
		if m.ContextID != "" && m.ContextID != key.ID {
			return nil, sdk.NewError(sdk.ErrInvalidParams, "the message's contextId is not that of its task")
		}
		return s.answer(ctx, f, m, sent, msg, from)
	}
	if err := checkContext(key); err != nil {
		return nil, err
	}
	at := int64(0) // of a context of its own
	if m.ContextID != "" || extended {
		var f *found
		if f, at, err = s.again(ctx, key, sent, extended, *came); f != nil || err != nil {
			return f, err
		}
		if *came < 0 {
			*came = at
		}
	}
	f, err := s.begin(ctx, key, at, msg, from, "", extended)
	if err == nil && m.ContextID != "" {
		s.left(ctx, key)
	}
	return f, err
}

// begin runs a turn with new words, if the log ends at a position. The task is a new one
// unless it is named.
func (s *served) begin(ctx context.Context, key session.Key, at int64, msg llm.Message, from origin.Origin, task sdk.TaskID, extended bool) (*found, error) {
	from.Task = string(task)
	turn, err := s.turns.Begin(ctx, key, msg, runner.At(at), runner.WithMetadata(from.Metadata()))
	if err != nil {
		return nil, err
	}
	own := taskID(turn.First.Seq, turn.First.TurnID, key.ID)
	f, err := s.findAt(ctx, cmp.Or(task, own), turn.First, extended)
	if err == nil {
		s.push(f.key, f.task.ID)
	}
	return f, err
}

// answer gives a message to a task that exists: decisions about calls that wait, or
// words that the agent asked for.
func (s *served) answer(ctx context.Context, f *found, m, sent *sdk.Message, msg llm.Message, from origin.Origin) (*found, error) {
	decided := decisionID(f.task.ID, m.ID)
	switch state := f.task.Status.State; {
	case slices.ContainsFunc(f.task.History, func(h *sdk.Message) bool { return same(h, sent) || strings.HasPrefix(h.ID, decided) }):
		s.adopt(f)
		return f, nil // sent again
	case state.Terminal():
		return nil, sdk.NewError(sdk.ErrUnsupportedOperation, "the task is over ("+stateName(state)+"): send the message with its contextId alone to begin a new one")
	case !f.settled():
		return nil, sdk.NewError(sdk.ErrUnsupportedOperation, "the task is being worked on: wait until it asks for input, or cancel it")
	case len(f.log.Questions) == 0:
		return s.begin(ctx, f.key, f.seq, msg, from, f.task.ID, f.extended)
	}
	list, err := decisions(m.Parts, f.log.Pending())
	if err != nil {
		return nil, sdk.NewError(sdk.ErrInvalidParams, err.Error())
	}
	if len(list) == 0 {
		return f, nil
	}
	for i := range list {
		list[i].ID = decided + strconv.Itoa(i)
	}
	turn, err := s.turns.Resume(ctx, f.key, list...)
	if err != nil {
		return nil, err
	}
	id, extended := f.task.ID, f.extended
	if f, err = s.findAt(ctx, id, turn.First, extended); err == nil {
		s.push(f.key, f.task.ID)
	}
	return f, err
}

// again returns the last task of a session if the message is in it: a client that did not
// hear the answer has sent it once more. Of the tasks that began since the message came it
// is any that has it, because that can only be the same one. If it is in none, at is where
// the log ended then.
func (s *served) again(ctx context.Context, key session.Key, sent *sdk.Message, extended bool, came int64) (f *found, at int64, err error) {
	at, marks, err := s.since(ctx, key, came)
	if err != nil {
		return nil, 0, err
	}
	for _, m := range marks {
		f, err := s.find(ctx, m.id, extended)
		if err != nil {
			return nil, 0, err
		}
		if slices.ContainsFunc(f.task.History, func(h *sdk.Message) bool { return same(h, sent) }) {
			s.adopt(f)
			return f, 0, nil
		}
	}
	return nil, at, nil
}

// same reports whether two messages are one that was sent twice. Some clients number
// their messages anew in each process, so the id alone does not say so.
func same(a, b *sdk.Message) bool {
	return a.ID == b.ID && a.Role == sdk.MessageRoleUser && len(a.Parts) == len(b.Parts) && slices.EqualFunc(a.Parts, b.Parts, func(a, b *sdk.Part) bool {
		return a != nil && b != nil && reflect.DeepEqual(a.Content, b.Content)
	})
}

// checkContext refuses contexts that no session can have the name of.
func checkContext(key session.Key) error {
	if session.CheckKey(key) != nil || len(key.ID) > 128 || strings.ContainsFunc(key.ID, func(r rune) bool { return r == '/' || r == ' ' || !unicode.IsPrint(r) }) {
		return sdk.NewError(sdk.ErrInvalidParams, "the contextId is not accepted: send none to begin a new context, or at most 128 printable characters without spaces and slashes")
	}
	return nil
}

// origin reads where a message comes from, and refuses one that has been here: two
// trees that hand a question to each other would do so for ever.
func (s *served) origin(m *sdk.Message) (origin.Origin, error) {
	meta, _ := m.Metadata[a2a.Extension].(map[string]any)
	chain := origin.Chain(meta)
	if len(chain) >= origin.MaxChain {
		return origin.Origin{}, sdk.NewError(sdk.ErrUnsupportedOperation, fmt.Sprintf("the message went through %d agents or more: it is not passed on", len(chain)))
	}
	if slices.Contains(chain, s.id) {
		return origin.Origin{}, sdk.NewError(sdk.ErrUnsupportedOperation, "the message has been here before: the agents call each other in a circle")
	}
	return origin.Origin{Message: m.ID, Chain: append(slices.Clone(chain), s.id)}, nil
}

// began reports whether an A2A message began the turn of a user event.
func began(u *event.User) bool { return origin.Of(u.Metadata).Message != "" }

// decisionID begins the ids that the decisions of a message have in the log, so that a
// message that is sent again is known, and its "yes" approves nothing else.
func decisionID(task sdk.TaskID, messageID string) string {
	sum := sha256.Sum256([]byte(string(task) + "\x00" + messageID))
	return "decision-" + hex.EncodeToString(sum[:16]) + "-"
}

// refused makes a protocol error of one with which a turn did not begin.
func refused(err error, key session.Key) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, agent.ErrSessionBusy), errors.Is(err, agent.ErrConflict):
		return sdk.NewError(sdk.ErrUnsupportedOperation, fmt.Sprintf("the context %.128q is busy with another task: wait for it, or cancel it", key.ID))
	case errors.Is(err, agent.ErrBadInput):
		return sdk.NewError(sdk.ErrInvalidParams, err.Error())
	case errors.As(err, new(*access.LimitError)):
		return wire.TooMany(err, "more than %d turns of %s are running: wait for some or cancel them")
	case errors.Is(err, access.ErrForbidden):
		return sdk.NewError(sdk.ErrUnauthorized, err.Error())
	case errors.Is(err, runner.ErrNoApproval):
		return sdk.NewError(sdk.ErrInvalidParams, "nobody waits for the approval any more")
	}
	return err
}

func stateName(s sdk.TaskState) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(string(s), "TASK_STATE_"), "_", " "))
}
