package openaiapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/internal/chats"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
)

// follow calls Follow of the chats. The error is a *front.Fault if the turn ended without an answer.
func (h *Handler) follow(ctx context.Context, a *chats.Answer, stays bool, take func(session.Entry, *live.Report) error) (*live.Report, error) {
	rep, err := h.chats.Follow(ctx, a, stays, take)
	switch {
	case errors.Is(err, session.ErrStopped):
		err = &front.Fault{Status: http.StatusConflict, Code: "stopped", Detail: "the turn was stopped; it can be resumed"}
	case err == nil && (rep.State == live.Failed || rep.State == live.Canceled):
		err = failed(rep)
	}
	return rep, err
}

// continues reports whether the turn continues when its client disconnects.
func continues(r *http.Request) (bool, error) {
	switch value := r.Header.Get("Arbor-On-Disconnect"); value {
	case "", "stop":
		return false, nil
	case "continue":
		return true, nil
	default:
		return false, front.BadRequest("the header Arbor-On-Disconnect is %.40q; it must be stop or continue", value)
	}
}

// received reports whether all that was sent on a stream was written. It closes the stream. nil is an answer that was
// written without a stream.
func received(c *front.Call, stream *access.Stream) bool {
	if stream == nil {
		return true
	}
	stream.Close()
	return c.R.Context().Err() == nil && !errors.Is(context.Cause(stream.Context()), access.ErrClientGone)
}

// question returns the text that asks a client about the first open question that the caller may decide, or "" without
// an open question. It asks one question at a time, so that a yes answers exactly one.
func (h *Handler) question(c *front.Call, key session.Key, pending []*event.Relay, refused string) string {
	if pending = front.PersonQuestions(pending); len(pending) == 0 {
		return ""
	}
	asked, may := h.turns.Asked(c.R.Context(), key, pending)
	if !may {
		return live.Question(asked) + live.Colleague
	}
	text := front.Question(asked)
	if refused != "" {
		text = "That was no answer: " + refused + "\n\n" + text
	}
	return text
}
