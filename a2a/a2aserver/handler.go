package a2aserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/internal/wire"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
)

// handler implements the operations of the protocol for all bindings (A2A 1.0, section 3.1). Its requests have passed
// the checks of [wire.Checks]. It returns the errors of the protocol. Other errors are logged, and the client only
// learns that the request failed.
type handler struct{ *Server }

var _ a2asrv.RequestHandler = handler{}

// SendMessage implements a2asrv.RequestHandler. It waits until the task is over or asks for something, unless the
// client wants the answer at once.
func (h handler) SendMessage(ctx context.Context, req *sdk.SendMessageRequest) (sdk.SendMessageResult, error) {
	s, f, err := h.send(ctx, req)
	switch {
	case err != nil:
		return nil, err
	case configOf(req).ReturnImmediately:
		return f.snapshot(configOf(req).HistoryLength), nil
	}
	return h.settled(ctx, s, f, req)
}

// settled waits until a task is settled and returns it, or the message that answers the request directly.
func (h handler) settled(ctx context.Context, s *served, f *storedTask, req *sdk.SendMessageRequest) (sdk.SendMessageResult, error) {
	if err := s.untilSettled(ctx, f); err != nil {
		return nil, err
	}
	if m := h.directAnswer(req.Message, f); m != nil {
		return m, nil
	}
	return f.snapshot(configOf(req).HistoryLength), nil
}

func configOf(req *sdk.SendMessageRequest) *sdk.SendMessageConfig {
	return cmp.Or(req.Config, &sdk.SendMessageConfig{})
}

// untilSettled follows a task until it is settled.
func (s *served) untilSettled(ctx context.Context, f *storedTask) error {
	if f.settled() {
		return nil
	}
	for _, err := range s.watch(ctx, f) {
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// directAnswer returns the message that answers m, or nil if the answer is a task.
func (h handler) directAnswer(m *sdk.Message, f *storedTask) *sdk.Message {
	if !h.answersDirectly(m) || f.task.Status.State != sdk.TaskStateCompleted {
		return nil
	}
	answer := &sdk.Message{ID: string(f.task.ID), Role: sdk.MessageRoleAgent, ContextID: f.task.ContextID}
	for _, a := range f.task.Artifacts {
		answer.Parts = append(answer.Parts, a.Parts...)
	}
	if len(answer.Parts) == 0 {
		answer.Parts = sdk.ContentParts{textPart("")}
	}
	return answer
}

func (h handler) answersDirectly(m *sdk.Message) bool {
	return h.direct != nil && m.TaskID == "" && h.direct(m)
}

func (h handler) send(ctx context.Context, req *sdk.SendMessageRequest) (*served, *storedTask, error) {
	s := h.trees[req.Tenant]
	hook := configOf(req).PushConfig
	switch {
	case hook == nil:
	case h.hooks == nil:
		return nil, nil, sdk.ErrPushNotificationNotSupported
	default: // check it before anything starts
		if err := h.hooks.Refuses(h.protocol(ctx), hook); err != nil {
			return nil, nil, err
		}
	}
	f, err := s.send(ctx, req)
	if err == nil && hook != nil {
		_, err = s.hook(ctx, f, hook)
	}
	return s, f, err
}

// SendStreamingMessage implements a2asrv.RequestHandler. The stream begins with the task, and ends when the task is
// over or asks for something. A client that stops reading does not stop the task.
func (h handler) SendStreamingMessage(ctx context.Context, req *sdk.SendMessageRequest) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		s, f, err := h.send(ctx, req)
		if err != nil {
			yield(nil, err)
			return
		}
		if h.answersDirectly(req.Message) {
			yield(h.settled(ctx, s, f, req))
			return
		}
		if yield(f.snapshot(configOf(req).HistoryLength), nil) && !f.settled() {
			s.watch(ctx, f)(yield)
		}
	}
}

// SubscribeToTask implements a2asrv.RequestHandler. The stream begins with the task as it is now and continues with its
// updates. If no process works on the task because the server was stopped, this server adopts it.
func (h handler) SubscribeToTask(ctx context.Context, req *sdk.SubscribeToTaskRequest) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		s, f, err := h.find(ctx, req.Tenant, req.ID)
		if err == nil && f.task.Status.State.Terminal() {
			err = sdk.NewError(sdk.ErrUnsupportedOperation, "the task is over ("+stateName(f.task.Status.State)+"): get it instead")
		}
		if err != nil {
			yield(nil, err)
			return
		}
		s.adopt(f)
		if f.task.Status.State == sdk.TaskStateAuthRequired {
			s.resumeWaiting(f)
		}
		if yield(f.snapshot(nil), nil) {
			s.watch(ctx, f)(yield)
		}
	}
}

func (h handler) find(ctx context.Context, tenant string, id sdk.TaskID) (*served, *storedTask, error) {
	s := h.trees[tenant]
	f, err := s.find(ctx, id, wantsExtension(ctx))
	return s, f, err
}

// GetTask implements a2asrv.RequestHandler.
func (h handler) GetTask(ctx context.Context, req *sdk.GetTaskRequest) (*sdk.Task, error) {
	s, f, err := h.find(ctx, req.Tenant, req.ID)
	if err != nil {
		return nil, err
	}
	s.adopt(f)
	return f.snapshot(req.HistoryLength), nil
}

