package offline

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/llm"
)

// own converts a request of agents that share their requests into the request that the answering agent would have sent
// alone: with its own instructions, tools and targets, which are in a message of [llm.RoleSystem]. It returns any other request
// unchanged.
func own(req *llm.Request) *llm.Request {
	at := slices.IndexFunc(req.Messages, func(m llm.Message) bool { return m.Role == llm.RoleSystem })
	if at < 0 {
		return req
	}
	r := *req
	_, r.System, _ = strings.Cut(req.Messages[at].Text, "\n") // after the mark
	r.Messages, r.Tools = nil, nil
	end := at + 1
	if end < len(req.Messages) && req.Messages[end].Role == llm.RoleUser { // the user's message once more
		end++
	}
	messages := slices.Delete(slices.Clone(req.Messages), at, end)
	_, list, _ := strings.Cut(r.System, "\nOther agents, for other work only:")
	for _, spec := range req.Tools {
		if !slices.Contains(req.Allowed, spec.Name) {
			continue
		}
		if spec.Name == transferTool {
			names := []string{}
			for _, o := range targets(spec) {
				if strings.Contains(list, "\n- "+o.name+":") || strings.Contains(list, "\n- "+o.name+"\n") {
					names = append(names, o.name)
				}
			}
			enum, _ := json.Marshal(names)
			spec.Parameters = json.RawMessage(`{"type":"object","properties":{"agent_name":{"enum":` + string(enum) + `}}}`)
		}
		r.Tools = append(r.Tools, spec)
	}
	from := "agent" // the agent that started the turn is unknown
	for i, m := range messages {
		to, moved := transferredTo(m)
		switch {
		case moved:
			r.Messages = append(r.Messages, llm.UserText("["+from+"] transferred the conversation to you."))
			from = to
		case i+1 == len(messages) || !movesOn(messages[i+1]):
			r.Messages = append(r.Messages, m)
		}
	}
	return &r
}

// movesOn reports whether a message is the result of a transfer.
func movesOn(m llm.Message) bool { _, moved := transferredTo(m); return moved }

func transferredTo(m llm.Message) (to string, moved bool) {
	for _, p := range m.Parts {
		if r, ok := p.(llm.ToolResult); ok && r.Name == transferTool {
			to, moved = strings.CutPrefix(strings.TrimSuffix(r.Output, "."), "Transferred to ")
		}
	}
	return to, moved
}
