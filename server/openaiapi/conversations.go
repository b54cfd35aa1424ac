package openaiapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/server/internal/chats"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/internal/responses"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
)

// metadataKey is the key of a session's state for the metadata of the conversation, and createdKey that for the hash of
// the request that created it.
const metadataKey, createdKey = "arbor.conversation", "arbor.created"

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
	Model    string          `json:"model"`
	Items    json.RawMessage `json:"items"`
	Metadata map[string]any  `json:"metadata"`
}

// readConversation reads the body, which may be empty.
func readConversation(c *front.Call, wrong *faults) (b conversationBody, err error) {
	if c.R.ContentLength != 0 {
		var ignored []string
		ignored, err = conversationFields.read(c, &b, wrong)
		setIgnored(c, ignored)
	}
	b.Metadata = metadataOf(b.Metadata, "", wrong)
	return b, err
}

func (h *Handler) createConversation(c *front.Call) error {
	var wrong faults
	b, err := readConversation(c, &wrong)
	if err != nil {
		return err
	}
	added, err := h.readItems(c, b.Items, &wrong)
	if err == nil {
		err = wrong.err()
	}
	if err != nil {
		return err
	}
	n := h.turns.Runner().Tree().Root()
	if b.Model != "" {
		if n, err = h.agent(b.Model); err != nil {
			return err
		}
	}
	key, err := h.key(c, n, "new")
	if err != nil {
		return err
	}
	request := added.Request
	if request != "" {
		request += "\nconversation" // a response with the same Idempotency-Key begins a conversation of its own
	}
	key.ID = chats.NewID(key, request)
	sum := chats.SumOf(b.Metadata, added.Items)
	err = h.changeState(c.R.Context(), key, func(f *session.Fold, seq int64) (map[string]any, error) {
		if kept, _ := f.State(createdKey); kept == hex.EncodeToString(sum[:]) {
			return nil, nil
		} else if f.Seq > 0 { // created by another request with this Idempotency-Key
			return nil, live.ErrMismatch
		}
		delta, err := addition(f, seq, responses.ID{Session: key.ID}, added)
		if err == nil {
			delta[metadataKey], delta[createdKey] = b.Metadata, hex.EncodeToString(sum[:])
		}
		return delta, err
	})
	if err != nil {
		return err
	}
	info, _, err := session.Find(c.R.Context(), h.turns.Store(), key)
	if err != nil {
		return err
	}
	return h.writeConversation(c, info)
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
	return h.writeConversation(c, info)
}

// writeConversation answers with a conversation.
func (h *Handler) writeConversation(c *front.Call, info session.Info) error {
	out := wireConversation{info.Key.ID, "conversation", info.Created.Unix(), map[string]any{}}
	err := h.turns.Runner().ReadFold(c.R.Context(), info.Key, func(f *session.Fold) error {
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
	if err == nil {
		err = h.changeState(c.R.Context(), info.Key, always(map[string]any{metadataKey: b.Metadata}))
	}
	if err != nil {
		return err
	}
	return h.writeConversation(c, info)
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
		err = h.changeState(c.R.Context(), key, always(map[string]any{deletedKey(r.ID): true}))
	}
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, map[string]any{"id": name, "object": "response", "deleted": true})
}

// always returns a change of a session's state that does not depend on the session.
func always(delta map[string]any) func(*session.Fold, int64) (map[string]any, error) {
	return func(*session.Fold, int64) (map[string]any, error) { return delta, nil }
}

