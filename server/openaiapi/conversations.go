package openaiapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/agentarbor/arbor/checkpoint"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/internal/responses"
	"github.com/agentarbor/arbor/session"
)

// metadataKey is the key of a session's state for the metadata of the conversation.
const metadataKey = "arbor.conversation"

// deletedKey returns the key of a session's state that marks a response as deleted.
func deletedKey(id responses.ID) string {
	id.Session = ""
	return "arbor.deleted." + strings.TrimSuffix(id.String(), ".")
}

// wireConversation is a session in the form of the Conversations API.
type wireConversation struct {
	ID        string `json:"id"`
	Object    string `json:"object"`
	CreatedAt int64  `json:"created_at"`
	Metadata  any    `json:"metadata"`
}

var conversationFields = fields{supported: []string{"items", "metadata", "model"}}

// conversationBody is the body of a request that creates or changes a conversation. The member model is an extension of
// the protocol: the agent of the conversation, which defaults to the root.
type conversationBody struct {
	Model    string            `json:"model"`
	Items    json.RawMessage   `json:"items"`
	Metadata map[string]string `json:"metadata"`
}

// readConversation reads the body, which may be empty.
func readConversation(c *front.Call, wrong *faults) (b conversationBody, err error) {
	if c.R.ContentLength == 0 {
		return b, nil
	}
	ignored, err := conversationFields.read(c, &b, wrong)
	metadataOf(b.Metadata, "", wrong)
	setIgnored(c, ignored)
	return b, err
}

func (h *Handler) createConversation(c *front.Call) error {
	var wrong faults
	b, err := readConversation(c, &wrong)
	if err != nil {
		return err
	}
	q := &responseRequest{}
	if len(b.Items) > 0 {
		if _, err := q.input(b.Items, h.references(c), &wrong); err != nil {
			return err
		}
		if len(q.approvals)+len(q.results) > 0 {
			wrong.addf("items", "contain the answer to a call, but a new conversation has no open calls")
		}
	}
	if err := wrong.err(); err != nil {
		return err
	}
	n := h.turns.Runner().Tree().Root()
	if b.Model != "" {
		if n, err = h.agent(b.Model); err != nil {
			return err
		}
	}
	key, err := h.key(c, n, "conv_"+strings.ToLower(rand.Text()))
	if err != nil {
		return err
	}
	ctx := c.R.Context()
	if q.moveToPast(); len(q.past) > 0 {
		sessions, err := checkpoint.New(h.turns.Store())
		if err != nil {
			return err
		}
		if err := sessions.ImportClaims(ctx, key, n.Agent.Name(), q.past); err != nil {
			return err
		}
	}
	metadata := anyOf(b.Metadata)
	if err := h.changeState(ctx, key, map[string]any{metadataKey: metadata}); err != nil {
		return err
	}
	return c.JSON(http.StatusOK, wireConversation{key.ID, "conversation", time.Now().Unix(), metadata})
}

// anyOf converts metadata to a value of a session's state.
func anyOf(metadata map[string]string) map[string]any {
	all := make(map[string]any, len(metadata))
	for k, v := range metadata {
		all[k] = v
	}
	return all
}

// findConversation returns the session of the conversation in the path, with the path of its agent. If several agents
// have a session with this id, it returns that of the first agent in /models.
func (h *Handler) findConversation(c *front.Call) (info session.Info, id responses.ID, err error) {
	name := c.R.PathValue("conversation")
	for n := range h.turns.Runner().Tree().Walk() {
		key, err := h.key(c, n, name)
		if err != nil {
			return info, id, err
		}
		info, ok, err := session.Find(c.R.Context(), h.turns.Store(), key)
		if err != nil {
			return info, id, err
		}
		if id = (responses.ID{Session: name}); ok {
			if n.Parent != nil {
				id.Path = n.Path
			}
			return info, id, nil
		}
	}
	return info, id, front.NotFound()
}

