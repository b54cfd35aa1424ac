package openaiapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/internal/responses"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/checkpoint"
)

// maxAdded is the number of items that one request can add to a conversation, as in OpenAI's API. maxAddedBytes is the
// limit of all added items of a conversation, as JSON, because its state has them as long as it exists.
const maxAdded, maxAddedBytes = 20, 4 << 20

// readItems reads items that a client adds to a conversation.
func (h *Handler) readItems(c *front.Call, raw json.RawMessage, wrong *faults) (added responses.Addition, err error) {
	var items []json.RawMessage
	if len(raw) > 0 && json.Unmarshal(raw, &items) != nil || len(items) > maxAdded {
		wrong.addf("items", "must be a list of at most %d items", maxAdded)
		return added, nil
	}
	refer := h.references(c)
	q := &responseRequest{}
	if _, err := q.input("items", raw, refer, wrong); err != nil || len(*wrong) > 0 {
		return added, err
	}
	for i, item := range items {
		var of struct{ Type, ID, Role string }
		_ = json.Unmarshal(item, &of) // input has read it
		if of.Type == "mcp_approval_response" {
			wrong.addf(fmt.Sprintf("items[%d]", i), "answers a request for an approval: send it as the input of a response")
		}
		if of.Type == "item_reference" || of.Type == "" && of.Role == "" {
			if item, err = refer(of.ID, fmt.Sprintf("items[%d]", i)); err != nil {
				return added, err
			}
		}
		normal, ok := responses.Normal(item)
		if !ok {
			wrong.addf(fmt.Sprintf("items[%d]", i), "is not an item")
		}
		added.Items = append(added.Items, normal)
	}
	added.Request, added.Repeats, err = requestID(c.R)
	return added, err
}

// addition returns the change of a session's state that adds items to its conversation.
func addition(f *session.Fold, seq int64, id responses.ID, added responses.Addition) (map[string]any, error) {
	turn, delta := responses.TurnBefore(f), added.Delta(f, seq)
	before, after := responses.AddedIn(f.States(), id), responses.AddedIn(delta, id)
	if before.Size()+after.Size() > maxAddedBytes {
		return nil, front.ProblemAt("items", fmt.Sprintf("that were added to the conversation must not have more than %d bytes in all: create another one", maxAddedBytes))
	}
	if _, err := checkpoint.Claimed(llm.Content{Text: "-"}, claimsIn(slices.Concat(before.After(turn), after.After(turn)))); err != nil {
		return nil, front.ProblemAt("items", err.Error())
	}
	return delta, nil
}

// addItems adds items to a conversation. A repeated request adds them once.
func (h *Handler) addItems(c *front.Call) error {
	info, id, err := h.findConversation(c)
	if err != nil {
		return err
	}
	var wrong faults
	b, err := readConversation(c, &wrong)
	if err != nil {
		return err
	}
	added, err := h.readItems(c, b.Items, &wrong)
	if err != nil {
		return err
	}
	if len(added.Items) == 0 {
		wrong.addf("items", "must have at least one item")
	}
	if err := wrong.err(); err != nil {
		return err
	}
	out := &itemList{Object: "list"}
	err = h.changeState(c.R.Context(), info.Key, func(f *session.Fold, seq int64) (delta map[string]any, err error) {
		turn := responses.TurnBefore(f)
		if out.Data, err = added.Again(responses.AddedIn(f.States(), id), turn); err == nil && out.Data == nil {
			delta, err = addition(f, seq, id, added)
			out.Data = responses.AddedIn(delta, id).After(turn)
		}
		return delta, err
	})
	if err != nil {
		return err
	}
	return out.write(c)
}

// deleteItem deletes an item that a client has added and that no turn follows.
func (h *Handler) deleteItem(c *front.Call) error {
	known, info, id, err := h.findItem(c)
	if err != nil {
		return err
	}
	err = h.changeState(c.R.Context(), info.Key, func(f *session.Fold, _ int64) (map[string]any, error) {
		item := responses.Find(known.ID, responses.AddedIn(f.States(), id).After(responses.TurnBefore(f)))
		if item == nil {
			return nil, &front.Fault{Status: http.StatusBadRequest, Code: "not_supported",
				Detail: "only an item that was added, and that no response follows, can be deleted: agents have seen the others"}
		}
		return map[string]any{item.Key: nil}, nil
	})
	if err != nil {
		return err
	}
	return h.writeConversation(c, info)
}

// claims returns the items of a conversation that no turn follows, as messages.
func (h *Handler) claims(ctx context.Context, key session.Key) ([]llm.Message, error) {
	added, turn, err := responses.AddedTo(ctx, h.turns, key, responses.ID{})
	return claimsIn(added.After(turn)), err
}

// claimsIn returns items as messages. It omits results without a call before them.
func claimsIn(items []*responses.Item) (messages []llm.Message) {
	var q responseRequest
	var wrong faults
	_, _ = q.input("items", event.EncodeJSON(items), nil, &wrong) // the items were read when they were added
	q.moveToPast()
	open := make(map[string]bool)
	for _, m := range q.past {
		keep := true
		if m.Role != llm.RoleTool {
			clear(open)
		}
		for _, part := range m.Parts {
			switch p := part.(type) {
			case llm.ToolCall:
				open[p.ID] = true
			case llm.ToolResult:
				keep = open[p.CallID]
				delete(open, p.CallID)
			}
		}
		if keep {
			messages = append(messages, m)
		}
	}
	return messages
}
