package server

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/chatform"
	"github.com/agentarbor/arbor/internal/sessionform"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/internal/form"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/checkpoint"
)

// branch is the body of a request that forks a session. A request that edits a message adds the content.
type branch struct {
	At     *int64 `json:"at"`
	ID     string `json:"id"`
	Resume bool   `json:"resume"`
	// Change is the change of the tree in the new session.
	Change *Change `json:"change"`
}

// seq returns the position in the body.
func (b branch) seq(info session.Info) (int64, error) {
	if b.At == nil || *b.At < 0 {
		return 0, front.ProblemAt("at", fmt.Sprintf("must be a position of the session, from 0 to %d", info.Seq))
	}
	return *b.At, front.CheckPosition(*b.At, info.Seq)
}

func (h *Handler) fork(c *front.Call, info session.Info, _ int64) error {
	var b branch
	if err := c.Decode(&b); err != nil {
		return err
	}
	at, err := b.seq(info)
	if err != nil {
		return err
	}
	return h.createFrom(c, info.Key, b, func(s *checkpoint.Sessions, to session.Key) error {
		return s.Fork(c.R.Context(), info.Key, at, to)
	})
}

func (h *Handler) edit(c *front.Call, info session.Info, _ int64) error {
	var b struct {
		branch
		Content json.RawMessage `json:"content"`
	}
	if err := c.Decode(&b); err != nil {
		return err
	}
	at, err := b.seq(info)
	if err != nil {
		return err
	}
	msg, _, err := front.MessageBody{Content: b.Content}.Message()
	if err != nil {
		return err
	}
	return h.createFrom(c, info.Key, b.branch, func(s *checkpoint.Sessions, to session.Key) error {
		return s.Edit(c.R.Context(), info.Key, at, msg.Content, to)
	})
}

func (h *Handler) imports(c *front.Call) error {
	base, err := c.Key("import")
	if err != nil {
		return err
	}
	var b struct {
		Messages []json.RawMessage `json:"messages"`
		Agent    string            `json:"agent"`
		ID       string            `json:"id"`
	}
	if err := c.Decode(&b); err != nil {
		return err
	}
	tree := h.currentTree().run.Tree()
	b.Agent = cmp.Or(b.Agent, tree.Root().Agent.Name())
	if n := tree.Node(b.Agent); n == nil || n.Virtual() {
		return front.InvalidValue("agent", "must be the name of an agent of the tree")
	}
	messages, _, err := chatform.Read(event.EncodeJSON(b.Messages))
	if err != nil {
		return front.InvalidValue("messages", err.Error())
	}
	return h.createFrom(c, base, branch{ID: b.ID}, func(s *checkpoint.Sessions, to session.Key) error {
		store := s.ImportClaims
		if c.User.May(access.Act) { // the caller may write in every session
			store = s.Import
		}
		err := store(c.R.Context(), to, b.Agent, messages)
		if errors.Is(err, agent.ErrBadInput) {
			return front.InvalidValue("messages", err.Error())
		}
		return err
	})
}

// createFrom creates a session from another one by calling store, and answers with it. A request with an
// Idempotency-Key creates it once. If the body has no id, the id is derived from that key, or else random.
func (h *Handler) createFrom(c *front.Call, base session.Key, b branch, store func(s *checkpoint.Sessions, to session.Key) error) error {
	name, err := c.IdempotencyKey()
	if err != nil {
		return err
	}
	run, release, err := h.changedRunner(c, b.Change)
	if err != nil {
		return err
	}
	defer func() {
		if release != nil {
			release()
		}
	}()
	sessions, to := h.stored, base
	if name != "" {
		sessions = h.stored.Repeatable()
	}
	if to.ID = cmp.Or(b.ID, sessionform.ChildID(base.ID, sessionform.Ending(c.R.Pattern, base.ID, cmp.Or(name, rand.Text())))); session.CheckKey(to) != nil {
		return front.InvalidValue("id", "must be 1 to 255 bytes of UTF-8, without NUL")
	}
	var middle *checkpoint.MiddleError
	switch err := store(sessions, to); {
	case errors.As(err, &middle):
		return front.Unprocessable("not_a_checkpoint", middle.Detail())
	case errors.Is(err, agent.ErrConflict) && name != "" && b.ID == "":
		return live.ErrMismatch
	case errors.Is(err, agent.ErrConflict):
		return front.Conflict("exists", fmt.Sprintf("session %q exists: give another id", to.ID))
	case err != nil:
		return err
	}
	if run != nil {
		if err := h.turns.Lend(to, run, release); err != nil {
			return err
		}
		release = nil
	}
	if b.Resume {
		h.turns.ResumeInBackground(to, nil)
	}
	info, err := c.Find(to.ID)
	if err != nil {
		return err
	}
	s, err := form.SessionOf(c.R.Context(), h.turns, info)
	if err != nil {
		return err
	}
	c.W.Header().Set("Location", h.link(c, to).To())
	return c.JSON(http.StatusCreated, s)
}