func (h *Handler) conversation(c *front.Call) error {
	info, _, err := h.findConversation(c)
	if err != nil {
		return err
	}
	out := wireConversation{info.Key.ID, "conversation", info.Created.Unix(), map[string]any{}}
	err = h.turns.Runner().Glance(c.R.Context(), info.Key, func(f *session.Fold) error {
		if kept, ok := f.State(metadataKey); ok {
			out.Metadata = event.DecodeValue(event.EncodeJSON(kept))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, out)
}

// updateConversation replaces the metadata.
func (h *Handler) updateConversation(c *front.Call) error {
	info, _, err := h.findConversation(c)
	if err != nil {
		return err
	}
	var wrong faults
	b, err := readConversation(c, &wrong)
	if len(b.Items) > 0 || b.Model != "" {
		wrong.addf("metadata", "is the only member that can be changed")
	}
	if err == nil {
		err = wrong.err()
	}
	metadata := anyOf(b.Metadata)
	if err == nil {
		err = h.changeState(c.R.Context(), info.Key, map[string]any{metadataKey: metadata})
	}
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, wireConversation{info.Key.ID, "conversation", info.Created.Unix(), metadata})
}

// deleteConversation deletes the session, with all responses in it.
func (h *Handler) deleteConversation(c *front.Call) error {
	info, _, err := h.findConversation(c)
	if err == nil {
		err = front.Delete(c.R.Context(), h.turns.Store(), info.Key)
	}
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, map[string]any{"id": info.Key.ID, "object": "conversation.deleted", "deleted": true})
}

// deleteResponse records in the log that a response was deleted. Later requests cannot read or continue it. Its text
// remains part of the conversation.
func (h *Handler) deleteResponse(c *front.Call) error {
	name := c.R.PathValue("id")
	r, key, err := h.findResponse(c, name)
	if err == nil {
		err = h.changeState(c.R.Context(), key, map[string]any{deletedKey(r.ID): true})
	}
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, map[string]any{"id": name, "object": "response", "deleted": true})
}

// changeState stores a change of a session's state. The event belongs to the user's run of the last turn. The error is
// agent.ErrSessionBusy while a turn is running.
func (h *Handler) changeState(ctx context.Context, key session.Key, delta map[string]any) error {
	store := h.turns.Store()
	lease, err := store.Write(ctx, key, session.Write{Acquire: session.Self()})
	if err != nil {
		return err
	}
	w := session.Write{Lease: lease, Release: true}
	e := &event.Event{Seq: lease.Head.Seq + 1, ID: rand.Text(), Time: time.Now().UTC(), Agent: "user", Data: &event.State{Delta: delta}}
	var last *event.Event
	for last, err = range store.Load(ctx, key, max(lease.Head.Seq-1, 0)) {
		if err == nil && !e.Time.After(last.Time) {
			e.Time = last.Time.Add(1)
		}
	}
	if err == nil {
		err = h.turns.Runner().Glance(ctx, key, func(f *session.Fold) error {
			e.TurnID, e.RunID = cmp.Or(f.Turn.ID, rand.Text()), cmp.Or(f.Turn.UserRunID, rand.Text())
			return nil
		})
	}
	if err == nil {
		w.Head, w.Events = lease.Head, event.BoundAll([]*event.Event{e})
	}
	if _, failed := store.Write(context.WithoutCancel(ctx), key, w); err == nil {
		err = failed
	}
	return err
}

// refuseItemChange refuses to add or delete single items, because a log only grows, by turns.
func refuseItemChange(*front.Call) error {
	return &front.Fault{Status: http.StatusBadRequest, Code: "not_supported",
		Detail: "items of a conversation cannot be added or deleted individually: send them as the input of a response, or delete the conversation"}
}