// CancelTask implements a2asrv.RequestHandler. It returns after the turn has ended and the work of its remote agents
// was canceled.
func (h handler) CancelTask(ctx context.Context, req *sdk.CancelTaskRequest) (*sdk.Task, error) {
	s := h.trees[req.Tenant]
	_, _, contextID, _ := parseTaskID(req.ID)
	unlock, err := s.turns.Lock(ctx, s.key(ctx, contextID), nil) // so that no message starts another turn meanwhile
	if err != nil {
		return nil, err
	}
	defer unlock()
	f, err := s.find(ctx, req.ID, wantsExtension(ctx))
	if err != nil {
		return nil, err
	}
	if f.task.Status.State.Terminal() {
		return nil, sdk.NewError(sdk.ErrTaskNotCancelable, "the task is over ("+stateName(f.task.Status.State)+")")
	}
	// CancelIf cancels the session's last turn, so that must be the turn of this task.
	_, err = s.turns.CancelIf(ctx, f.key, func(ctx context.Context) (seq int64, rests bool, err error) {
		if f, err = s.find(ctx, req.ID, f.extended); err == nil && f.task.Status.State.Terminal() {
			err = errOver
		}
		if err != nil {
			return 0, false, err
		}
		return f.seq, f.settled(), nil
	})
	switch {
	case errors.Is(err, errOver):
		err = nil
	case errors.Is(err, agent.ErrSessionBusy), errors.Is(err, agent.ErrConflict):
		err = sdk.NewError(sdk.ErrTaskNotCancelable, "another process works on the task")
	case err == nil:
		s.push(f.key, f.task.ID) // also if the client has left
		f, err = s.find(ctx, req.ID, f.extended)
	}
	if err == nil && f.task.Status.State != sdk.TaskStateCanceled {
		err = sdk.NewError(sdk.ErrTaskNotCancelable, "the task was over before it could be canceled ("+stateName(f.task.Status.State)+")")
	}
	if err != nil {
		return nil, err
	}
	return f.snapshot(nil), nil
}

// errOver reports that there is nothing left to cancel.
var errOver = errors.New("the task is over")

// GetExtendedAgentCard implements a2asrv.RequestHandler. An authenticated caller gets the card with the parts that only
// callers may see.
func (h handler) GetExtendedAgentCard(ctx context.Context, req *sdk.GetExtendedAgentCardRequest) (*sdk.AgentCard, error) {
	if h.auth == nil {
		return nil, sdk.NewError(sdk.ErrUnsupportedOperation, "the agent has no extended card")
	}
	base := h.publicURL()
	if base == "" {
		base = wire.BaseOf(ctx)
	}
	if base == "" {
		return nil, sdk.NewError(sdk.ErrExtendedCardNotConfigured, "the server's URL is unknown: set it with WithURL or WithLocalURL")
	}
	card, err := h.cardAt(req.Tenant, base)
	if err == nil && h.card.Signer != nil { // clients that verify cards check this one instead of the public card
		var doc []byte
		if doc, err = h.renderCard(req.Tenant, base); err == nil {
			err = json.Unmarshal(doc, &struct {
				Signatures *[]sdk.AgentCardSignature `json:"signatures"`
			}{&card.Signatures})
		}
	}
	return card, err
}

// protocolError returns the error that the client receives. It logs an error that is not one of the protocol's and
// returns a general one instead, because the text can contain files, addresses and messages of other users.
func (s *Server) protocolError(ctx context.Context, operation string, err error) error {
	var protocol *sdk.Error
	switch {
	case err == nil || errors.As(err, &protocol) || errors.As(err, new(*wire.HTTPError)) || ctx.Err() != nil:
		return err
	case errors.Is(err, agent.ErrConflict):
		return sdk.NewError(sdk.ErrTaskNotFound, "the context was deleted")
	case errors.Is(err, session.ErrStopped):
		return sdk.NewError(sdk.ErrInternalError, "the task was stopped, or too many processes died while they worked on it: it continues when a user resumes its turn")
	}
	for _, known := range []error{sdk.ErrTaskNotFound, sdk.ErrInvalidParams, sdk.ErrUnsupportedOperation, sdk.ErrPushNotificationNotSupported} {
		if errors.Is(err, known) {
			return err
		}
	}
	if s.background.Err() != nil || errors.Is(err, live.ErrClosed) { // a turn that was cut off fails with various errors
		return sdk.NewError(sdk.ErrInternalError, "the server is being stopped")
	}
	s.logger.Error("a request failed", "operation", operation, "error", err)
	return sdk.NewError(sdk.ErrInternalError, "the request failed; the server's log says why")
}

// wantsExtension reports whether the client asked for our extension, and activates the extension if it did.
func wantsExtension(ctx context.Context) bool {
	call, ok := a2asrv.CallContextFrom(ctx)
	if !ok {
		return false
	}
	extension := &sdk.AgentExtension{URI: a2a.Extension}
	asked := call.Extensions().Requested(extension)
	if asked {
		call.Extensions().Activate(extension)
	}
	return asked
}

// caller returns the name of the caller. Without an authenticator it is the default user.
func (s *Server) caller(ctx context.Context) string {
	if caller := access.UserOf(ctx).Name; caller != "" {
		return caller
	}
	return session.DefaultUser
}

// key returns the key of the caller's session for a context.
func (s *served) key(ctx context.Context, contextID string) session.Key {
	return session.Key{App: s.app, User: s.caller(ctx), ID: contextID}
}
