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
	"sync"
	"time"
	"unicode"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/internal/origin"
	"github.com/agentarbor/arbor/a2a/internal/parts"
	"github.com/agentarbor/arbor/a2a/internal/wire"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/session"
)

// send gives a message to the tree and returns the task that the message started or belongs to. It does not wait for
// the result. If the session is busy, send waits and then examines the message again, because the task that it answers
// may be over, or the other turn may have started with the same message. It does the same if another process changed
// the session after the message was examined and before the turn started.
func (s *served) send(ctx context.Context, req *sdk.SendMessageRequest) (*storedTask, error) {
	m := req.Message
	from, err := s.origin(m)
	if err != nil {
		return nil, err
	}
	content, err := contentOf(m.Parts)
	if err != nil {
		return nil, sdk.NewError(sdk.ErrInvalidParams, err.Error())
	}
	extended := wantsExtension(ctx)
	contextID := m.ContextID
	switch {
	case m.TaskID != "":
		var ok bool
		if _, _, contextID, ok = parseTaskID(m.TaskID); !ok {
			return nil, notFound(m.TaskID)
		}
	case contextID == "" && extended:
		// A client with our extension sends a message again under the same id if it received no answer. It then finds
		// the context that it started. A different text under the same id, from a client that numbers its messages,
		// starts another context.
		encoded, err := json.Marshal(parts.Of(content))
		if err != nil {
			return nil, sdk.NewError(sdk.ErrInvalidParams, "the message has no JSON form")
		}
		sum := sha256.Sum256([]byte(s.app + "\x00" + access.UserOf(ctx).Name + "\x00" + m.ID + "\x00" + string(encoded)))
		contextID = hex.EncodeToString(sum[:16])
	case contextID == "":
		contextID = sdk.NewContextID()
	}
	key := s.key(ctx, contextID)
	arrivedAt := int64(-1)
	for deadline, tries := time.Now().Add(s.wait), 1; ; tries++ {
		f, err := s.sendOnce(ctx, key, m, content, from, extended, &arrivedAt)
		busy := errors.Is(err, agent.ErrSessionBusy)
		if !busy && !errors.Is(err, agent.ErrConflict) || !time.Now().Before(deadline) {
			return f, startError(err, key)
		}
		if !busy && tries < 4 { // otherwise the store disagrees with its log, or the session changes very often
			continue
		}
		if err := s.turns.WaitFree(ctx, key, deadline); err != nil {
			return nil, err
		}
	}
}