// page answers with a page of a list of items. list yields the items from those of a turn on: the turn of the item in
// the parameter after, or "" for all.
func page(c *front.Call, list func(turn string, back bool, yield func(*responses.Item) bool) error) error {
	query := c.R.URL.Query()
	limit, err := front.Limit(query, 20, 100)
	if err != nil {
		return err
	}
	after, order := query.Get("after"), query.Get("order")
	if order != "" && order != "asc" && order != "desc" {
		return front.BadRequest("order is %.40q; it must be asc or desc", order)
	}
	id, ok := responses.ResponseOf(after)
	if after != "" && !ok {
		return front.BadRequest("after is %.80q; it must be the id of an item", after)
	}
	out := struct {
		Object string            `json:"object"`
		Data   []*responses.Item `json:"data"`
		First  *string           `json:"first_id"`
		Last   *string           `json:"last_id"`
		More   bool              `json:"has_more"`
	}{Object: "list", Data: []*responses.Item{}}
	passed := after == ""
	err = list(id.Turn, order != "asc", func(item *responses.Item) bool {
		switch {
		case !passed:
			passed = item.ID == after
		case len(out.Data) == limit:
			out.More = true
		default:
			if out.Data, out.Last = append(out.Data, item), &item.ID; out.First == nil {
				out.First = &item.ID
			}
		}
		return !out.More
	})
	if err == nil && !passed {
		err = front.BadRequest("after is %.80q, which is not in the list", after)
	}
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, out)
}

// items lists the items of a conversation.
func (h *Handler) items(c *front.Call) error {
	info, id, err := h.findConversation(c)
	if err != nil {
		return err
	}
	return page(c, func(turn string, back bool, yield func(*responses.Item) bool) error {
		id.Turn = turn
		for item, err := range responses.Items(c.R.Context(), h.turns, info.Key, id, back) {
			if err != nil {
				return err
			}
			if !yield(item) {
				break
			}
		}
		return nil
	})
}

// item answers with an item of a conversation.
func (h *Handler) item(c *front.Call) error {
	info, id, err := h.findConversation(c)
	if err != nil {
		return err
	}
	name := c.R.PathValue("item")
	of, ok := responses.ResponseOf(name)
	if !ok || of.Session != id.Session || of.Path != id.Path {
		return front.NotFound()
	}
	r := responses.New(of, "")
	if err := r.Read(c.R.Context(), h.turns, info.Key); err != nil {
		return err
	}
	item := r.Find(name)
	if item == nil {
		return front.NotFound()
	}
	return c.JSON(http.StatusOK, item)
}

// inputItems lists the input of a response.
func (h *Handler) inputItems(c *front.Call) error {
	r, _, err := h.findResponse(c, c.R.PathValue("id"))
	if err != nil {
		return err
	}
	return page(c, func(_ string, back bool, yield func(*responses.Item) bool) error {
		for i := range r.Input {
			if back {
				i = len(r.Input) - 1 - i
			}
			if !yield(r.Input[i]) {
				break
			}
		}
		return nil
	})
}

// maxReferred is the number of responses to whose items one request can refer.
const maxReferred = 256

// references returns a function that returns items of the caller's responses by their ids.
func (h *Handler) references(c *front.Call) func(id, path string) (json.RawMessage, error) {
	known := map[responses.ID]*responses.Response{}
	return func(name, path string) (json.RawMessage, error) {
		missing := &front.Fault{Status: http.StatusNotFound, Code: "not_found", Detail: fmt.Sprintf("the item %.100q does not exist", name),
			Problems: []front.Problem{{Path: path + ".id", Message: "is not the id of an item"}}}
		id, ok := responses.ResponseOf(name)
		if !ok {
			return nil, missing
		}
		r := known[id]
		if r == nil && len(known) == maxReferred {
			return nil, front.BadRequest("the input refers to items of more than %d responses", maxReferred)
		}
		if r == nil {
			var err error
			if r, _, err = h.findResponse(c, id.String()); err != nil {
				if front.FaultOf(err).Status == http.StatusNotFound {
					err = missing
				}
				return nil, err
			}
			known[id] = r
		}
		item := r.Find(name)
		if item == nil {
			return nil, missing
		}
		return event.EncodeJSON(item), nil
	}
}