// changeState stores the change of a session's state that delta returns for its fold and the position of the new event.
// Nothing is stored for an empty change. The event belongs to the user's run of the last turn. The error is
// agent.ErrSessionBusy while a turn is running.
func (h *Handler) changeState(ctx context.Context, key session.Key, delta func(*session.Fold, int64) (map[string]any, error)) error {
	store := h.turns.Store()
	lease, err := store.Write(ctx, key, session.Write{Acquire: session.Self()})
	if err != nil {
		return err
	}
	w := session.Write{Lease: lease, Release: true}
	change := &event.State{}
	e := &event.Event{Seq: lease.Head.Seq + 1, ID: rand.Text(), Time: time.Now().UTC(), Agent: "user", Data: change}
	var last *event.Event
	for last, err = range store.Load(ctx, key, max(lease.Head.Seq-1, 0)) {
		if err == nil && !e.Time.After(last.Time) {
			e.Time = last.Time.Add(1)
		}
	}
	if err == nil {
		err = h.turns.Runner().ReadFold(ctx, key, func(f *session.Fold) (err error) {
			e.TurnID, e.RunID = cmp.Or(f.Turn.ID, rand.Text()), cmp.Or(f.Turn.UserRunID, rand.Text())
			change.Delta, err = delta(f, e.Seq)
			return err
		})
	}
	if err == nil && len(change.Delta) > 0 {
		w.Head, w.Events = lease.Head, event.BoundAll([]*event.Event{e})
	}
	if _, failed := store.Write(context.WithoutCancel(ctx), key, w); err == nil {
		err = failed
	}
	return err
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
	out := &itemList{Object: "list", Data: []*responses.Item{}}
	passed := after == ""
	err = list(id.Turn, order != "asc", func(item *responses.Item) bool {
		switch {
		case !passed:
			passed = item.ID == after
		case len(out.Data) == limit:
			out.More = true
		default:
			out.Data = append(out.Data, item)
		}
		return !out.More
	})
	if err == nil && !passed {
		err = front.BadRequest("after is %.80q, which is not in the list", after)
	}
	if err != nil {
		return err
	}
	return out.write(c)
}

// itemList is a page of a list of items.
type itemList struct {
	Object string            `json:"object"`
	Data   []*responses.Item `json:"data"`
	First  *string           `json:"first_id"`
	Last   *string           `json:"last_id"`
	More   bool              `json:"has_more"`
}

func (l *itemList) write(c *front.Call) error {
	if n := len(l.Data); n > 0 {
		l.First, l.Last = &l.Data[0].ID, &l.Data[n-1].ID
	}
	return c.JSON(http.StatusOK, l)
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

// findItem returns the item in the path, and its conversation as [Handler.findConversation] does.
func (h *Handler) findItem(c *front.Call) (item *responses.Item, info session.Info, id responses.ID, err error) {
	name := c.R.PathValue("item")
	if info, id, err = h.findConversation(c); err != nil {
		return nil, info, id, err
	}
	of, ok := responses.ResponseOf(name)
	if !ok || of.Session != id.Session || of.Path != id.Path {
		return nil, info, id, front.NotFound()
	}
	added, _, err := responses.AddedTo(c.R.Context(), h.turns, info.Key, id)
	if err != nil {
		return nil, info, id, err
	}
	if item = responses.Find(name, added.After(of.Turn)); item != nil {
		return item, info, id, nil
	}
	r := responses.New(of, "")
	err = r.Read(c.R.Context(), h.turns, info.Key)
	if item = responses.Find(name, r.Input, r.Output); errors.Is(err, live.ErrNoTurn) || err == nil && item == nil {
		err = front.NotFound()
	}
	return item, info, id, err
}

// item answers with an item of a conversation.
func (h *Handler) item(c *front.Call) error {
	item, _, _, err := h.findItem(c)
	if err != nil {
		return err
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

// references returns a function that returns items of the caller's conversations by their ids.
func (h *Handler) references(c *front.Call) func(id, path string) (json.RawMessage, error) {
	known := map[responses.ID][]*responses.Item{}
	return func(name, path string) (json.RawMessage, error) {
		id, ok := responses.ResponseOf(name)
		items, read := known[id]
		if ok && !read && len(known) == maxReferred {
			return nil, front.BadRequest("the input refers to items of more than %d responses", maxReferred)
		}
		if ok && !read {
			var err error
			if items, err = h.itemsOf(c, id); err != nil {
				return nil, err
			}
			known[id] = items
		}
		item := responses.Find(name, items)
		if item == nil {
			return nil, missing("not_found", path+".id", "item", name)
		}
		return event.EncodeJSON(item), nil
	}
}

// itemsOf returns the items of a response of the caller and those that were added after its turn, or none if there is no
// such response.
func (h *Handler) itemsOf(c *front.Call, id responses.ID) ([]*responses.Item, error) {
	key, _, err := h.keyOf(c, id)
	if isMissing(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	added, _, err := responses.AddedTo(c.R.Context(), h.turns, key, id)
	if err != nil {
		return nil, err
	}
	r, _, err := h.findResponse(c, id.String())
	if isMissing(err) {
		return added.After(id.Turn), nil
	} else if err != nil {
		return nil, err
	}
	return slices.Concat(added.After(id.Turn), r.Input, r.Output), nil
}