// sendOnce makes one attempt to send. The attempts for a session run one after the other. So if two messages are the
// same, or answer the same question, the second attempt sees the effect of the first. Between processes the store
// ensures this: a turn starts only if the log still has the end that sendOnce has seen. arrivedAt is the end of the log
// when the message first arrived, and negative until it is known.
func (s *served) sendOnce(ctx context.Context, key session.Key, m *sdk.Message, content llm.Content, from origin.Origin, extended bool, arrivedAt *int64) (*storedTask, error) {
	unlock, err := s.turns.Lock(ctx, key, func() (err error) {
		if *arrivedAt < 0 && session.CheckKey(key) == nil {
			var end int64
			if end, _, err = s.since(ctx, key, -1); err == nil {
				*arrivedAt = s.arrivals.first(key, m, end)
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	defer unlock()
	sent := &sdk.Message{ID: m.ID, Role: m.Role, Parts: parts.Of(content)} // as it is in the log
	msg := llm.Message{Role: llm.RoleUser, Content: content}
	if m.TaskID != "" {
		f, err := s.find(ctx, m.TaskID, extended)
		if err != nil {
			return nil, err
		}
		if m.ContextID != "" && m.ContextID != key.ID {
			return nil, sdk.NewError(sdk.ErrInvalidParams, "the message's contextId is not that of its task")
		}
		if *arrivedAt < 0 {
			*arrivedAt = s.arrivals.first(key, m, f.seq)
		}
		return s.answer(ctx, f, m, sent, msg, from, *arrivedAt)
	}
	if err := checkContext(key); err != nil {
		return nil, err
	}
	at := int64(0) // the end of a new context
	if m.ContextID != "" || extended {
		var f *storedTask
		if f, at, err = s.findResent(ctx, key, sent, extended, *arrivedAt); f != nil || err != nil {
			return f, err
		}
		if *arrivedAt < 0 {
			*arrivedAt = at
		}
	}
	f, err := s.begin(ctx, key, at, msg, from, "", extended)
	if err == nil && m.ContextID != "" {
		s.pushPrevious(ctx, key, at)
	}
	return f, err
}

// begin starts a turn with a user message if the log ends at a position. It starts a new task unless task is set.
func (s *served) begin(ctx context.Context, key session.Key, at int64, msg llm.Message, from origin.Origin, task sdk.TaskID, extended bool) (*storedTask, error) {
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

// arrivals are the ends of the logs when messages arrived that answered no question, because theirs was answered before
// or the task ran. Such a message is not in the log, and answers no later question if it comes again. After a restart it
// can.
type arrivals struct {
	mu sync.Mutex
	at map[[sha256.Size]byte]int64
}

// maxArrivals is the largest number of messages that are remembered. Then all are forgotten.
const maxArrivals = 4096

// first returns the end of the log when a message arrived: now, or what was noted before.
func (a *arrivals) first(key session.Key, m *sdk.Message, now int64) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if at, ok := a.at[arrivalOf(key, m)]; ok {
		return min(at, now)
	}
	return now
}

// note notes that a message which arrived when the log had this end has answered nothing.
func (a *arrivals) note(key session.Key, m *sdk.Message, at int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at == nil || len(a.at) >= maxArrivals {
		a.at = make(map[[sha256.Size]byte]int64)
	}
	a.at[arrivalOf(key, m)] = at
}

func arrivalOf(key session.Key, m *sdk.Message) [sha256.Size]byte {
	return sha256.Sum256(event.EncodeJSON([]any{key, m.TaskID, m.ID, m.Parts}))
}

// answer adds a message to a task that exists: decisions about pending calls, or a text that the agent asked for. The
// message answers no question that was asked after it had arrived, nor another one than it names, except that of a person,
// who reads each message. A task that waits for a sign-in asks nothing anew when it looks again.
func (s *served) answer(ctx context.Context, f *storedTask, m, sent *sdk.Message, msg llm.Message, from origin.Origin, arrivedAt int64) (*storedTask, error) {
	decided := decisionID(f.task.ID, m.ID)
	open, asks := f.questions(m)
	reads := len(f.log.Questions) == 0 && (f.handoff || f.task.Status.State == sdk.TaskStateAuthRequired)
	switch state := f.task.Status.State; {
	case slices.ContainsFunc(f.task.History, func(h *sdk.Message) bool { return isResend(h, sent) || strings.HasPrefix(h.ID, decided) }):
		s.adopt(f)
		return f, nil // the client sent it again
	case state.Terminal():
		return nil, sdk.NewError(sdk.ErrUnsupportedOperation, "the task is over ("+stateName(state)+"): send the message with its contextId alone to begin a new one")
	case !f.settled():
		s.arrivals.note(f.key, m, arrivedAt)
		return nil, sdk.NewError(sdk.ErrUnsupportedOperation, "the task is running: wait until it asks for input, then send a new message with another messageId, or cancel it")
	case !asks && !reads:
		return nil, sdk.NewError(sdk.ErrInvalidParams, "the message answers a question that the task no longer asks: get the task, and answer what it asks now")
	case reads || len(f.log.Questions) == 0 && f.statusAt <= arrivedAt:
		return s.begin(ctx, f.key, f.seq, msg, from, f.task.ID, f.extended)
	}
	var asked []*event.Relay
	for _, e := range open {
		if e.Seq <= arrivedAt {
			asked = append(asked, e.Data.(*event.Relay))
		}
	}
	if len(asked) == 0 {
		s.arrivals.note(f.key, m, arrivedAt)
		return f, nil
	}
	list, err := decisions(m.Parts, asked, &f.log)
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

// questions returns the open questions that an answer may be about: all, or those in the message that it names. ok is
// false if that message is not the last one and has no open question, or if a part of the answer has no digest: words are
// about all that the message asks.
func (p *projection) questions(answer *sdk.Message) (open []*event.Event, ok bool) {
	meta, _ := answer.Metadata[a2a.Extension].(map[string]any)
	named, _ := meta[origin.Answers].(string)
	if last := p.task.Status.Message; named == "" || last != nil && last.ID == named {
		return p.log.Questions, true
	}
	for _, q := range p.log.Questions {
		if q.Seq <= p.askedAt[named] {
			open = append(open, q)
		}
	}
	return open, len(open) > 0 && haveDigests(answer.Parts)
}

// findResent returns the task of a session that contains the message, if the client sent the message once more because
// it received no answer. It searches the last task and the tasks that began after the message arrived. If none contains
// the message, at is the end of the log.
func (s *served) findResent(ctx context.Context, key session.Key, sent *sdk.Message, extended bool, arrivedAt int64) (f *storedTask, at int64, err error) {
	at, marks, err := s.since(ctx, key, arrivedAt)
	if err != nil {
		return nil, 0, err
	}
	for _, m := range marks {
		f, err := s.find(ctx, m.id, extended)
		if err != nil {
			return nil, 0, err
		}
		if slices.ContainsFunc(f.task.History, func(h *sdk.Message) bool { return isResend(h, sent) }) {
			s.adopt(f)
			return f, 0, nil
		}
	}
	return nil, at, nil
}

// isResend reports whether b is a's message, sent again. It compares the parts as well, because some clients restart
// the numbering of their messages in each process.
func isResend(a, b *sdk.Message) bool {
	return a.ID == b.ID && a.Role == sdk.MessageRoleUser && len(a.Parts) == len(b.Parts) && slices.EqualFunc(a.Parts, b.Parts, func(a, b *sdk.Part) bool {
		return a != nil && b != nil && reflect.DeepEqual(a.Content, b.Content)
	})
}

// checkContext returns an error for a context id that cannot name a session.
func checkContext(key session.Key) error {
	if session.CheckKey(key) != nil || len(key.ID) > 128 || strings.ContainsFunc(key.ID, func(r rune) bool { return r == '/' || r == ' ' || !unicode.IsPrint(r) }) {
		return sdk.NewError(sdk.ErrInvalidParams, "the contextId is not accepted: send none to begin a new context, or at most 128 printable characters without spaces and slashes")
	}
	return nil
}

// origin reads the origin of a message and refuses a message that was here before: two trees that pass a question to
// each other would never stop.
func (s *served) origin(m *sdk.Message) (origin.Origin, error) {
	meta, _ := m.Metadata[a2a.Extension].(map[string]any)
	chain := origin.Chain(meta)
	if len(chain) >= origin.MaxChain {
		return origin.Origin{}, sdk.NewError(sdk.ErrUnsupportedOperation, fmt.Sprintf("the message has passed through %d or more agents, and is refused", len(chain)))
	}
	if slices.Contains(chain, s.id) {
		return origin.Origin{}, sdk.NewError(sdk.ErrUnsupportedOperation, "this agent has already received the message: the agents call each other in a circle")
	}
	return origin.Origin{Message: m.ID, Chain: append(slices.Clone(chain), s.id)}, nil
}

// startedByA2A reports whether an A2A message started the turn of a user event.
func startedByA2A(u *event.User) bool { return origin.Of(u.Metadata).Message != "" }

// decisionID returns the prefix of the ids that the decisions of a message have in the log. With it, answer recognizes
// a message that was sent again, so that its "yes" does not approve another call.
func decisionID(task sdk.TaskID, messageID string) string {
	sum := sha256.Sum256([]byte(string(task) + "\x00" + messageID))
	return "decision-" + hex.EncodeToString(sum[:16]) + "-"
}

// startError converts an error that prevented the start of a turn to an error of the protocol.
func startError(err error, key session.Key) error {
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
		return sdk.NewError(sdk.ErrInvalidParams, "the approval request is no longer open")
	}
	return err
}

func stateName(s sdk.TaskState) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(string(s), "TASK_STATE_"), "_", " "))
}
